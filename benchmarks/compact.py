"""Compact data files on Spark beside the Java engine, in one run.

    python -m benchmarks.compact [--runs N] [--files N] [--rows N] [--deleted-files N] [--named N]

The engine writes two append tables: 1 000 Parquet files of 10 000 rows, and 100 files of 100 000 rows, of which it
deletes 30 % by vectors. Each run compacts a fresh copy. The engine's coordinator picks, and two threads run its tasks;
Spark has two threads (`local[2]`) too. Then the engine scans both results, in one thread and in two: it reads a file in
one thread, and Lakesweep leaves fewer files. The same on S3, whose requests are held back. Memory is that of a fresh
process which rewrites in itself. A table of 100 000 data files that exist by name only shows what it costs to find
nothing to do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import fastavro

from benchmarks import compact_s3
from benchmarks.delete_rows import Peer as Writer
from benchmarks.delete_rows import copied
from benchmarks.engine import engine_version, java_version, s3_classpath, s3_options
from benchmarks.peer import JavaPeer
from benchmarks.read import THREADS, Times, spark_session, timed
from benchmarks.results import Bar, bars_json, bars_table, machine, table, write
from benchmarks.servers import PROJECT, S3, SCRATCH, s3_server
from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.spark.rows.rewriting import SparkRewriting
from lakesweep.storage.local.store import LocalStore
from tests.support.rows_read import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 1_000, 10_000
DELETED_FILES, DELETED_ROWS, DELETED = 100, 100_000, ("percent", 0, 29)
NAMED = 100_000
MAX_TIME, MAX_BYTES, MAX_SCAN, MAX_MIB, MAX_NOTHING = 1.0, 1.05, 1.05, 1024, 1.2
WARM = 1
"""Rounds before the measured ones."""


class Peer(JavaPeer):
    """The Java engine in a JVM with its own defaults."""

    def __init__(self, classpath: str, endpoint: str) -> None:
        options = [f"{name}={value}" for name, value in s3_options(endpoint).items()]
        super().__init__(classpath, "CompactPeer", str(THREADS), *options)

    def compact(self, location: Path | str) -> tuple[tuple[int, int], tuple[float, float]]:
        """Compact, and return the number of live files and their bytes, and the times."""
        _, files, size, wall, cpu = self(f"compact {location}")
        return (files, size), (wall / 1e9, cpu / 1e9)

    def scan(self, location: Path, threads: int) -> tuple[tuple[int, int], tuple[float, float]]:
        """Read everything, and return the number of rows and the sum of their ids, and the times."""
        rows, total, _, wall, cpu = self(f"scan {location} {threads}")
        return (rows, total), (wall / 1e9, cpu / 1e9)


def compact_by_ours(location: Path, session: SparkSession | None) -> dict[str, Any]:
    """Compact with Lakesweep, on Spark or in this process, and return the part of the report about it."""
    control = ControlArea(LocalStore(str(location.parents[1] / "control")), str(location))
    opened = Table(TableRef(str(location)), LocalStore(str(location)), control, LocalStore)
    engine = None if session is None else SparkRewriting(lambda: session, opened)
    report = compact(opened, CompactArguments(Catalog("filesystem", has_lock=True)), execute=True, engine=engine)
    if report.status != "done":
        raise SystemExit(f"compact on {location}: {report.status}, {report.refusal}")
    commits: dict[str, Any] = json.loads(json.dumps(report.to_json()))["commits"]
    return commits


def live(location: Path) -> tuple[int, int]:
    """Return the number of live data files, and their bytes."""
    files = [file for split in planned(LocalStore(str(location))).splits for file in split.files]
    return len(files), sum(file.size_bytes for file in files)


def measure(session: SparkSession, peer: Peer, source: Path, runs: int) -> dict[str, Any]:
    """Let both sides take turns, each on a copy of its own, and let the engine scan both results."""
    times: Times = {"lakesweep": [], "engine": []}
    scans: Times = {"lakesweep": [], "engine": []}
    scans_at_once: Times = {"lakesweep": [], "engine": []}
    found: dict[str, Any] = {}
    for number in range(WARM + runs):
        read = {}
        for who in ("lakesweep", "engine"):
            with copied(source) as location:
                if who == "lakesweep":
                    took = timed(lambda at=location: compact_by_ours(at, session))  # type: ignore[misc]
                    found[who] = live(location)
                else:
                    found[who], took = peer.compact(location)
                scanned = []
                for threads in (1, 1, THREADS, THREADS):
                    read[who], scan = peer.scan(location, threads)
                    scanned.append(scan)
            if number >= WARM:
                times[who].append(took)
                scans[who].append(min(scanned[:2]))
                scans_at_once[who].append(min(scanned[2:]))
            print(
                f"round {number}: {who} {took[0]:.2f} s ({took[1]:.2f} CPU), {found[who]}, scan {scanned}", flush=True
            )
        if read["lakesweep"] != read["engine"]:
            raise SystemExit(
                f"{source}: the engine reads {read['engine']} of its own result, {read['lakesweep']} of ours"
            )
    return {"times": times, "scans": scans, "scans_at_once": scans_at_once, "live": found}


def memory(name: str) -> float:
    """Compact a table in a fresh process, one bin at a time, and return its peak in MiB."""
    command = [sys.executable, "-m", "benchmarks.compact", "--memory-of", name]
    done = subprocess.run(command, check=True, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def measure_memory(source: Path) -> None:
    """Compact, and print the peak of this process."""
    with copied(source) as location:
        compact_by_ours(location, None)
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024)


def named(source: Path, count: int) -> Path:
    """Write a table like another one with one file, whose manifest names so many large files that do not exist."""
    target = SCRATCH / "compact" / "db.db" / "named"
    shutil.rmtree(target.parents[1], ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("bucket-*"))
    path = target / "snapshot" / "snapshot-1"
    document = json.loads(path.read_text())
    lists = target / "manifest" / document["deltaManifestList"]
    with lists.open("rb") as stream:
        reader = fastavro.reader(stream)
        lines: list[Any] = list(reader)
    (line,) = lines
    manifest = target / "manifest" / line["_FILE_NAME"]
    with manifest.open("rb") as stream:
        entries = fastavro.reader(stream)
        entry: Any = next(iter(entries))
    file = {**entry["_FILE"], "_FILE_SIZE": 256 << 20}
    new = ({**entry, "_FILE": {**file, "_FILE_NAME": f"data-{number}.parquet"}} for number in range(count))
    with manifest.open("wb") as stream:
        fastavro.writer(stream, entries.writer_schema, new, codec="zstandard")  # type: ignore[arg-type]
    line |= {"_FILE_SIZE": manifest.stat().st_size, "_NUM_ADDED_FILES": count}
    with lists.open("wb") as stream:
        fastavro.writer(stream, reader.writer_schema, [line], codec="zstandard")  # type: ignore[arg-type]
    document["deltaManifestListSize"] = lists.stat().st_size
    rows = count * file["_ROW_COUNT"]
    path.write_text(json.dumps({**document, "totalRecordCount": rows, "deltaRecordCount": rows}))
    return target


def command_seconds(*words: str) -> float:
    """Run a command of Lakesweep in a fresh process, and return its seconds."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "lakesweep", *words], check=True, stdout=subprocess.DEVNULL, cwd=PROJECT)
    return time.perf_counter() - start


def nothing_to_do(location: Path, runs: int) -> tuple[float, float]:
    """Return the seconds of a compaction that finds nothing to do, and of `files`."""
    rounds = [
        (command_seconds("compact", str(location), "--json"), command_seconds("files", str(location), "--json"))
        for _ in range(runs)
    ]
    return median(each[0] for each in rounds), median(each[1] for each in rounds)


def main() -> None:
    """Measure, compare, write the results."""
    parser = argparse.ArgumentParser(description="Compact data files on Spark beside the Java engine.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--files", type=int, default=FILES, help="another number writes to build/")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of each of them; the same")
    parser.add_argument("--deleted-files", type=int, default=DELETED_FILES, help="files of the other table; the same")
    parser.add_argument("--named", type=int, default=NAMED, help="files that exist by name only; the same")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory_of:
        measure_memory(Path(asked.memory_of))
        return
    setting = machine()
    classpath = s3_classpath()
    setting |= {"engine": f"Apache Paimon {engine_version(classpath)}", "java": java_version()}
    compact_s3.use_credentials()
    with s3_server() as s3:
        setting["s3_server"] = s3.name
        measure_all(asked, classpath, setting, s3)


def measure_all(asked: argparse.Namespace, classpath: str, setting: dict[str, Any], s3: S3) -> None:
    """Measure, and write the results."""
    writer, peer = Writer(classpath), Peer(classpath, s3.proxied)
    try:
        small = writer.table(asked.files, asked.rows)
        whole = writer.table(asked.deleted_files, DELETED_ROWS)
        one = writer.table(1, 10)
        deleted = SCRATCH / "compact-deleted" / "db.db" / whole.name
        shutil.rmtree(deleted.parents[1], ignore_errors=True)
        shutil.copytree(whole, deleted)
        writer.delete(deleted, *DELETED)
        held = memory(str(small))
        nothing, files = nothing_to_do(named(one, asked.named), asked.runs)
        with spark_session() as session:
            setting["spark"] = session.version
            merged = measure(session, peer, small, asked.runs)
            taken = measure(session, peer, deleted, asked.runs)
            remote = compact_s3.measure(session, peer, s3, small, asked.runs)
    finally:
        writer.close()
        peer.close()
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    report(asked, setting, {"merged": merged, "deleted": taken, "s3": remote}, held, (nothing, files))


def _ratio(times: Times) -> tuple[float, float]:
    """Return what Lakesweep's median is beside the engine's: CPU, and wall clock."""
    cpu, wall = ({who: median(each[at] for each in found) for who, found in times.items()} for at in (1, 0))
    return cpu["lakesweep"] / cpu["engine"], wall["lakesweep"] / wall["engine"]


def _time_bar(what: str, times: Times, most: float) -> Bar:
    cpu, wall = _ratio(times)
    return Bar(what, f"at most {most}", f"{wall:.2f} (CPU {cpu:.2f})", wall <= most)


def report(asked: argparse.Namespace, setting: dict[str, Any], all_found: Any, held: float, nothing: Any) -> None:
    """Compare the figures with what was asked for, and write the page."""
    merged, taken, remote = (all_found[name] for name in ("merged", "deleted", "s3"))
    bars = []
    for name, found in ((f"{asked.files:,} files", merged), (f"{asked.deleted_files} files, 30 % deleted", taken)):
        size = found["live"]["lakesweep"][1] / found["live"]["engine"][1]
        bars += [
            _time_bar(f"{name}: times the engine's wall clock", found["times"], MAX_TIME),
            Bar(f"{name}: times the engine's bytes", f"at most {MAX_BYTES}", f"{size:.3f}", size <= MAX_BYTES),
            _time_bar(
                f"{name}: the engine's scan of it in one thread, times that of its own", found["scans"], MAX_SCAN
            ),
        ]
    bars += compact_s3.bars(remote)
    bars += [
        Bar("peak of a process that rewrites, MiB", f"at most {MAX_MIB}", f"{held:.0f}", held <= MAX_MIB),
        Bar(
            f"nothing to do in {asked.named:,} files: times `lakesweep files`",
            f"at most {MAX_NOTHING}",
            f"{nothing[0] / nothing[1]:.2f}",
            nothing[0] <= MAX_NOTHING * nothing[1],
        ),
    ]
    text = (
        f"{asked.files:,} files of {asked.rows:,} rows, and {asked.deleted_files} files of {DELETED_ROWS:,} rows of "
        f"which 30 % are deleted; the target is 256 MB. Both sides take turns, each on a fresh copy, {WARM} round "
        f"before {asked.runs} measured ones. The engine reads the same rows from both results.",
        bars_table(bars),
        "Seconds, medians. Wall clock depends on the load of the machine. CPU is that of all processes of a side, with "
        "the compilers and collectors of the JVMs.",
        table(
            ("", "Lakesweep, wall clock", "CPU", "the engine, wall clock", "CPU", "files and bytes"),
            [
                (name, *_cells(found["times"]), f"{found['live']['lakesweep']}, {found['live']['engine']}")
                for name, found in (("many files", merged), ("deleted rows", taken))
            ]
            + [
                (f"scan of {name}, {how}", *_cells(found[scans]), "")
                for name, found in (("the first", merged), ("the second", taken))
                for how, scans in (("one thread", "scans"), ("two threads", "scans_at_once"))
            ]
            + [("many files on S3", *_cells(remote["times"]), "")],
        ),
        f"Nothing to do takes {nothing[0]:.2f} s, `lakesweep files` {nothing[1]:.2f} s, with the start of a process.",
    )
    document = {**all_found, "memory_mib": held, "nothing_s": nothing, "bars": bars_json(bars)}
    given = (asked.files, asked.rows, asked.deleted_files, asked.named)
    is_whole = given == (FILES, ROWS, DELETED_FILES, NAMED)
    write("compact", "Compacting data files on Spark", setting, document, text, is_whole=is_whole)


def _cells(times: Times) -> tuple[str, ...]:
    return tuple(f"{median(each[at] for each in times[who]):.2f}" for who in ("lakesweep", "engine") for at in (0, 1))


if __name__ == "__main__":
    main()
