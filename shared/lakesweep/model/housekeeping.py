"""What housekeeping finds in a control location, and what it decides about it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Place = Literal["tables", "scans", "names", "overviews"]
"""Folders of a control location."""
PLACES: tuple[Place, ...] = ("tables", "scans", "names")
"""Those that have a folder for each table."""
Kind = Literal[
    "plan",
    "report",
    "ledger",
    "erasure",
    "job",
    "scan",
    "segment",
    "cache",
    "quarantine",
    "overview",
    "state",
    "foreign",
]
"""`state`: lease, state and notes of scans, one of each for a table. `foreign`: Lakesweep writes no document so
called."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a table, from a listing."""

    place: Place
    name: str
    """Below the table's folder in the place."""
    size_bytes: int
    etag: str
    modified_ms: int
    kind: Kind
    group: str
    """Documents of one group stay or go together: the id of a plan or run, or of a scan; else the name."""


@dataclass(frozen=True, slots=True)
class Going:
    """A document that goes, and why."""

    document: Document
    reason: str
    """A sentence without a full stop."""
    rank: int
    """Documents of a lower rank go first: no death in between leaves anything half readable."""


@dataclass(frozen=True, slots=True)
class Staying:
    """A document that stays, and why."""

    document: Document
    reason: str
    """A stable word."""


@dataclass(frozen=True, slots=True)
class Count:
    """Some documents of one kind, for one reason."""

    kind: str
    reason: str
    count: int
    bytes: int


def counts_of(found: Iterable[tuple[Document, str]]) -> tuple[Count, ...]:
    """Return how many documents there are, and their bytes, by kind and reason."""
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for document, reason in found:
        count, size = totals.get((document.kind, reason), (0, 0))
        totals[document.kind, reason] = (count + 1, size + document.size_bytes)
    return tuple(Count(kind, reason, *total) for (kind, reason), total in sorted(totals.items()))


def by_kind(counts: Iterable[Count]) -> Mapping[str, int]:
    """Return kind -> number of documents."""
    return _sums((each.kind, each.count) for each in counts)


def by_reason(counts: Iterable[Count]) -> Mapping[str, int]:
    """Return reason -> number of documents."""
    return _sums((each.reason, each.count) for each in counts)


def _sums(pairs: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for name, count in pairs:
        found[name] = found.get(name, 0) + count
    return found
