"""Measure what `pip install 'lakesweep[cli]'` brings: the wheel is built, and installed into a clean environment.

python -m benchmarks.install [--runs N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import machine, seconds, summary, table, write
from lakesweep.storage.local.store import LocalStore
from tests.support.table_builder import TableBuilder
from tests.support.wheel import WHEELS, built_wheel, clean_environment, install_cli

RUNS = 5


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="Install lakesweep[cli] from its wheel.")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    setting = machine()
    if not WHEELS.is_dir():
        raise SystemExit("no wheels: run `make wheels`")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        built: list[float] = []
        installed: list[float] = []
        for number in range(asked.runs):
            start = time.perf_counter()
            wheel = built_wheel(place / f"wheel-{number}")
            built.append(time.perf_counter() - start)
            python = clean_environment(place / f"environment-{number}")
            empty = _mib(python.parents[1])
            start = time.perf_counter()
            install_cli(python, wheel)
            installed.append(time.perf_counter() - start)
        site = next(python.parents[1].glob("lib/python*/site-packages"))
        sizes = {
            "the wheel": _mib(wheel),
            "the package, compiled": _mib(site / "lakesweep"),
            "everything that was installed": _mib(python.parents[1]) - empty,
        }
        orders = TableBuilder(LocalStore(f"{folder}/orders"), options={"snapshot.num-retained.max": "3"})
        for number in range(6):
            orders.commit(f"+F{number}")
        commands = {
            "lakesweep --help": ("--help",),
            "lakesweep check TABLE": ("check", f"{folder}/orders"),
            "lakesweep maintain TABLE": ("maintain", f"{folder}/orders", "--control", f"{folder}/control"),
        }
        starts = {name: _starts(python, words, asked.runs) for name, words in commands.items()}
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    document = {
        "mib": {name: round(size, 1) for name, size in sizes.items()},
        "build_s": summary(built),
        "install_s": summary(installed),
        "start_s": {name: summary(values) for name, values in starts.items()},
    }
    write("install", "Install the command line", setting, document, _text(document), is_whole=asked.runs >= RUNS)


def _starts(python: Path, words: Sequence[str], runs: int) -> list[float]:
    program = str(python.with_name("lakesweep"))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LAKESWEEP_"))}
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([program, *words], env=own, capture_output=True, check=False)
        times.append(time.perf_counter() - start)
    return times


def _mib(path: Path) -> float:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files if each.is_file() and not each.is_symlink()) / 2**20


def _text(document: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "The wheel is built and installed with its extra `cli` into a clean environment, from wheels on a local disk. "
        "A download comes on top. The commands run there, on a small local table."
    )
    yield table(("what", "MiB on disk"), list(document["mib"].items()))
    times = {"build the wheel": document["build_s"], "install": document["install_s"], **document["start_s"]}
    yield table(("what", "wall s"), [(name, seconds(figure)) for name, figure in times.items()])


if __name__ == "__main__":
    main()
