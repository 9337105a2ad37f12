"""Totals as rows of a result: the totals of many processes are added up."""

from collections import Counter
from typing import Any

from lakesweep.operations.orphans.rules.orphans import Totals

_NUMBERS = ("objects", "bytes", "data_files", "data_bytes")


def to_row(totals: Totals) -> dict[str, Any]:
    """Return totals as JSON."""
    return {
        "kept": dict(totals.kept),
        "kept_bytes": dict(totals.kept_bytes),
        "shown": totals.shown,
        **{name: getattr(totals, name) for name in _NUMBERS},
    }


def totals_of(row: dict[str, Any]) -> Totals:
    """Return the totals that `to_row` wrote."""
    return Totals(
        Counter(row["kept"]), Counter(row["kept_bytes"]), row["shown"], *(int(row[name]) for name in _NUMBERS)
    )
