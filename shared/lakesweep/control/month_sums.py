"""What the runs over a table cost and freed by month, as the document of the table's lease has it.

Every run reads that document before it takes the lease, and writes it when it releases it. So the sums need no request
of their own, and since only conditional writes change the document, no two runs overwrite each other's sums.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakesweep.format.codec import is_count
from lakesweep.model.prices import request_units, usd_of
from lakesweep.storage.requests import KINDS, RequestCounter, Used

MONTHS = 12
"""The newest months that are kept."""
_TAKER = "lease"


@dataclass(frozen=True, slots=True)
class Meter:
    """What the calls of a process use, and what a second of it costs."""

    counter: RequestCounter
    usd_per_second: float | None = 0.0
    """`None`: unknown."""

    def take(self, puts: int) -> Used:
        """Return what was used since the lease was released last, and the puts that follow now."""
        return self.counter.take(_TAKER, puts)


@dataclass(frozen=True, slots=True)
class MonthSum:
    """What the runs of one month cost and freed."""

    since_ms: int | None = None
    """The first run that counts, if earlier runs of the month may not; `None`: the whole month counts."""
    runs: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    usd: float = 0.0
    """As far as it is known."""
    freed_bytes: int = 0
    """As far as they are known."""
    unknown: int = 0
    """Runs of which some of this is not known."""

    def to_json(self) -> dict[str, object]:
        """Return it as the lease document has it."""
        return {
            "since_ms": self.since_ms,
            "runs": self.runs,
            "requests": dict(self.requests),
            "usd": round(self.usd, 9),
            "freed_bytes": self.freed_bytes,
            "unknown": self.unknown,
        }


@dataclass(frozen=True, slots=True)
class Ended:
    """One release of the lease."""

    used: Used
    usd_per_second: float | None
    is_run: bool
    """The run ends, and no earlier release counted it."""
    freed_bytes: int | None
    """`None`: unknown."""


Sums = Mapping[str, MonthSum]
"""Month (UTC, such as `2026-11`) -> its sum."""


def added(sums: Sums | None, ended: Ended, now_ms: int) -> dict[str, MonthSum]:
    """Return the sums with one release of the lease.

    Args:
        sums: As they were; `None`: they were damaged, so they begin anew.
        ended: What was used.
        now_ms: When.
    """
    try:
        month = month_of(now_ms)
    except (ValueError, OverflowError, OSError):  # no date has this time; a clock is broken
        return dict(sums or {})
    before = (sums or {}).get(month) or MonthSum(since_ms=None if sums else now_ms)
    usd = usd_of(request_units(ended.used.requests)) + (ended.usd_per_second or 0.0) * ended.used.ms / 1000
    is_unknown = ended.usd_per_second is None or ended.freed_bytes is None
    after = MonthSum(
        before.since_ms,
        before.runs + ended.is_run,
        {kind: before.requests.get(kind, 0) + count for kind, count in ended.used.requests.items()},
        before.usd + usd,
        before.freed_bytes + (ended.freed_bytes or 0),
        before.unknown + (ended.is_run and is_unknown),
    )
    all_months = {**(sums or {}), month: after}
    return {each: all_months[each] for each in sorted(all_months)[-MONTHS:]}


def month_of(time_ms: int) -> str:
    """Return the month of a time in UTC, such as `2026-11`."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m}"


def sums_of(document: object) -> dict[str, MonthSum] | None:
    """Return the sums in a lease document, empty if it has none; `None`: they are damaged. They never stop a run."""
    if document is None:
        return {}
    if not isinstance(document, dict) or len(document) > MONTHS:
        return None
    found = {str(month): _sum_of(each) for month, each in document.items()}
    return None if None in found.values() else {month: each for month, each in found.items() if each is not None}


def _sum_of(value: object) -> MonthSum | None:
    if not isinstance(value, dict):
        return None
    since_ms, requests, usd = (value.get(name) for name in ("since_ms", "requests", "usd"))
    runs, freed_bytes, unknown = (value.get(name) for name in ("runs", "freed_bytes", "unknown"))
    if not isinstance(requests, dict) or not requests.keys() <= set(KINDS) or not all(map(is_count, requests.values())):
        return None
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not math.isfinite(usd) or usd < 0:
        return None
    if not (is_count(runs) and is_count(freed_bytes) and is_count(unknown)):
        return None
    if since_ms is not None and not is_count(since_ms):
        return None
    return MonthSum(since_ms, runs, requests, float(usd), freed_bytes, unknown)
