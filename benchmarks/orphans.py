"""Remove orphan files: beside the Java engine's local cleaner, on a million objects, and as tables grow.

    python -m benchmarks.orphans [--parts engine,growth] [--runs N] [--max-load 3] [--scale 1.0]

- *engine*: a table of 96 504 files with 1 000 orphans, which the engine wrote. Both sides remove them from a fresh copy
  through the same counting proxy, which holds each request back for 20 ms. What is there before and after is listed.
- *growth*: dry runs on synthetic tables of 10^4, 10^5 and 10^6 objects (`benchmarks/orphan_tables.py`) straight at the
  server; those of 10^5 also with more and fewer partitions and roots.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engine import MeasuredEngine, engine_version, java_version, s3_classpath, s3_options
from benchmarks.orphan_tables import ENGINE_ORPHANS, Shape, engine_table, planted, synthetic_table
from benchmarks.ours import Finished, command_line
from benchmarks.plot import Panel, svg
from benchmarks.results import (
    FOLDER,
    PARTIAL,
    Bar,
    bars_json,
    bars_table,
    machine,
    mib,
    seconds,
    summary,
    table,
    write,
)
from benchmarks.servers import S3, SCRATCH, s3_server
from benchmarks.tables import FOLDER as TABLES

BUCKET = "bench"
PARTS = "engine,growth"
METHODS = ("GET", "HEAD", "LIST", "PUT", "DELETE", "DeleteObjects")
LATENCY_MS = 20
MAX_LOAD = 3.0
PATIENCE_S = 600.0
"""How long is waited for a quiet machine, all measurements together."""

FASTER, FEWER_REQUESTS, PEAK_MIB = 40, 12, 250
MILLION_S, MILLION_CPU_S, MILLION_MIB = 25, 18, 350
LINEAR = 1.0
"""Ten times the objects may take so many times ten times the time and requests."""
FLAT = 1.1
"""So many times the least memory may be the most, where only partitions or roots differ."""
_REASON = "a benchmark, with no writers"


@dataclass(slots=True)
class Row:
    """What was measured of one way to remove orphans, or of one table."""

    who: str
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    peak_kib: int = 0
    hides_peak: bool = False
    """The benchmark itself had more memory than a run. So its own peak is shown, as a bound."""

    @property
    def wall(self) -> float:
        """Return the median."""
        found: float = summary(self.walls)["median"]
        return found

    @property
    def request_count(self) -> int:
        """Return how many requests the last run made."""
        return sum(self.requests.values())

    def add(self, done: Finished, requests: dict[str, int], load: float) -> None:
        """Add one run of ours."""
        own_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # The kernel counts what a child had before it became another program.
        self.hides_peak = self.hides_peak or done.peak_kib <= own_kib
        self.walls.append(done.seconds)
        self.cpus.append(done.cpu_seconds)
        self.loads.append(load)
        self.requests = requests
        self.peak_kib = max(self.peak_kib, done.peak_kib)
        told = f"{done.seconds:.2f} s, CPU {done.cpu_seconds:.2f} s, {done.peak_kib / 1024:.0f} MiB, load {load:.1f}"
        print(f"  {self.who}: {told}, {requests}", flush=True)

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "who": self.who,
            "wall_s": summary(self.walls),
            "cpu_s": summary(self.cpus),
            "load": self.loads,
            "requests": {"all": self.request_count, **self.requests},
            "peak_mib": round(self.peak_kib / 1024),
        }

    def cells(self) -> list[object]:
        """Return what a page tells of it first."""
        cpu = f"{summary(self.cpus)['median']:.2f}"
        peak = f"at most {mib(self.peak_kib)}" if self.hides_peak else mib(self.peak_kib)
        return [self.who, len(self.walls), seconds(summary(self.walls)), cpu, peak, self.request_count]

    def load(self) -> str:
        """Return the load of the machine as its runs began."""
        low, high = min(self.loads), max(self.loads)
        return f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"


@dataclass(slots=True)
class Quiet:
    """Waits for a quiet machine, but not for ever."""

    max_load: float
    left_s: float

    def wait(self) -> float:
        """Wait, and return the load."""
        while (load := os.getloadavg()[0]) > self.max_load and self.left_s > 0:
            time.sleep(5)
            self.left_s -= 5
        return round(load, 1)


# --- beside the engine ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contents:
    """What a table held at one moment, but for the orphans that were planted."""

    keys: int
    digest: str
    """Of all keys in order: two sets of keys would each take more memory than what is measured."""
    planted: int

    @staticmethod
    def of(s3: S3, prefix: str) -> Contents:
        """List a table."""
        orphans = frozenset(planted())
        digest = hashlib.sha256()
        keys = found = 0
        for key in s3.each_key(BUCKET, prefix):
            if key in orphans:
                found += 1
            elif not key.startswith("snapshot/") or "-" in key:  # hints may be written
                keys += 1
                digest.update(key.encode() + b"\n")
        return Contents(keys, digest.hexdigest(), found)

    def check(self, who: str, after: Contents) -> None:
        """Leave unless exactly the orphans are gone."""
        if after != Contents(self.keys, self.digest, 0) or self.planted != ENGINE_ORPHANS:
            raise SystemExit(f"{who}: expected that exactly the {ENGINE_ORPHANS} orphans go, found {self} -> {after}")


def copies(s3: S3, source: Path) -> Iterator[str]:
    """Yield where fresh copies of a table lie, below a warehouse of their own; each is removed afterwards."""
    assert s3.folder is not None
    while True:
        warehouse = f"copy-{time.time_ns()}"
        s3.link(source, BUCKET, f"{warehouse}/db.db/{source.name}")
        yield warehouse
        shutil.rmtree(s3.folder / BUCKET / warehouse)


def measure_engine(s3: S3, warehouse: str, name: str, classpath: str, work: Path, quiet: Quiet) -> Row:
    """Remove orphans with the engine, once."""
    row = Row("engine, `LocalOrphanFilesClean`")
    prefix = f"{warehouse}/db.db/{name}"
    before = Contents.of(s3, prefix)
    with MeasuredEngine(classpath, work) as engine:
        engine.open(f"s3://{BUCKET}/{warehouse}", s3_options(s3.proxied))
        row.loads.append(quiet.wait())
        s3.reset(LATENCY_MS)
        start, cpu = time.perf_counter(), engine.cpu_seconds()
        found = engine("orphans", table=f"db.{name}", older_than_ms=_now_ms(), quiet=True)
        row.walls.append(time.perf_counter() - start)
        row.cpus.append(engine.cpu_seconds() - cpu)
        row.requests = s3.counts()
        row.peak_kib = engine.peak_kib()
    s3.reset(0)
    print(f"  {row.who}: {row.wall:.1f} s, {found}, load {row.load()}, {row.requests}", flush=True)
    before.check(row.who, Contents.of(s3, prefix))
    return row


def measure_ours(s3: S3, warehouses: Iterator[str], name: str, runs: int, quiet: Quiet) -> list[Row]:
    """Remove orphans with a fresh `lakesweep remove-orphan-files`, and plan without removing."""
    dry, real = Row("Lakesweep, dry run"), Row("Lakesweep, `--execute`")
    for _, warehouse in zip(range(runs), warehouses, strict=False):
        prefix = f"{warehouse}/db.db/{name}"
        before = Contents.of(s3, prefix)
        for row, words in ((dry, []), (real, ["--execute"])):
            asked = [f"s3://{BUCKET}/{prefix}", "--control", f"s3://{BUCKET}/control-{time.time_ns()}"]
            asked += ["--endpoint-url", s3.proxied, "--older-than", str(_now_ms()), "--no-writers", _REASON]
            load = quiet.wait()
            s3.reset(LATENCY_MS)
            done = command_line(["remove-orphan-files", *asked, *words])
            row.add(done, s3.counts(), load)
            s3.reset(0)
            if done.document["delete"]["count"] != ENGINE_ORPHANS:
                raise SystemExit(f"{row.who}: expected {ENGINE_ORPHANS} orphans, found {done.document['delete']}")
        before.check(real.who, Contents.of(s3, prefix))
    return [real, dry]


def _now_ms() -> int:
    # The clock of a store is up to a second behind, and a cutoff in its future is refused.
    return int(time.time() * 1000) - 2000


def judge_engine(engine: Row, ours: Row) -> list[Bar]:
    """Hold the figures against what was asked for."""
    faster = engine.wall / ours.wall
    fewer = engine.request_count / ours.request_count
    peak = ours.peak_kib / 1024
    return [
        Bar("o100k: times faster than the engine", f"{FASTER}", f"{faster:.1f}", faster >= FASTER),
        Bar(
            "o100k: the engine's requests for each of ours",
            f"{FEWER_REQUESTS}",
            f"{fewer:.1f}",
            fewer >= FEWER_REQUESTS,
        ),
        Bar("o100k: peak MiB", f"at most {PEAK_MIB}", f"{peak:.0f}", peak <= PEAK_MIB),
    ]


def engine_page(rows: Sequence[Row]) -> str:
    """Return what the page says of the engine's table."""
    head = ["", "runs", "wall s", "CPU s", "peak MiB", "requests", *METHODS, "load"]
    cells = [[*row.cells(), *(row.requests.get(method, 0) for method in METHODS), row.load()] for row in rows]
    return "\n\n".join(
        [
            f"## o100k, S3, +{LATENCY_MS} ms a request",
            "A table that the engine wrote: 100 commits into 100 partitions (append table, Avro), 96 504 objects, of "
            "which 1 000 are orphans. Every run has a fresh copy. The engine's JVM (heap of at most 2 GiB, default "
            "threads) has its catalog open; its start is not timed. Lakesweep is a fresh process from start to end, "
            "with an empty control location. Each real run removed exactly the 1 000 orphans: the keys before and "
            "after were listed. Requests are those that the proxy counted.",
            table(head, cells),
        ]
    )


# --- growth -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scan:
    """A synthetic table, and what its dry runs took."""

    shape: Shape
    row: Row

    def cells(self) -> list[object]:
        """Return its line of the page."""
        shape = self.shape
        return [f"{shape.objects:,}", f"{shape.partitions:,}", shape.roots, *self.row.cells()[1:], self.row.load()]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        shape = self.shape
        sizes = {"objects": shape.objects, "partitions": shape.partitions, "roots": shape.roots}
        return {**sizes, "orphans": shape.orphans, **self.row.to_json()}


def shapes(scale: float) -> tuple[list[Shape], list[Shape], list[Shape]]:
    """Return tables that grow, the same with more and fewer partitions, and with more and fewer roots."""
    small, middle, large = (int(count * scale) for count in (10_000, 100_000, 1_000_000))
    growing = [Shape(small, 10), Shape(middle, 100), Shape(large, 1000)]
    return (
        growing,
        [Shape(middle, p) for p in (10, 100, 1000, 10_000)],
        [Shape(middle, 100, r) for r in (10, 100, 1000)],
    )


def measure_scan(s3: S3, shape: Shape, runs: int, quiet: Quiet) -> Scan:
    """Plan on one synthetic table."""
    assert s3.folder is not None
    source = synthetic_table(TABLES, shape)
    linked = s3.link(source, BUCKET, f"scan/{shape.name}")
    row = Row(shape.name)
    for _ in range(runs):
        place = [f"s3://{BUCKET}/scan/{shape.name}", "--control", f"s3://{BUCKET}/control-{time.time_ns()}"]
        load = quiet.wait()
        done = command_line(["remove-orphan-files", *place, "--endpoint-url", s3.direct])
        found = done.document["delete"]["count"], done.document["findings"]["missing"]["count"]
        if found != (shape.orphans, 0):
            raise SystemExit(f"{shape.name}: expected {shape.orphans} orphans and nothing missing, found {found}")
        row.add(done, {kind: count for kind, count in done.document["requests"].items() if count}, load)
    shutil.rmtree(linked)
    return Scan(shape, row)


def judge_growth(growing: Sequence[Scan], by_partitions: Sequence[Scan], by_roots: Sequence[Scan]) -> Iterator[Bar]:
    """Hold the figures against what was asked for."""
    million = growing[-1].row
    peak = million.peak_kib / 1024
    what = f"{growing[-1].shape.objects:,} objects, plan"
    yield Bar(f"{what}: wall s", f"at most {MILLION_S}", f"{million.wall:.1f}", million.wall <= MILLION_S)
    cpu: float = summary(million.cpus)["median"]
    yield Bar(f"{what}: CPU s", f"at most {MILLION_CPU_S}", f"{cpu:.1f}", cpu <= MILLION_CPU_S)
    yield Bar(f"{what}: peak MiB", f"at most {MILLION_MIB}", f"{peak:.0f}", peak <= MILLION_MIB)
    for less, more in itertools.pairwise(growing):
        times = more.shape.objects / less.shape.objects
        for figure, grown in (
            ("wall time", more.row.wall / less.row.wall),
            ("requests", more.row.request_count / less.row.request_count),
        ):
            what = f"{figure}, {more.shape.objects:,} objects for {less.shape.objects:,}"
            yield Bar(what, f"at most {times * LINEAR:.0f} times", f"{grown:.1f} times", grown <= times * LINEAR)
    for figure, scans in (("partitions", by_partitions), ("roots", by_roots)):
        peaks = [scan.row.peak_kib for scan in scans]
        ratio = max(peaks) / min(peaks)
        is_seen = not any(scan.row.hides_peak for scan in scans)
        counts = [getattr(scan.shape, figure) for scan in scans]
        what = f"memory, {min(counts):,} to {max(counts):,} {figure}: most for least"
        found = f"{ratio:.2f} times" if is_seen else "not seen"
        yield Bar(what, f"at most {FLAT:g} times", found, is_seen and ratio <= FLAT)


def plot(growing: Sequence[Scan], by_partitions: Sequence[Scan], by_roots: Sequence[Scan]) -> str:
    """Return the plot."""
    flat = (
        ("partitions", [(scan.shape.partitions, scan.row.peak_kib / 1024) for scan in by_partitions]),
        ("roots", [(scan.shape.roots, scan.row.peak_kib / 1024) for scan in by_roots]),
    )
    objects = [scan.shape.objects for scan in growing]

    def grown(title: str, values: list[float]) -> Panel:
        return Panel(title, "objects", (("", list(zip(objects, values, strict=True))),), shows_linear=True)

    return svg(
        [
            grown("wall time, s", [scan.row.wall for scan in growing]),
            grown("requests", [scan.row.request_count for scan in growing]),
            grown("peak memory, MiB", [scan.row.peak_kib / 1024 for scan in growing]),
            Panel(f"peak MiB, {by_roots[0].shape.objects:,} objects", "partitions, roots", flat),
        ]
    )


def growth_page(growing: Sequence[Scan], by_partitions: Sequence[Scan], by_roots: Sequence[Scan], server: str) -> str:
    """Return what the page says of growth."""
    head = ("objects", "partitions", "roots", "runs", "wall s", "CPU s", "peak MiB", "requests", "load")
    return "\n\n".join(
        [
            "## Growth, S3 without latency",
            "Dry runs on synthetic tables, of which each hundredth file is an orphan: every commit adds files to every "
            "partition, thirty manifests that are not full are merged, and the newest snapshots are there, so most "
            f"files are named by several manifests. Files are empty; metadata is real. {server} serves them from a "
            "folder. Every run is a fresh process with an empty control location, and found exactly the orphans. It "
            "counted the requests itself.",
            table(head, [scan.cells() for scan in growing]),
            "The same number of objects in more partitions, and named by more roots:",
            table(head, [scan.cells() for scan in (*by_partitions, *by_roots)]),
            "![time, requests and memory](orphans.svg)",
            "The dotted lines are linear growth. Memory grows with the files that roots name: each is a hash of 16 "
            "bytes in a dictionary.",
        ]
    )


def main() -> None:
    """Run the parts and write the results."""
    parser = argparse.ArgumentParser(description="Remove orphan files, beside the Java engine and as tables grow.")
    parser.add_argument("--parts", default=PARTS, help="fewer than all write to build/")
    parser.add_argument("--runs", type=int, default=3, help="measured runs of Lakesweep (one of the largest table)")
    parser.add_argument("--max-load", type=float, default=MAX_LOAD, help="wait for so low a load of the machine")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="but for so many seconds in all")
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the objects; not 1 writes to build/")
    asked = parser.parse_args()
    parts = asked.parts.split(",")
    is_whole = asked.parts == PARTS and asked.scale == 1
    setting, quiet = machine(), Quiet(asked.max_load, asked.patience)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"latency_ms": LATENCY_MS}
    bars: list[Bar] = []
    pages: list[str] = []
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch, s3_server() as s3:
        s3.client().create_bucket(Bucket=BUCKET)
        if "engine" in parts:
            rows = beside_engine(s3, Path(scratch), asked.runs, quiet, setting)
            bars += judge_engine(rows[0], rows[1])
            pages.append(engine_page(rows))
            document["o100k"] = [row.to_json() for row in rows]
        if "growth" in parts:
            scans = growth(s3, asked.scale, asked.runs, quiet)
            bars += judge_growth(*scans)
            pages.append(growth_page(*scans, s3.name))
            names = ("growth", "partitions", "roots")
            document |= {name: [scan.to_json() for scan in of] for name, of in zip(names, scans, strict=True)}
            folder = FOLDER if is_whole else PARTIAL
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "orphans.svg").write_text(plot(*scans))
        setting["s3_server"] = s3.name
    document["bars"] = bars_json(bars)
    verdict = ["## What was asked for", bars_table(bars)]
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    write("orphans", "Remove orphan files", setting, document, [*verdict, *pages], is_whole=is_whole)


def beside_engine(s3: S3, scratch: Path, runs: int, quiet: Quiet, setting: dict[str, Any]) -> list[Row]:
    """Measure both sides on the engine's table."""
    classpath = s3_classpath()
    setting |= {"engine": f"Apache Paimon {engine_version(classpath)}", "java": java_version()}
    source = engine_table()
    print(f"{source.name}, +{LATENCY_MS} ms", flush=True)
    fresh = copies(s3, source)
    engine = measure_engine(s3, next(fresh), source.name, classpath, scratch / "engine", quiet)
    return [engine, *measure_ours(s3, fresh, source.name, runs, quiet)]


def growth(s3: S3, scale: float, runs: int, quiet: Quiet) -> tuple[list[Scan], list[Scan], list[Scan]]:
    """Measure all synthetic tables, each once."""
    asked = shapes(scale)
    largest = asked[0][-1]
    found: Mapping[Shape, Scan] = {
        shape: measure_scan(s3, shape, 1 if shape == largest else runs, quiet)
        for shape in dict.fromkeys(shape for group in asked for shape in group)
    }
    growing, by_partitions, by_roots = ([found[shape] for shape in group] for group in asked)
    return growing, by_partitions, by_roots


if __name__ == "__main__":
    main()
