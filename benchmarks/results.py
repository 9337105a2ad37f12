"""What a benchmark leaves: figures as JSON, and the same as a page, with machine, versions and date."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lakesweep
from benchmarks.servers import PROJECT

FOLDER = PROJECT / "benchmarks" / "results"
PARTIAL = PROJECT / "build" / "bench" / "results"
"""Where figures go that are not the whole of a benchmark."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure that was asked for, and the one that was measured."""

    what: str
    asked: str
    measured: str
    is_met: bool


def machine() -> dict[str, Any]:
    """Describe where and with what this runs."""
    package = Path(lakesweep.__file__).resolve()
    if not package.is_relative_to(PROJECT):
        raise SystemExit(f"benchmarks: expected the package of this repository, found {package}; run `make install`")
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    memory = Path("/proc/meminfo").read_text().split()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": next((line.split(": ", 1)[1] for line in processors if line.startswith("model name")), "unknown"),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory[1]) / 2**20),
        "system": f"{platform.system()} {platform.release()}",
        "load_at_start": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "lakesweep": f"{lakesweep.__version__}, commit {_commit()}",
        "boto3": version("boto3"),
        "fastavro": version("fastavro"),
    }


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "shared")
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + (" with changes" if changed else "")


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a running process has used, all its threads together."""
    # The second field is the program's name in parentheses, and may hold spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return the median and all values of one figure."""
    return {"median": round(statistics.median(values), 3), "values": [round(value, 3) for value in values]}


def seconds(figure: Mapping[str, Any]) -> str:
    """Write a time as a cell: the median, and from where to where when there are several."""
    values = figure["values"]
    text = _short(figure["median"])
    return text if len(values) == 1 else f"{text} ({_short(min(values))} to {_short(max(values))})"


def _short(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def mib(kib: float) -> str:
    """Write a size in KiB as a cell."""
    return f"{kib / 1024:.0f}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def bars_table(bars: Iterable[Bar]) -> str:
    """Return the bars as a Markdown table."""
    return table(
        ("figure", "asked for", "measured", ""),
        [(bar.what, bar.asked, bar.measured, "met" if bar.is_met else "**not met**") for bar in bars],
    )


def bars_json(bars: Iterable[Bar]) -> list[dict[str, Any]]:
    """Return the bars as JSON."""
    return [{"what": bar.what, "asked": bar.asked, "measured": bar.measured, "met": bar.is_met} for bar in bars]


def write(
    name: str,
    title: str,
    where: Mapping[str, Any],
    document: Mapping[str, Any],
    text: Sequence[str],
    *,
    is_whole: bool = True,
) -> None:
    """Write `NAME.json` and `NAME.md` into `benchmarks/results`, and print the page.

    Args:
        name: Of the benchmark.
        title: Of the page.
        where: From `machine`, with what else tells the setting.
        document: The figures.
        text: Paragraphs and tables of the page.
        is_whole: Otherwise only a part was measured, which takes no earlier result's place.
    """
    folder = FOLDER if is_whole else PARTIAL
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"benchmark": name, "setting": where, **document}
    (folder / f"{name}.json").write_text(json.dumps(whole, indent=2) + "\n")
    setting = table(("setting", ""), [(key.replace("_", " "), _cell(value)) for key, value in where.items()])
    command = f"Made by `make bench-{name.replace('_', '-')}`; the figures are in [{name}.json]({name}.json)."
    page = "\n\n".join([f"# {title}", command, *text, "## Setting", setting])
    (folder / f"{name}.md").write_text(page + "\n")
    print(page)
    print(f"\nwritten: {(folder / name).relative_to(PROJECT)}.json and .md")


def _cell(value: Any) -> str:
    return ", ".join(str(part) for part in value) if isinstance(value, list) else str(value)
