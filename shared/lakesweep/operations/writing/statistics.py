"""Statistics of the rows of a new data file, for its manifest entry.

Every reader leaves out a file by them, so a wrong one hides rows. A column with a NaN has no bounds, since readers do
not agree how NaN compares. A bound that is zero is widened to -0.0 or 0.0. Texts are cut, and an upper bound that was
cut is made larger: at the last character for which there is a larger one.

Source: Paimon 1.4 `TruncateSimpleColStatsCollector`, `SimpleStatsConverter`.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from lakesweep.format.row_entries import ValueStats
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.binary_row_writer import encode_row
from lakesweep.format.values.data_type import DataField
from lakesweep.operations.reading.types import load_arrow
from lakesweep.operations.writing.options import StatsMode, Writing

_ORDERED = frozenset(
    ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME")
    + ("CHAR", "VARCHAR", "TIMESTAMP", "TIMESTAMP_LTZ")
)
_TEXTS = ("CHAR", "VARCHAR")
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_FLOATS = ("FLOAT", "DOUBLE")
_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_NANOS = {"ms": 0, "us": 1_000, "ns": 1}
_LARGEST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class Statistics:
    """Collects the statistics of a file part by part."""

    def __init__(self, fields: Sequence[DataField], writing: Writing) -> None:
        """Begin without rows."""
        self._columns = [_Column(field, writing.modes[field.name]) for field in fields]
        self._is_dense = writing.is_dense

    def add(self, rows: Any) -> None:
        """Add the rows of a record batch or a table; its columns have the order of the fields."""
        for column, array in zip(self._columns, rows.columns, strict=True):
            column.add(array)

    def result(self) -> ValueStats:
        """Return the statistics as an entry has them."""
        shown = [column for column in self._columns if not self._is_dense or column.mode.mode != "none"]
        bounds = [column.bounds() for column in shown]
        types = [column.field.type for column in shown]
        return ValueStats(
            encode_row([low for low, _ in bounds], types),
            encode_row([high for _, high in bounds], types),
            tuple(None if column.mode.mode == "none" else column.nulls for column in shown),
        )


class _Column:
    def __init__(self, field: DataField, mode: StatsMode) -> None:
        self.field, self.mode, self.nulls = field, mode, 0
        self._low: Any = None
        self._high: Any = None
        self._has_bounds = mode.mode in ("truncate", "full") and field.type.root in _ORDERED

    def add(self, array: Any) -> None:
        from pyarrow import compute

        self.nulls += array.null_count
        if not self._has_bounds or array.null_count == len(array):
            return
        if self.field.type.root in _FLOATS and compute.any(compute.is_nan(array)).as_py():
            self._has_bounds = False
            return
        found = compute.min_max(comparable(array))
        low, high = found["min"], found["max"]
        if self._low is None or compute.less(low, self._low).as_py():
            self._low = low
        if self._high is None or compute.greater(high, self._high).as_py():
            self._high = high

    def bounds(self) -> tuple[object, object]:
        """Return the bounds as values of binary rows; twice None: unknown, or all values are null."""
        if not self._has_bounds or self._low is None:
            return None, None
        try:
            low, high = (value_of(scalar, self.field) for scalar in (self._low, self._high))
        except UnicodeDecodeError:  # Java writes bytes as text without a look at them
            return None, None
        root = self.field.type.root
        if root in _FLOATS:
            low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
        if root in _TEXTS and self.mode.mode == "truncate":
            longest = self.mode.length
            above = upper(str(high), longest)
            return (None, None) if above is None else (str(low)[:longest], above)
        return low, high


def upper(text: str, length: int) -> str | None:
    """Return a text of at most so many characters that is not below another text; None if there is none."""
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        following = ord(text[end - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LARGEST:
            return text[: end - 1] + chr(following)
    return None


def comparable(array: Any) -> Any:
    """Return an array whose values Arrow orders as Java does: of texts, their bytes."""
    arrow = load_arrow()
    return array.cast(arrow.binary()) if arrow.types.is_string(array.type) else array


def value_of(scalar: Any, field: DataField) -> object:
    """Return a value of a `comparable` array as a value of binary rows.

    Raises:
        UnicodeDecodeError: It is no text.
    """
    root = field.type.root
    if root in _TEXTS:
        return scalar.as_py().decode()
    if root in _TIMES:
        unit = scalar.type.unit
        epoch_ms, rest = divmod(scalar.value, _PER_MS[unit])
        return Timestamp(epoch_ms, rest * _NANOS[unit])
    if root in ("TIME", "DATE"):
        return scalar.value
    found: bool | int | float | Decimal = scalar.as_py()
    return found
