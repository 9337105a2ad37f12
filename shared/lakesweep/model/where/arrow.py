"""Conditions as expressions of Arrow, with the same outcome for every row: true, false or null.

Arrow's own comparisons differ from Spark's for NaN, and its `isin` for null. The columns have the types of Arrow that
stand for Paimon's: text is `string`, a TIME is `time32[ms]`, a timestamp with local time zone has a zone.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakesweep.format.values.data_type import DataType
from lakesweep.model.where.comparisons import BYTES, FLOATS, TEXTS, TIMES
from lakesweep.model.where.conditions import (
    And,
    Compare,
    Condition,
    Constant,
    IsNan,
    IsNull,
    IsUnknown,
    Known,
    Leaf,
    Matches,
    Not,
    OneOf,
)
from lakesweep.model.where.patterns import Pattern, Text
from lakesweep.model.where.where import Where

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_LONG = 1 << 63


def to_arrow(where: Where) -> "pc.Expression":
    """Return the expression of a condition over columns of these names. A filter takes the rows where it is true.

    It is for tables and batches in memory. A dataset of Parquet files would leave out row groups by bounds that do not
    count NaN, and lose rows.
    """
    return _expression(where.condition, where.types)


def filtered(where: Where, table: "pa.Table") -> "pa.Table":
    """Return the rows of a table for which a condition is true, in their order.

    In this thread alone. `Table.filter` hands the few rows of a batch to other threads, which takes several times the
    work, and tasks of Spark have one core.
    """
    from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

    source = Declaration("table_source", TableSourceNodeOptions(table))
    chosen = Declaration("filter", FilterNodeOptions(to_arrow(where)))
    return Declaration.from_sequence([source, chosen]).to_table(use_threads=False)


def _expression(condition: Condition, types: Mapping[str, DataType]) -> "pc.Expression":
    import pyarrow.compute as pc

    match condition:
        case Constant():
            return _constant(condition.value)
        case Not():
            return ~_expression(condition.part, types)
        case IsUnknown():
            return _expression(condition.part, types).is_null()
        case IsNull():
            return pc.field(condition.column).is_null()
        case Known() | Compare() | OneOf() | Matches() | IsNan():
            return _Column(condition, types[condition.column]).expression()
    # In halves, so that a long chain is no deep tree.
    parts = [_expression(part, types) for part in condition.parts]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        joined = [left & right if isinstance(condition, And) else left | right for left, right in pairs]
        parts = joined + parts[len(joined) * 2 :]
    return parts[0]


def _constant(value: bool | None) -> "pc.Expression":
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.scalar(pa.scalar(value, pa.bool_()))


class _Column:
    """A condition on one column whose outcome for null is null."""

    def __init__(self, leaf: Leaf, type_: DataType) -> None:
        import pyarrow.compute as pc

        self._leaf = leaf
        self._type = type_
        self._field = pc.field(leaf.column)

    def expression(self) -> "pc.Expression":
        """Return the expression."""
        match self._leaf:
            case Known():
                return self._unless_null(_constant(self._leaf.value))
            case IsNan():
                return self._unless_null(self._field.is_nan())
            case Matches():
                return self._matched(self._leaf.pattern)
            case OneOf():
                return self._one_of(self._leaf.values)
            case Compare():
                return self._compared(self._leaf)
        raise AssertionError

    def _unless_null(self, found: "pc.Expression") -> "pc.Expression":
        import pyarrow.compute as pc

        return pc.if_else(self._field.is_valid(), found, _constant(None))

    def _compared(self, leaf: Compare) -> "pc.Expression":
        if self._is_nano:
            return self._nano(leaf)
        column, value = self._comparable(), self._scalar(leaf.value)
        match leaf.order:
            case "=":
                return column == value
            case "<":
                return column < value
        return column <= value

    def _one_of(self, values: tuple[Any, ...]) -> "pc.Expression":
        import pyarrow as pa

        if self._is_nano:
            return self._any_nano(values)
        if self._type.root in FLOATS and 0.0 in values:
            values = (*values, 0.0, -0.0)  # Arrow looks values up by their bits.
        return self._unless_null(self._comparable().isin(pa.array(values, self._arrow_type())))

    def _matched(self, pattern: Pattern) -> "pc.Expression":
        import pyarrow.compute as pc

        match pattern.parts:
            case (Text(text), "%"):
                return pc.starts_with(self._field, text)
            case ("%", Text(text)):
                return pc.ends_with(self._field, text)
            case ("%", Text(text), "%"):
                return pc.match_substring(self._field, text)
        return pc.match_substring_regex(self._field, pattern.regex)

    @property
    def _is_nano(self) -> bool:
        """Whether the column has nanoseconds, which Spark cuts off before it compares."""
        return self._type.root in TIMES and (self._type.precision or 0) > 6

    def _nano(self, leaf: Compare) -> "pc.Expression":
        micros: Any = leaf.value
        match leaf.order:
            case "<":
                return self._below(micros * 1000)
            case "<=":
                return self._below((micros + 1) * 1000)
        return ~self._below(micros * 1000) & self._below((micros + 1) * 1000)

    def _any_nano(self, values: tuple[Any, ...]) -> "pc.Expression":
        parts = [self._nano(Compare(self._leaf.column, "=", value)) for value in values]
        found = parts[0]
        for part in parts[1:]:
            found = found | part
        return found

    def _below(self, nanos: int) -> "pc.Expression":
        import pyarrow as pa

        if not -_LONG <= nanos < _LONG:
            return self._unless_null(_constant(nanos > 0))
        zone = "UTC" if self._type.root == "TIMESTAMP_LTZ" else None
        return self._field.cast(pa.timestamp("ns", zone)) < self._scalar_of(nanos, pa.timestamp("ns", zone))

    def _comparable(self) -> "pc.Expression":
        """Return the column in the type that it is compared in."""
        if self._type.root in FLOATS or self._type.root == "TIME" or self._type.root in TIMES:
            return self._field.cast(self._arrow_type())
        return self._field

    def _scalar(self, value: object) -> "pc.Expression":
        return self._scalar_of(value, self._arrow_type())

    def _scalar_of(self, value: object, arrow_type: "pa.DataType") -> "pc.Expression":
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.scalar(pa.scalar(value, arrow_type))

    def _arrow_type(self) -> "pa.DataType":
        import pyarrow as pa

        root = self._type.root
        if root in TEXTS:
            return pa.string()
        if root in BYTES:
            return pa.binary()
        if root in FLOATS:
            return pa.float64()
        if root == "DECIMAL":
            return pa.decimal128(self._type.precision, self._type.scale)
        if root in TIMES:
            return pa.timestamp("us", "UTC" if root == "TIMESTAMP_LTZ" else None)
        return {
            "BOOLEAN": pa.bool_(),
            "TINYINT": pa.int8(),
            "SMALLINT": pa.int16(),
            "INT": pa.int32(),
            "TIME": pa.int32(),
            "BIGINT": pa.int64(),
            "DATE": pa.date32(),
        }[root]
