"""Facts about the rows of a file or a partition, from statistics: what is known without reading rows.

Values are as `binary_row` decodes them. Whatever is not certain is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from lakesweep.format.values.data_type import DataField, DataType

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TEXTS = ("CHAR", "VARCHAR")


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What statistics say about one column. None is unknown. `repr` does not show values."""

    low: object = field(default=None, repr=False)
    """No value is smaller. NaN does not count."""
    high: object = field(default=None, repr=False)
    """No value is larger, but texts may go on: statistics keep the first characters. NaN does not count."""
    null_count: int | None = None
    """How many rows are null. Negative is unknown."""
    is_exact: bool = False
    """The bounds are values of rows, as those of partition keys are, and nothing was cut off."""

    @classmethod
    def of_value(cls, value: object, row_count: int) -> "ColumnRange":
        """Return the range of a column with one value in all rows, such as a partition key; None is null."""
        return cls(value, value, row_count if value is None else 0, is_exact=True)


UNKNOWN = ColumnRange()


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Facts about rows that lie together."""

    row_count: int
    """How many rows there are. Deletion vectors do not matter: statistics count deleted rows."""
    columns: Mapping[str, ColumnRange] = field(default_factory=lambda: MappingProxyType({}))
    """By the name of the column. A column that is missing here is unknown."""


def evolved_facts(
    row_count: int,
    file_fields: Sequence[DataField],
    ranges: Mapping[str, ColumnRange],
    fields: Sequence[DataField],
) -> ColumnFacts:
    """Return the facts about a file in the columns of a later schema.

    Args:
        row_count: The rows of the file.
        file_fields: All columns of the file's schema, also those without statistics.
        ranges: By the name of the column in the file's schema.
        fields: The columns of the schema that the file is read with. A column that was added later is null.
    """
    by_id = {each.id: each for each in file_fields}
    columns: dict[str, ColumnRange] = {}
    for each in fields:
        former = by_id.get(each.id)
        if former is None:
            columns[each.name] = ColumnRange.of_value(None, row_count)
        elif former.name in ranges:
            columns[each.name] = _cast(ranges[former.name], former.type, each.type, row_count)
    return ColumnFacts(row_count, columns)


def _cast(found: ColumnRange, former: DataType, type_: DataType, row_count: int) -> ColumnRange:
    """Return a range after a change of the column's type. Null remains null under every cast."""
    if keeps_values(former, type_):
        return found
    return ColumnRange(null_count=row_count) if found.null_count == row_count else UNKNOWN


def keeps_values(former: DataType, type_: DataType) -> bool:
    """Tell whether a cast keeps every value as it is."""
    old, new = former.root, type_.root
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) <= _INTEGERS.index(new)
    if old in _TEXTS and new in _TEXTS:
        return (old == new == "CHAR" and former.length == type_.length) or (
            new == "VARCHAR" and (former.length or 0) <= (type_.length or 0)
        )
    if old == new == "DECIMAL":
        scales = former.scale or 0, type_.scale or 0
        return scales[0] <= scales[1] and (former.precision or 0) - scales[0] <= (type_.precision or 0) - scales[1]
    if old == new and old in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return (former.precision or 0) <= (type_.precision or 0)
    if old == new:
        return old in ("BOOLEAN", "DATE", "TIME", "FLOAT", "DOUBLE")
    return (old, new) == ("FLOAT", "DOUBLE")
