"""Casts: which changes of a column's type are read.

Files keep the type with which they were written, and readers convert. Paimon allows nearly every change. Lakesweep
reads those for which a test has shown the same values as Paimon's, and refuses the others. Values that Paimon cuts are
cut here, too: numbers lose their upper bits, texts their end; a decimal that does not fit becomes NULL.

Not read are, for example: texts as numbers or times, and floating-point numbers as texts or decimals. Of time stamps
only more digits are read. To add or drop a zone depends on the zone of the reader. And versions of Paimon disagree on
time stamps before 1970 as dates, and on how digits are cut.

Source: Paimon `CastExecutors`, `SchemaEvolutionUtil`.
"""

from collections.abc import Iterator

from lakesweep.format.values.data_type import DataType
from lakesweep.model.reading.columns import by_id, is_same, shares

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FLOATS = ("FLOAT", "DOUBLE")
TEXTS = ("CHAR", "VARCHAR")
BYTES = ("BINARY", "VARBINARY")
_NUMBERS = (*INTEGERS, *FLOATS)

_ROOTS = frozenset(
    {(mine, theirs) for mine in (*_NUMBERS, "DECIMAL", "BOOLEAN") for theirs in _NUMBERS}
    | {(mine, "BOOLEAN") for mine in INTEGERS}
    | {(mine, "DECIMAL") for mine in (*INTEGERS, "DECIMAL")}
    | {(mine, theirs) for mine in (*INTEGERS, "BOOLEAN", "DECIMAL", "DATE", *TEXTS) for theirs in TEXTS}
    | {(mine, theirs) for mine in (*TEXTS, *BYTES) for theirs in BYTES}
    | {("DATE", "TIMESTAMP"), ("TIME", "TIMESTAMP")}
)


def unsupported(found: DataType, wanted: DataType) -> Iterator[tuple[DataType, DataType]]:
    """Yield the parts of two types between which Lakesweep does not convert.

    Args:
        found: The type in a data file.
        wanted: The type of the result.
    """
    if is_same(found, wanted) or not shares(found, wanted):
        return
    match found.root, wanted.root:
        case "ROW", "ROW":
            for field in wanted.fields:
                mine = by_id(found.fields, field.id)
                if mine is not None:
                    yield from unsupported(mine.type, field.type)
        case "ARRAY", "ARRAY":
            yield from unsupported(found.children[0], wanted.children[0])
        case "MAP", "MAP" if is_same(found.children[0], wanted.children[0]):
            yield from unsupported(found.children[1], wanted.children[1])
        case ("TIMESTAMP", "TIMESTAMP") | ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ"):
            if (found.precision or 0) > (wanted.precision or 0):
                yield found, wanted
        case "DATE", "TIMESTAMP" if (wanted.precision or 0) > 6:  # Arrow counts nanoseconds from 1677 to 2262 only.
            yield found, wanted
        case roots if roots not in _ROOTS:
            yield found, wanted
