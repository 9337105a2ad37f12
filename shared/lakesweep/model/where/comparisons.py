"""Comparisons of a column with literals, by the types that Spark gives to both.

Before it compares, Spark casts the column or the literal to a common type. Here the literal gets the type of the
column, if that gives the same answer for every value of the column. Everything else is refused. Source: Spark 3.5
`TypeCoercion`, `DecimalPrecision`.
"""

import struct
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal
from fractions import Fraction
from math import isnan

from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.zone import earliest_ms, latest_ms, local_time
from lakesweep.model.where.conditions import (
    Compare,
    Condition,
    Constant,
    IsNan,
    IsNull,
    Known,
    OneOf,
    Order,
    all_of,
    any_of,
    negated,
)
from lakesweep.model.where.literals import MAX_DIGITS, NULL, WORDS, Given, Moment, epoch_day_of, moment_of
from lakesweep.model.where.syntax import bad_where

INTEGER_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "TIME": 31, "BIGINT": 63}
"""Root of a type of whole numbers -> bits without the sign. For Spark a TIME is an INT: the millisecond of the day."""
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "TIME": 10, "BIGINT": 20}
FLOATS = frozenset(("FLOAT", "DOUBLE"))
TEXTS = frozenset(("CHAR", "VARCHAR"))
BYTES = frozenset(("BINARY", "VARBINARY"))
TIMES = frozenset(("TIMESTAMP", "TIMESTAMP_LTZ"))
COMPARABLE = frozenset(("BOOLEAN", "DATE", "DECIMAL", *INTEGER_BITS, *FLOATS, *TEXTS, *BYTES, *TIMES))
"""Roots of the types whose values can stand beside literals."""
_EPOCH = datetime(1970, 1, 1)
_FIRST_MICROS = (datetime(1, 1, 1) - _EPOCH) // timedelta(microseconds=1)
_LAST_MICROS = (datetime(9999, 12, 31, 23, 59, 59, 999_999) - _EPOCH) // timedelta(microseconds=1)


class Beside:
    """A column that literals stand beside."""

    def __init__(self, column: str, type_: DataType, zone: tzinfo, on_zone: Callable[[], None]) -> None:
        """Begin.

        Args:
            column: The name of the column.
            type_: Its type.
            zone: The zone of times that have none.
            on_zone: Called when a value depends on the zone.
        """
        self._column = column
        self._type = type_
        self._zone = zone
        self._on_zone = on_zone

    def compared(self, operator: str, given: Given) -> Condition:
        """Return the comparison with a literal: `=`, `<>`, `<`, `<=`, `>`, `>=` or `<=>`."""
        if operator == "<=>":
            if given is NULL:
                return IsNull(self._column)
            return all_of((negated(IsNull(self._column)), self.compared("=", given)))
        if given is NULL:
            return Constant(None)
        match operator:
            case "=" | "<" | "<=":
                return self._ordered(operator, given, is_list=False)
            case "<>":
                return negated(self._ordered("=", given, is_list=False))
            case ">":
                return negated(self._ordered("<=", given, is_list=False))
        return negated(self._ordered("<", given, is_list=False))

    def one_of(self, given: Sequence[Given]) -> Condition:
        """Return that the column equals one of some literals."""
        parts = [self._ordered("=", each, is_list=True) for each in given if each is not NULL]
        self._check_list([each for each in given if each is not NULL])
        values = sorted({part.value for part in parts if isinstance(part, Compare)})  # type: ignore[type-var]
        conditions: list[Condition] = [part for part in parts if not isinstance(part, Compare)]
        if values:
            conditions.append(OneOf(self._column, tuple(values)))
        if len(conditions) < 1 or any(each is NULL for each in given):
            conditions.append(Constant(None))
        return any_of(dict.fromkeys(conditions))

    def refused(self, given: Given, advice: str = "") -> Exception:
        """Build the error for a literal whose comparison is not known here."""
        expected = f"; {advice}" if advice else ""
        return bad_where(
            f"column {self._column} is {_shown(self._type)} and stands beside {WORDS[given.kind]}{expected}"
        )

    def _ordered(self, order: Order, given: Given, *, is_list: bool) -> Condition:
        root, value = self._type.root, given.value
        if root not in COMPARABLE:
            raise bad_where(f"column {self._column} is {_shown(self._type)}; only IS NULL and IS NOT NULL are possible")
        if root in INTEGER_BITS or root == "DECIMAL":
            return self._on_grid(order, self._number(given, is_list=is_list))
        if root in FLOATS:
            return self._beside_float(order, given)
        match root, given.kind:
            case "BOOLEAN", "boolean" if order == "=":
                pass
            case (("CHAR" | "VARCHAR"), "text"):
                self._check_text(str(value), given)
            case (("BINARY" | "VARBINARY"), "binary"):
                pass
            case "DATE", ("date" | "text"):
                value = self._day(given)
            case "TIMESTAMP", ("wall" | "timestamp" | "date" | "text"):
                value = self._wall(given, is_list=is_list)
            case "TIMESTAMP_LTZ", ("timestamp" | "date" | "text"):
                value = self._instant(given, is_list=is_list)
            case _:
                raise self.refused(given)
        return Compare(self._column, order, value)

    def _number(self, given: Given, *, is_list: bool) -> Fraction:
        """Return the exact number of a literal beside a whole number or a decimal."""
        root, value = self._type.root, given.value
        match given.kind:
            case "integer" if not (given.precision or root == "DECIMAL"):
                assert isinstance(value, int)
                return Fraction(value)
            case "integer" | "decimal":
                assert isinstance(value, int | Decimal)
                if root in INTEGER_BITS and not -(1 << 63) <= value <= (1 << 63) - 1:
                    # Spark 3.5 answers true or false then, even for null.
                    raise self.refused(given, "it is beyond every BIGINT, where Spark treats null as a value")
                self._check_digits([given], is_list=is_list)
                return Fraction(value)
            case "text" if root in INTEGER_BITS and not is_list:
                text = str(value)
                if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 21 and str(int(text)) == text:
                    low, high = self._bounds()
                    if low <= int(text) <= high:
                        return Fraction(int(text))
        raise self.refused(given, "write a number without quotes, exponent or suffix")

    def _check_digits(self, given: Sequence[Given], *, is_list: bool) -> None:
        """Refuse decimals whose common type in Spark has no room for every value of the column."""
        root = self._type.root
        whole, scale = _INTEGER_DIGITS.get(root, 0), 0
        if root == "DECIMAL":
            scale = self._type.scale or 0
            whole = (self._type.precision or 0) - scale
        own_whole = whole
        for each in given:
            digits = len(str(abs(int(each.value))))  # type: ignore[call-overload]
            if each.kind == "integer" and not each.precision and is_list:
                digits = 10 if -(1 << 31) <= int(each.value) < 1 << 31 else 20  # type: ignore[call-overload]
            elif each.kind == "decimal":
                digits = each.precision - each.scale
            whole, scale = max(whole, digits), max(scale, each.scale)
        room = MAX_DIGITS - min(scale, MAX_DIGITS)
        largest = max((len(str(abs(int(each.value)))) for each in given if int(each.value)), default=0)  # type: ignore[call-overload]
        if whole > room and max(own_whole, largest) > room:
            raise self.refused(given[0], f"Spark has no type of {MAX_DIGITS} digits that holds both without rounding")

    def _check_list(self, given: Sequence[Given]) -> None:
        """Refuse lists of literals whose common type differs from that of each one beside the column."""
        root = self._type.root
        numbers = [each for each in given if each.kind in ("integer", "decimal")]
        if root == "DECIMAL" or (root in INTEGER_BITS and any(each.scale or each.precision for each in numbers)):
            self._check_digits(numbers, is_list=True)

    def _bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest value in units of the last digit."""
        if self._type.root == "DECIMAL":
            largest: int = 10 ** (self._type.precision or 0) - 1
            return -largest, largest
        bits = INTEGER_BITS[self._type.root]
        return -(1 << bits), (1 << bits) - 1

    def _on_grid(self, order: Order, number: Fraction) -> Condition:
        """Compare with a number that may lie between two values of the column, or beyond all of them."""
        scale = self._type.scale or 0
        units = number * 10**scale
        if order == "=":
            if units.denominator > 1:
                return Known(self._column, False)
            unit = units.numerator
        else:
            # `x < 5` is `x <= 4`, and `x < 4.5` is `x <= 4`.
            unit = units.__ceil__() - 1 if order == "<" else units.__floor__()
        low, high = self._bounds()
        if order == "=" and not low <= unit <= high:
            return Known(self._column, False)
        if unit < low or (order != "=" and unit >= high):
            return Known(self._column, unit >= high)
        value = unit if self._type.root != "DECIMAL" else Decimal(unit).scaleb(-scale, Context(prec=MAX_DIGITS + 1))
        return Compare(self._column, "=" if order == "=" else "<=", value)

    def _beside_float(self, order: Order, given: Given) -> Condition:
        value = given.value
        match given.kind:
            case "double" | "float":
                assert isinstance(value, float)
                number = value
            case "decimal":
                number = float(value)  # type: ignore[arg-type]
            case "integer" if not given.precision:
                assert isinstance(value, int)
                number = float(value)
                if Fraction(number) != value or (self._type.root == "FLOAT" and _as_float(number) != number):
                    raise self.refused(given, "it has more digits than the column's type; write it as a DOUBLE: 1.0D")
            case "integer":
                number = float(value)  # type: ignore[arg-type]
            case _:
                raise self.refused(given, "write a number, or double('NaN')")
        if not isnan(number):
            return Compare(self._column, order, number)
        if order == "<=":
            return Known(self._column, True)
        return IsNan(self._column) if order == "=" else negated(IsNan(self._column))

    def _check_text(self, text: str, given: Given) -> None:
        if self._type.root == "CHAR" and len(text) != self._type.length:
            raise self.refused(
                given, f"blanks may follow its values; write all {self._type.length} characters, or LIKE"
            )
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise self.refused(given, "write it in Unicode") from None

    def _day(self, given: Given) -> int:
        day = epoch_day_of(str(given.value)) if given.kind == "text" else given.value
        if day is None:
            raise self.refused(given, "write DATE '2024-01-31'")
        assert isinstance(day, int)
        return day

    def _wall(self, given: Given, *, is_list: bool) -> int:
        """Return the microsecond of a TIMESTAMP without zone."""
        advice = "write TIMESTAMP_NTZ '2024-01-31 08:30:00.123456'"
        moment = self._moment(given, advice, is_list=is_list)
        is_instant = given.kind == "timestamp"
        # Spark takes the column as an instant of its zone then. With one offset for ever, the order is the same.
        if moment.offset_minutes is not None or (is_instant and not isinstance(self._zone, timezone)):
            raise self.refused(given, advice)
        return moment.micros

    def _instant(self, given: Given, *, is_list: bool) -> int:
        """Return the microsecond since the epoch, of a TIMESTAMP with local time zone."""
        advice = "write TIMESTAMP '2024-01-31 08:30:00.123456Z'"
        moment = self._moment(given, advice, is_list=is_list)
        if moment.offset_minutes is not None:
            micros = moment.micros - moment.offset_minutes * 60_000_000
            if not _FIRST_MICROS <= micros <= _LAST_MICROS:
                raise self.refused(given, "it is outside of the years 1 to 9999 in UTC")
            return micros
        self._on_zone()
        milliseconds, rest = divmod(moment.micros, 1000)
        local = _EPOCH + timedelta(milliseconds=milliseconds)
        first, last = earliest_ms(local, self._zone), latest_ms(local, self._zone)
        if first != last or local_time(first, self._zone) != local:
            raise self.refused(given, f"clocks of the zone show this time twice, or never; {advice}")
        return first * 1000 + rest

    def _moment(self, given: Given, advice: str, *, is_list: bool) -> Moment:
        match given.kind, given.value:
            case "date", int(day):
                return Moment(day * 86_400_000_000)
            case "text", str(text) if not is_list and (moment := moment_of(text)) is not None:
                return moment
            case _, Moment() as moment:
                return moment
        raise self.refused(given, advice)


def _as_float(number: float) -> float:
    try:
        found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf")
    return found


def _shown(type_: DataType) -> str:
    """Return a type for messages."""
    if type_.root == "DECIMAL":
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if type_.root == "CHAR":
        return f"CHAR({type_.length})"
    return type_.root
