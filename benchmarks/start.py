"""Measure how long a command takes to start: help, and what a small table needs.

python -m benchmarks.start [--runs N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import Bar, bars_json, bars_table, machine, summary, table, write
from benchmarks.servers import PROJECT
from lakesweep.storage.local.store import LocalStore
from tests.support.table_builder import TableBuilder

RUNS = 15
COMMITS = 6
COMPILED = PROJECT / "build" / "bench" / "compiled"


@dataclass(frozen=True, slots=True)
class Case:
    """A command line, or Python code."""

    name: str
    words: tuple[str, ...]
    max_s: float | None = None


def cases(folder: Path) -> list[Case]:
    """Return all that is measured."""
    program, orders = str(Path(sys.executable).with_name("lakesweep")), str(folder / "orders")
    return [
        Case("Python itself", (sys.executable, "-c", "pass")),
        Case("Python and typer", (sys.executable, "-c", "import typer")),
        Case("lakesweep --help", (program, "--help"), 0.12),
        Case("lakesweep show TABLE", (program, "show", orders), 0.35),
        Case(
            "lakesweep expire-snapshots TABLE",
            (program, "expire-snapshots", orders, "--control", str(folder / "control")),
        ),
    ]


def measure(found: Sequence[Case], runs: int) -> list[dict[str, Any]]:
    """Run every case in turn, so that other load meets all alike. The first turn compiles, as an installation does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LAKESWEEP_"))}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(COMPILED)}
    times: dict[str, list[tuple[float, float]]] = {case.name: [] for case in found}
    for number in range(runs + 1):
        for case in found:
            start = time.perf_counter()
            process = subprocess.Popen(
                case.words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"{case.name}: expected exit code 0, found {process.returncode}")
            if number:
                times[case.name].append((time.perf_counter() - start, usage.ru_utime + usage.ru_stime))
    return [
        {
            "what": case.name,
            "wall_s": summary([wall for wall, _ in times[case.name]]),
            "cpu_s": summary([cpu for _, cpu in times[case.name]]),
        }
        for case in found
    ]


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="Start commands on a small local table.")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    setting = machine()
    with tempfile.TemporaryDirectory() as folder:
        orders = TableBuilder(LocalStore(f"{folder}/orders"))
        for number in range(COMMITS):
            orders.commit(f"+F{number}")
        found = cases(Path(folder))
        rows = measure(found, asked.runs)
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    bars = [_bar(case, row["wall_s"]) for case, row in zip(found, rows, strict=True) if case.max_s is not None]
    document = {"starts": rows, "bars": bars_json(bars)}
    write("start", "Start a command", setting, document, _text(rows, bars, asked.runs), is_whole=asked.runs >= RUNS)


def _bar(case: Case, wall: Mapping[str, Any]) -> Bar:
    median = wall["median"]
    return Bar(case.name, f"at most {case.max_s:.2f} s", f"{median:.3f} s", case.max_s is None or median <= case.max_s)


def _text(rows: Sequence[Mapping[str, Any]], bars: Sequence[Bar], runs: int) -> Iterator[str]:
    yield (
        f"From the start of the process to its end, the medians of {runs} runs with the range. The commands take "
        "turns. The code is compiled, as an installed package is. The table is local and has a few commits. Other load "
        "on the machine changes CPU seconds less than wall time."
    )
    yield bars_table(bars)
    yield table(
        ("command", "wall s", "CPU s"), [(row["what"], _range(row["wall_s"]), _range(row["cpu_s"])) for row in rows]
    )


def _range(figure: Mapping[str, Any]) -> str:
    return f"{figure['median']:.3f} ({min(figure['values']):.3f} to {max(figure['values']):.3f})"


if __name__ == "__main__":
    main()
