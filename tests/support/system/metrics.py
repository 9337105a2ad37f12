"""CloudWatch's metrics: data points by name and dimensions."""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

_Key = tuple[str, str, frozenset[tuple[str, str]]]
_MAX_VALUES = 100
"""Of one metric in one embedded document."""


class Metrics:
    """All data points that were put."""

    def __init__(self) -> None:
        self._points: defaultdict[_Key, list[tuple[float, float]]] = defaultdict(list)
        self._lock = threading.Lock()

    def put(
        self, namespace: str, name: str, dimensions: Mapping[str, str], values: Sequence[float], at_s: float
    ) -> None:
        """Add data points of one moment."""
        with self._lock:
            self._points[namespace, name, frozenset(dimensions.items())] += [(at_s, float(value)) for value in values]

    def put_emf(self, document: dict[str, Any], default_at_s: float) -> bool:
        """Add what a line of log says in the embedded metric format, and tell whether it says anything.

        Args:
            document: The line's JSON.
            default_at_s: The time of its data points. The line's own is the machine's, not the simulated one.

        Raises:
            ValueError: It is not as the format asks. CloudWatch would drop it and tell nobody.
        """
        if "_aws" not in document:
            return False
        for directive in document["_aws"]["CloudWatchMetrics"]:
            for metric in directive["Metrics"]:
                stated = document.get(metric["Name"])
                values: list[Any] = stated if isinstance(stated, list) else [stated]
                if not 0 < len(values) <= _MAX_VALUES or not all(type(value) in (int, float) for value in values):
                    raise ValueError(f"metric {metric['Name']}: expected up to {_MAX_VALUES} numbers, found {stated!r}")
                for names in directive["Dimensions"]:
                    dimensions: dict[str, Any] = {name: document.get(name) for name in names}
                    if not all(isinstance(value, str) for value in dimensions.values()):
                        raise ValueError(f"metric {metric['Name']}: expected text as dimensions, found {dimensions}")
                    self.put(directive["Namespace"], metric["Name"], dimensions, values, default_at_s)
        return True

    def points(
        self, namespace: str, name: str, dimensions: Mapping[str, str] | None = None
    ) -> list[tuple[float, float]]:
        """Return data points as (time, value).

        Args:
            namespace: As put.
            name: As put.
            dimensions: Exactly these; `None` for whatever they are.
        """
        exactly = None if dimensions is None else frozenset(dimensions.items())
        with self._lock:
            return [
                point
                for key, points in self._points.items()
                if key[:2] == (namespace, name) and exactly in (None, key[2])
                for point in points
            ]

    def values(
        self, namespace: str, name: str, dimensions: Mapping[str, str] | None = None, since_s: float | None = None
    ) -> list[float]:
        """Return values, those of a time and after if one is given; `dimensions` as for `points`."""
        return [value for at_s, value in self.points(namespace, name, dimensions) if since_s is None or at_s >= since_s]

    def total(
        self, namespace: str, name: str, dimensions: Mapping[str, str] | None = None, since_s: float | None = None
    ) -> float:
        """Return the sum of `values`."""
        return sum(self.values(namespace, name, dimensions, since_s))
