"""Expire snapshots: Lakesweep beside the Java engine, on the same server, each run on a fresh copy of the table.

    python -m benchmarks.expire [--runs N] [--engine-runs N] [--cases p1-s3-0,p1-s3-20,p3-s3-0,p3-local]

- The engine runs in a JVM that has expired a copy of the table before, with the catalog open: what is timed is the
  command, with the load of the table. Its peak memory is that of the JVM after the first expiry.
- "command line" is a fresh `lakesweep maintain` process, from its start to its end.
- "warm process" is a Python process that has run a pass before, as a warm Lambda function has: its S3 client is open.
- "cold" means that the control location is empty, "warm" that a dry run has been there before (not timed, not counted).
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engine import MeasuredEngine, engine_version, java_version, s3_classpath, s3_options
from benchmarks.ours import Worker, command_line
from benchmarks.results import Bar, bars_json, bars_table, machine, mib, seconds, summary, table, write
from benchmarks.servers import S3, SCRATCH, s3_server
from benchmarks.tables import RECIPES, Recipe, table_folder

BUCKET = "bench"
CASES = "p1-s3-0,p1-s3-20,p3-s3-0,p3-local"
METHODS = ("GET", "HEAD", "LIST", "PUT", "DELETE", "DeleteObjects")
COLD_REQUESTS, WARM_REQUESTS, PEAK_MIB = 420, 300, 130
FASTER: dict[tuple[str, str], dict[str, int]] = {
    ("p1-s3-20", "16 threads"): {
        "command line, cold": 25,
        "command line, warm": 35,
        "warm process, cold": 40,
        "warm process, warm": 60,
    },
    ("p1-s3-20", "default threads"): {"command line, cold": 45},
    ("p3-s3-0", "default threads"): {"command line, cold": 12},
    ("p3-local", "default threads"): {"command line, cold": 3},
}
"""Case and setting of the engine -> way of Lakesweep -> how many times faster it is to be."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A fresh copy of a table, and an empty place for control documents."""

    table: str
    warehouse: str
    """The folder of the table's database, as the engine's catalog wants it."""
    control: str
    endpoint: str | None
    files: Callable[[], set[str]]
    """Lists what is there now."""


@dataclass(frozen=True, slots=True)
class Case:
    """One table on one store."""

    name: str
    recipe: Recipe
    s3: S3 | None
    latency_ms: int
    folder: Path

    def copies(self) -> Iterator[Copy]:
        """Yield fresh copies of the table, as many as are asked for."""
        source = table_folder(self.recipe)
        for number in itertools.count():
            if self.s3 is not None:
                place = f"{self.name}-{time.time_ns()}-{number}"
                yield self._uploaded(self.s3, source, place)
            else:
                with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
                    yield self._copied(source, Path(scratch))

    def _uploaded(self, s3: S3, source: Path, place: str) -> Copy:
        prefix = f"{place}/db.db/{self.recipe.name}"
        s3.upload(source, BUCKET, prefix)
        return Copy(
            table=f"s3://{BUCKET}/{prefix}",
            warehouse=f"s3://{BUCKET}/{place}",
            control=f"s3://{BUCKET}/{place}-control",
            endpoint=s3.proxied,
            files=lambda: set(s3.keys(BUCKET, prefix)),
        )

    def _copied(self, source: Path, scratch: Path) -> Copy:
        root = scratch / "wh" / "db.db" / self.recipe.name
        shutil.copytree(source, root)
        return Copy(
            table=str(root),
            warehouse=str(scratch / "wh"),
            control=str(scratch / "control"),
            endpoint=None,
            files=lambda: {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()},
        )

    def begin(self) -> None:
        """Count from now on, with the latency of this case."""
        if self.s3 is not None:
            self.s3.reset(self.latency_ms)

    def end(self) -> dict[str, int] | None:
        """Return the requests since `begin`; from now on nothing is held back."""
        if self.s3 is None:
            return None
        counts = self.s3.counts()
        self.s3.reset(0)
        return counts


@dataclass(slots=True)
class Row:
    """What was measured of one way to expire."""

    who: str
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    requests: dict[str, int] | None = None
    peak_kib: int = 0
    left: set[str] = field(default_factory=set)
    deleted: int = 0

    def add(self, wall: float, cpu: float, requests: dict[str, int] | None, copy: Copy, before: set[str]) -> None:
        """Add one run; what is left of the table must be the same each time."""
        left = _hintless(copy)
        if self.walls and left != self.left:
            raise SystemExit(f"{self.who}: two runs on the same table left different files")
        self.walls.append(wall)
        self.cpus.append(cpu)
        self.requests = requests
        self.left = left
        self.deleted = len(before - left)

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "who": self.who,
            "wall_s": summary(self.walls),
            "cpu_s": summary(self.cpus),
            "runs": len(self.walls),
            "requests": None if self.requests is None else {"all": sum(self.requests.values()), **self.requests},
            "peak_mib": round(self.peak_kib / 1024),
            "deleted_files": self.deleted,
        }


def _hintless(copy: Copy) -> set[str]:
    return {name for name in copy.files() if not name.startswith("snapshot/") or "-" in name}


def measure_engine(case: Case, threads: int | None, runs: int, classpath: str) -> Row:
    """Expire with the engine, `runs` times after one that only warms it."""
    row = Row("engine, default threads" if threads is None else f"engine, {threads} threads")
    options = {} if threads is None else {"options": {"file-operation.thread-num": str(threads)}}
    name = f"db.{case.recipe.name}"
    with MeasuredEngine(classpath, case.folder / "engine") as engine:
        for number, copy in zip(range(runs + 1), case.copies(), strict=False):
            engine.open(copy.warehouse, s3_options(copy.endpoint) if copy.endpoint else {})
            before = _hintless(copy)
            if number > 0:
                case.begin()
            start, cpu = time.perf_counter(), engine.cpu_seconds()
            expired = engine("expire", table=name, via="commit", **options)
            wall, cpu = time.perf_counter() - start, engine.cpu_seconds() - cpu
            if expired[0] != case.recipe.expired:
                raise SystemExit(f"{row.who}: expected {case.recipe.expired} snapshots to go, {expired[0]} went")
            if number == 0:
                row.peak_kib = engine.peak_kib()
            else:
                row.add(wall, cpu, case.end(), copy, before)
                print(f"  {row.who}: {wall:.2f} s, {row.deleted} files, {row.requests}", flush=True)
    return row


def measure_command_line(case: Case, warm: bool, runs: int) -> Row:
    """Expire with `lakesweep maintain` in a fresh process each time."""
    row = Row(f"Lakesweep, command line, {'warm' if warm else 'cold'}")
    for _, copy in zip(range(runs), case.copies(), strict=False):
        asked = ["maintain", copy.table, "--control", copy.control]
        asked += ["--endpoint-url", copy.endpoint] if copy.endpoint else []
        if warm:
            command_line(asked)
        before = _hintless(copy)
        case.begin()
        done = command_line([*asked, "--execute"])
        row.add(done.seconds, done.cpu_seconds, case.end(), copy, before)
        row.peak_kib = max(row.peak_kib, done.peak_kib)
        _check(row, done.document["status"])
    return row


def measure_process(case: Case, warm: bool, runs: int) -> Row:
    """Expire in one Python process that has run a pass before."""
    row = Row(f"Lakesweep, warm process, {'warm' if warm else 'cold'}")
    with Worker() as worker:
        for number, copy in zip(range(runs + 1), case.copies(), strict=False):
            asked = {"operation": "maintain", "table": copy.table, "control": copy.control, "endpoint": copy.endpoint}
            if warm:
                worker(**asked, execute=False)
            before = _hintless(copy)
            if number > 0:
                case.begin()
            cpu = worker.cpu_seconds()
            done = worker(**asked, execute=True)
            cpu = worker.cpu_seconds() - cpu
            row.peak_kib = done["peak_kib"]
            if number > 0:
                row.add(done["seconds"], cpu, case.end(), copy, before)
                _check(row, done["status"])
    return row


def _check(row: Row, status: str) -> None:
    if status != "done":
        raise SystemExit(f"{row.who}: expected the status done, found {status}")
    print(f"  {row.who}: {row.walls[-1]:.2f} s, {row.deleted} files, {row.requests}", flush=True)


def measure(case: Case, runs: int, engine_runs: int, classpath: str) -> list[Row]:
    """Measure everything on one case."""
    print(f"{case.name}: {case.recipe.describe}", flush=True)
    rows = [
        measure_engine(case, None, engine_runs, classpath),
        measure_engine(case, 16, engine_runs, classpath),
        measure_command_line(case, False, runs),
        measure_command_line(case, True, runs),
        measure_process(case, False, runs),
        measure_process(case, True, runs),
    ]
    for row in rows[1:]:
        if row.left != rows[0].left:
            more, fewer = sorted(row.left - rows[0].left), sorted(rows[0].left - row.left)
            print(f"  {row.who} left {len(more)} files more than the engine {more[:3]}, {len(fewer)} fewer {fewer[:3]}")
    return rows


def judge(case: Case, rows: list[Row]) -> list[Bar]:
    """Hold the figures of a case against what was asked for."""
    walls = {row.who.removeprefix("Lakesweep, ").removeprefix("engine, "): summary(row.walls)["median"] for row in rows}
    bars = []
    for engine in ("default threads", "16 threads"):
        for who, times in FASTER.get((case.name, engine), {}).items():
            what, faster = f"{case.name}, {who}: times faster than the engine with {engine}", walls[engine] / walls[who]
            bars.append(Bar(what, f"at least {times}", f"{faster:.1f}", faster >= times))
    if case.recipe.name != "p1" or case.s3 is None:
        return bars
    for who, row, limit in (("cold", rows[4], COLD_REQUESTS), ("warm", rows[5], WARM_REQUESTS)):
        count = sum((row.requests or {}).values())
        bars.append(Bar(f"requests, {who}, +{case.latency_ms} ms", f"at most {limit}", str(count), count <= limit))
    peak = max(row.peak_kib for row in rows[2:])
    what = f"peak resident memory of Lakesweep, MiB, +{case.latency_ms} ms"
    bars.append(Bar(what, f"at most {PEAK_MIB}", mib(peak), peak <= PEAK_MIB * 1024))
    return bars


def page_of(case: Case, rows: list[Row]) -> str:
    """Return the table of one case."""
    store = f"S3, +{case.latency_ms} ms a request" if case.s3 is not None else "local disk"
    base = summary(rows[0].walls)["median"]
    head = ["", "runs", "wall s", "times the engine's speed", "CPU s", "peak MiB"]
    cells: list[list[object]] = []
    for row in rows:
        wall = summary(row.walls)
        speed, cpu = f"{base / wall['median']:.1f}", f"{summary(row.cpus)['median']:.2f}"
        cells.append([row.who, len(row.walls), seconds(wall), speed, cpu, mib(row.peak_kib)])
        if row.requests is not None:
            cells[-1] += [sum(row.requests.values()), *(row.requests.get(method, 0) for method in METHODS)]
    if case.s3 is not None:
        head += ["requests", *METHODS]
    files = f"{rows[0].deleted} files go in the engine, {rows[-1].deleted} in Lakesweep."
    return f"## {case.recipe.name}, {store}\n\n{case.recipe.describe}. {files}\n\n{table(head, cells)}"


def main() -> None:
    """Run the cases and write the results."""
    parser = argparse.ArgumentParser(description="Expire snapshots beside the Java engine.")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each way of Lakesweep")
    parser.add_argument("--engine-runs", type=int, default=3, help="measured runs of each setting of the engine")
    parser.add_argument("--cases", default=CASES, help="TABLE-s3-MS or TABLE-local; fewer than all write to build/")
    asked = parser.parse_args()
    classpath = s3_classpath()
    setting = machine()
    names = [name.split("-") for name in asked.cases.split(",")]
    SCRATCH.mkdir(parents=True, exist_ok=True)
    results, pages, bars = [], [], []
    needs_s3 = any(words[1] == "s3" for words in names)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch, s3_server() if needs_s3 else nullcontext() as s3:
        if s3 is not None:
            s3.client().create_bucket(Bucket=BUCKET)
        for words in names:
            is_s3 = words[1] == "s3"
            latency_ms = int(words[2]) if is_s3 else 0
            case = Case("-".join(words), RECIPES[words[0]], s3 if is_s3 else None, latency_ms, Path(scratch))
            rows = measure(case, asked.runs, asked.engine_runs, classpath)
            judged = judge(case, rows)
            bars += judged
            pages.append(page_of(case, rows))
            results.append({"case": case.name, "table": case.recipe.describe, "rows": [row.to_json() for row in rows]})
        setting |= {
            "engine": f"Apache Paimon {engine_version(classpath)}",
            "java": java_version(),
            "s3_server": s3.name if s3 is not None else "none",
        }
    method = (
        "Every run has a fresh copy of the table; wall times are medians, with the range when there are several runs. "
        "The engine runs in a JVM (heap of at most 2 GiB) that has expired a copy of the table before, with its "
        "catalog open; its memory is that of the JVM after the first expiry. *Command line* is a fresh process, from "
        "start to end. *Warm process* is a Python process that has run a pass before, as a warm Lambda function has. "
        "*Cold* is an empty control location, *warm* one where a dry run was made before (neither timed nor counted). "
        "All S3 requests of both sides go through the same counting proxy, which holds each back for the stated time."
    )
    verdict = ["## What was asked for", bars_table(bars)] if bars else []
    document = {"cases": results, "bars": bars_json(bars)}
    title, is_whole = "Expire snapshots, beside the Java engine", asked.cases == CASES
    write("expire", title, setting, document, [method, *verdict, *pages], is_whole=is_whole)


if __name__ == "__main__":
    main()
