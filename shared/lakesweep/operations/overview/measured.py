"""The result of measuring one table, and how long it can be remembered."""

from dataclasses import dataclass
from typing import ClassVar

from lakesweep.model.overview import TableOverview


@dataclass(frozen=True, slots=True)
class Measured:
    """What an overview says of one table, and when it has to be measured again."""

    overview: TableOverview
    fingerprint: str
    """Of everything that decides the figures, and that few requests show: roots, consumers, schemas, hints, the fleet
    policy, the lease, the last scan."""
    holds_until_ms: int
    """From this time on, time alone may have changed the figures, even with the same fingerprint."""

    may_lack_members: ClassVar[bool] = False
