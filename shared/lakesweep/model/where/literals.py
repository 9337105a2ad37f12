"""Literals: the values that a condition writes beside columns, with the types that Spark gives them."""

import re
import struct
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from lakesweep.model.where.syntax import bad_where

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

Kind = Literal[
    "null", "boolean", "integer", "decimal", "float", "double", "text", "binary", "date", "timestamp", "wall"
]

MAX_DIGITS = 38
_LONG = 1 << 63
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_INTEGER = re.compile(r"[0-9]{1,400}")
_DECIMAL = re.compile(r"[0-9]{0,400}\.[0-9]{0,400}")
_DOUBLE = re.compile(r"(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"(?:[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?(Z|[+-][0-9]{2}:[0-9]{2})?")
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Given:
    """A literal. `repr` does not show its value."""

    kind: Kind
    """`wall` is a TIMESTAMP_NTZ, `timestamp` a TIMESTAMP, which Spark takes as an instant."""
    value: object = field(default=None, repr=False)
    """int, `Decimal` or float for numbers; str, bytes, bool; the epoch day of a date; a `Moment`."""
    precision: int = 0
    """For decimals, and for whole numbers beyond BIGINT, which are decimals in Spark."""
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """A day and a time of it, with or without an offset from UTC."""

    micros: int = field(repr=False)
    """Microseconds since 1970-01-01 00:00:00 of the same clock."""
    offset_minutes: int | None = None


NULL = Given("null")
WORDS = {
    "null": "NULL",
    "boolean": "a truth value",
    "integer": "a whole number",
    "decimal": "a decimal number",
    "float": "a FLOAT",
    "double": "a DOUBLE",
    "text": "a text",
    "binary": "bytes",
    "date": "a DATE",
    "timestamp": "a TIMESTAMP",
    "wall": "a TIMESTAMP_NTZ",
}
"""Kind -> how messages say it."""


def literal_of(node: "Expression", column: str) -> Given | None:
    """Return the literal that a tree is; None if it is something else.

    Args:
        node: A tree of sqlglot.
        column: The column beside it, for messages.

    Raises:
        UsageError: With code `bad_where`: it is a literal, but not one whose value in Spark is known here.
    """
    from sqlglot import expressions as exp

    is_negative = isinstance(node, exp.Neg)
    inner = node.this if isinstance(node, exp.Neg) else node
    match inner:
        case exp.Null():
            found = NULL
        case exp.Boolean():
            found = Given("boolean", bool(inner.this))
        case exp.HexString() if re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", inner.this):
            found = Given("binary", bytes.fromhex(inner.this))
        case exp.Literal() if inner.is_string:
            found = Given("text", inner.this)
        case exp.Literal():
            found = _number(inner.this, column, is_negative=is_negative)
        case exp.Cast() if isinstance(inner.this, exp.Literal):
            found = _typed(inner, column, is_negative=is_negative)
        case _:
            return None
    return _negative(found, column) if is_negative else found


def epoch_day_of(text: str) -> int | None:
    """Return the epoch day of a text such as 2024-01-31; None for every other text."""
    match = _DATE.fullmatch(text)
    try:
        return None if match is None else (date(*map(int, match.groups())) - date(1970, 1, 1)).days
    except ValueError:
        return None


def moment_of(text: str) -> Moment | None:
    """Return the moment of a text such as 2024-01-31 08:30:00.5, with or without a Z or an offset such as +02:00."""
    day = epoch_day_of(text[:10])
    match = _TIME.fullmatch(text, 10) if day is not None else None
    if day is None or match is None or (match[5] and match[1] is None):
        return None
    hour, minute, second = (int(match[part] or 0) for part in (1, 2, 3))
    fraction = (match[4] or "").ljust(9, "0")
    if hour > 23 or minute > 59 or second > 59 or fraction[6:] != "000":
        return None
    micros = ((day * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + int(fraction[:6])
    if match[5] is None or match[5] == "Z":
        return Moment(micros, None if match[5] is None else 0)
    hours, minutes = int(match[5][1:3]), int(match[5][4:])
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        return None
    return Moment(micros, (hours * 60 + minutes) * (-1 if match[5][0] == "-" else 1))


def _number(text: str, column: str, *, is_negative: bool) -> Given:
    if _INTEGER.fullmatch(text):
        number = int(text)
        if number < _LONG + is_negative:
            return Given("integer", number)
        return Given("integer", number, _digits_of(number, column))
    if _DECIMAL.fullmatch(text) and len(text) > 1:
        return _decimal(text, column)
    if _DOUBLE.fullmatch(text):
        return Given("double", _double(text, column))
    raise bad_where(f"column {column} stands beside a number that Spark does not read")


def _decimal(text: str, column: str) -> Given:
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    precision = max(_digits_of(int("".join(map(str, digits))), column), -exponent)
    if precision > MAX_DIGITS:
        raise bad_where(f"column {column} stands beside a number with more than {MAX_DIGITS} digits")
    return Given("decimal", number, precision, -exponent)


def _digits_of(number: int, column: str) -> int:
    digits = len(str(number))
    if digits > MAX_DIGITS:
        raise bad_where(f"column {column} stands beside a number with more than {MAX_DIGITS} digits")
    return digits


def _double(text: str, column: str) -> float:
    number = float(text)
    if number == float("inf"):
        raise bad_where(f"column {column} stands beside a number that is too large for a DOUBLE")
    return number


def _typed(node: "Expression", column: str, *, is_negative: bool) -> Given:
    """Read `DATE '…'`, `5L`, `1.5BD`, `double('NaN')` and the casts that mean the same."""
    if {name for name, value in node.args.items() if value} - {"this", "to"}:
        raise _no_cast(column)
    inner, target = node.this, node.args["to"]
    root = target.this.value if hasattr(target.this, "value") else str(target.this)
    text: str = inner.this
    if not inner.is_string and not target.expressions:
        if root in _BITS and _INTEGER.fullmatch(text):
            number = int(text)
            if number >= (1 << _BITS[root]) + is_negative:
                raise bad_where(f"column {column} stands beside a number that is too large for a {root}")
            return Given("integer", number)
        if root == "DOUBLE" and _DOUBLE.fullmatch(text):
            return Given("double", _double(text, column))
        if root == "FLOAT" and _DOUBLE.fullmatch(text):
            return Given("float", _float(text, column))
    if root == "DECIMAL" and (_INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text)) and len(target.expressions) == 2:
        return _cast_decimal(text, [int(each.name) for each in target.expressions], column)
    if not inner.is_string or target.expressions:
        raise _no_cast(column)
    if root in ("DOUBLE", "FLOAT") and text in _NOT_FINITE:
        return Given("double" if root == "DOUBLE" else "float", _NOT_FINITE[text])
    if root == "DATE" and (day := epoch_day_of(text)) is not None:
        return Given("date", day)
    kinds: dict[str, Kind] = {"TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "wall"}
    if root in kinds and (moment := moment_of(text)) is not None:
        return Given(kinds[root], moment)
    if root == "DATE" or root in kinds:
        raise bad_where(
            f"column {column} stands beside a time that is not written as 2024-01-31 or 2024-01-31 08:30:00.123456"
        )
    raise _no_cast(column)


def _cast_decimal(text: str, precision_scale: list[int], column: str) -> Given:
    found = _decimal(text if "." in text else f"{text}.", column)
    precision, scale = precision_scale
    number = found.value
    assert isinstance(number, Decimal)
    if not scale <= precision <= MAX_DIGITS or found.scale > scale or number >= 10 ** (precision - scale):
        raise bad_where(f"column {column} stands beside a number that has more digits than its DECIMAL type")
    return Given("decimal", number, precision, scale)


def _float(text: str, column: str) -> float:
    """Return the FLOAT of a text. Python rounds in two steps; where these could differ from one, refuse."""
    double = _double(text, column)
    bits = struct.unpack("<Q", struct.pack("<d", double))[0]
    is_between = bits & 0x1FFF_FFFF == 0x1000_0000 and Fraction(double) != Fraction(text)
    try:
        number: float = struct.unpack("<f", struct.pack("<f", double))[0]
    except OverflowError:
        number = float("inf")
    if is_between or number == float("inf") or 0 < double < 2.0**-126:
        raise bad_where(f"column {column} stands beside a number whose FLOAT is not certain; write it as a DOUBLE")
    return number


def _negative(found: Given, column: str) -> Given:
    number = found.value if found.kind != "date" else None
    match number:
        case bool():
            pass
        case int() | float():
            return Given(found.kind, -number, found.precision, found.scale)
        case Decimal():
            # Not by `-`, which rounds to 28 digits.
            return Given(found.kind, number.copy_negate(), found.precision, found.scale)
    raise bad_where(f"column {column} stands beside the negative of {WORDS[found.kind]}")


def _no_cast(column: str) -> Exception:
    return bad_where(
        f"column {column} stands beside a cast; write a literal with its type, such as 5L, 1.5D or DATE '2024-01-31'"
    )
