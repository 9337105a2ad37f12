"""The receipt of a run or of a call: what it cost, and what it freed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakesweep.format.codec import is_count
from lakesweep.model.prices import USD, request_units, usd_of

USD_DIGITS = 9
"""Decimals of amounts: a GET costs 0.0000004 USD."""


@dataclass(frozen=True, slots=True)
class RunReceipt:
    """What a run or a call cost, at list prices in US dollars, and what it freed."""

    requests: Mapping[str, int] = field(default_factory=dict)
    """To S3, by kind; those of a scan in other processes, too."""
    seconds: float = 0.0
    compute_usd: float | None = 0.0
    """What the machines cost; `None`: unknown. A person's machine costs nothing."""
    freed_bytes: int = 0
    """Of deleted objects. A bucket that keeps versions stores them until they expire."""
    freed_usd_month: float = 0.0
    """What it costs to store these bytes for a month."""

    @property
    def requests_usd(self) -> float:
        """Return what the requests cost."""
        return usd_of(request_units(self.requests))

    @property
    def usd(self) -> float | None:
        """Return what all of it cost; `None`: unknown."""
        return None if self.compute_usd is None else self.requests_usd + self.compute_usd

    def with_scan(self, what: Mapping[str, object] | None) -> "RunReceipt":
        """Return the receipt with what a scan in other processes cost.

        Args:
            what: As `operations/orphans/costs.py` says it; `None`: unknown.
        """
        counted = None if what is None else what.get("requests")
        usd = None if what is None else what.get("usd")
        if not isinstance(counted, Mapping) or not isinstance(usd, int | float):
            return replace(self, compute_usd=None)
        scan = {kind: count for kind, count in counted.items() if is_count(count)}
        requests = {kind: self.requests.get(kind, 0) + scan.get(kind, 0) for kind in {**self.requests, **scan}}
        machines = max(0.0, usd - usd_of(request_units(scan)))
        compute_usd = None if self.compute_usd is None else self.compute_usd + machines
        took = what.get("seconds") if what is not None else None
        seconds = max(self.seconds, took if isinstance(took, int | float) else 0.0)
        return replace(self, requests=requests, seconds=seconds, compute_usd=compute_usd)

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        usd = self.usd
        return {
            "requests": dict(self.requests),
            "seconds": round(self.seconds, 1),
            "requests_usd": round(self.requests_usd, USD_DIGITS),
            "usd": None if usd is None else round(usd, USD_DIGITS),
            "freed_bytes": self.freed_bytes,
            "freed_usd_month": round(self.freed_usd_month, USD_DIGITS),
        }


def usd_in(receipt: object) -> float | None:
    """Return what a run cost by the receipt in its stored report; `None`: it has none, or does not say it."""
    usd = receipt.get("usd") if isinstance(receipt, Mapping) else None
    is_amount = isinstance(usd, int | float) and not isinstance(usd, bool) and 0 <= usd < math.inf
    return float(usd) if is_amount and usd is not None else None


def function_usd_per_second(memory_mb: int) -> float:
    """Return what a second of a function on Lambda costs."""
    return memory_mb / 1024 * USD["lambda_gb_second"]
