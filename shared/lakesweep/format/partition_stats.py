"""Statistics of partitions: what a manifest list says about the partitions of a manifest.

Every reader skips a manifest by these values before it reads the manifest. A wrong one hides rows.

Each minimum and maximum is found as Java compares: texts by their bytes in UTF-8, false before true, timestamps by
milliseconds and then by nanoseconds, FLOAT and DOUBLE with -0.0 before 0.0 and NaN last. Of equal values the first
counts. BINARY keys have neither, since Java cannot compare them. Nothing is shortened.

Source: Paimon `SimpleStatsCollector`, `FullSimpleColStatsCollector`, `SimpleStatsConverter#toBinaryAllMode`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lakesweep.format.values.binary_row import BYTES, TEXT, decode_row
from lakesweep.format.values.binary_row_writer import encode_row
from lakesweep.format.values.data_type import DataType


class PartitionRange(NamedTuple):
    """The partitions of a manifest. For a table without partition keys the rows have no fields."""

    smallest: bytes
    """The smallest value of each key that is not null, as one row; null if there is none."""
    largest: bytes
    null_counts: tuple[int, ...]
    """For each key, the entries whose value is null."""


class PartitionStats:
    """Collects the partitions of entries."""

    def __init__(self, types: Sequence[DataType], path: str) -> None:
        """Begin without entries.

        Args:
            types: The types of the partition keys.
            path: The path for messages.
        """
        # Texts are compared as bytes, so they are never decoded.
        self._types = [replace(type_, root="VARBINARY") if type_.root in TEXT else type_ for type_ in types]
        self._orders = [_order(type_) for type_ in types]
        self._path = path
        self._counts: Counter[bytes] = Counter()

    def add(self, partition: bytes) -> None:
        """Count one entry of this partition."""
        self._counts[partition] += 1

    def add_all(self, partitions: Iterable[bytes]) -> None:
        """Count one entry of each of these partitions."""
        self._counts.update(partitions)

    def result(self) -> PartitionRange:
        """Return the range of what was added.

        Raises:
            FormatError: A partition is not a row of these types.
            UnsupportedFormatError: A type is not possible for a partition key.
        """
        rows = [(decode_row(partition, self._types, self._path), count) for partition, count in self._counts.items()]
        lows: list[object] = []
        highs: list[object] = []
        null_counts = []
        for index, order in enumerate(self._orders):
            values: list[Any] = [row[index] for row, _ in rows if row[index] is not None]
            comparable = values if order is not None else []
            lows.append(min(comparable, key=order, default=None))
            highs.append(max(comparable, key=order, default=None))
            null_counts.append(sum(count for row, count in rows if row[index] is None))
        return PartitionRange(
            encode_row(lows, self._types),
            encode_row(highs, self._types),
            tuple(null_counts),
        )


def _order(type_: DataType) -> Callable[[Any], Any] | None:
    """Return the order of a type's values, or None if Java has none."""
    if type_.root in BYTES:
        return None
    return _float_order if type_.root in ("FLOAT", "DOUBLE") else _own_order


def _own_order(value: Any) -> Any:
    return value


def _float_order(value: float) -> tuple[bool, float, float]:
    # Java's `compareTo`, not its `<`: all NaN are equal, and greater than infinity.
    return (True, 0.0, 0.0) if math.isnan(value) else (False, value, math.copysign(1.0, value))
