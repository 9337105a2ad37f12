"""Which texts are conditions, and what is refused: one sentence that names the column and never a literal."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakesweep.errors import UsageError
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.model.where.arrow import filtered
from lakesweep.model.where.where import MAX_COMPARISONS, parse_where
from tests.support.conditions import FIELDS


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("i > 5", {"i"}),
        ("5 < i AND NOT (s = 'x' OR bo)", {"i", "s", "bo"}),
        ("`I` = -5", {"i"}),
        ("TRUE", set()),
        ("d BETWEEN 1 AND 2.5 AND f IS NOT NULL", {"d", "f"}),
        ("(i = 1) IS NULL", {"i"}),
        ("arr IS NULL", {"arr"}),
    ],
)
def test_columns(text: str, columns: set[str]) -> None:
    assert parse_where(text, FIELDS).columns == columns


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "expected a condition of 1 to"),
        ("i = 1 AND", "expected one condition of Spark's SQL, found something else in line 1, near character 9"),
        ("i = 1; DROP TABLE x", "found a semicolon"),
        ("secret = 1", "there is no column secret; expected one of ti, si, i, bi"),
        ("r.x = 1", "x stands behind a point; fields of nested columns cannot be compared"),
        ("r.x.y = 1", "nested columns cannot be compared"),
        ("arr[0] = 1", "elements of nested columns cannot be compared"),
        ("arr = 1", "column arr is ARRAY; only IS NULL and IS NOT NULL are possible"),
        ("i = secret", "column i stands beside a name; expected a literal"),
        ("i = bi", "column i stands beside a name"),
        ("1 = 1", "two literals are compared"),
        ("i", "column i is INT and stands alone"),
        ("i = 'secret'", "column i is INT and stands beside a text; write a number without quotes"),
        ("i = '05'", "column i is INT and stands beside a text"),
        ("ti = '300'", "column ti is TINYINT and stands beside a text"),
        ("i IN ('5')", "column i is INT and stands beside a text"),
        ("i = 1e0", "column i is INT and stands beside a DOUBLE"),
        ("dec = 1D", "column dec is DECIMAL(10, 2) and stands beside a DOUBLE"),
        ("bi < 9223372036854775808", "it is beyond every BIGINT, where Spark treats null as a value"),
        ("ti > 9223372036854775807.5", "it is beyond every BIGINT, where Spark treats null as a value"),
        ("wide = 0.5", "Spark has no type of 38 digits that holds both without rounding"),
        ("s = 5", "column s is VARCHAR and stands beside a whole number"),
        ("d = '5'", "column d is DOUBLE and stands beside a text"),
        ("d = 9007199254740993", "column d is DOUBLE and stands beside a whole number; it has more digits"),
        ("f = 1.0000000596046447753906251F", "a number whose FLOAT is not certain"),
        ("f = 1e-40F", "a number whose FLOAT is not certain"),
        ("f = 1e39F", "a number whose FLOAT is not certain"),
        ("c = 'ab'", "column c is CHAR(3) and stands beside a text; blanks may follow its values"),
        ("f = 16777217", "column f is FLOAT and stands beside a whole number; it has more digits"),
        ("d = 1e400", "too large for a DOUBLE"),
        ("bo = 1", "column bo is BOOLEAN and stands beside a whole number"),
        ("bo < true", "column bo is BOOLEAN and stands beside a truth value"),
        ("by = 'secret'", "column by is VARBINARY and stands beside a text"),
        ("c = 'secret'", "column c is CHAR(3) and stands beside a text; blanks may follow its values"),
        ("dt = '2024-1-1'", "write DATE '2024-01-31'"),
        ("dt = '2024-02-30'", "write DATE '2024-01-31'"),
        ("dt > TIMESTAMP '2024-01-01 00:00:00'", "column dt is DATE and stands beside a TIMESTAMP"),
        ("ts = '2024-01-01 00:00:00Z'", "column ts is TIMESTAMP and stands beside a text; write TIMESTAMP_NTZ"),
        ("ts IN ('2024-01-01 00:00:00')", "column ts is TIMESTAMP and stands beside a text"),
        ("ltz = TIMESTAMP '0001-01-01 00:00:00+02:00'", "outside of the years 1 to 9999"),
        ("ts = '2024-01-01 00:00:00.1234567'", "column ts is TIMESTAMP and stands beside a text"),
        ("i IN (SELECT 1)", "a query stands within the condition"),
        ("EXISTS (SELECT 1)", "a query stands within the condition"),
        ("SUM(i) > 1", "SUM looks at several rows"),
        ("dt < current_date()", "the function CURRENT_DATE is not supported"),
        ("rand() < 0.5", "the function RAND is not supported"),
        ("upper(s) = 'SECRET'", "the function UPPER is not supported"),
        ("mine(i) = 1", "the function mine is not supported"),
        ("i + 1 = 2", "ADD is not supported"),
        ("i IN ()", "column i stands beside an empty list"),
        ("i BETWEEN SYMMETRIC 2 AND 1", "BETWEEN has a part that is not supported: symmetric"),
        ("s RLIKE 'secret'", "the function REGEXP_LIKE is not supported"),
        ("s ILIKE 'secret'", "ILIKE is not supported"),
        ("s LIKE ANY ('secret')", "ANY is not supported"),
        ("s LIKE 'secret\\\\x'", "the pattern beside column s has an escape character"),
        ("s LIKE 'secret' ESCAPE 'ab'", "ESCAPE stands before something else than one character"),
        ("s = 'secret''secret'", "stands beside several texts"),
        ("s = 'secret' 'secret'", "stands beside several texts"),
        ("s = '\\x secret'", "a text has a backslash before another character"),
        ("s = '\\012'", "a text has a backslash before another character"),
        ("i = 0x1F", "Spark reads no number in base 16"),
        ("i ISNULL", "Spark does not read ISNULL as an operator"),
        ("i = '5'::int", "a cast with :: is not supported"),
        ("i = CAST('secret' AS INT)", "column i stands beside a cast"),
        ("ti = 128Y", "a number that is too large for a TINYINT"),
        ("isnan(i)", "isnan is for FLOAT and DOUBLE"),
        ("(i, bi) IN ((1, 2))", "TUPLE is not supported"),
        ("dup = 1", "dup may be dup, DUP; Spark cannot tell them apart"),
        ("NOT " * 300 + "bo", "expected conditions nested at most|expected one condition"),
        ("(" * 5000 + "bo" + ")" * 5000, "expected conditions nested at most|expected one condition|nests too deep"),
    ],
)
def test_refused(text: str, found: str) -> None:
    with pytest.raises(UsageError, match="|".join(map(re.escape, found.split("|")))) as caught:
        parse_where(text, FIELDS)
    assert caught.value.code == "bad_where"
    assert "\n" not in str(caught.value)
    if "secret" in text and "secret" not in found:
        assert "secret" not in str(caught.value).lower()
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("part", ["i = 1", "i = 1 OR i <> {}", "nano IN (TIMESTAMP_NTZ '2024-01-31')"])
def test_a_chain_is_long_only_as_far_as_arrow_carries_it(part: str) -> None:
    """Beyond, Arrow ended the process without a word. Threads have the smallest stack."""
    import pyarrow as pa

    fields = [DataField(0, "i", DataType("INT")), DataField(1, "nano", DataType("TIMESTAMP", precision=9))]
    count = MAX_COMPARISONS // (1 + part.count("OR"))
    text = " OR ".join(f"({part.format(number)})" for number in range(count))
    table = pa.table({"i": pa.array([2, None], pa.int32()), "nano": pa.array([0, None], pa.timestamp("ns"))})
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(filtered, parse_where(text, fields), table).result()
    assert found.num_rows == ("<>" in part)


def test_a_longer_chain_is_refused() -> None:
    text = " OR ".join(f"(i = 1 OR i <> {number})" for number in range(MAX_COMPARISONS // 2))
    with pytest.raises(UsageError, match=f"expected at most 5000 comparisons, found {MAX_COMPARISONS + 1}; write"):
        parse_where(f"{text} OR i = 1", FIELDS)


def test_a_list_is_one_comparison_unless_it_becomes_a_chain() -> None:
    numbers = ", ".join(map(str, range(20_000)))
    assert parse_where(f"i NOT IN ({numbers})", FIELDS).columns == {"i"}
    nano = DataField(1, "nano", DataType("TIMESTAMP", precision=9))
    times = ", ".join(
        f"TIMESTAMP_NTZ '{year:04}-01-31 08:30:{second:02}'" for year in range(1, 102) for second in range(60)
    )
    with pytest.raises(UsageError, match="expected at most 5000 comparisons, found 6060"):
        parse_where(f"nano IN ({times})", [nano])


def test_a_zone_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="expected a time zone such as Europe/Berlin, UTC or \\+08:00, found Mars"):
        parse_where("i = 1", FIELDS, zone="Mars")


@pytest.mark.parametrize("literal", ["2024-03-31 02:30:00", "2024-10-27 02:30:00"])
def test_a_time_that_clocks_skip_or_show_twice(literal: str) -> None:
    with pytest.raises(UsageError, match="clocks of the zone show this time twice, or never"):
        parse_where(f"ltz = TIMESTAMP '{literal}'", FIELDS, zone="Europe/Berlin")


def test_a_time_of_a_zone_beside_a_time_without_one() -> None:
    """Only where the zone has one offset for ever, the order of clocks is that of instants."""
    parse_where("ts > TIMESTAMP '2024-01-01 00:00:00'", FIELDS)
    with pytest.raises(UsageError, match="write TIMESTAMP_NTZ"):
        parse_where("ts > TIMESTAMP '2024-01-01 00:00:00'", FIELDS, zone="Europe/Berlin")


@pytest.mark.parametrize(
    "text",
    ["s = 'secret'", "s IN ('secret', 'b')", "s LIKE 'secret%'", "s LIKE 'secret' AND i = 1", "NOT s < 'secret'"],
)
def test_values_are_not_shown(text: str) -> None:
    where = parse_where(text, FIELDS)
    assert "secret" not in f"{where} {where!r} {where.condition!r}"
    assert where.text == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("ltz = TIMESTAMP '2024-01-01 00:00:00'", "ltz = TIMESTAMP '2024-01-01 00:00:00Z'"),
        ("ltz = TIMESTAMP '2024-01-01 00:00:00-02:00'", "ltz = TIMESTAMP '2024-01-01T02:00:00.000000Z'"),
        ("ltz = DATE '2024-01-01'", "ltz = '2023-12-31 23:00-01:00'"),
        ("5 < i", "i > 5"),
        ("i < 4.5", "i <= 4"),
        ("i > 4.5", "NOT i <= 4"),
        ("dec < 1.005", "dec <= 1.00"),
        ("dec = 1", "dec = 1.00"),
        ("f = 0.5F", "f = 0.5"),
        ("i IS DISTINCT FROM 1", "NOT (i <=> 1)"),
        ("s LIKE 'abc'", "s = 'abc'"),
        ("s LIKE 'a/%' ESCAPE '/'", "s = 'a%'"),
        ("s LIKE 'a\\%'", "s = 'a%'"),
        ("s LIKE 'ab%'", "startswith(s, 'ab')"),
        ('s = "it\'s"', "s = 'it\\'s'"),
    ],
)
def test_equal_conditions(text: str, same: str) -> None:
    assert parse_where(text, FIELDS).condition == parse_where(same, FIELDS).condition


def test_a_zone_is_said_where_it_matters() -> None:
    where = parse_where("ltz > '2024-01-01'", FIELDS, zone="Europe/Berlin")
    assert where.note == "times without a zone beside ltz are times of the zone Europe/Berlin"
    assert parse_where("ts > '2024-01-01'", FIELDS).note is None


@pytest.mark.parametrize(
    "text",
    [
        "ltz > '2024-01-01'",
        "ltz = DATE '2024-01-01'",
        "NOT ltz <= TIMESTAMP '2024-01-01 12:00:00'",
        "ltz IN (TIMESTAMP '2024-01-01 00:00:00Z', TIMESTAMP '2024-01-01 00:00:00')",
        "ltz BETWEEN '2024-01-01 00:00:00Z' AND '2024-01-02'",
        "i = 1 OR (ltz <=> '2024-01-01') IS NULL",
    ],
)
def test_a_condition_that_depends_on_the_zone(text: str) -> None:
    where, elsewhere = (parse_where(text, FIELDS, zone=zone) for zone in ("Europe/Berlin", "America/New_York"))
    assert where.depends_on_zone
    assert where.zoned == ("ltz",)
    assert where.condition != elsewhere.condition


@pytest.mark.parametrize(
    "text",
    [
        "ltz > '2024-01-01 00:00:00Z'",
        "ltz IN (TIMESTAMP '2024-01-01 00:00:00+02:00', NULL)",
        "ltz IS NULL OR ltz = NULL",
        "ts > '2024-01-01'",
        "ts > TIMESTAMP '2024-01-01 00:00:00'",
        "ts > TIMESTAMP_NTZ '2024-01-01 00:00:00' AND ltz IS NOT NULL",
        "dt = '2024-01-01' OR dt > DATE '2024-01-01'",
        "ti = 5 AND s = '2024-01-01'",
        "true",
    ],
)
def test_a_condition_that_does_not_depend_on_the_zone(text: str) -> None:
    """With every zone that is accepted, it means the same."""
    where, elsewhere = (parse_where(text, FIELDS, zone=zone) for zone in ("-11:00", "+12:30"))
    assert not where.depends_on_zone
    assert where.note is None
    assert where.condition == elsewhere.condition


def test_a_condition_can_be_pickled() -> None:
    where = parse_where("i IN (1, 2) AND s LIKE 'a%' AND ltz > '2024-01-01'", FIELDS, zone="Europe/Berlin")
    assert pickle.loads(pickle.dumps(where)) == where


def test_a_long_chain() -> None:
    where = parse_where(" OR ".join(f"i = {number}" for number in range(3000)), FIELDS)
    assert where.columns == {"i"}


@pytest.mark.parametrize(
    ("text", "always"),
    [
        ("TRUE", True),
        ("NULL", False),
        ("i = NULL", False),
        ("k IS NOT NULL", True),
        ("k IS NULL", False),
        ("i IS NULL", None),
        ("k = 1", None),
        ("k = 1 OR k <> 1", True),
        ("i = 1 OR i <> 1", None),
        ("i = 1 OR i <> 1 OR i IS NULL", True),
        ("k > 5 OR k <= 5", True),
        ("k > 5 AND k < 6", False),
        ("k > 5 OR k < 5", None),
        ("k < 3000000000", True),
        ("k = 1.5", False),
        ("k IN (1, 2) AND k NOT IN (2, 1, 3)", False),
        ("d > 5 OR d <= 5 OR d IS NULL", True),
        ("d < double('Infinity') OR d IS NULL", None),
        ("d >= double('-Infinity') OR d IS NULL", True),
        ("dec > 1.23 AND dec < 1.24", False),
        ("s >= '' OR s IS NULL", True),
        ("s > 'a' AND s < 'a\\0'", False),
        ("s LIKE '%' OR s IS NULL", True),
        ("s LIKE 'b%' AND s <> 'a'", None),
        ("s LIKE 'b%' AND s = 'a'", None),
        ("bo OR NOT bo OR bo IS NULL", True),
        ("bo = true AND bo = false", False),
        ("k > 1 OR i = 1", None),
        ("k > 1 OR i = 1 OR k <= 1", True),
        ("(i = 1) IS NULL OR i IS NOT NULL", True),
    ],
)
def test_constants(text: str, always: bool | None) -> None:
    assert parse_where(text, FIELDS).always is always
