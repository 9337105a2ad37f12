"""What statistics decide, and what they must not: each trap by itself."""

from datetime import date
from decimal import Decimal

import pytest

from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.model.where.facts import UNKNOWN, ColumnFacts, ColumnRange, evolved_facts
from lakesweep.model.where.where import parse_where
from tests.support.conditions import FIELDS, NAN

DAY = (date(2024, 1, 31) - date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("text", "column", "may_match"),
    [
        # Bounds decide, to the last value.
        ("i > 5", ColumnRange(1, 5, 0), False),
        ("i >= 5", ColumnRange(1, 5, 0), True),
        ("i < 1", ColumnRange(1, 5, 0), False),
        ("i = 6", ColumnRange(1, 5, 0), False),
        ("i <> 5", ColumnRange(5, 5, 0), False),
        ("i <> 5", ColumnRange(1, 5, 0), True),
        ("i IN (0, 6)", ColumnRange(1, 5, 0), False),
        ("i IN (0, 3, 6)", ColumnRange(1, 5, 0), True),
        ("i NOT IN (5, 7)", ColumnRange(5, 5, 0), False),
        ("i BETWEEN 6 AND 9", ColumnRange(1, 5, 0), False),
        ("i > 2 AND i > 5", ColumnRange(1, 5, 0), False),
        ("i > 5 OR i < 1", ColumnRange(1, 5, 0), False),
        ("NOT (i < 9 OR i IS NULL)", ColumnRange(1, 5, 3), False),
        ("dec > 1.005", ColumnRange(Decimal("0.5"), Decimal("1.00"), 0), False),
        ("dec < 1.5", ColumnRange(Decimal("1.500"), Decimal("2"), 0), False),
        ("dt > '2024-01-31'", ColumnRange(DAY, DAY, 0), False),
        ("bo", ColumnRange(False, False, 0), False),
        ("NOT bo", ColumnRange(True, True, 0), False),
        # Null is neither true nor false.
        ("i IS NULL", ColumnRange(1, 5, 0), False),
        ("i IS NULL", ColumnRange(1, 5, 1), True),
        ("i IS NULL", ColumnRange(1, 5, None), True),
        ("i IS NULL", ColumnRange(1, 5, -1), True),
        ("i IS NULL", ColumnRange(1, 5, 11), True),
        ("i IS NOT NULL", ColumnRange(None, None, 10), False),
        ("i IS NOT NULL", ColumnRange(None, None, None), True),
        ("i = 1", ColumnRange(None, None, 10), False),
        ("i <> 1", ColumnRange(None, None, 10), False),
        ("NOT i = 1", ColumnRange(None, None, 10), False),
        ("i <=> NULL", ColumnRange(1, 5, 0), False),
        ("NOT i <=> 1", ColumnRange(1, 1, 1), True),
        ("(i = 1) IS NULL", ColumnRange(1, 5, 0), False),
        ("i NOT IN (7, NULL)", ColumnRange(1, 5, 0), False),
        ("i IN (7, NULL)", ColumnRange(1, 5, 0), False),
        ("i IN (3, NULL)", ColumnRange(1, 5, 0), True),
        # Bounds that are missing, damaged or of another type are no bounds.
        ("i > 5", ColumnRange(None, None, 0), True),
        ("i > 5", ColumnRange(1, None, 0), True),
        ("i < 1", ColumnRange(None, 5, 0), True),
        ("i > 5", ColumnRange(5, 1, 0), True),
        ("i > 5", ColumnRange("1", "5", 0), True),
        ("i > 5", ColumnRange(False, True, 0), True),
        ("s > 'z'", ColumnRange(1, 5, 0), True),
        ("by = X'00'", ColumnRange(b"\x01", b"\x02", 0), True),
        # NaN is larger than every bound, and equals itself.
        ("d > 5", ColumnRange(1.0, 5.0, 0), True),
        ("d >= 6", ColumnRange(1.0, 5.0, 0), True),
        ("d = 6", ColumnRange(1.0, 5.0, 0), False),
        ("d < 1", ColumnRange(1.0, 5.0, 0), False),
        ("d BETWEEN 6 AND 7", ColumnRange(1.0, 5.0, 0), False),
        ("d <> 5", ColumnRange(5.0, 5.0, 0), True),
        ("d = double('NaN')", ColumnRange(1.0, 5.0, 0), True),
        ("d < double('NaN')", ColumnRange(1.0, 5.0, 0), True),
        ("d > double('NaN')", ColumnRange(1.0, 5.0, 0), False),
        ("d < 1", ColumnRange(NAN, NAN, 0), True),
        ("d < 1", ColumnRange(1.0, NAN, 0), False),
        ("d = 7", ColumnRange(1.0, NAN, 0), True),
        ("d = 0", ColumnRange(-0.0, -0.0, 0), True),
        ("d < 0", ColumnRange(-0.0, 0.0, 0), False),
        # Texts are cut off: the upper bound is a prefix of what may be there, and the order is that of bytes.
        ("s > 'abc'", ColumnRange("a", "abc", 0), True),
        ("s = 'abcd'", ColumnRange("a", "abc", 0), True),
        ("s > 'abd'", ColumnRange("a", "abc", 0), False),
        ("s = 'abd'", ColumnRange("a", "abc", 0), False),
        ("s < 'a'", ColumnRange("a", "abc", 0), False),
        ("s <> 'abc'", ColumnRange("abc", "abc", 0), True),
        ("s LIKE 'abcd%'", ColumnRange("a", "abc", 0), True),
        ("s LIKE 'abd%'", ColumnRange("a", "abc", 0), False),
        ("s LIKE 'ab%'", ColumnRange("abc", "abd", 0), True),
        ("s LIKE 'ab%'", ColumnRange("ac", "ad", 0), False),
        ("s LIKE '%b'", ColumnRange("c", "d", 0), True),
        ("s LIKE '_b'", ColumnRange("c", "d", 0), True),
        ("startswith(s, 'x')", ColumnRange("a", "w", 0), False),
        ("s > '😀'", ColumnRange("a", "\uffff", 0), False),
        ("s < 'a'", ColumnRange("Z", "b", 0), True),
        # Times: some writers cut off what follows the millisecond.
        ("ts > '2024-01-31 00:00:00.000500'", ColumnRange(Timestamp(0, 0), Timestamp(DAY * 86_400_000, 0), 0), True),
        ("ts > '2024-01-31 00:00:00.000999'", ColumnRange(Timestamp(0, 0), Timestamp(DAY * 86_400_000, 0), 0), False),
        ("ts < '1970-01-01'", ColumnRange(Timestamp(0, 0), None, 0), False),
        ("nano < '1970-01-01 00:00:00.000001'", ColumnRange(Timestamp(0, 1999), None, 0), False),
        ("nano <= '1970-01-01 00:00:00.000001'", ColumnRange(Timestamp(0, 1999), None, 0), True),
        # Nested columns have no statistics that say how many are null.
        ("arr IS NULL", ColumnRange(None, None, 0), True),
        ("arr IS NOT NULL", ColumnRange(None, None, 10), True),
        # Values of partitions are exact.
        ("s <> 'abc'", ColumnRange.of_value("abc", 10), False),
        ("s = 'abcd'", ColumnRange.of_value("abc", 10), False),
        ("s IS NULL", ColumnRange.of_value("abc", 10), False),
        ("s IS NOT NULL", ColumnRange.of_value(None, 10), False),
        ("arr IS NOT NULL", ColumnRange.of_value(None, 10), False),
        ("ts > '1970-01-01'", ColumnRange.of_value(Timestamp(0, 0), 10), False),
    ],
)
def test_one_column(text: str, column: ColumnRange, may_match: bool) -> None:
    where = parse_where(text, FIELDS)
    (name,) = where.columns
    assert where.may_match(ColumnFacts(10, {name: column})) is may_match
    assert not where.may_match(ColumnFacts(0, {name: column}))


def test_several_columns() -> None:
    facts = ColumnFacts(10, {"i": ColumnRange(1, 5, 0), "s": ColumnRange("a", "b", 0)})
    for text, may_match in (
        ("i > 5 AND s = 'a'", False),
        ("i > 5 OR s = 'a'", True),
        ("i > 5 OR s > 'c'", False),
        ("NOT (i <= 5 OR s = 'a')", False),
        ("i = 1 AND bi = 1", True),
        ("TRUE", True),
        ("FALSE", False),
        ("NULL", False),
        ("i = 1 AND NULL", False),
    ):
        assert parse_where(text, FIELDS).may_match(facts) is may_match, text


@pytest.mark.parametrize(
    ("former", "later", "is_kept"),
    [
        ("INT", "INT", True),
        ("INT NOT NULL", "INT", True),
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "STRING", False),
        ("INT", "DOUBLE", False),
        ("INT", "DECIMAL(10, 0)", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)", True),
        ("DECIMAL(10, 2)", "DECIMAL(10, 4)", False),
        ("DECIMAL(10, 2)", "DECIMAL(12, 1)", False),
        ("VARCHAR(5)", "STRING", True),
        ("STRING", "VARCHAR(5)", False),
        ("CHAR(5)", "CHAR(5)", True),
        ("CHAR(5)", "CHAR(6)", False),
        ("VARCHAR(5)", "CHAR(5)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", False),
        ("TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", False),
        ("DATE", "TIMESTAMP(3)", False),
        ("BYTES", "BYTES", False),
    ],
)
def test_a_column_whose_type_changed(former: str, later: str, is_kept: bool) -> None:
    """Its bounds count only if the cast keeps every value. Null stays null in any case."""
    files, now = (DataField(4, name, parse_data_type(type_, "test")) for name, type_ in (("old", former), ("x", later)))
    found = ColumnRange(1, 2, 3)
    assert evolved_facts(10, [files], {"old": found}, [now]).columns["x"] == (found if is_kept else UNKNOWN)
    only_null = evolved_facts(3, [files], {"old": found}, [now]).columns["x"]
    assert only_null.null_count == 3


def test_columns_by_their_ids() -> None:
    """A column that was renamed keeps its statistics, one that was added is null, and one of an old name is another."""
    type_ = parse_data_type("INT", "test")
    file_fields = [DataField(0, "a", type_), DataField(1, "b", type_)]
    fields = [DataField(0, "b", type_), DataField(2, "a", type_), DataField(1, "c", type_)]
    facts = evolved_facts(10, file_fields, {"a": ColumnRange(1, 5, 0)}, fields)
    for text, may_match in (("b > 5", False), ("b = 1", True), ("a = 1", False), ("a IS NULL", True), ("c > 9", True)):
        assert parse_where(text, fields).may_match(facts) is may_match, text
