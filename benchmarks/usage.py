"""What is paid for: units by the names of their prices in docs/prices.json, and what they cost."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PRICES = Path(__file__).resolve().parent.parent / "docs" / "prices.json"


@dataclass(frozen=True, slots=True)
class Usage:
    """Units of what is paid for, by the name of its price. Adds up."""

    units: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: "Usage") -> "Usage":
        names = [*self.units, *(name for name in other.units if name not in self.units)]
        return Usage({name: self.units.get(name, 0) + other.units.get(name, 0) for name in names})

    def __mul__(self, times: float) -> "Usage":
        return Usage({name: count * times for name, count in self.units.items()})


def price_of(name: str) -> float:
    """Return the dollars for one unit."""
    entry = json.loads(PRICES.read_text(encoding="utf-8"))["prices"][name]
    return float(entry["usd"]) / float(entry["per"])


def dollars(usage: Usage) -> float:
    """Return what a usage costs."""
    return sum(count * price_of(name) for name, count in usage.units.items())


def requests(counts: Mapping[str, int]) -> Usage:
    """Requests to S3 by kind."""
    return Usage(
        {
            "s3_get": counts.get("get", 0),
            "s3_put_list": counts.get("put", 0) + counts.get("list", 0),
            "s3_delete": counts.get("delete", 0),
        }
    )
