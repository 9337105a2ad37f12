"""Compact tables with a primary key on Spark beside the Java engine, in one run.

    python -m benchmarks.merge [--runs N] [--rows N] [--only full,up,start,memory]

The engine writes write-only tables of 4 buckets. `full`: rows in 20 commits, whose keys are drawn below their number,
so each bucket has 20 runs that overlap, and all of it is compacted. `up`: each key once, compacted by the engine, with
deletion vectors, and a hundredth as many rows in two commits on level 0, which alone go up. Each run takes a fresh
copy. The engine's threads take bucket after bucket, each with a new writer whose cache of lookup files is empty, in a
JVM that has compiled what it runs; Spark has two threads (`local[2]`) too. Then the engine scans both results. `start`
compacts tables of several sizes in new processes, `memory` tables of one bucket. The tables stay in
`build/bench/tables/merge`, some 3 GB.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pyarrow import parquet

from benchmarks.delete_rows import copied
from benchmarks.engine import engine_classpath, engine_version, java_version
from benchmarks.merge_processes import memory, starts
from benchmarks.merge_tables import BUCKETS, CHANGES, RUNS, SHARE, Peer, compact_by_ours
from benchmarks.read import THREADS, Times, spark_session, timed
from benchmarks.results import Bar, bars_json, bars_table, machine, table, write
from lakesweep.model.reading.plan import ReadFile
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Body, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.rows_read import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10_000_000
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
MAX_TIME, MAX_BYTES, MAX_READ, MAX_SCAN, MAX_MIB, FLAT = 1.0, 1.05, 1.2, 1.05, 1024, 1.1
WARM = 1
"""Rounds before the measured ones."""
PARTS = ("full", "up", "start", "memory")
FULL, UP = "all of {rows:,} rows", "{changed:,} changed keys over {rows:,} rows"


class CountingStore(WrappingStore):
    """Counts the bytes that are read of each object."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.bytes = Counter[str]()
        self.written: list[str] = []

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        body = super().read(key, max_bytes)
        self.bytes[key] += len(body.data)
        return body

    def read_range(self, key: str, start: int, length: int) -> Body:
        body = super().read_range(key, start, length)
        self.bytes[key] += len(body.data)
        return body

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self.written.append(key)
        return super().put(key, data, if_absent=if_absent, if_match=if_match)


def live(location: Path) -> list[ReadFile]:
    """Return the live data files that readers see."""
    return [file for split in planned(LocalStore(str(location))).splits for file in split.files]


def measure(session: SparkSession, peer: Peer, source: Path, runs: int, *, full: bool) -> dict[str, Any]:
    """Let both sides take turns, each on a copy of its own, and let the engine scan both results."""
    times, scans, scans_at_once = ({"lakesweep": [], "engine": []} for _ in range(3))  # type: tuple[Times, ...]
    found: dict[str, Any] = {}
    for number in range(WARM + runs):
        read = {}
        for who in ("lakesweep", "engine"):
            with copied(source) as location:
                if who == "lakesweep":
                    took = timed(lambda at=location: compact_by_ours(at, session, full=full))  # type: ignore[misc]
                else:
                    _, took = peer.compact(location, full=full)
                files = live(location)
                found[who] = len(files), sum(file.size_bytes for file in files)
                scanned = []
                for threads in (1, 1, THREADS, THREADS):
                    read[who], scan = peer.scan(location, threads)
                    scanned.append(scan)
            if number >= WARM:
                times[who].append(took)
                scans[who].append(min(scanned[:2]))
                scans_at_once[who].append(min(scanned[2:]))
            print(
                f"round {number}: {who} {took[0]:.2f} s ({took[1]:.2f} CPU), {found[who]}, scans "
                + ", ".join(f"{wall:.2f}" for wall, _ in scanned),
                flush=True,
            )
        if read["lakesweep"] != read["engine"]:
            raise SystemExit(
                f"{source}: the engine reads {read['engine']} of its own result, {read['lakesweep']} of ours"
            )
    return {"times": times, "scans": scans, "scans_at_once": scans_at_once, "live": found, "rows": read["engine"][0]}


def deeper_reads(source: Path) -> dict[str, int]:
    """Let level 0 go up in this process, and return what was read of the files below."""
    with copied(source) as location:
        before = {f"bucket-{file.bucket}/{Path(file.path).name}": file for file in live(location)}
        needed = 0
        for key in before:
            footer = parquet.ParquetFile(location / key).metadata
            groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
            columns = [group.column(at) for group in groups for at in range(footer.num_columns)]
            needed += sum(each.total_compressed_size for each in columns if each.path_in_schema == "_KEY_id")
            needed += footer.serialized_size + 8
        store = CountingStore(LocalStore(str(location)))
        compact_by_ours(location, None, full=False, store=store)
        after = {Path(file.path).name for file in live(location)}
    return {
        "files": len(before),
        "bytes": sum(file.size_bytes for file in before.values()),
        "needed": needed,
        "read": sum(store.bytes[key] for key in before),
        "rewritten": sum(key in store.written or Path(key).name not in after for key in before),
    }


def main() -> None:
    """Measure, compare, write the results."""
    parser = argparse.ArgumentParser(description="Compact tables with a primary key beside the Java engine.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the largest tables; another number writes to build/")
    parser.add_argument("--only", default=",".join(PARTS), help="some of these parts; the same")
    asked = parser.parse_args()
    parts = asked.only.split(",")
    if not parts or set(parts) - set(PARTS):
        parser.error(f"--only: expected some of {','.join(PARTS)}, found {asked.only}")
    setting = machine()
    classpath = engine_classpath()
    setting |= {"engine": f"Apache Paimon {engine_version(classpath)}", "java": java_version()}
    peer = Peer(classpath)
    try:
        found = measure_parts(asked, parts, peer, classpath, setting)
    finally:
        peer.close()
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    report(asked, setting, found)


def measure_parts(
    asked: argparse.Namespace, parts: list[str], peer: Peer, classpath: str, setting: dict[str, Any]
) -> dict[str, Any]:
    """Return the figures of each part that was asked for."""
    found: dict[str, Any] = {}
    if "memory" in parts:
        found["memory"] = {
            f"{kind}, {rows:,} rows, {engine}": memory(peer.table(kind, rows, 1), engine, full=kind == "full")
            for kind in ("full", "up")
            for rows in (asked.rows // 10, asked.rows)
            for engine in ("local", "spark")
        }
    if "start" in parts:
        sizes = [size for size in SIZES if size <= asked.rows]
        found["start"] = {size: starts(classpath, peer.table("full", size), asked.runs) for size in sizes}
    if "up" in parts:
        found["deeper"] = deeper_reads(peer.table("up", asked.rows))
        print(f"files below level 0: {found['deeper']}", flush=True)
    if compacted := [part for part in ("full", "up") if part in parts]:
        with spark_session() as session:
            setting["spark"] = session.version
            for part in compacted:
                source = peer.table(part, asked.rows)
                found[part] = measure(session, peer, source, asked.runs, full=part == "full")
    return found


def _time_bar(what: str, times: Times, most: float) -> Bar:
    cpu, wall = ({who: median(each[at] for each in took) for who, took in times.items()} for at in (1, 0))
    ratio = wall["lakesweep"] / wall["engine"]
    return Bar(what, f"at most {most}", f"{ratio:.2f} (CPU {cpu['lakesweep'] / cpu['engine']:.2f})", ratio <= most)


def _compaction_bars(name: str, found: dict[str, Any], *, full: bool) -> Iterator[Bar]:
    yield _time_bar(f"{name}: times the engine's wall clock", found["times"], MAX_TIME)
    if full:
        size = found["live"]["lakesweep"][1] / found["live"]["engine"][1]
        yield Bar(f"{name}: times the engine's bytes", f"at most {MAX_BYTES}", f"{size:.3f}", size <= MAX_BYTES)
    for how, scans in (("one thread", "scans"), ("two threads", "scans_at_once")):
        yield _time_bar(f"{name}: the engine's scan of it in {how}, times that of its own", found[scans], MAX_SCAN)


def _deeper_bars(name: str, found: dict[str, int]) -> Iterator[Bar]:
    ratio = found["read"] / found["needed"]
    what = f"{name}: bytes read of files below, times those of their keys and footers"
    yield Bar(what, f"at most {MAX_READ}", f"{ratio:.3f}", ratio <= MAX_READ)
    yield Bar(f"{name}: files below that were rewritten", "0", str(found["rewritten"]), not found["rewritten"])


def _memory_bars(found: dict[str, dict[str, float]], rows: int) -> Iterator[Bar]:
    local = max(each["python_mib"] for name, each in found.items() if name.endswith("local"))
    worker = max(each.get("worker_mib", 0) for each in found.values())
    yield Bar(
        "one bucket: peak of a Python worker of Spark, MiB", f"at most {MAX_MIB}", f"{worker:.0f}", worker <= MAX_MIB
    )
    yield Bar(
        "one bucket: peak of a process that compacts itself, MiB",
        f"at most {MAX_MIB}",
        f"{local:.0f}",
        local <= MAX_MIB,
    )
    growth = max(
        found[f"{kind}, {rows:,} rows, spark"][name] / found[f"{kind}, {rows // 10:,} rows, spark"][name]
        for kind in ("full", "up")
        for name in ("python_mib", "heap_mib")
    )
    yield Bar("the driver's memory, ten times the rows", f"at most {FLAT}", f"{growth:.2f}", growth <= FLAT)


def _start_bars(found: dict[int, dict[str, float]]) -> Iterator[Bar]:
    for who, name in (("local", "a command"), ("spark", "a new session of Spark")):
        won = [size for size, took in found.items() if took[who] <= took["engine"]]
        least = f"{min(won):,}" if won else "none"
        lost = [size for size in found if won and size > min(won) and size not in won]
        more = f", but not {', '.join(f'{size:,}' for size in lost)}" if lost else ""
        yield Bar(f"fewest rows with which {name} is faster than a new JVM", "to be stated", least + more, bool(won))


def report(asked: argparse.Namespace, setting: dict[str, Any], found: dict[str, Any]) -> None:
    """Compare the figures with what was asked for, and write the page."""
    rows, changed = asked.rows, asked.rows // SHARE
    names = {"full": FULL.format(rows=rows), "up": UP.format(rows=rows, changed=changed)}
    bars: list[Bar] = []
    cells = []
    text = [
        f"All of {rows:,} rows in {BUCKETS} buckets of {RUNS} overlapping runs each; and {changed:,} changed keys, in "
        f"{CHANGES} commits on level 0 of a table with deletion vectors, over {rows:,} rows in {BUCKETS} buckets. "
        "Columns are BIGINT (the key, from 0 on without large gaps, and another one), DOUBLE, INT, TIMESTAMP and two "
        f"STRING. Both sides take turns, each on a fresh copy, {WARM} round before {asked.runs} measured ones. The "
        "engine's JVM stays; its writers are new, and their caches of lookup files empty. The engine reads the same "
        "rows from both results."
    ]
    for part in ("full", "up"):
        if part not in found:
            continue
        bars += _compaction_bars(names[part], found[part], full=part == "full")
        if part == "up":
            bars += _deeper_bars(names[part], found["deeper"])
        cells.append((names[part], *_cells(found[part]["times"]), _files(found[part])))
        for how, scans in (("one thread", "scans"), ("two threads", "scans_at_once")):
            cells.append((f"scan of the result, {found[part]['rows']:,} rows, {how}", *_cells(found[part][scans]), ""))
    if "memory" in found:
        bars += _memory_bars(found["memory"], rows)
    if "start" in found:
        bars += _start_bars(found["start"])
    text.append(bars_table(bars))
    if cells:
        text += [
            "Seconds, medians. Wall clock depends on the load of the machine. CPU is that of all processes of a side, "
            "with the compilers and collectors of the JVMs.",
            table(
                ("", "Lakesweep, wall clock", "CPU", "the engine, wall clock", "CPU", "files and bytes afterwards"),
                cells,
            ),
        ]
    if "deeper" in found:
        deeper = found["deeper"]
        text.append(
            f"The {deeper['files']} files below have {deeper['bytes']:,} bytes, of which {deeper['needed']:,} are keys "
            f"and footers; {deeper['read']:,} were read, as a store counts that passes requests on."
        )
    if "start" in found:
        text += [
            "Full compactions in new processes, with their start; seconds, medians.",
            table(
                ("rows", "the command `compact`", "Spark", "the engine"),
                [
                    (f"{size:,}", *(f"{took[who]:.2f}" for who in ("local", "spark", "engine")))
                    for size, took in found["start"].items()
                ],
            ),
        ]
    if "memory" in found:
        text += [
            "Peaks with one bucket, MiB. `local` is a process that compacts itself. With Spark, Python is the "
            "driver's, and the heap is that of its JVM after a collection.",
            table(
                ("", "Python", "a worker", "heap"),
                [
                    (
                        name,
                        *(
                            f"{each[what]:.0f}" if what in each else ""
                            for what in ("python_mib", "worker_mib", "heap_mib")
                        ),
                    )
                    for name, each in found["memory"].items()
                ],
            ),
        ]
    is_whole = rows == ROWS and set(asked.only.split(",")) == set(PARTS)
    title = "Compacting tables with a primary key on Spark"
    write("merge", title, setting, {**found, "bars": bars_json(bars)}, text, is_whole=is_whole)


def _cells(times: Times) -> tuple[str, ...]:
    return tuple(f"{median(each[at] for each in times[who]):.2f}" for who in ("lakesweep", "engine") for at in (0, 1))


def _files(found: dict[str, Any]) -> str:
    mine, theirs = (f"{files} files, {size:,} bytes" for files, size in found["live"].values())
    return f"{mine}; the engine {theirs}"


if __name__ == "__main__":
    main()
