"""Delete rows by deletion vectors on Spark beside the Java engine, in one run.

    python -m benchmarks.delete_rows [--runs N] [--files N] [--many N]

The engine writes two tables without buckets: 10 million rows in 100 Parquet files, of which 1 % go, drawn at random,
and 1 000 files of 1 000 rows, of which a range of `id` touches three. Each run deletes from a fresh copy. The engine
plans, reads the column of the condition with the positions of rows in two threads, lets its maintainer write the
vectors, and commits; Spark has two threads (`local[2]`) too. Memory is that of fresh processes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.engine import engine_classpath, engine_version, java_version
from benchmarks.peer import JavaPeer
from benchmarks.read import THREADS, WARM, Times, spark_session, timed
from benchmarks.results import Bar, bars_json, bars_table, machine, table, write
from benchmarks.servers import PROJECT, SCRATCH
from benchmarks.tables import FOLDER
from lakesweep.spark import read_table
from lakesweep.spark.rows.delete import delete_rows
from lakesweep.storage.local.store import LocalStore
from tests.support.rows_read import planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, FILE_ROWS = 100, 100_000
MANY_FILES, FEW_ROWS = 1_000, 1_000
PERCENT = "percent = 7"
MAX_ENGINE, MAX_SECONDS, FLAT, TOUCHED = 1.0, 15, 1.1, 3


class Peer(JavaPeer):
    """The Java engine in a JVM with its own defaults."""

    def __init__(self, classpath: str) -> None:
        super().__init__(classpath, "DeletePeer", str(THREADS))

    def table(self, files: int, rows: int) -> Path:
        """Return a table of so many files with so many rows each, after writing it if it is not there."""
        name = f"t{files}_{rows}"
        folder = FOLDER / "delete" / "db.db" / name
        if not (folder / "snapshot" / "snapshot-1").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            print(f"writing a table of {files} files", flush=True)
            self(f"write {FOLDER / 'delete'} {name} {files} {rows}")
        return folder

    def delete(self, location: Path, column: str, low: int, high: int) -> tuple[int, int, tuple[float, float]]:
        """Delete rows, and return how many, the number of data files that were read, and the times."""
        rows, files, wall, cpu = self(f"delete {location} {column} {low} {high}")
        return rows, files, (wall / 1e9, cpu / 1e9)


@contextmanager
def copied(source: Path, *, without: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Copy a table. Its data files are links, since nobody changes them; some can be left out."""
    target = SCRATCH / "delete" / "db.db" / source.name
    shutil.rmtree(target.parents[1], ignore_errors=True)
    for path in source.rglob("*"):
        if path.is_file() and path.name not in without:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.name.startswith("data-"):
                os.link(path, copy)
            else:
                shutil.copy2(path, copy)
    yield target
    shutil.rmtree(target.parents[1])


def delete(session: SparkSession, location: Path, where: str) -> dict[str, Any]:
    """Delete rows with Lakesweep, and return the part of the report about them."""
    control = location.parents[1] / "control"
    words: dict[str, Any] = {"catalog_type": "filesystem", "catalog_lock": True, "control": str(control)}
    report = delete_rows(session, str(location), where, execute=True, **words)
    if report.status != "done":
        raise SystemExit(f"delete_rows on {location}: {report.status}, {report.refusal}")
    commits: dict[str, Any] = json.loads(json.dumps(report.to_json()))["commits"]
    return commits


def left(session: SparkSession, location: Path) -> tuple[int, int]:
    """Return the number of rows that a table has, and the sum of their ids."""
    found = read_table(session, str(location), protect_ms=None).selectExpr("count(*)", "sum(id)").collect()[0]
    return int(found[0]), int(found[1])


def measure(
    session: SparkSession, peer: Peer, source: Path, where: str, bounds: tuple[str, int, int], runs: int
) -> Any:
    """Let both sides take turns, each on a copy of its own, and make sure that the same rows are left."""
    times: Times = {"lakesweep": [], "engine": []}
    commits: dict[str, Any] = {}
    files = 0
    for number in range(WARM + runs):
        with copied(source) as location:
            took = timed(lambda at=location: commits.update(delete(session, at, where)))  # type: ignore[misc]
            mine = left(session, location) if number == 0 else None
        with copied(source) as location:
            rows, files, engines = peer.delete(location, *bounds)
            theirs = left(session, location) if number == 0 else None
        if rows != commits["rows"] or mine != theirs:
            raise SystemExit(f"{where}: Lakesweep deleted {commits['rows']} rows, the engine {rows}; {mine}, {theirs}")
        if number >= WARM:
            times["lakesweep"].append(took)
            times["engine"].append(engines)
        print(f"round {number}: lakesweep {took[0]:.2f} s ({took[1]:.2f} CPU), engine {engines[0]:.2f} s "
              f"({engines[1]:.2f} CPU)", flush=True)  # fmt: skip
    return times, commits, files


def touched_alone(session: SparkSession, source: Path, where: str) -> dict[str, Any]:
    """Delete once more from a copy that has no other data files than those which the condition touches."""
    names = {
        Path(file.path).name for split in planned(LocalStore(str(source)), where=where).splits for file in split.files
    }
    others = frozenset(path.name for path in source.rglob("data-*") if path.name not in names)
    with copied(source, without=others) as location:
        return delete(session, location, where)


def memory(files: int) -> dict[str, float]:
    """Delete from a table in a fresh process, and return what its driver had in memory."""
    command = [sys.executable, "-m", "benchmarks.delete_rows", "--memory-of", str(files)]
    done = subprocess.run(command, check=True, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_memory(files: int) -> None:
    """Delete, and print the peak of this process, the heap of its JVM after a collection, and the JVM's peak."""
    source = FOLDER / "delete" / "db.db" / f"t{files}_{FILE_ROWS}"
    with spark_session() as session, copied(source) as location:
        delete(session, location, PERCENT)
        jvm: Any = session._jvm
        for _ in range(3):
            jvm.System.gc()
        heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
        pid = jvm.java.lang.ProcessHandle.current().pid()
        found = {"python_mib": _peak_mib("self"), "heap_mib": heap / 2**20, "jvm_mib": _peak_mib(str(pid))}
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


def _peak_mib(pid: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Measure, compare, write the results."""
    parser = argparse.ArgumentParser(description="Delete rows by deletion vectors on Spark beside the Java engine.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=FILES, help="another number writes to build/")
    parser.add_argument("--many", type=int, default=MANY_FILES, help="files of the other table; the same")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory_of:
        measure_memory(asked.memory_of)
        return
    setting = machine()
    classpath = engine_classpath()
    setting |= {"engine": f"Apache Paimon {engine_version(classpath)}", "java": java_version()}
    peer = Peer(classpath)
    low = asked.many // 2 * FEW_ROWS - FEW_ROWS // 2
    high = low + 2 * FEW_ROWS - 1
    between = f"id BETWEEN {low} AND {high}"
    try:
        tenth = max(asked.files // 10, 1)
        peer.table(tenth, FILE_ROWS)
        large, many = peer.table(asked.files, FILE_ROWS), peer.table(asked.many, FEW_ROWS)
        held = {"small": memory(tenth), "whole": memory(asked.files)}
        with spark_session() as session:
            setting["spark"] = session.version
            whole = measure(session, peer, large, PERCENT, ("percent", 7, 7), asked.runs)
            few = measure(session, peer, many, between, ("id", low, high), asked.runs)
            alone = touched_alone(session, many, between)
    finally:
        peer.close()
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    report(asked, setting, whole, few, alone, held, between)


def report(
    asked: argparse.Namespace, setting: dict[str, Any], whole: Any, few: Any, alone: Any, held: Any, between: str
) -> None:
    """Compare the figures with what was asked for, and write the page."""
    (times, commits, _), (few_times, few_commits, few_files) = whole, few
    wall, cpu = ({who: median(took[at] for took in found) for who, found in times.items()} for at in (0, 1))
    few_wall, few_cpu = ({who: median(took[at] for took in found) for who, found in few_times.items()} for at in (0, 1))
    growth = max(held["whole"][name] / held["small"][name] for name in ("python_mib", "heap_mib"))
    slowest = max(took for took, _ in few_times["lakesweep"])
    opened = few_commits["searched_files"]
    ratio = cpu["lakesweep"] / cpu["engine"]
    bars = [
        Bar(
            f"1 % of {asked.files * FILE_ROWS:,} rows in {asked.files} files: times the engine's CPU",
            f"at most {MAX_ENGINE}",
            f"{ratio:.2f} (wall clock {wall['lakesweep'] / wall['engine']:.2f})",
            ratio <= MAX_ENGINE,
        ),
        Bar(
            f"rows in {TOUCHED} of {asked.many:,} files: data files opened",
            str(TOUCHED),
            str(opened),
            opened == TOUCHED == few_commits["files"] == alone["files"],
        ),
        Bar(
            "the same: seconds, slowest run",
            f"at most {MAX_SECONDS}",
            f"{slowest:.1f}",
            slowest <= MAX_SECONDS,
        ),
        Bar("the driver's memory, ten times the rows", f"at most {FLAT}", f"{growth:.2f}", growth <= FLAT),
    ]
    small, large = held["small"], held["whole"]
    tenth, rows = max(asked.files // 10, 1) * FILE_ROWS, asked.files * FILE_ROWS
    text = (
        f"`{PERCENT}` is true for {commits['rows']:,} rows, in each of the {asked.files} files. `{between}` is true "
        f"for {few_commits['rows']:,} rows in {few_commits['files']} of {asked.many:,} files, of which one loses all "
        f"rows. Both sides take turns, each on a fresh copy, {WARM} rounds before {asked.runs} measured ones. Both "
        "delete the same rows. The second delete also succeeds on a copy that lacks every other data file.",
        bars_table(bars),
        "Seconds, medians. CPU is that of all processes of a side, with the compilers and collectors of the JVMs. Wall "
        "clock depends on the load of the machine.",
        table(
            ("", "Lakesweep, CPU", "wall clock", "the engine, CPU", "wall clock"),
            [
                (f"`{PERCENT}`", *_cells(cpu, wall)),
                (f"`{between}`", *_cells(few_cpu, few_wall)),
            ],
        ),
        f"Peak of the driver's Python {small['python_mib']:.0f} MiB with {tenth:,} rows, "
        f"{large['python_mib']:.0f} MiB with {rows:,}; its JVM holds {small['heap_mib']:.0f} and "
        f"{large['heap_mib']:.0f} MiB of heap afterwards. The JVM, in which the tasks run too, had "
        f"{small['jvm_mib']:.0f} and {large['jvm_mib']:.0f} MiB at most, as its collector likes.",
    )
    document = {
        "times_s": {"percent": times, "between": few_times},
        "commits": {"percent": commits, "between": few_commits},
        "engine_read_files": few_files,
        "memory": held,
        "bars": bars_json(bars),
    }
    is_whole = (asked.files, asked.many) == (FILES, MANY_FILES)
    write("delete_rows", "Deleting rows on Spark", setting, document, text, is_whole=is_whole)


def _cells(cpu: dict[str, float], wall: dict[str, float]) -> tuple[str, ...]:
    return tuple(f"{figures[who]:.2f}" for who in ("lakesweep", "engine") for figures in (cpu, wall))


if __name__ == "__main__":
    main()
