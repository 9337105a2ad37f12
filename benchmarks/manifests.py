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
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.commits import FEW, MANY, Measured, Row, ask, page_of, peaks, setting_of
from benchmarks.engine import MeasuredEngine, s3_classpath
from benchmarks.manifest_tables import Shape, day_of, table_folder
from benchmarks.partition_copies import BUCKET, Place
from benchmarks.results import Bar, bars_json, bars_table, machine, mib, summary, write
from benchmarks.servers import SCRATCH, s3_server

SHAPE = Shape(1000, 500_000)
CASES = "s3-20,local,memory"
RATIOS = {"s3-20": {"command line": 0.7, "warm process": 0.7}, "local": {"command line": 1.2}}
"""Case -> the most of the engine's wall time."""
PEAK_MIB, BYTES_RATIO, GROWTH = 384, 1.1, 1.1


@dataclass(frozen=True, slots=True)
class After:
    """What a compaction leaves, as the engine sees it."""

    manifests: int
    bytes: int
    opened: int
    """Manifests that its scan of one partition opens."""
    live: str
    """Digest of the live files."""


def compact(engine: MeasuredEngine) -> None:
    """Compact with the engine."""
    newest = ask(engine, "compact_manifests")
    if newest != SHAPE.manifests + 1:
        raise SystemExit(f"the engine: expected a new snapshot, found {newest} to be the newest")


def after(engine: MeasuredEngine) -> After:
    """Return what the engine sees."""
    manifests, opened = ask(engine, "manifests"), ask(engine, "opened", partition=[day_of(SHAPE)])
    files = sorted(map(json.dumps, ask(engine, "live")["files"]))
    digest = hashlib.sha256("\n".join(files).encode()).hexdigest()
    return After(len(manifests), sum(size for _, size, *_ in manifests), len(opened), f"{len(files)} files, {digest}")


def measure(name: str, place: Place, classpath: str, runs: int, engine_runs: int) -> list[Row]:
    """Measure one case."""
    print(f"{name}: {SHAPE.describe}", flush=True)
    rows = Measured("compact-manifest", place, classpath, compact, after).rows(runs, engine_runs)
    if rows[0].after.live != rows[1].after.live:
        raise SystemExit(
            f"{name}: live are {rows[0].after.live} after the engine, {rows[1].after.live} after Lakesweep"
        )
    return rows


def figures_of(row: Row) -> dict[str, Any]:
    """Return the row as JSON."""
    found = row.after
    return row.to_json() | {
        "after": None if found is None else {"manifests": found.manifests, "bytes": found.bytes},
        "opened": None if found is None else found.opened,
    }


def columns(row: Row) -> dict[str, object]:
    """Return the columns of a row that other operations do not have."""
    found = row.after
    return {
        "manifests after": "" if found is None else found.manifests,
        "MiB of these": "" if found is None else f"{found.bytes / (1 << 20):.1f}",
    }


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


def growth(found: list[float]) -> Bar:
    """Judge the peaks on a small and on a large table."""
    grown = found[1] / found[0]
    what = f"peak with {MANY.entries:,} entries, of that with {FEW.entries:,}"
    return Bar(what, f"at most {GROWTH}", f"{grown:.2f}", grown <= GROWTH)


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
                figures, page, found = peaks("compact-manifest", Path(scratch), asked.runs, growth)
            else:
                latency_ms = int(name.partition("-")[2] or 0)
                place = Place(table_folder(SHAPE), s3 if name != "local" else None, latency_ms, Path(scratch))
                rows = measure(name, place, classpath, asked.runs, asked.engine_runs)
                figures = {"case": name, "rows": list(map(figures_of, rows))}
                page = page_of(name, place, rows, columns)
                found = judge(name, rows)
            results.append(figures)
            pages.append(page)
            bars += found
            shutil.rmtree(Path(scratch, "engine"), ignore_errors=True)
    setting |= setting_of(classpath, s3)
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
