"""Plan the removal of orphan files on Spark, beside the same plan made by one process.

    python -m benchmarks.spark [--parts o100k,growth] [--runs N] [--memory 640m] [--max-load 3] [--scale 1.0]

- *o100k*: the table that the engine wrote, 96 504 files on this machine's disk, `local[2]`.
- *growth*: synthetic tables of 10^5 and 10^6 objects (`benchmarks/orphan_tables.py`) on a local S3 server, `local[2]`.

The session is there before the clock starts. Both plans are stored, and their hashes have to be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.orphan_tables import ENGINE_ORPHANS, Shape, engine_table, synthetic_table
from benchmarks.orphans import BUCKET, MAX_LOAD, PATIENCE_S, Quiet
from benchmarks.ours import command_line
from benchmarks.results import Bar, bars_json, bars_table, machine, mib, seconds, summary, table, write
from benchmarks.servers import PROJECT, S3, SCRATCH, environment, s3_server
from benchmarks.tables import FOLDER as TABLES

PARTS = "o100k,growth"
MASTER = "local[2]"
MEMORY = "640m"
"""The JVM's heap. It is driver and executor in one here."""
O100K_FIRST_S, O100K_SECOND_S, O100K_MIB, MILLION_S = 12, 5, 1024, 180
ENGINE_S = 15.6
"""What the engine's own Spark procedure took for o100k on a machine of this kind."""
FLAT = 1.15
"""So many times the driver's memory may be with ten times the objects."""
_REASON = "a benchmark, with no writers"


@dataclass(slots=True)
class Scan:
    """A table, and what planning on it took."""

    name: str
    objects: int
    orphans: int
    local_s: float = 0.0
    local_kib: int = 0
    local_requests: dict[str, int] = field(default_factory=dict)
    spark: str = ""
    session_s: list[float] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    stages_ms: dict[str, int] = field(default_factory=dict)
    """Of the last scan in a session that had made one before."""
    cpus: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    jvm_kib: int = 0
    driver_kib: int = 0
    worker_kib: int = 0
    are_plans_equal: bool = True

    @property
    def wall(self) -> float:
        """Return the median of the runs on Spark."""
        found: float = summary(self.walls)["median"]
        return found

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "name": self.name,
            "objects": self.objects,
            "orphans": self.orphans,
            "plans_equal": self.are_plans_equal,
            "spark": {
                "version": self.spark,
                "wall_s": summary(self.walls),
                "again_s": summary(self.again),
                "stages_ms": self.stages_ms,
                "cpu_s": summary(self.cpus),
                "session_s": summary(self.session_s),
                "load": self.loads,
                "requests": self.requests,
                "peak_mib": {
                    "jvm": round(self.jvm_kib / 1024),
                    "driver_python": round(self.driver_kib / 1024),
                    "largest_worker": round(self.worker_kib / 1024),
                },
            },
            "local": {
                "wall_s": round(self.local_s, 3),
                "peak_mib": round(self.local_kib / 1024),
                "requests": self.local_requests,
            },
        }

    def cells(self) -> list[object]:
        """Return its line of the page."""
        return [
            self.name,
            f"{self.objects:,}",
            seconds(summary(self.walls)),
            seconds(summary(self.again)),
            ", ".join(f"{name} {took / 1000:.1f}" for name, took in self.stages_ms.items()),
            f"{summary(self.cpus)['median']:.1f}",
            seconds(summary(self.session_s)),
            mib(self.jvm_kib),
            mib(self.driver_kib),
            mib(self.worker_kib),
            self.requests.get("list", 0),
            sum(self.requests.values()),
            f"{self.local_s:.1f}",
            mib(self.local_kib),
            self.local_requests.get("list", 0),
            "equal" if self.are_plans_equal else "**different**",
            f"{min(self.loads):.1f} to {max(self.loads):.1f}",
        ]


def measure(scan: Scan, words: Sequence[str], control: str, endpoint: str | None, asked: Asked) -> Scan:
    """Plan with one process, and then on Spark as often as asked for."""
    endpoints = ["--endpoint-url", endpoint] if endpoint else []

    def arguments(engine: str, number: int) -> tuple[list[str], str]:
        place = f"{control}-{engine}-{number}-{time.time_ns()}"
        return ["remove-orphan-files", *words, "--control", place, *endpoints, "--engine", engine], place

    asked.quiet.wait()
    line, place = arguments("local", 0)
    local = command_line(line)
    scan.local_s, scan.local_kib = local.seconds, local.peak_kib
    scan.local_requests = _made(local.document)
    expected = _plan_hash(words[0], place, endpoint, local.document["plan_id"])
    print(f"  {scan.name}, local: {local.seconds:.1f} s, {local.peak_kib / 1024:.0f} MiB", flush=True)
    for number in range(asked.runs):
        line, place = arguments("spark", number)
        scan.loads.append(asked.quiet.wait())
        found = _on_spark(line, asked.memory)
        document = found["document"]
        counted = document["delete"]["count"], document["findings"]["missing"]["count"]
        if counted != (scan.orphans, 0):
            raise SystemExit(f"{scan.name}: expected {scan.orphans} orphans and nothing missing, found {counted}")
        scan.are_plans_equal &= _plan_hash(words[0], place, endpoint, document["plan_id"]) == expected
        scan.spark = found["spark"]
        scan.walls.append(found["seconds"])
        scan.again.append(found["again_s"])
        scan.stages_ms = _stages(words[0], place, endpoint)
        scan.cpus.append(found["cpu_s"])
        scan.session_s.append(found["session_s"])
        scan.requests = _made(document)
        scan.jvm_kib = max(scan.jvm_kib, found["jvm_kib"])
        scan.driver_kib = max(scan.driver_kib, found["driver_kib"])
        scan.worker_kib = max(scan.worker_kib, found["worker_kib"])
        took = f"{found['seconds']:.1f} s, again {found['again_s']:.1f} s {scan.stages_ms}, CPU {found['cpu_s']:.1f} s"
        peaks = f"JVM {found['jvm_kib'] / 1024:.0f} MiB, Python {found['driver_kib'] / 1024:.0f} MiB"
        print(f"  {scan.name}, Spark: {took}, {peaks}, {scan.requests}, load {scan.loads[-1]}", flush=True)
    return scan


def _on_spark(arguments: Sequence[str], memory: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="spark-") as scratch:
        command = [sys.executable, "-m", "benchmarks.spark_worker", MASTER, memory, scratch, *arguments]
        done = subprocess.run(command, cwd=PROJECT, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _made(document: dict[str, Any]) -> dict[str, int]:
    return {kind: count for kind, count in document["requests"].items() if count}


def _stages(place: str, control: str, endpoint: str | None) -> dict[str, int]:
    """Return how long the stages of the second scan took. In a process of its own; see `_plan_hash`."""
    script = """
import sys
from lakesweep.control.area import ControlArea
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import StoreSettings, open_store
place, control, endpoint = sys.argv[1:]
settings = StoreSettings(endpoint_url=endpoint or None, region="us-east-1")
table = open_store(parse_location(place), settings=settings).location
area = ControlArea(open_store(parse_location(control), settings=settings), table, "scans")
print(area.read("again/result.json").data.decode())
"""
    command = [sys.executable, "-c", script, place, control, endpoint or ""]
    done = subprocess.run(command, cwd=PROJECT, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)["stages_ms"]
    return found


def _plan_hash(place: str, control: str, endpoint: str | None, plan_id: str) -> str:
    """Return what a stored plan states of its actions. In a process of its own, which has the server's credentials."""
    script = """
import sys
from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_header
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import StoreSettings, open_store
place, control, endpoint, plan_id = sys.argv[1:]
settings = StoreSettings(endpoint_url=endpoint or None, region="us-east-1")
table = open_store(parse_location(place), settings=settings).location
area = ControlArea(open_store(parse_location(control), settings=settings), table)
print(load_header(area, plan_id).content_hash)
"""
    command = [sys.executable, "-c", script, place, control, endpoint or "", plan_id]
    done = subprocess.run(command, cwd=PROJECT, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Asked:
    """How to measure."""

    runs: int
    memory: str
    quiet: Quiet


def o100k(scratch: Path, asked: Asked) -> Scan:
    """Measure on the engine's table, on this machine's disk."""
    source = engine_table()
    objects = sum(1 for path in source.rglob("*") if path.is_file())
    # The clock of a store is up to a second behind, and a cutoff in its future is refused.
    words = [str(source), "--older-than", str(int(time.time() * 1000) - 2000), "--no-writers", _REASON]
    return measure(Scan("o100k, disk", objects, ENGINE_ORPHANS), words, str(scratch / "control"), None, asked)


def growth(s3: S3, scale: float, asked: Asked) -> list[Scan]:
    """Measure on synthetic tables, straight at the server."""
    assert s3.folder is not None, "it has to be versitygw"
    scans = []
    for shape in (Shape(int(100_000 * scale), 100), Shape(int(1_000_000 * scale), 1000)):
        linked = s3.link(synthetic_table(TABLES, shape), BUCKET, f"scan/{shape.name}")
        words = [f"s3://{BUCKET}/scan/{shape.name}"]
        scan = Scan(f"{shape.objects:,}, S3", shape.objects, shape.orphans)
        scans.append(measure(scan, words, f"s3://{BUCKET}/control", s3.direct, asked))
        shutil.rmtree(linked)
    return scans


def judge(table_on_disk: Scan | None, growing: Sequence[Scan]) -> list[Bar]:
    """Hold the figures against what was asked for."""
    bars = []
    if table_on_disk is not None:
        for which, walls, most in (
            ("first", table_on_disk.walls, O100K_FIRST_S),
            ("second", table_on_disk.again, O100K_SECOND_S),
        ):
            wall = summary(walls)["median"]
            what = f"o100k on disk, {which} scan of a session: wall s"
            bars.append(Bar(what, f"at most {most}", f"{wall:.1f}", wall <= most))
        peak = max(table_on_disk.jvm_kib, table_on_disk.driver_kib) / 1024
        bars.append(Bar("o100k on disk: driver's peak MiB", f"at most {O100K_MIB}", f"{peak:.0f}", peak <= O100K_MIB))
    if growing:
        less, more = growing[0], growing[-1]
        what = f"{more.objects:,} objects on S3: wall s"
        bars.append(Bar(what, f"at most {MILLION_S}", f"{more.wall:.1f}", more.wall <= MILLION_S))
        for whose, small, large in (
            ("the driver's JVM", less.jvm_kib, more.jvm_kib),
            ("the driver's Python", less.driver_kib, more.driver_kib),
        ):
            ratio = large / small
            what = f"memory of {whose}, {more.objects:,} objects for {less.objects:,}"
            bars.append(Bar(what, f"at most {FLAT:g} times", f"{ratio:.2f} times", ratio <= FLAT))
    are_equal = all(scan.are_plans_equal for scan in [*growing, *([table_on_disk] if table_on_disk else [])])
    return [*bars, Bar("plans of Spark and of one process", "equal", "equal" if are_equal else "different", are_equal)]


def page(scans: Sequence[Scan], memory: str, server: str) -> str:
    """Return what the page tells."""
    head = [
        "",
        "objects",
        "first wall s",
        "again wall s",
        "stages, s",
        "CPU s",
        "session s",
        "JVM MiB",
        "driver MiB",
        "worker MiB",
        "LIST",
        "requests",
    ]
    head += ["local: wall s", "local: MiB", "local: LIST", "plans", "load"]
    return "\n\n".join(
        [
            f"## {MASTER}, a heap of {memory}",
            "Planning alone, with an empty control location, in a new session each time: its start is beside "
            "the wall time and not in it, workers' starts are in it. *Again* is a second scan in the same session, as "
            "the engine's figure is that of a session with work behind it. CPU is that of driver, JVM and workers "
            "together. The JVM is the driver's and holds both task threads; *driver* is the Python that plans, "
            "*worker* the largest Python of a task. *Local* is `--engine local`, a fresh process from start to "
            "end. Requests are those that each side counted, executors included; on disk they are calls of the "
            "file system. "
            f"The S3 server is {server}, on the same two cores, without latency. "
            f"For o100k the engine's own Spark procedure took {ENGINE_S} s on a machine of this kind.",
            table(head, [scan.cells() for scan in scans]),
        ]
    )


def main() -> None:
    """Measure what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=PARTS, help=f"of {PARTS}; not all of them write to build/")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", default=MEMORY, help="the heap of the driver's JVM")
    parser.add_argument("--max-load", type=float, default=MAX_LOAD)
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, help="seconds to wait for a quiet machine, in all"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the objects; not 1 writes to build/")
    given = parser.parse_args()
    parts = given.parts.split(",")
    asked = Asked(given.runs, given.memory, Quiet(given.max_load, given.patience))
    setting = machine()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    on_disk: Scan | None = None
    growing: list[Scan] = []
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        if "o100k" in parts:
            on_disk = o100k(Path(scratch), asked)
        if "growth" in parts:
            with s3_server() as s3:
                setting["s3_server"] = s3.name
                s3.client().create_bucket(Bucket=BUCKET)
                growing = growth(s3, given.scale, asked)
    scans = [*([on_disk] if on_disk else []), *growing]
    setting |= {"spark": scans[0].spark, "load_at_end": [round(load, 1) for load in os.getloadavg()]}
    bars = judge(on_disk, growing)
    document = {"master": MASTER, "heap": asked.memory, "scans": [scan.to_json() for scan in scans]}
    text = ["## What was asked for", bars_table(bars), page(scans, asked.memory, str(setting.get("s3_server", "none")))]
    is_whole = given.parts == PARTS and given.scale == 1
    write("spark", "Orphan files on Spark", setting, document | {"bars": bars_json(bars)}, text, is_whole=is_whole)


if __name__ == "__main__":
    main()
