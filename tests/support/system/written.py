"""What a writer is told to write, and what it says that it wrote.

The two sides are processes; all of this goes between them as JSON.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Table:
    """A table that one writer has to itself."""

    name: str
    """With its database: `shop.orders`."""
    shape: str
    """What it is like and what happens to it; each kind of writer knows its own."""
    retain_min: int = 2
    retain_max: int = 4
    time_retained: str = "1 ms"
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of its schema."""

    @property
    def folder(self) -> str:
        """Return where it lies in its warehouse."""
        database, name = self.name.split(".")
        return f"{database}.db/{name}"

    @property
    def schema_options(self) -> dict[str, str]:
        """Return the options by which whoever maintains the table knows its retention."""
        return {
            "snapshot.num-retained.min": str(self.retain_min),
            "snapshot.num-retained.max": str(self.retain_max),
            "snapshot.time-retained": self.time_retained,
            **self.options,
        }


@dataclass(frozen=True, slots=True)
class Assignment:
    """One writer's work: a commit to each table in turn, until told to stop or one of the limits is reached."""

    writer: str
    endpoint: str
    warehouse: str
    """An S3 URI; its bucket exists."""
    tables: tuple[Table, ...]
    seconds: float | None = None
    """How long, from the first commit."""
    commits: int | None = None
    """How many, of all tables together."""
    pace_s: float = 0.0
    """From the beginning of one commit to that of the next, a slow commit is not made up for."""
    tag_every: int = 0
    """So many commits of a table, and one of them gets a tag; 0 is never."""
    clock: str | None = None
    """The file of a `ToldClock` that seconds are counted by; else they are those of the machine."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` made."""
        return cls(**{**document, "tables": tuple(Table(**table) for table in document["tables"])})


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot, and what a reader of it must find."""

    writer: str
    table: str
    snapshot_id: int
    at: float
    """Real seconds since the epoch, when the commit returned."""
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Tag:
    """A name that keeps a snapshot readable."""

    writer: str
    table: str
    name: str
    snapshot_id: int
    at: float
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A commit that the engine gave up, or a table that the writer gave up."""

    writer: str
    table: str
    error: str
    abandoned: bool = False
    """The table holds what nobody wrote, and gets no more commits."""


class RowSum(NamedTuple):
    """What rows amount to, in any order. Sums add up, and a row that comes twice counts twice."""

    rows: int = 0
    total: int = 0

    @property
    def digest(self) -> str:
        """Return it for comparison."""
        return f"{self.total % 2**128:032x}"


def sum_of(rows: Iterable[tuple[object, ...]]) -> RowSum:
    """Sum up rows of plain Python values."""
    totals = [int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=16).digest(), "big") for row in rows]
    return RowSum(len(totals), sum(totals))


def together(sums: Iterable[RowSum]) -> RowSum:
    """Sum up sums."""
    found = tuple(sums)
    return RowSum(sum(each.rows for each in found), sum(each.total for each in found))
