"""Plan the expiry of one day of a large table, and show the table: wall time and peak memory of fresh processes.

    python -m benchmarks.memory [--runs N] [--stores local,s3] [--scale 1.0]

The table has a million live files, 1 000 snapshots and 30 tags (`benchmarks/large_table.py`). It is written once.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.large_table import LIVE_FILES
from benchmarks.ours import command_line
from benchmarks.results import Bar, bars_json, bars_table, machine, seconds, summary, table, write
from benchmarks.servers import PROJECT, SCRATCH, environment, s3_server
from benchmarks.tables import FOLDER

BUCKET = "bench"
STORES = "local,s3"
PLAN_MIB, SHOW_S = 512, 3.0


def large_table(scale: float) -> Path:
    """Return the table's folder, after writing it if it is not there."""
    folder = FOLDER / f"large-{scale:g}"
    if not folder.is_dir():
        print(f"writing a table of {int(LIVE_FILES * scale):,} live files, which takes some minutes", flush=True)
        work = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(work, ignore_errors=True)
        # In a process of its own: what this one has had in memory would count as its children's peak.
        command = [sys.executable, "-m", "benchmarks.large_table", str(work), str(scale)]
        subprocess.run(command, check=True, cwd=PROJECT, env=environment())
        work.rename(folder)
    return folder


def measure(name: str, arguments: list[str], runs: int) -> dict[str, Any]:
    """Run one command some times."""
    done = []
    for _ in range(runs):
        done.append(command_line(arguments))
        print(f"  {name}: {done[-1].seconds:.2f} s, {done[-1].peak_kib / 1024:.0f} MiB", flush=True)
    document = done[-1].document
    return {
        "what": name,
        "wall_s": summary([run.seconds for run in done]),
        "cpu_s": summary([run.cpu_seconds for run in done]),
        "peak_mib": round(max(run.peak_kib for run in done) / 1024),
        "requests": sum(document.get("requests", {}).values()) or None,
        "deleted_objects": document.get("delete", {}).get("count"),
        "expired_snapshots": len(document.get("snapshots", {}).get("expired", ())) or None,
    }


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="Plan and show a table of a million files.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stores", default=STORES)
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the files; not 1 writes to build/")
    asked = parser.parse_args()
    setting = machine()
    source = large_table(asked.scale)
    manifests = [path for path in (source / "manifest").iterdir() if not path.name.startswith("manifest-list")]
    largest = max(path.stat().st_size for path in manifests)
    metadata = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    SCRATCH.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    stores = asked.stores.split(",")
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch, s3_server() if "s3" in stores else nullcontext() as s3:
        for store in stores:
            place, control, extra = str(source), f"{scratch}/control", list[str]()
            if store == "s3" and s3 is not None:
                s3.client().create_bucket(Bucket=BUCKET)
                s3.upload(source, BUCKET, "large")
                place, control = f"s3://{BUCKET}/large", f"s3://{BUCKET}/control"
                extra = ["--endpoint-url", s3.direct]
            print(store, flush=True)
            plan = ["maintain", place, "--control", control, *extra]
            rows.append(measure(f"{store}: plan, nothing remembered", plan, 1))
            rows.append(measure(f"{store}: plan", plan, asked.runs))
            rows.append(measure(f"{store}: show", ["show", place, *extra], asked.runs))
        setting |= {"s3_server": s3.name if s3 is not None else "none"}
    bars = []
    for row in rows:
        if row["what"] == "local: show":
            wall = row["wall_s"]["median"]
            bars.append(Bar(f"{row['what']}, wall s", f"at most {SHOW_S:g}", f"{wall:.2f}", wall <= SHOW_S))
        peak = row["peak_mib"]
        bars.append(Bar(f"{row['what']}, peak MiB", f"at most {PLAN_MIB}", str(peak), peak <= PLAN_MIB))
    cells = [
        (row["what"], len(row["wall_s"]["values"]), seconds(row["wall_s"]), seconds(row["cpu_s"]), row["peak_mib"])
        for row in rows
    ]
    planned = next(row for row in rows if row["deleted_objects"])
    text = (
        f"A table of {int(LIVE_FILES * asked.scale):,} live files, 1,000 snapshots and 30 tags: {len(manifests):,} "
        f"manifests, the largest of {largest / 2**20:.1f} MiB, {metadata / 2**20:,.0f} MiB of metadata. The plan "
        f"expires one day: {planned['expired_snapshots']} snapshots, {planned['deleted_objects']:,} objects. Every run "
        "is a fresh process of the command line. *Nothing remembered* is a plan without what earlier ones left in the "
        "control location.",
        bars_table(bars),
        table(("", "runs", "wall s", "CPU s", "peak MiB"), cells),
    )
    is_whole = asked.scale == 1 and asked.stores == STORES
    document = {"manifests": len(manifests), "metadata_bytes": metadata, "rows": rows, "bars": bars_json(bars)}
    write("memory", "A large table", setting, document, text, is_whole=is_whole)


if __name__ == "__main__":
    main()
