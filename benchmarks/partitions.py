"""Expire and drop partitions: Lakesweep beside the Java engine, on the same server, each run on a fresh copy.

    python -m benchmarks.partitions [--runs N] [--engine-runs N] [--cases s3-20,s3-0,local,drop,second,committers]

- The engine runs `expire` of its partition expiry, as its procedure does, in a JVM that has done it on a copy before,
  with the catalog open: what is timed is the command, with the load of the table.
- "command line" is a fresh `lakesweep expire-partitions` process, from its start to its end.
- "warm process" is a Python process that has run one before, as a warm Lambda function has: its S3 client is open.
- The control location is empty each time. The catalog is declared as one that holds a lock: then Lakesweep does not
  wait some seconds to see whether another writer replaces its snapshot.
- The case "memory" truncates tables with many entries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks import partition_races
from benchmarks.commits import MANY, Measured, Row, ask, page_of, peaks, setting_of
from benchmarks.engine import MeasuredEngine, s3_classpath
from benchmarks.partition_copies import BUCKET, Place
from benchmarks.partition_tables import Shape, table_folder
from benchmarks.results import Bar, bars_json, bars_table, machine, mib, summary, write
from benchmarks.servers import S3, SCRATCH, s3_server

SHAPE = Shape(1000, 100, 100_000, 100)
CASES = "s3-20,s3-0,local,drop,second,committers,memory"
RATIOS = {"s3-20": 0.5, "s3-0": 0.8, "local": 1.2}
"""Case -> the most of the engine's wall time."""
PEAK_MIB = 512


def expire(engine: MeasuredEngine) -> None:
    """Expire with the engine."""
    gone = ask(engine, "expire_partitions")
    if len(gone) != SHAPE.expired:
        raise SystemExit(f"the engine: expected {SHAPE.expired} partitions to go, {len(gone)} went")


def live(engine: MeasuredEngine) -> str:
    """Return a digest of the data files of the newest snapshot as the engine sees them."""
    newest = max(ask(engine, "references"), key=lambda root: root["snapshot_id"])
    data = sorted(name for name in newest["files"] if not name.startswith("manifest/"))
    return f"{len(data)} files, {hashlib.sha256(json.dumps(data).encode()).hexdigest()}"


def measure(name: str, place: Place, classpath: str, runs: int, engine_runs: int) -> list[Row]:
    """Measure one case."""
    print(f"{name}: {SHAPE.describe}", flush=True)
    judge = live if place.s3 is None else None
    rows = Measured("expire-partitions", place, classpath, expire, judge).rows(runs, engine_runs)
    if rows[0].after != rows[1].after:
        raise SystemExit(f"{name}: live are {rows[0].after} after the engine, {rows[1].after} after Lakesweep")
    return rows


def figures_of(row: Row) -> dict[str, Any]:
    """Return the row as JSON."""
    document = row.to_json()
    if (found := row.requests) is not None:
        table_puts, control_puts = (found.puts(in_table=where) for where in (True, False))
        document |= {"manifests_written": found.manifests, "requests_in_all": found.count()}
        document |= {"put_table": table_puts, "put_control": control_puts, "to_visible": found.to_visible}
    return document


def columns(row: Row) -> dict[str, object]:
    """Return the columns of a row that other operations do not have."""
    if (found := row.requests) is None:
        return {}
    return {
        "PUT in the table": found.puts(in_table=True),
        "PUT of control": found.puts(in_table=False),
        "manifests written": found.manifests,
        "prepared to visible": found.to_visible,
    }


def peak_of_all(found: list[float]) -> Bar:
    """Judge the peaks of taking out all rows of a small and of a large table."""
    what = f"truncate a table of {MANY.entries:,} entries: peak MiB"
    return Bar(what, f"at most {PEAK_MIB}", f"{found[1]:.0f}", found[1] <= PEAK_MIB)


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


def expiries(names: list[str], s3: S3 | None, folder: Path, runs: int, engine_runs: int, classpath: str) -> Any:
    """Measure the expiries; return their figures, pages and bars."""
    results, pages, bars = [], [], []
    for name in names:
        latency_ms = int(name.partition("-")[2] or 0)
        place = Place(table_folder("partitions", SHAPE), s3 if name != "local" else None, latency_ms, folder)
        rows = measure(name, place, classpath, runs, engine_runs)
        bars += judge(name, rows)
        pages.append(page_of(name, place, rows, columns))
        results.append({"case": name, "rows": list(map(figures_of, rows))})
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
        if "memory" in names:
            figures, page, found_bars = peaks("truncate", Path(scratch), asked.runs, peak_of_all)
            results.append(figures)
            pages.append(page)
            bars += found_bars
    setting |= setting_of(classpath, s3)
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
