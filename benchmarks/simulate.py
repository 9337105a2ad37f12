"""Simulate five policies over 10 000 snapshots: seconds and peak memory of a fresh process.

    python -m benchmarks.simulate [--runs N] [--snapshots N]

The table has a commit every quarter of an hour. Each adds four files and deletes four, every thirty manifests are
merged, and each day ends with a tag. It is written once, with metadata alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.large_table import COMMIT_MS, COMMITS_A_DAY, MERGED, START_MS, Manifest, Writer, _merged
from benchmarks.ours import command_line
from benchmarks.results import Bar, bars_json, bars_table, machine, seconds, summary, table, write
from benchmarks.servers import PROJECT, environment
from benchmarks.tables import FOLDER
from lakesweep.model.roots import TableRef
from lakesweep.operations.simulation.policies import policies_of
from lakesweep.operations.simulation.scene import Scene, read_scene
from lakesweep.operations.simulation.simulate import simulated
from lakesweep.runs.session import Table
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import open_store

SNAPSHOTS = 10_000
LIVE_FILES = 2_000
FILES_OF_A_COMMIT = 4
ANSWER_S = 5.0
CASES = (
    "retain-max=100",
    "time-retained=1 d",
    "time-retained=10 d, retain-max=5000",
    "retain-max=10, keep-daily=7, keep-weekly=4",
)
"""With the present policy, five."""
DAYS = 30


class _ManySnapshots(Writer):
    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, LIVE_FILES / 1_000_000)
        self._count = count

    def write(self) -> None:
        self._schema()
        live = [self._file("2026-01-01") for _ in range(LIVE_FILES)]
        base, small = [self._manifest(live)], list[Manifest]()
        for number in range(1, self._count + 1):
            new = [self._file(f"2026-01-{1 + number % 28:02}") for _ in range(FILES_OF_A_COMMIT)]
            gone = [live.pop(self._random.randrange(len(live))) for _ in range(FILES_OF_A_COMMIT)]
            live += new
            delta = self._manifest([*new, *({**file, "_KIND": 1} for file in gone)], keep=True)
            if len(small) >= MERGED:
                base.append(self._manifest(_merged(small)))
                small = []
                if len(base) > MERGED:
                    base = [self._manifest(live[:-FILES_OF_A_COMMIT] + gone)]
            text = self._snapshot_text(number, [*base, *small], [delta])
            self._document("snapshot", f"snapshot-{number}", text)
            if number % COMMITS_A_DAY == 0:
                self._document("tag", f"tag-day-{number // COMMITS_A_DAY:03}", text)
            small.append(delta)
        self._document("snapshot", "LATEST", str(self._count))
        self._document("snapshot", "EARLIEST", "1")


def many_snapshots(count: int) -> Path:
    """Return the table's folder, after writing it if it is not there."""
    folder = FOLDER / f"snapshots-{count}"
    if not folder.is_dir():
        print(f"writing a table of {count:,} snapshots, which takes some minutes", flush=True)
        work = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(work, ignore_errors=True)
        _ManySnapshots(work, count).write()
        work.rename(folder)
    return folder


def _timed(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    return found, {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def measure(folder: Path, count: int) -> dict[str, Any]:
    """Read the table and answer, in this process. The clock is that of the table's last commit."""
    now_ms = START_MS + (count + 1) * COMMIT_MS
    store = open_store(parse_location(str(folder)))
    opened = Table(ref=TableRef(store.location), store=store, area=None, open_store=lambda _: store)
    scene: Scene
    scene, read = _timed(lambda: read_scene(opened))
    object.__setattr__(scene.view, "now_ms", now_ms)
    policies = policies_of(CASES, {}, None)
    found, answer = _timed(lambda: simulated(scene, policies, None))
    _, replayed = _timed(lambda: simulated(scene, policies, DAYS))
    return {
        "read": read,
        "answer": answer,
        "replayed": replayed,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "kept": {case.name: [case.kept.snapshots, case.kept.tags, case.kept.bytes] for case in found.cases},
        "files": found.now.data_files + found.now.metadata_files,
        "points": len(found.curve),
    }


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="Simulate five policies over many snapshots.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--snapshots", type=int, default=SNAPSHOTS, help="another number writes to build/")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure is not None:
        print(json.dumps(measure(asked.measure, asked.snapshots)))
        return
    setting = machine()
    folder = many_snapshots(asked.snapshots)
    command = [
        sys.executable,
        "-m",
        "benchmarks.simulate",
        "--measure",
        str(folder),
        "--snapshots",
        str(asked.snapshots),
    ]
    runs: list[dict[str, Any]] = []
    for _ in range(asked.runs):
        done = subprocess.run(command, check=True, cwd=PROJECT, env=environment(), capture_output=True, text=True)
        runs.append(json.loads(done.stdout))
        print({key: runs[-1][key] for key in ("read", "answer", "replayed", "peak_kib")}, flush=True)
    cases = [word for case in CASES for word in ("--policy-case", case)]
    whole = [command_line(["simulate", str(folder), *cases, "--json"]) for _ in range(asked.runs)]

    def cells(key: str) -> tuple[str, str]:
        wall, cpu = (summary([run[key][figure] for run in runs]) for figure in ("wall_s", "cpu_s"))
        return seconds(wall), seconds(cpu)

    rows = [
        ("metadata read from the disk and grouped", *cells("read"), ""),
        ("five policies and the curve", *cells("answer"), ""),
        (f"the same with a replay of {DAYS} days", *cells("replayed"), ""),
        ("all of it in one process", "", "", max(run["peak_kib"] for run in runs) // 1024),
        (
            "`lakesweep simulate --json`, from start to end",
            seconds(summary([run.seconds for run in whole])),
            seconds(summary([run.cpu_seconds for run in whole])),
            max(run.peak_kib for run in whole) // 1024,
        ),
    ]
    slowest = max(run["answer"]["wall_s"] for run in runs)
    bars = [
        Bar(
            "five policies after the metadata is read, s",
            f"at most {ANSWER_S:g}",
            f"{slowest:.2f}",
            slowest <= ANSWER_S,
        )
    ]
    text = (
        f"A table of {asked.snapshots:,} snapshots, {asked.snapshots // COMMITS_A_DAY} tags and {runs[0]['files']:,} "
        "files of data and metadata on a local disk. Each figure is the median of fresh processes.",
        bars_table(bars),
        table(("", "wall s", "CPU s", "peak MiB"), rows),
    )
    is_whole = asked.snapshots == SNAPSHOTS
    document = {"runs": runs, "command_s": [run.seconds for run in whole], "bars": bars_json(bars)}
    write("simulate", "Simulations", setting, document, text, is_whole=is_whole)


if __name__ == "__main__":
    main()
