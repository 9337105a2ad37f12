"""Files outside a table: where an operator allows Lakesweep to delete them, and why one must be kept."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowance:
    """Where files outside of tables may be deleted: the operator's settings apart from the fleet policy."""

    roots: tuple[str, ...] = ()
    """Locations that this call allows."""
    bound: tuple[str, ...] | None = None
    """Locations that the deployment allows. Neither a call nor a policy can allow more; `None`: there is no
    deployment."""


@dataclass(frozen=True, slots=True)
class Stay:
    """The reason to keep a file outside."""

    code: str
    root: str
    """The declared root above the file; empty if no schema declares one."""
    why: str
    """One sentence without a full stop."""

    def __str__(self) -> str:
        return f"{self.code}: {self.why}"


@dataclass(frozen=True, slots=True)
class Stays:
    """The number of files that are kept for one reason."""

    stay: Stay
    count: int

    def __str__(self) -> str:
        where = f"below {self.stay.root}" if self.stay.root else "outside the table"
        files = "1 file" if self.count == 1 else f"{self.count} files"
        return f"{files} {where} {'is' if self.count == 1 else 'are'} kept: {self.stay.why}"


def count_stays(stays: Iterable[Stay]) -> tuple[Stays, ...]:
    """Count files by the reason to keep them."""
    return add_stays(Stays(stay, 1) for stay in stays)


def add_stays(stays: Iterable[Stays]) -> tuple[Stays, ...]:
    """Add up separate counts. For each root and code, the first reason is used."""
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], Stay] = {}
    for each in stays:
        key = (each.stay.root, each.stay.code)
        first.setdefault(key, each.stay)
        counts[key] += each.count
    return tuple(Stays(first[key], counts[key]) for key in sorted(counts))
