"""Expire and drop partitions: Lakesweep beside the Java engine, on the same server, each run on a fresh copy.

    python -m benchmarks.partitions [--runs N] [--engine-runs N] [--cases s3-20,s3-0,local,drop,second,committers]

- The engine runs `expire` of its partition expiry, as its procedure does, in a JVM that has done it on a copy before,
  with the catalog open: what is timed is the command, with the load of the table.
- "command line" is a fresh `lakesweep expire-partitions` process, from its start to its end.
- "warm process" is a Python process that has run one before, as a warm Lambda function has: its S3 client is open.
- The control location is empty each time. The catalog is declared as one that holds a lock: then Lakesweep does not
  wait some seconds to see whether another writer replaces its snapshot.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import partition_races
from benchmarks.engine import MeasuredEngine, engine_version, java_version, s3_classpath, s3_options
from benchmarks.ours import Worker, command_line
from benchmarks.partition_copies import BUCKET, NAME, Copy, Place, Requests
from benchmarks.partition_tables import Shape, table_folder
from benchmarks.results import Bar, bars_json, bars_table, machine, mib, seconds, summary, table, write
from benchmarks.servers import S3, SCRATCH, s3_server

SHAPE = Shape(1000, 100, 100_000, 100)
CASES = "s3-20,s3-0,local,drop,second,committers"
METHODS = ("GET", "HEAD", "LIST", "PUT", "DELETE", "DeleteObjects")
RATIOS = {"s3-20": 0.5, "s3-0": 0.8, "local": 1.2}
"""Case -> the most of the engine's wall time."""
PEAK_MIB = 512
CATALOG = {"catalog_type": "filesystem", "catalog_lock": True}
WORDS = ("--catalog-type", "filesystem", "--catalog-lock", "--execute")


@dataclass(slots=True)
class Row:
    """What was measured of one way to expire."""

    who: str
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    requests: Requests | None = None
    peak_kib: int = 0
    live: str = ""
    """Digest of the data files of the newest snapshot as the engine sees them; of a local copy."""

    def add(self, wall: float, cpu: float, requests: Requests | None) -> None:
        """Add one run."""
        self.walls.append(wall)
        self.cpus.append(cpu)
        self.requests = requests
        print(f"  {self.who}: {wall:.2f} s, {cpu:.2f} s CPU, {self.counts()}", flush=True)

    def counts(self) -> dict[str, int] | None:
        """Return the requests by kind."""
        return None if self.requests is None else {kind: self.requests.count(kind) for kind in METHODS}

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON."""
        document = {
            "who": self.who,
            "wall_s": summary(self.walls),
            "cpu_s": summary(self.cpus),
            "peak_mib": round(self.peak_kib / 1024),
            "requests": self.counts(),
        }
        if self.requests is not None:
            table_puts, control_puts = (self.requests.puts(in_table=where) for where in (True, False))
            document |= {"manifests_written": self.requests.manifests, "requests_in_all": self.requests.count()}
            document |= {"put_table": table_puts, "put_control": control_puts, "to_visible": self.requests.to_visible}
        return document


@dataclass(frozen=True, slots=True)
class Expiry:
    """One case: the table in one place, and the engine."""

    name: str
    place: Place
    classpath: str

    def engine(self, runs: int) -> Row:
        """Expire with the engine, `runs` times after one that only warms it."""
        row = Row("the engine")
        with MeasuredEngine(self.classpath, self.place.scratch / "engine") as engine:
            for number, copy in enumerate(self.place.copies(runs + 1)):
                _open(engine, copy)
                if number > 0:
                    self.place.begin()
                start, cpu = time.perf_counter(), engine.cpu_seconds()
                gone = engine("expire_partitions", table=f"db.{NAME}")
                wall, cpu = time.perf_counter() - start, engine.cpu_seconds() - cpu
                if len(gone) != SHAPE.expired:
                    raise SystemExit(f"{row.who}: expected {SHAPE.expired} partitions to go, {len(gone)} went")
                if number == 0:
                    row.peak_kib = engine.peak_kib()
                    continue
                row.add(wall, cpu, self.place.end(copy))
                row.live = row.live or self._live(copy)
        return row

    def command_line(self, runs: int) -> Row:
        """Expire in a fresh process each time."""
        row = Row("Lakesweep, command line")
        for copy in self.place.copies(runs):
            self.place.begin()
            done = command_line(copy.words("expire-partitions", *WORDS))
            row.add(done.seconds, done.cpu_seconds, self.place.end(copy))
            row.peak_kib = max(row.peak_kib, done.peak_kib)
            _check(row, done.document)
            row.live = row.live or self._live(copy)
        return row

    def warm_process(self, runs: int) -> Row:
        """Expire in one process that has done it before."""
        row = Row("Lakesweep, warm process")
        with Worker() as worker:
            for number, copy in enumerate(self.place.copies(runs + 1)):
                where = {"table": copy.table, "control": copy.control, "endpoint": copy.endpoint}
                if number > 0:
                    self.place.begin()
                cpu = worker.cpu_seconds()
                done = worker(**where, operation="expire-partitions", arguments=CATALOG, execute=True)
                cpu = worker.cpu_seconds() - cpu
                row.peak_kib = done["peak_kib"]
                if number > 0:
                    row.add(done["seconds"], cpu, self.place.end(copy))
                    _check(row, done)
        return row

    def _live(self, copy: Copy) -> str:
        """Ask the engine what is live; in a process of its own, since the names of all files would count as memory."""
        if copy.folder is None:
            return ""
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(_live, self.classpath, self.place.scratch / "judge", copy).result()

    def rows(self, runs: int, engine_runs: int) -> list[Row]:
        """Measure everything."""
        print(f"{self.name}: {SHAPE.describe}", flush=True)
        rows = [self.engine(engine_runs), self.command_line(runs), self.warm_process(runs)]
        if rows[0].live != rows[1].live:
            raise SystemExit(f"{self.name}: live are {rows[0].live} after the engine, {rows[1].live} after Lakesweep")
        return rows


def _open(engine: MeasuredEngine, copy: Copy) -> None:
    engine.open(copy.warehouse, s3_options(copy.endpoint) if copy.endpoint else {})


def _live(classpath: str, work: Path, copy: Copy) -> str:
    with MeasuredEngine(classpath, work) as engine:
        _open(engine, copy)
        newest = max(engine("references", table=f"db.{NAME}"), key=lambda root: root["snapshot_id"])
    data = sorted(name for name in newest["files"] if not name.startswith("manifest/"))
    return f"{len(data)} files, {hashlib.sha256(json.dumps(data).encode()).hexdigest()}"


def _check(row: Row, document: dict[str, Any]) -> None:
    if document["status"] != "done":
        raise SystemExit(f"{row.who}: expected the status done, found {document['status']}")


def judge(name: str, rows: list[Row]) -> list[Bar]:
    """Hold the figures of a case against what was asked for."""
    engine, bars = summary(rows[0].walls)["median"], []
    for row in rows[1:]:
        who = f"{name}, {row.who.removeprefix('Lakesweep, ')}"
        ratio = summary(row.walls)["median"] / engine
        what = f"{who}: wall time, of the engine's {engine:.1f} s"
        bars.append(Bar(what, f"at most {RATIOS[name]}", f"{ratio:.2f}", ratio <= RATIOS[name]))
        peak = row.peak_kib / 1024
        bars.append(Bar(f"{who}: peak MiB", f"at most {PEAK_MIB}", mib(row.peak_kib), peak <= PEAK_MIB))
        if row.requests is not None:
            most = SHAPE.manifests * 12 // 10 + 10
            gets = row.requests.count("GET")
            bars.append(Bar(f"{who}: GET, 1.2 x manifests + 10", f"at most {most}", str(gets), gets <= most))
            most = row.requests.manifests + 5
            for where, puts in (
                ("in the table", row.requests.puts(in_table=True)),
                ("with the control location", row.requests.count("PUT")),
            ):
                bars.append(Bar(f"{who}: PUT {where}, manifests + 5", f"at most {most}", str(puts), puts <= most))
    return bars


def page_of(name: str, place: Place, rows: list[Row]) -> str:
    """Return the table of one case."""
    store = f"S3, +{place.latency_ms} ms a request" if place.s3 is not None else "local disk"
    base = summary(rows[0].walls)["median"]
    head = ["", "runs", "wall s", "of the engine's", "CPU s", "peak MiB"]
    if place.s3 is not None:
        head += ["requests", *METHODS, "PUT in the table", "PUT of control", "manifests written", "prepared to visible"]
    cells: list[list[object]] = []
    for row in rows:
        wall = summary(row.walls)
        ratio, cpu = f"{wall['median'] / base:.2f}", f"{summary(row.cpus)['median']:.2f}"
        cells.append([row.who, len(row.walls), seconds(wall), ratio, cpu, mib(row.peak_kib)])
        if (found := row.requests) is not None:
            puts = [found.puts(in_table=True), found.puts(in_table=False)]
            cells[-1] += [found.count(), *map(found.count, METHODS), *puts, found.manifests, found.to_visible]
    return f"## {name}: {store}\n\n{table(head, cells)}"


def expiries(names: list[str], s3: S3 | None, folder: Path, runs: int, engine_runs: int, classpath: str) -> Any:
    """Measure the expiries; return their figures, pages and bars."""
    results, pages, bars = [], [], []
    for name in names:
        latency_ms = int(name.partition("-")[2] or 0)
        place = Place(table_folder("partitions", SHAPE), s3 if name != "local" else None, latency_ms, folder)
        rows = Expiry(name, place, classpath).rows(runs, engine_runs)
        bars += judge(name, rows)
        pages.append(page_of(name, place, rows))
        results.append({"case": name, "rows": [row.to_json() for row in rows]})
    return results, pages, bars


def main() -> None:
    """Run the cases and write the results."""
    parser = argparse.ArgumentParser(description="Expire and drop partitions beside the Java engine.")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each way of Lakesweep")
    parser.add_argument("--engine-runs", type=int, default=3, help="measured runs of the engine")
    parser.add_argument("--cases", default=CASES, help="fewer than all write to build/")
    asked = parser.parse_args()
    names = asked.cases.split(",")
    classpath, setting = s3_classpath(), machine()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    server = s3_server() if names != ["local"] else nullcontext()
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch, server as s3:
        if s3 is not None:
            s3.client().create_bucket(Bucket=BUCKET)
        besides = [name for name in names if name in RATIOS]
        results, pages, bars = expiries(besides, s3, Path(scratch), asked.runs, asked.engine_runs, classpath)
        for name in names:
            if s3 is not None and name in partition_races.CASES:
                found = partition_races.CASES[name](s3, Path(scratch), asked.runs)
                bars += found.bars
                pages.append(f"## {found.title}\n\n{found.text}")
                results.append({"case": name, **found.figures})
    setting |= {
        "engine": f"Apache Paimon {engine_version(classpath)}",
        "java": java_version(),
        "s3_server": s3.name if s3 is not None else "none",
    }
    method = (
        f"The table of the expiries: {SHAPE.describe}. No manifest is below its target size, so neither side merges "
        "any. Every run has a fresh copy and an empty control location; wall times are medians, with the range when "
        "there are several runs. The engine expires in a JVM (heap of at most 2 GiB) that has done so before, with its "
        "catalog open. *Command line* is a fresh process, from start to end. *Warm process* is a Python process that "
        "has done so before. The catalog is declared as one that holds a lock. All S3 requests of both sides go "
        "through the same counting proxy, which holds each back for the stated time. On the local disk the engine "
        "finds the same files live after Lakesweep's expiry as after its own."
    )
    text = [method, "## What was asked for", bars_table(bars), *pages]
    document = {"cases": results, "bars": bars_json(bars)}
    write("partitions", "Expire and drop partitions", setting, document, text, is_whole=asked.cases == CASES)


if __name__ == "__main__":
    main()
