"""One operation that commits, measured: by the engine, as a command line, in a warm process; and its peak memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.engine import MeasuredEngine, engine_version, java_version, s3_options
from benchmarks.manifest_tables import Shape, table_folder
from benchmarks.ours import Worker, command_line
from benchmarks.partition_copies import NAME, Copy, Place, Requests
from benchmarks.results import Bar, mib, seconds, summary, table
from benchmarks.servers import S3

METHODS = ("GET", "HEAD", "LIST", "PUT", "DELETE", "DeleteObjects")
CATALOG = {"catalog_type": "filesystem", "catalog_lock": True}
WORDS = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")
FEW, MANY = Shape(200, 100_000), Shape(2000, 1_000_000)
"""Tables whose peaks are compared."""

Judge = Callable[[MeasuredEngine], Any]
"""Tells what the engine sees in an opened table. A function of a module, since another process runs it."""


@dataclass(slots=True)
class Row:
    """What was measured of one way."""

    who: str
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    requests: Requests | None = None
    peak_kib: int = 0
    after: Any = None
    """What the engine sees after it."""

    def add(self, wall: float, cpu: float, requests: Requests | None) -> None:
        """Add one run."""
        self.walls.append(wall)
        self.cpus.append(cpu)
        self.requests = requests
        print(f"  {self.who}: {wall:.2f} s, {cpu:.2f} s CPU, {mib(self.peak_kib)} MiB, {self.counts()}", flush=True)

    def counts(self) -> dict[str, int] | None:
        """Return the requests by kind."""
        return None if self.requests is None else {kind: self.requests.count(kind) for kind in METHODS}

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "who": self.who,
            "wall_s": summary(self.walls),
            "cpu_s": summary(self.cpus),
            "peak_mib": round(self.peak_kib / 1024),
            "requests": self.counts(),
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """One operation on fresh copies of one table."""

    operation: str
    place: Place
    classpath: str
    act: Callable[[MeasuredEngine], None]
    """Does the same with the engine, on an opened table."""
    judge: Judge | None
    """`None`: nobody looks at what is there after it."""

    def engine(self, runs: int) -> Row:
        """Measure the engine, `runs` times after one that only warms it."""
        row = Row("the engine")
        with MeasuredEngine(self.classpath, self.place.scratch / "engine") as engine:
            for number, copy in enumerate(self.place.copies(runs + 1)):
                _open(engine, copy)
                if number > 0:
                    self.place.begin()
                start, cpu = time.perf_counter(), engine.cpu_seconds()
                self.act(engine)
                wall, cpu = time.perf_counter() - start, engine.cpu_seconds() - cpu
                row.peak_kib = engine.peak_kib()
                if number > 0:
                    row.add(wall, cpu, self.place.end(copy))
                    self._look(row, copy)
        return row

    def command_line(self, runs: int) -> Row:
        """Measure a fresh process each time."""
        row = Row("Lakesweep, command line")
        for copy in self.place.copies(runs):
            self.place.begin()
            done = command_line(copy.words(self.operation, *WORDS))
            row.peak_kib = max(row.peak_kib, done.peak_kib)
            row.add(done.seconds, done.cpu_seconds, self.place.end(copy))
            _check(row, done.document)
            self._look(row, copy)
        return row

    def warm_process(self, runs: int) -> Row:
        """Measure one process that has done it before."""
        row = Row("Lakesweep, warm process")
        with Worker() as worker:
            for number, copy in enumerate(self.place.copies(runs + 1)):
                where = {"table": copy.table, "control": copy.control, "endpoint": copy.endpoint}
                if number > 0:
                    self.place.begin()
                cpu = worker.cpu_seconds()
                done = worker(**where, operation=self.operation, arguments=CATALOG, execute=True)
                cpu = worker.cpu_seconds() - cpu
                row.peak_kib = done["peak_kib"]
                if number > 0:
                    row.add(done["seconds"], cpu, self.place.end(copy))
                    _check(row, done)
        return row

    def rows(self, runs: int, engine_runs: int) -> list[Row]:
        """Measure everything."""
        return [self.engine(engine_runs), self.command_line(runs), self.warm_process(runs)]

    def _look(self, row: Row, copy: Copy) -> None:
        """Ask the engine what is there; in a process of its own, since the names of all files would count as memory."""
        if self.judge is not None and row.after is None:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                place = self.place.scratch / "judge"
                row.after = pool.submit(_judge, self.classpath, place, copy, self.judge).result()


def _judge(classpath: str, work: Path, copy: Copy, judge: Judge) -> Any:
    with MeasuredEngine(classpath, work) as engine:
        _open(engine, copy)
        return judge(engine)


def _open(engine: MeasuredEngine, copy: Copy) -> None:
    engine.open(copy.warehouse, s3_options(copy.endpoint) if copy.endpoint else {})


def _check(row: Row, document: dict[str, Any]) -> None:
    if document["status"] != "done":
        raise SystemExit(f"{row.who}: expected the status done, found {document['status']}")


def ask(engine: MeasuredEngine, command: str, **arguments: Any) -> Any:
    """Ask the engine something of the table."""
    return engine(command, table=f"db.{NAME}", **arguments)


def setting_of(classpath: str, s3: S3 | None) -> dict[str, Any]:
    """Return what tells the setting of the engine and the server."""
    return {
        "engine": f"Apache Paimon {engine_version(classpath)}",
        "java": java_version(),
        "s3_server": s3.name if s3 is not None else "none",
    }


def page_of(title: str, place: Place, rows: Sequence[Row], more: Callable[[Row], dict[str, object]]) -> str:
    """Return the table of one case.

    Args:
        title: Of the case.
        place: Where the copies lie.
        rows: The first one is the engine's.
        more: Further columns of a row, the same of each.
    """
    store = f"S3, +{place.latency_ms} ms a request" if place.s3 is not None else "local disk"
    base = summary(rows[0].walls)["median"]
    cells: list[dict[str, object]] = []
    for row in rows:
        wall = summary(row.walls)
        cells.append({"": row.who, "runs": len(row.walls), "wall s": seconds(wall)})
        cells[-1] |= {"of the engine's": f"{wall['median'] / base:.2f}", "CPU s": f"{summary(row.cpus)['median']:.2f}"}
        cells[-1] |= {"peak MiB": mib(row.peak_kib)}
        if (found := row.requests) is not None:
            cells[-1] |= {"requests": found.count(), **{kind: found.count(kind) for kind in METHODS}}
        cells[-1] |= more(row)
    return f"## {title}: {store}\n\n{table(list(cells[0]), [list(each.values()) for each in cells])}"


def peaks(operation: str, folder: Path, runs: int, is_met: Callable[[list[float]], Bar]) -> tuple[Any, str, list[Bar]]:
    """Measure the peak of a fresh process on two tables, one with ten times the entries of the other.

    Args:
        operation: The command.
        folder: For copies.
        runs: On each table.
        is_met: Judges both peaks, in MiB.

    Returns:
        Figures, page and bars.
    """
    found: list[float] = []
    cells: list[list[object]] = []
    for shape in (FEW, MANY):
        place = Place(table_folder(shape), None, 0, folder)
        done = [command_line(copy.words(operation, *WORDS)) for copy in place.copies(runs)]
        peak_kib = sorted(each.peak_kib for each in done)[len(done) // 2]
        found.append(peak_kib / 1024)
        wall = summary([each.seconds for each in done])
        cells.append([f"{shape.entries:,}", f"{shape.manifests:,}", len(done), seconds(wall), mib(peak_kib)])
        print(f"memory of {operation}, {shape.entries:,} entries: {mib(peak_kib)} MiB", flush=True)
    page = f"## memory: {operation}, local disk, a fresh process\n\n" + table(
        ["entries", "manifests", "runs", "wall s", "peak MiB (median)"], cells
    )
    return (
        {"case": "memory", "operation": operation, "peak_mib": [round(each) for each in found]},
        page,
        [is_met(found)],
    )
