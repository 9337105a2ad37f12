"""Tables with a primary key that the engine writes, and their compaction by both sides."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peer import JavaPeer
from benchmarks.read import THREADS
from benchmarks.tables import FOLDER
from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.spark.rows.rewriting import SparkRewriting
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS, RUNS, SHARE, CHANGES = 4, 20, 100, 2


class Peer(JavaPeer):
    """The Java engine in a JVM with its own defaults."""

    def __init__(self, classpath: str) -> None:
        super().__init__(classpath, "MergePeer", str(THREADS))

    def table(self, kind: str, rows: int, buckets: int = BUCKETS) -> Path:
        """Return a table, `full` or `up`, after writing it if it is not there."""
        name = f"{kind}{rows}_{buckets}"
        folder, warehouse = FOLDER / "merge" / "db.db" / name, FOLDER / "merge-new"
        if not folder.is_dir():
            print(f"writing a table of {rows:,} rows to {folder}", flush=True)
            shutil.rmtree(warehouse, ignore_errors=True)
            made = warehouse / "db.db" / name
            self(f"create {warehouse} {name} {buckets} {'true' if kind == 'up' else 'false'}")
            self(f"write {made} {RUNS} {rows // RUNS} {rows} {'EACH' if kind == 'up' or buckets == 1 else 'DRAWN'}")
            if kind == "up":
                self(f"compact {made} FULL")
                self(f"write {made} {CHANGES} {rows // SHARE // CHANGES} {rows} DRAWN")
            folder.parent.mkdir(parents=True, exist_ok=True)
            made.rename(folder)
            shutil.rmtree(warehouse)
        return folder

    def compact(self, location: Path, *, full: bool) -> tuple[tuple[int, int], tuple[float, float]]:
        """Compact, and return the number of live files and their bytes, and the times."""
        _, files, size, wall, cpu = self(f"compact {location} {'FULL' if full else 'MINOR'}")
        return (files, size), (wall / 1e9, cpu / 1e9)

    def scan(self, location: Path, threads: int) -> tuple[tuple[int, int, int], tuple[float, float]]:
        """Read everything, and return the number of rows and sums of two columns, and the times."""
        rows, ids, customers, wall, cpu = self(f"scan {location} {threads}")
        return (rows, ids, customers), (wall / 1e9, cpu / 1e9)


def compact_by_ours(
    location: Path, session: SparkSession | None, *, full: bool, store: Store | None = None
) -> dict[str, Any]:
    """Compact with Lakesweep, on Spark or in this process, and return the part of the report about it."""
    control = ControlArea(LocalStore(str(location.parents[1] / "control")), str(location))
    opened = Table(TableRef(str(location)), store or LocalStore(str(location)), control, LocalStore)
    engine = None if session is None else SparkRewriting(lambda: session, opened)
    report = compact(
        opened, CompactArguments(Catalog("filesystem", has_lock=True), full=full), execute=True, engine=engine
    )
    if report.status != "done":
        raise SystemExit(f"compact on {location}: {report.status}, {report.refusal}")
    commits: dict[str, Any] = json.loads(json.dumps(report.to_json()))["commits"]
    return commits
