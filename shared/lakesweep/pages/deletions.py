"""The pages of `report --html` and `plans --html`: what goes and why, what is kept and why, and what failed."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakesweep.pages.figures import visible
from lakesweep.pages.page import make_page

Document = Mapping[str, Any]

SHOWN = 100
"""Rows of a table in the page. The others are one row."""
_BARS = 20
_FAILED = 200
_PARTITION = re.compile(r"(?:^|/)((?:[^/=]+=[^/]*/)+)(?:bucket-[^/]*/)?[^/]*$", re.DOTALL)
_NUMBERS = re.compile(r"\b\d[\w:.+-]*")
_OF_DATA = frozenset({"data", "extra", "changelog", "index", "blob"})
_METADATA = "metadata and documents"
_WHOLE = "no partition"


@dataclass(slots=True)
class Sum:
    """Objects that are deleted."""

    count: int = 0
    bytes: int = 0
    unsized: int = 0
    """Objects whose size is not known. `bytes` does not contain them."""

    def add(self, size: int | None) -> None:
        """Count one object."""
        self.count += 1
        self.bytes += size or 0
        self.unsized += size is None


@dataclass(slots=True)
class Deletions:
    """What a plan deletes, summed. Its size does not grow with the number of files."""

    total: Sum = field(default_factory=Sum)
    partitions: dict[str, dict[str, Sum]] = field(default_factory=dict)
    """By partition and kind."""
    kinds: dict[str, Sum] = field(default_factory=dict)
    reasons: dict[str, Sum] = field(default_factory=dict)
    writes: Counter[str] = field(default_factory=Counter)
    """Documents that are written, by kind."""

    def add(self, row: Document) -> None:
        """Count an action, as in `actions` of a report or `files` of a plan."""
        if row.get("action", "delete") != "delete":
            self.writes[row["kind"]] += 1
            return
        kind, size = row["kind"], row["size_bytes"]
        partition = self.partitions.setdefault(partition_of(row["path"], kind), {})
        for each in (
            self.total,
            partition.setdefault(kind, Sum()),
            self.kinds.setdefault(kind, Sum()),
            self.reasons.setdefault(_NUMBERS.sub("…", row["reason"]), Sum()),
        ):
            each.add(size)


def deletions_of(rows: Iterable[Document]) -> Deletions:
    """Return the sums of some actions."""
    found = Deletions()
    for row in rows:
        found.add(row)
    return found


def partition_of(path: str, kind: str) -> str:
    """Return the partition's folder of a file, such as `dt=2026-01-31`, or words for what has none."""
    match = _PARTITION.search(path)
    if match is not None:
        return match[1].rstrip("/")
    return _WHOLE if kind in _OF_DATA else _METADATA


def actions_of(report: Document) -> Iterator[Document]:
    """Yield the planned deletions of a report and its steps, each once."""
    steps = [action for step in report.get("steps") or () for action in actions_of(step)]
    yield from steps or report.get("actions") or ()


def run_page(document: Document, text: Sequence[str]) -> str:
    """Return the page of a run.

    Args:
        document: As `report --json` prints it.
        text: The report as it is printed.
    """
    report = document["report"]
    return _page(
        f"Run {report['run_id']}",
        report,
        deletions_of(actions_of(report)),
        {
            "run": report["run_id"],
            "plan": report["plan_id"],
            "from": document["started_ms"],
            "to": document["finished_ms"],
        },
        text,
    )


def plan_page(document: Document, rows: Iterable[Document], text: Sequence[str]) -> str:
    """Return the page of a stored plan.

    Args:
        document: As `plans TABLE PLAN_ID --json` prints it.
        rows: Every action of the plan. They are read once, and not kept.
        text: The plan as it is printed.
    """
    return _page(
        f"Plan {document['plan_id']}",
        document["report"],
        deletions_of(rows),
        {
            "plan": document["plan_id"],
            "made": document["created_ms"],
            "expires": document["expires_ms"],
            "state": document["status"],
            "holds": document["recheck"],
            "run": document["run_id"],
        },
        text,
    )


def _page(title: str, report: Document, found: Deletions, facts: Document, text: Sequence[str]) -> str:
    partitions = sorted(
        ((name, _total(kinds.values()), kinds) for name, kinds in found.partitions.items()),
        key=lambda each: (-each[1].bytes, -each[1].count, each[0]),
    )
    kinds = sorted(found.kinds, key=lambda kind: -found.kinds[kind].bytes)
    failed = list(_failed(report))
    by_kind = {kind: Sum(count, 0, count) for kind, count in report["delete"]["by_kind"].items()}
    is_whole = found.total.count == report["delete"]["count"]
    return make_page(
        "deletions.html.j2",
        {
            "title": title,
            "report": report,
            "facts": {**dict.fromkeys(("run", "plan", "from", "to", "made", "expires", "state", "holds")), **facts},
            "outcome": report["outcome"],
            "total": found.total if is_whole else Sum(report["delete"]["count"], report["delete"]["bytes"]),
            "is_whole": is_whole,
            "partitions": _first([(name, total) for name, total, _ in partitions], "partitions"),
            "kinds": [(kind, found.kinds[kind]) for kind in kinds] if is_whole else list(by_kind.items()),
            "reasons": _first(sorted(found.reasons.items(), key=lambda each: -each[1].count), "reasons"),
            "kept": sorted(report["kept"].items(), key=lambda each: -each[1]),
            "writes": found.writes or Counter(each["kind"] for each in report["created"]),
            "failed": failed[:_FAILED],
            "failed_count": len(failed),
            "text": "\n".join(map(visible, text)),
        },
        {"kinds": kinds, "bars": list(_bars(partitions))},
        ["charts.js", "deletions.js"],
    )


def _failed(report: Document) -> Iterator[Document]:
    """Yield what a run could not delete. The outcome of all branches contains those of its steps."""
    yield from (report["outcome"] or {}).get("failed", ())


def _bars(partitions: Sequence[tuple[str, Sum, Mapping[str, Sum]]]) -> Iterator[list[object]]:
    """Yield rows of the chart: a partition's name, and bytes and objects by kind."""
    for name, _, kinds in partitions[:_BARS]:
        yield [name, {kind: [each.bytes, each.count] for kind, each in kinds.items()}]
    if rest := partitions[_BARS:]:
        sums: dict[str, Sum] = {}
        for _, _, kinds in rest:
            for kind, each in kinds.items():
                sums[kind] = _total((sums.get(kind, Sum()), each))
        yield [f"{len(rest)} more", {kind: [each.bytes, each.count] for kind, each in sums.items()}]


def _first(rows: list[tuple[str, Sum]], what: str) -> list[tuple[str, Sum]]:
    """Return the first rows, and one for all others."""
    if len(rows) <= SHOWN:
        return rows
    return [*rows[:SHOWN], (f"{len(rows) - SHOWN} more {what}", _total(each for _, each in rows[SHOWN:]))]


def _total(sums: Iterable[Sum]) -> Sum:
    total = Sum()
    for each in sums:
        total.count += each.count
        total.bytes += each.bytes
        total.unsized += each.unsized
    return total
