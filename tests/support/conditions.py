"""Random conditions and rows for them, and a plain evaluator of SQL's three-valued logic that judges both.

A `Tried` has the text of a condition in Spark's SQL and what it means: a function of a row. The meaning uses nothing of
`lakesweep`. Values of rows: int for whole numbers, days of DATE, milliseconds of TIME, microseconds of timestamps
(nanoseconds of `nano` and `nltz`); `Decimal`, float, bool, str, bytes, and None.
"""

import math
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from lakesweep.format.values.data_type import DataField, parse_data_type

TYPES = {
    "ti": "TINYINT",
    "si": "SMALLINT",
    "i": "INT",
    "bi": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "dec": "DECIMAL(10, 2)",
    "wide": "DECIMAL(38, 0)",
    "fine": "DECIMAL(38, 20)",
    "s": "STRING",
    "c": "CHAR(3)",
    "by": "BYTES",
    "bo": "BOOLEAN",
    "dt": "DATE",
    "tm": "TIME(3)",
    "ts": "TIMESTAMP(6)",
    "nano": "TIMESTAMP(9)",
    "ltz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "nltz": "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    "k": "INT NOT NULL",
}
"""Name -> type, as schema documents write it."""
_NESTED = {"arr": {"type": "ARRAY", "element": "INT"}, "r": {"type": "ROW", "fields": []}, "dup": "INT", "DUP": "INT"}
NAN = float("nan")
NANOS = ("nano", "nltz")
"""Columns with nanoseconds."""

PLAIN_FIELDS = tuple(
    DataField(number, name, parse_data_type(value, "test")) for number, (name, value) in enumerate(TYPES.items())
)
FIELDS = (
    *PLAIN_FIELDS,
    *(
        DataField(number, name, parse_data_type(value, "test"))
        for number, (name, value) in enumerate(_NESTED.items(), len(TYPES))
    ),
)

Row = Mapping[str, Any]
Answer = bool | None


@dataclass(frozen=True)
class Tried:
    """A condition and what it means."""

    text: str
    means: Callable[[Row], Answer]
    rank: int = 3
    """How strongly its text holds together: 0 OR, 1 AND, 2 NOT, 3 everything else."""


# --- rows ------------------------------------------------------------------------------------------------------------

_LETTERS = ["a", "b", "A", "ab", "é", "😀", "%", "_", "\\", "\n", "'", '"', "\0", " ", "\ud7ff", "\uffff"]
_BITS = {"ti": 7, "si": 15, "i": 31, "k": 31, "bi": 63}


def some_text(rng: random.Random) -> str:
    """Return a short text; many are equal, or begin alike."""
    return "".join(rng.choice(_LETTERS) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 6])))


def as_float(number: float) -> float:
    """Return the nearest FLOAT."""
    found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return found


def _float(rng: random.Random) -> float:
    return rng.choice([0.0, -0.0, NAN, math.inf, -math.inf, 0.1, -0.1, 1.0, 2.5, 1e30, -7.25, 16777216.0, 5e-324, 3.0])


def value_of(column: str, rng: random.Random) -> Any:
    """Return a value of a column, often one at an end."""
    if column in _BITS:
        end = 1 << _BITS[column]
        return rng.choice([rng.randint(-3, 6), rng.randint(-3, 6), -end, end - 1, end - 2])
    match column:
        case "f":
            return as_float(_float(rng))
        case "d":
            return _float(rng)
        case "dec":
            return Decimal(rng.choice([rng.randint(-300, 600), 10**10 - 1, 1 - 10**10])).scaleb(-2)
        case "wide":
            return Decimal(rng.choice([rng.randint(-3, 6), 10**38 - 1, 1 - 10**38, 1 << 63]))
        case "fine":
            units = rng.choice([rng.randint(-3, 6), 10**18 - 1, 1 - 10**18, 10**18 // 3]) * 10**20 + rng.choice(
                [0, 1, -1]
            )
            return Decimal(units).scaleb(-20, Context(prec=38))
        case "s":
            return some_text(rng)
        case "c":
            return rng.choice(["abc", "ab ", "a  ", "   ", "éé😀"])
        case "by":
            return bytes(rng.choice([0, 1, 0x61, 0x7F, 0x80, 0xFF]) for _ in range(rng.randrange(4)))
        case "bo":
            return rng.random() < 0.5
        case "dt":
            return rng.choice([rng.randint(19_720, 19_730), 0, -1, -719_162, 2_932_896])
        case "tm":
            return rng.choice([0, 1, 30_600_000, 86_399_999, rng.randint(0, 5)])
        case "nano" | "nltz":
            return rng.choice([0, -1, -1000, -1001, 999, 1000, 1001, 1_704_067_200_000_000_000]) + rng.randint(-2, 2)
    return rng.choice([0, -1, 1, 1_704_067_200_000_000, 1_711_850_400_000_000, 1_729_990_800_000_000]) + rng.choice(
        [0, 1, 1000]
    )


def some_row(rng: random.Random, null_share: float = 0.2) -> dict[str, Any]:
    """Return a random row."""
    return {name: None if name != "k" and rng.random() < null_share else value_of(name, rng) for name in TYPES}


def arrow_table(rows: Sequence[Row]) -> Any:
    """Return rows as a table of Arrow, in the types that stand for Paimon's."""
    import pyarrow as pa

    types = {
        "ti": pa.int8(), "si": pa.int16(), "i": pa.int32(), "k": pa.int32(), "bi": pa.int64(), "f": pa.float32(),
        "d": pa.float64(), "dec": pa.decimal128(10, 2), "wide": pa.decimal128(38, 0),
        "fine": pa.decimal128(38, 20), "s": pa.string(), "c": pa.string(),
        "by": pa.binary(), "bo": pa.bool_(), "dt": pa.date32(), "tm": pa.time32("ms"), "ts": pa.timestamp("us"),
        "nano": pa.timestamp("ns"), "ltz": pa.timestamp("us", "UTC"),
        "nltz": pa.timestamp("ns", "UTC"),
    }  # fmt: skip
    return pa.table({name: pa.array([row[name] for row in rows], types[name]) for name in TYPES})


# --- the meaning of comparisons --------------------------------------------------------------------------------------


def order_key(value: Any) -> Any:
    """Return a value so that Python's order is Spark's: NaN equals itself and is the largest, texts go by bytes."""
    if isinstance(value, float):
        return (1, 0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def _seen(column: str, row: Row) -> Any:
    """Return the value that Spark sees: it cuts off nanoseconds."""
    value = row[column]
    return value // 1000 if column in NANOS and value is not None else value


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def compare(left: Any, operator: str, right: Any) -> Answer:
    """Return the answer of an operator; None is null."""
    if operator == "<=>":
        return left is right if left is None or right is None else order_key(left) == order_key(right)
    if left is None or right is None:
        return None
    return _OPERATORS[operator](order_key(left), order_key(right))


def every(answers: Sequence[Answer]) -> Answer:
    """AND."""
    return False if False in answers else None if None in answers else True


def some(answers: Sequence[Answer]) -> Answer:
    """OR."""
    return True if True in answers else None if None in answers else False


def negation(answer: Answer) -> Answer:
    """NOT."""
    return None if answer is None else not answer


# --- literals --------------------------------------------------------------------------------------------------------


def quoted(text: str, rng: random.Random) -> str:
    """Return a text in quotes, as Spark reads it."""
    quote = rng.choice(["'", "'", '"'])
    escapes = {"\\": "\\\\", quote: "\\" + quote, "\n": rng.choice(["\\n", "\n"]), "\0": "\\0"}
    return quote + "".join(escapes.get(each, each) for each in text) + quote


def _integer(column: str, rng: random.Random) -> tuple[str, int]:
    column = column if column in _BITS else "i"
    number = min(max(value_of(column, rng) + rng.choice([0, 0, 0, 1, -1]), -(1 << 63)), (1 << 63) - 1)
    suffixes = [""]
    for suffix, bits in (("L", 63), ("S", 15), ("Y", 7)):
        if -(1 << bits) <= number < 1 << bits:
            suffixes.append(suffix)
    return f"{number}{rng.choice(suffixes)}", number


def _fraction(column: str, rng: random.Random) -> tuple[str, Fraction]:
    number = Decimal(rng.choice([rng.randint(-3000, 6000), rng.randint(-30, 60)])).scaleb(-rng.choice([1, 2, 3]))
    return f"{number:f}{rng.choice(['', '', 'BD'])}", Fraction(number)


def _floating(column: str, rng: random.Random) -> tuple[str, float]:
    number = _float(rng)
    kind = rng.choice(["DOUBLE", "FLOAT"])
    if math.isnan(number) or math.isinf(number):
        word = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        return rng.choice([f"{kind.lower()}('{word}')", f"CAST('{word}' AS {kind})"]), number
    if rng.random() < 0.3:
        shown = rng.choice(["0.1", "2.5", "-0.1", "0.0", "-7.25"])
        return shown, float(shown)
    if rng.random() < 0.3:
        return str(int(number)), float(int(number))
    if kind == "FLOAT" and abs(number) > 1e-30:
        return f"{number}F", as_float(number)
    return f"{number}D", number


def _day_text(day: int) -> str:
    return (date(1970, 1, 1) + timedelta(day)).isoformat()


def _moment_text(micros: int) -> str:
    found = datetime(1970, 1, 1) + timedelta(microseconds=micros)
    return found.isoformat(" ", "microseconds" if micros % 1_000_000 else "seconds")


def _moment(column: str, rng: random.Random, *, is_list: bool) -> tuple[str, int]:
    micros = value_of("ts", rng)
    if rng.random() < 0.2:
        day = micros // 86_400_000_000
        return f"DATE '{_day_text(day)}'", day * 86_400_000_000
    text = _moment_text(micros)
    words = ["TIMESTAMP", "TIMESTAMP"] if column in ("ltz", "nltz") else ["TIMESTAMP_NTZ", "TIMESTAMP"]
    if column in ("ltz", "nltz") and rng.random() < 0.3:
        text = f"{_moment_text(micros + 7_200_000_000)}+02:00"
    if not is_list and rng.random() < 0.3:
        return f"'{text}'", micros
    return f"{rng.choice(words)} '{text}'", micros


def literal(column: str, rng: random.Random, *, is_list: bool = False) -> tuple[str, Any]:
    """Return the text of a literal that may stand beside a column, and its value."""
    if rng.random() < 0.05:
        return "NULL", None
    if column in _BITS or column == "tm":
        if rng.random() < 0.2:
            return _fraction(column, rng)
        text, number = _integer(column, rng)
        if not is_list and rng.random() < 0.1 and text.lstrip("-").isdigit():
            bits = _BITS.get(column, 31)
            if -(1 << bits) <= number < 1 << bits:
                return f"'{text}'", number
        return text, number
    match column:
        case "f" | "d":
            return _floating(column, rng)
        case "dec":
            return rng.choice([_integer, _fraction])(column, rng)
        case "wide" | "fine":
            number = value_of(column, rng)
            return f"{number:f}", number
        case "s" | "c":
            text = value_of(column, rng)
            return quoted(text, rng), text
        case "by":
            value = value_of(column, rng)
            return f"{rng.choice('xX')}'{value.hex()}'", value
        case "bo":
            value = rng.random() < 0.5
            return str(value), value
        case "dt":
            day = value_of(column, rng)
            return f"{rng.choice(['', 'DATE '])}'{_day_text(day)}'", day
    return _moment(column, rng, is_list=is_list)


# --- conditions ------------------------------------------------------------------------------------------------------


def _compared(column: str, rng: random.Random) -> Tried:
    operators = ["=", "==", "<>", "!=", "<=>"] if column == "bo" else [*_OPERATORS, "<=>"]
    operator = rng.choice(operators)
    text, value = literal(column, rng)
    name = rng.choice([column, column.upper(), f"`{column}`"])
    if rng.random() < 0.15:
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        return Tried(f"{text} {turned} {name}", lambda row: compare(_seen(column, row), operator, value))
    return Tried(f"{name} {operator} {text}", lambda row: compare(_seen(column, row), operator, value))


def _distinct(column: str, rng: random.Random) -> Tried:
    text, value = literal(column, rng)
    negated = rng.random() < 0.5
    return Tried(
        f"{column} IS {'NOT ' if negated else ''}DISTINCT FROM {text}",
        lambda row: compare(_seen(column, row), "<=>", value) is negated,
    )


def _listed(column: str, rng: random.Random) -> Tried:
    found = [literal(column, rng, is_list=True) for _ in range(rng.choice([1, 2, 3, 5, 14]))]
    negated = rng.random() < 0.4

    def means(row: Row) -> Answer:
        answer = some([compare(_seen(column, row), "=", value) for _, value in found])
        return negation(answer) if negated else answer

    return Tried(f"{column} {'NOT ' if negated else ''}IN ({', '.join(text for text, _ in found)})", means)


def _between(column: str, rng: random.Random) -> Tried:
    (low, least), (high, most) = literal(column, rng), literal(column, rng)
    negated = rng.random() < 0.4

    def means(row: Row) -> Answer:
        seen = _seen(column, row)
        answer = every([compare(seen, ">=", least), compare(seen, "<=", most)])
        return negation(answer) if negated else answer

    return Tried(f"{column} {'NOT ' if negated else ''}BETWEEN {low} AND {high}", means)


def like(text: str, pattern: Sequence[str]) -> bool:
    """Tell whether a text matches a pattern of characters, `%` and `_`; literal ones are marked by a leading dot."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == "%":
        return any(like(text[start:], rest) for start in range(len(text) + 1))
    return bool(text) and (first == "_" or text[0] == first[1:]) and like(text[1:], rest)


def _like(column: str, rng: random.Random) -> Tried:
    escape = rng.choice(["\\", "\\", "/", "a", "%"])
    pattern: list[str] = []
    text = ""
    for _ in range(rng.choice([0, 1, 2, 3, 4])):
        kind = rng.random()
        if kind < 0.35 and escape != "%":
            pattern, text = [*pattern, "%"], text + "%"
        elif kind < 0.5:
            pattern, text = [*pattern, "_"], text + "_"
        else:
            for each in rng.choice(_LETTERS):
                pattern.append("." + each)
                text += escape + each if each in ("%", "_", escape) else each
    negated = rng.random() < 0.3
    ending = "" if escape == "\\" else f" ESCAPE '{escape}'"

    def means(row: Row) -> Answer:
        return None if row[column] is None else like(row[column], pattern) is not negated

    return Tried(f"{column} {'NOT ' if negated else ''}LIKE {quoted(text, rng)}{ending}", means)


def _function(column: str, rng: random.Random) -> Tried:
    name = rng.choice(["startswith", "endswith", "contains"])
    part = some_text(rng)[:2]
    tests = {"startswith": str.startswith, "endswith": str.endswith, "contains": str.__contains__}
    return Tried(
        f"{name}({column}, {quoted(part, rng)})",
        lambda row: None if row[column] is None else tests[name](row[column], part),
    )


def _leaf(rng: random.Random, columns: Sequence[str]) -> Tried:
    column = rng.choice(columns)
    kind = rng.random()
    if kind < 0.1:
        negated = rng.random() < 0.5
        return Tried(f"{column} IS {'NOT ' if negated else ''}NULL", lambda row: (row[column] is None) is not negated)
    if column == "bo" and kind < 0.5:
        return Tried(column, lambda row: row[column])
    if column in ("f", "d") and kind < 0.2:
        return Tried(f"isnan({column})", lambda row: row[column] is not None and math.isnan(row[column]))
    if column in ("s", "c") and kind < 0.5:
        return rng.choice([_like, _like, _function])(column, rng)
    if column != "bo" and kind < 0.65:
        return rng.choice([_listed, _between])(column, rng)
    return rng.choice([_compared, _compared, _compared, _distinct])(column, rng)


def _wrapped(tried: Tried, rank: int, rng: random.Random) -> str:
    return f"({tried.text})" if tried.rank < rank or rng.random() < 0.1 else tried.text


def some_condition(rng: random.Random, depth: int = 3, columns: Sequence[str] = tuple(TYPES)) -> Tried:
    """Return a random condition. Its text has the parentheses that it needs, and few others."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return _leaf(rng, columns)
    if kind < 0.75:
        is_and = rng.random() < 0.5
        parts = [some_condition(rng, depth - 1, columns) for _ in range(rng.choice([2, 2, 3]))]
        word, rank, joined = (" AND ", 1, every) if is_and else (" OR ", 0, some)
        # A part of the same rank needs none: AND and OR are the same from left and from right.
        text = word.join(_wrapped(part, rank, rng) for part in parts)
        return Tried(text, lambda row: joined([part.means(row) for part in parts]), rank)
    part = some_condition(rng, depth - 1, columns)
    if kind < 0.9:
        return Tried(f"{rng.choice(['NOT ', '!'])}{_wrapped(part, 2, rng)}", lambda row: negation(part.means(row)), 2)
    word, wanted = rng.choice([("NULL", None), ("TRUE", True), ("FALSE", False)])
    negated = rng.random() < 0.5
    return Tried(
        f"({part.text}) IS {'NOT ' if negated else ''}{word}", lambda row: (part.means(row) is wanted) is not negated
    )


__all__ = [
    "FIELDS", "NAN", "PLAIN_FIELDS", "TYPES", "UTC", "Tried", "arrow_table", "re", "some_condition", "some_row",
]  # fmt: skip
