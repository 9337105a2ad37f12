"""Compact manifests: Lakesweep beside the Java engine, on the same server, each run on a fresh copy.

    python -m benchmarks.manifests [--runs N] [--engine-runs N] [--cases s3-20,local,memory]

- The engine runs `compactManifests` of its commit, as its procedure does, in a JVM that has done it on a copy before,
  with the catalog open: what is timed is the command, with the load of the table.
- "command line" is a fresh `lakesweep compact-manifest` process, from its start to its end.
- "warm process" is a Python process that has run one before, as a warm Lambda function has: its S3 client is open.
- The control location is empty each time. The catalog is declared as one that holds a lock: then Lakesweep does not
  wait some seconds to see whether another writer replaces its snapshot.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.engine import MeasuredEngine, engine_version, java_version, s3_classpath, s3_options
from benchmarks.manifest_tables import Shape, day_of, table_folder
from benchmarks.ours import Worker, command_line
from benchmarks.partition_copies import BUCKET, NAME, Copy, Place, Requests
from benchmarks.results import Bar, bars_json, bars_table, machine, mib, seconds, summary, table, write
from benchmarks.servers import SCRATCH, s3_server

SHAPE = Shape(1000, 500_000)
FEW, MANY = Shape(200, 100_000), Shape(2000, 1_000_000)
CASES = "s3-20,local,memory"
METHODS = ("GET", "HEAD", "LIST", "PUT", "DELETE")
RATIOS = {"s3-20": {"command line": 0.7, "warm process": 0.7}, "local": {"command line": 1.2}}
"""Case -> the most of the engine's wall time."""
PEAK_MIB, BYTES_RATIO, GROWTH = 384, 1.1, 1.1
CATALOG = {"catalog_type": "filesystem", "catalog_lock": True}
WORDS = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")


@dataclass(frozen=True, slots=True)
class After:
    """What a compaction leaves, as the engine sees it."""

    manifests: int
    bytes: int
    opened: int
    """Manifests that its scan of one partition opens."""
    live: str
    """Digest of the live files."""


@dataclass(slots=True)
class Row:
    """What was measured of one way to compact."""

    who: str
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    requests: Requests | None = None
    peak_kib: int = 0
    after: After | None = None

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
        after = self.after
        return {
            "who": self.who,
            "wall_s": summary(self.walls),
            "cpu_s": summary(self.cpus),
            "peak_mib": round(self.peak_kib / 1024),
            "requests": self.counts(),
            "after": None if after is None else {"manifests": after.manifests, "bytes": after.bytes},
            "opened": None if after is None else after.opened,
        }


@dataclass(frozen=True, slots=True)
class Compaction:
    """One case: the table in one place, and the engine."""

    name: str
    place: Place
    classpath: str

    def engine(self, runs: int) -> Row:
        """Compact with the engine, `runs` times after one that only warms it."""
        row = Row("the engine")
        with MeasuredEngine(self.classpath, self.place.scratch / "engine") as engine:
            for number, copy in enumerate(self.place.copies(runs + 1)):
                _open(engine, copy)
                if number > 0:
                    self.place.begin()
                start, cpu = time.perf_counter(), engine.cpu_seconds()
                newest = engine("compact_manifests", table=f"db.{NAME}")
                wall, cpu = time.perf_counter() - start, engine.cpu_seconds() - cpu
                if newest != SHAPE.manifests + 1:
                    raise SystemExit(f"{row.who}: expected a new snapshot, found {newest} to be the newest")
                row.peak_kib = engine.peak_kib()
                if number > 0:
                    row.add(wall, cpu, self.place.end(copy))
                    row.after = row.after or self._after(copy)
        return row

    def command_line(self, runs: int) -> Row:
        """Compact in a fresh process each time."""
        row = Row("Lakesweep, command line")
        for copy in self.place.copies(runs):
            self.place.begin()
            done = command_line(copy.words("compact-manifest", *WORDS))
            row.peak_kib = max(row.peak_kib, done.peak_kib)
            row.add(done.seconds, done.cpu_seconds, self.place.end(copy))
            _check(row, done.document)
            row.after = row.after or self._after(copy)
        return row

    def warm_process(self, runs: int) -> Row:
        """Compact in one process that has done it before."""
        row = Row("Lakesweep, warm process")
        with Worker() as worker:
            for number, copy in enumerate(self.place.copies(runs + 1)):
                where = {"table": copy.table, "control": copy.control, "endpoint": copy.endpoint}
                if number > 0:
                    self.place.begin()
                cpu = worker.cpu_seconds()
                done = worker(**where, operation="compact-manifest", arguments=CATALOG, execute=True)
                cpu = worker.cpu_seconds() - cpu
                row.peak_kib = done["peak_kib"]
                if number > 0:
                    row.add(done["seconds"], cpu, self.place.end(copy))
                    _check(row, done)
        return row

    def _after(self, copy: Copy) -> After:
        """Ask the engine what is there; in a process of its own, since the names of all files would count as memory."""
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(_after, self.classpath, self.place.scratch / "judge", copy).result()

    def rows(self, runs: int, engine_runs: int) -> list[Row]:
        """Measure everything."""
        print(f"{self.name}: {SHAPE.describe}", flush=True)
        rows = [self.engine(engine_runs), self.command_line(runs), self.warm_process(runs)]
        first, second = rows[0].after, rows[1].after
        assert first is not None and second is not None
        if first.live != second.live:
            raise SystemExit(f"{self.name}: live are {first.live} after the engine, {second.live} after Lakesweep")
        return rows


def _open(engine: MeasuredEngine, copy: Copy) -> None:
    engine.open(copy.warehouse, s3_options(copy.endpoint) if copy.endpoint else {})


def _after(classpath: str, work: Path, copy: Copy) -> After:
    with MeasuredEngine(classpath, work) as engine:
        _open(engine, copy)
        manifests = engine("manifests", table=f"db.{NAME}")
        opened = engine("opened", table=f"db.{NAME}", partition=[day_of(SHAPE)])
        files = sorted(map(json.dumps, engine("live", table=f"db.{NAME}")["files"]))
    digest = hashlib.sha256("\n".join(files).encode()).hexdigest()
    return After(len(manifests), sum(size for _, size, *_ in manifests), len(opened), f"{len(files)} files, {digest}")


def _check(row: Row, document: dict[str, Any]) -> None:
    if document["status"] != "done":
        raise SystemExit(f"{row.who}: expected the status done, found {document['status']}")


def judge(name: str, rows: list[Row]) -> list[Bar]:
    """Hold the figures of a case against what was asked for."""
    engine, bars = summary(rows[0].walls)["median"], []
    for row in rows[1:]:
        way = row.who.removeprefix("Lakesweep, ")
        who = f"{name}, {way}"
        most = RATIOS[name].get(way)
        if most is not None:
            ratio = summary(row.walls)["median"] / engine
            what = f"{who}: wall time, of the engine's {engine:.1f} s"
            bars.append(Bar(what, f"at most {most}", f"{ratio:.2f}", ratio <= most))
        peak = row.peak_kib / 1024
        bars.append(Bar(f"{who}: peak MiB", f"at most {PEAK_MIB}", mib(row.peak_kib), peak <= PEAK_MIB))
    theirs, ours = rows[0].after, rows[1].after
    assert theirs is not None and ours is not None
    off = abs(ours.manifests - theirs.manifests)
    what = f"{name}: manifests after it; the engine leaves {theirs.manifests}"
    bars.append(Bar(what, "the same, one more or less", str(ours.manifests), off <= 1))
    ratio = ours.bytes / theirs.bytes
    what = f"{name}: bytes of these, of the engine's {theirs.bytes / (1 << 20):.1f} MiB"
    bars.append(Bar(what, f"at most {BYTES_RATIO}", f"{ratio:.3f}", ratio <= BYTES_RATIO))
    what = f"{name}: manifests that the engine's scan of one partition opens; after its own compaction {theirs.opened}"
    bars.append(Bar(what, "the same", str(ours.opened), ours.opened == theirs.opened))
    return bars


def page_of(name: str, place: Place, rows: list[Row]) -> str:
    """Return the table of one case."""
    store = f"S3, +{place.latency_ms} ms a request" if place.s3 is not None else "local disk"
    base = summary(rows[0].walls)["median"]
    head = ["", "runs", "wall s", "of the engine's", "CPU s", "peak MiB", "manifests after", "MiB of these"]
    if place.s3 is not None:
        head += ["requests", *METHODS]
    cells: list[list[object]] = []
    for row in rows:
        wall = summary(row.walls)
        ratio, cpu = f"{wall['median'] / base:.2f}", f"{summary(row.cpus)['median']:.2f}"
        cells.append([row.who, len(row.walls), seconds(wall), ratio, cpu, mib(row.peak_kib)])
        after = row.after
        cells[-1] += ["", ""] if after is None else [after.manifests, f"{after.bytes / (1 << 20):.1f}"]
        if (found := row.requests) is not None:
            cells[-1] += [found.count(), *map(found.count, METHODS)]
    return f"## {name}: {store}\n\n{table(head, cells)}"


def memory(folder: Path, runs: int) -> tuple[dict[str, Any], str, list[Bar]]:
    """Measure the peak of a fresh process on two tables, one with ten times the entries of the other."""
    peaks: list[int] = []
    cells: list[list[object]] = []
    for shape in (FEW, MANY):
        place = Place(table_folder(shape), None, 0, folder)
        done = [command_line(copy.words("compact-manifest", *WORDS)) for copy in place.copies(runs)]
        peaks.append(sorted(each.peak_kib for each in done)[len(done) // 2])
        wall = summary([each.seconds for each in done])
        cells.append([f"{shape.entries:,}", f"{shape.manifests:,}", len(done), seconds(wall), mib(peaks[-1])])
        print(f"memory, {shape.entries:,} entries: {mib(peaks[-1])} MiB", flush=True)
    growth = peaks[1] / peaks[0]
    what = f"peak with {MANY.entries:,} entries, of that with {FEW.entries:,}"
    page = "## memory: local disk, a fresh process\n\n" + table(
        ["entries", "manifests", "runs", "wall s", "peak MiB (median)"], cells
    )
    bar = Bar(what, f"at most {GROWTH}", f"{growth:.2f}", growth <= GROWTH)
    return {"case": "memory", "peak_kib": peaks}, page, [bar]


def main() -> None:
    """Run the cases and write the results."""
    parser = argparse.ArgumentParser(description="Compact manifests beside the Java engine.")
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each way of Lakesweep")
    parser.add_argument("--engine-runs", type=int, default=3, help="measured runs of the engine")
    parser.add_argument("--cases", default=CASES, help="fewer than all write to build/")
    asked = parser.parse_args()
    names = asked.cases.split(",")
    classpath, setting = s3_classpath(), machine()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    pages: list[str] = []
    bars: list[Bar] = []
    server = s3_server() if any(name.startswith("s3") for name in names) else nullcontext()
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch, server as s3:
        if s3 is not None:
            s3.client().create_bucket(Bucket=BUCKET)
        for name in names:
            if name == "memory":
                figures, page, found = memory(Path(scratch), asked.runs)
            else:
                latency_ms = int(name.partition("-")[2] or 0)
                place = Place(table_folder(SHAPE), s3 if name != "local" else None, latency_ms, Path(scratch))
                rows = Compaction(name, place, classpath).rows(asked.runs, asked.engine_runs)
                figures, page = {"case": name, "rows": [row.to_json() for row in rows]}, page_of(name, place, rows)
                found = judge(name, rows)
            results.append(figures)
            pages.append(page)
            bars += found
            shutil.rmtree(Path(scratch, "engine"), ignore_errors=True)
    setting |= {
        "engine": f"Apache Paimon {engine_version(classpath)}",
        "java": java_version(),
        "s3_server": s3.name if s3 is not None else "none",
    }
    method = (
        f"The table: {SHAPE.describe}. Every run has a fresh copy and an empty control location; wall times are "
        "medians, with the range. The engine compacts in a JVM (heap of at most 2 GiB) that has done so before, with "
        "its catalog open. *Command line* is a fresh process, from start to end. *Warm process* is a Python process "
        "that has done so before. The catalog is declared as one that holds a lock. All S3 requests of both sides go "
        "through the same counting proxy, which holds each back for the stated time. The engine finds the same files "
        "live after Lakesweep's compaction as after its own."
    )
    text = [method, "## What was asked for", bars_table(bars), *pages]
    document = {"cases": results, "bars": bars_json(bars)}
    write("manifests", "Compact manifests", setting, document, text, is_whole=asked.cases == CASES)


if __name__ == "__main__":
    main()
