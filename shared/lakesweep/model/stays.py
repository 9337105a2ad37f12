"""Files outside a table that stay, and why."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stay:
    """Why a file outside stays."""

    code: str
    root: str
    """Below which root it lies; empty where no schema declares any."""
    why: str
    """Without a full stop."""

    def __str__(self) -> str:
        return f"{self.code}: {self.why}"


@dataclass(frozen=True, slots=True)
class Stays:
    """How many files stay for one reason."""

    stay: Stay
    count: int

    def __str__(self) -> str:
        where = f"below {self.stay.root}" if self.stay.root else "outside the table"
        files = "1 file" if self.count == 1 else f"{self.count} files"
        return f"{files} {where} {'is' if self.count == 1 else 'are'} kept: {self.stay.why}"


def count_stays(stays: Iterable[Stay]) -> tuple[Stays, ...]:
    """Count files by the reason why they stay."""
    return add_stays(Stays(stay, 1) for stay in stays)


def add_stays(stays: Iterable[Stays]) -> tuple[Stays, ...]:
    """Add up what was counted apart. Of one root and one code the first reason speaks for all."""
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], Stay] = {}
    for each in stays:
        key = (each.stay.root, each.stay.code)
        first.setdefault(key, each.stay)
        counts[key] += each.count
    return tuple(Stays(first[key], counts[key]) for key in sorted(counts))
