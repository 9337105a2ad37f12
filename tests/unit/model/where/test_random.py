"""Random conditions on random rows: what Arrow answers, and what statistics promise, beside a plain evaluator.

`tests/spark/test_where.py` holds the plain evaluator itself, and so all of this, to Spark.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.dataset as ds
import pytest

from lakesweep.format.values.binary_row import Timestamp
from lakesweep.model.where.arrow import to_arrow
from lakesweep.model.where.facts import ColumnFacts, ColumnRange
from lakesweep.model.where.where import Where, parse_where
from tests.support.conditions import NANOS, PLAIN_FIELDS, TYPES, Tried, arrow_table, order_key, some_condition, some_row

SEEDS = range(12)


def _conditions(rng: random.Random, count: int) -> list[tuple[Tried, Where]]:
    found = [some_condition(rng, rng.choice([0, 0, 1, 2, 3])) for _ in range(count)]
    return [(tried, parse_where(tried.text, PLAIN_FIELDS)) for tried in found]


@pytest.mark.parametrize("seed", SEEDS)
def test_arrow_answers_like_the_plain_evaluator(seed: int) -> None:
    """Also where the answer is null, which matters below a NOT."""
    rng = random.Random(seed)
    rows = [some_row(rng) for _ in range(200)]
    tried = _conditions(rng, 100)
    answers = ds.dataset(arrow_table(rows)).to_table(
        columns={str(number): to_arrow(where) for number, (_, where) in enumerate(tried)}
    )
    for number, (each, _) in enumerate(tried):
        assert answers[str(number)].to_pylist() == [each.means(row) for row in rows], each.text


def test_a_filter_takes_the_rows_where_it_is_true() -> None:
    rng = random.Random(1)
    rows = [some_row(rng) for _ in range(200)]
    table = arrow_table(rows)
    for each, where in _conditions(rng, 50):
        expected = [row["k"] for row in rows if each.means(row) is True]
        assert table.filter(to_arrow(where))["k"].to_pylist() == expected, each.text
        assert ds.dataset(table).to_table(filter=to_arrow(where))["k"].to_pylist() == expected, each.text


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("a\nb", "a_b", True),
        ("a\nb\nc", "a%_%c", True),
        ("a😀b", "a_b", True),
        ("axb", "a.b", False),
        ("a", "_", True),
        ("", "_", False),
        ("", "%%", True),
        ("ab\n", "ab", False),
        ("ab\n", "_b", False),
        ("[x]*", "[_]*", True),
        ("\\E", "_E", True),
    ],
)
def test_patterns(text: str, pattern: str, matches: bool) -> None:
    table = arrow_table([{**dict.fromkeys(TYPES), "k": 1, "s": text}])
    assert table.filter(to_arrow(parse_where(f"s LIKE '{pattern}'", PLAIN_FIELDS))).num_rows == matches


# --- statistics ------------------------------------------------------------------------------------------------------


def _stored(column: str, value: Any, *, in_milliseconds: bool = False) -> Any:
    """Return a value as `binary_row` decodes it."""
    if column in ("ts", "ltz", *NANOS):
        nanos = value if column in NANOS else value * 1000
        milliseconds, rest = divmod(nanos, 1_000_000)
        return Timestamp(milliseconds, 0 if in_milliseconds else rest)
    return value


def _true_range(column: str, values: Sequence[Any], rng: random.Random) -> ColumnRange:
    """Return exact bounds and the count of nulls. NaN is the largest, as Java's `compareTo` has it."""
    present = sorted((value for value in values if value is not None), key=order_key)
    low, high = (_stored(column, present[0]), _stored(column, present[-1])) if present else (None, None)
    return ColumnRange(low, high, values.count(None))


def _poor_range(column: str, values: Sequence[Any], rng: random.Random) -> ColumnRange:
    """Return bounds as some writers leave them: cut off, without NaN, without a count, or not at all."""
    present: list[Any] = sorted(
        (value for value in values if value is not None and not (isinstance(value, float) and value != value)),
        key=order_key,
    )
    null_count = rng.choice([values.count(None), None, -1])
    if not present or rng.random() < 0.2:
        return ColumnRange(rng.choice([None, float("nan")]), None, null_count)
    low, high = present[0], present[-1]
    if column in ("s", "c"):
        # `truncate(1)`: the lower bound is a prefix. The upper one is too, or has a larger last character.
        low, high = low[:1], rng.choice([high, high[:1], _larger(high[:1])])
    low = _stored(column, low, in_milliseconds=rng.random() < 0.5)
    high = _stored(column, high, in_milliseconds=rng.random() < 0.5)
    return ColumnRange(rng.choice([low, low, low, None]), rng.choice([high, high, high, None]), null_count)


def _larger(text: str) -> str:
    return text if not text or ord(text) >= 0xD7FF else chr(ord(text) + 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("range_of", [_true_range, _poor_range])
def test_statistics_never_hide_a_row(
    seed: int, range_of: Callable[[str, Sequence[Any], random.Random], ColumnRange]
) -> None:
    rng = random.Random(seed)
    tried = _conditions(rng, 150)
    hidden = 0
    for _ in range(25):
        rows = [some_row(rng, rng.choice([0.0, 0.3, 1.0])) for _ in range(rng.choice([1, 1, 2, 3]))]
        ranges = {name: range_of(name, [row[name] for row in rows], rng) for name in TYPES}
        for name in rng.sample(list(ranges), 2):
            del ranges[name]
        facts = ColumnFacts(len(rows), ranges)
        for each, where in tried:
            matches = any(each.means(row) is True for row in rows)
            may_match = where.may_match(facts)
            assert may_match or not matches, (each.text, rows)
            hidden += not may_match
    assert hidden > 200  # They are of use, too.


@pytest.mark.parametrize("seed", SEEDS)
def test_partition_values_decide(seed: int) -> None:
    """For a row of which every value is known, as of partition keys, a comparison is decided exactly."""
    rng = random.Random(seed)
    for _ in range(10):
        row = some_row(rng)
        facts = ColumnFacts(
            5,
            {name: ColumnRange.of_value(None if row[name] is None else _stored(name, row[name]), 5) for name in TYPES},
        )
        for each, where in _conditions(rng, 30):
            if each.means(row) is True:
                assert where.may_match(facts), each.text
            elif not (where.columns & {"f", "d", "by"}) and not any(
                word in each.text for word in ("LIKE", "startswith", "endswith", "contains")
            ):
                assert not where.may_match(facts), (each.text, row)


@pytest.mark.parametrize("seed", SEEDS)
def test_constants(seed: int) -> None:
    rng = random.Random(seed)
    rows = [some_row(rng) for _ in range(200)]
    found = []
    for each, where in _conditions(rng, 100):
        always = where.always
        found.append(always)
        if always is not None:
            assert {each.means(row) is True for row in rows} == {always}, each.text
    assert {False, None} <= set(found)
