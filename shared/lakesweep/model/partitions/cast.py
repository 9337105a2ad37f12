"""Cast the texts of specs to values of partition keys.

Every text that is accepted here means the same in Paimon, with one addition: a time stamp as partition paths print it,
with a T. Paimon also accepts texts that mean something else than they seem to. They are refused here, since the value
decides what is dropped: a month for the first of the month, a decimal that has to be rounded, a day beyond the end of
its month, a decimal that is too large for its type, which becomes null. Source: Paimon `TypeUtils.castFromString`,
`BinaryStringUtils`, `DateTimeUtils`.
"""

import re
import struct
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from decimal import Context, Decimal

from lakesweep.errors import RefusedError
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.json_document import describe
from lakesweep.format.values.partition_path import civil_date, float_text
from lakesweep.format.values.zone import earliest_ms, latest_ms, local_time
from lakesweep.model.partitions.calendar import DAY_NS, epoch_day

Zone = tzinfo | None

_INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
_BOOLEANS = {"t": True, "true": True, "y": True, "yes": True, "1": True}
_BOOLEANS |= {"f": False, "false": False, "n": False, "no": False, "0": False}
_MAX_DIGITS = 400
"""More than any number of a partition has, and few enough to read."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_DIGITS = re.compile(r"[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?")
_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_DATE = re.compile(r"([0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{0,9}))?")
_TIMESTAMP = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?: ([0-9:.]+)|T([0-9]{2}:[0-9]{2})((?::[0-9.]+)?))?")


class _NoValueError(Exception):
    """A text is no value of its type; the message says what was expected."""


def bad_partition(message: str) -> RefusedError:
    """Build the error for a spec that cannot be followed."""
    return RefusedError(message, code="bad_partition")


def comparable(value: object) -> object:
    """Return a value so that equal partitions have equal values. As in Paimon, floats are equal by their bits."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def shown(value: object) -> str:
    """Return a value for messages."""
    return "null" if value is None else describe(value)


def cast(value: object, key: str, type_: DataType, zone: Zone = None) -> object:
    """Return the value of a partition key, as `binary_row` decodes it.

    Args:
        value: A text, or a number or truth value of JSON.
        key: The partition key, for messages.
        type_: Its type.
        zone: The declared zone, for texts of TIMESTAMP WITH LOCAL TIME ZONE.

    Raises:
        RefusedError: With code `bad_partition`, or `zone_not_declared`.
    """
    read = _BY_ROOT.get(type_.root)
    if read is None:
        raise bad_partition(
            f"partition key {key} has the type {type_.root}, whose values cannot be given; expected a spec without it"
        )
    if type_.root == "TIMESTAMP_LTZ" and zone is None and not (isinstance(value, str) and value.endswith("Z")):
        raise RefusedError(
            f"partition key {key} is a time of a zone, and no zone is declared; expected time_zone in the call or in "
            "the fleet policy",
            code="zone_not_declared",
        )
    try:
        return read(_text(value, type_), type_, zone)
    except _NoValueError as error:
        raise bad_partition(f"partition key {key} is {shown(value)}; expected {error}") from error


def _text(value: object, type_: DataType) -> str:
    """Return the text of a JSON value that suits the type. A number is no text: 8 and 08 would be the same."""
    match value:
        case str():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                raise _NoValueError("text in Unicode") from error
            return value
        case bool() if type_.root == "BOOLEAN":
            return str(value)
        case bool():
            pass
        case int() if type_.root not in ("BOOLEAN", "CHAR", "VARCHAR") and value.bit_length() < _MAX_DIGITS:
            return str(value)
        case float() | Decimal() if type_.root in ("FLOAT", "DOUBLE", "DECIMAL"):
            return str(value)
    raise _NoValueError(f"a text of a {type_.root}")


def _boolean(text: str, type_: DataType, zone: Zone) -> object:
    if text.lower() not in _BOOLEANS or not text.isascii():
        raise _NoValueError("true or false")
    return _BOOLEANS[text.lower()]


def _integer(text: str, type_: DataType, zone: Zone) -> object:
    bits = _INTEGERS[type_.root]
    if not _INTEGER.fullmatch(text) or not -(1 << bits) <= (number := int(text)) < 1 << bits:
        raise _NoValueError(f"a whole number of a {type_.root}, which has {bits + 1} bits")
    return number


def _characters(text: str, type_: DataType, zone: Zone) -> object:
    if type_.length is not None and len(text) > type_.length:
        raise _NoValueError(f"at most {type_.length} characters, found {len(text)}")
    return text


def _double(text: str, type_: DataType, zone: Zone) -> object:
    if text in _FLOATS:
        return _FLOATS[text]
    if not _NUMBER.fullmatch(text) or (number := float(text)) in (float("inf"), float("-inf")):
        raise _NoValueError(f"a number of a {type_.root}")
    return number


def _float(text: str, type_: DataType, zone: Zone) -> object:
    double = _double(text, type_, zone)
    assert isinstance(double, float)
    try:
        number: float = struct.unpack("<f", struct.pack("<f", double))[0]
    except OverflowError as error:
        raise _NoValueError("a number of a FLOAT") from error
    # Paimon reads a number that is not exact only if it has as many characters as its print.
    if number != double and double == double and float_text(number) != text:
        raise _NoValueError(f"the number as Paimon prints it, which is {float_text(number)}")
    return number


def _decimal(text: str, type_: DataType, zone: Zone) -> object:
    precision, scale = type_.precision or 10, type_.scale or 0
    if not _NUMBER.fullmatch(text):
        raise _NoValueError(f"a number of a DECIMAL({precision}, {scale})")
    number = Decimal(text)
    # The exponent has four digits, so the number may be long, but not endless.
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if number == 0:
        return Decimal((0, (0,), -scale))
    last = len(digits) - len(bytes(digits).rstrip(b"\0"))
    if exponent + last < -scale or number.adjusted() >= precision - scale:
        raise _NoValueError(f"a number that a DECIMAL({precision}, {scale}) holds without rounding")
    return number.quantize(Decimal((0, (1,), -scale)), context=Context(prec=precision + 1))


def _date(text: str, type_: DataType, zone: Zone) -> object:
    if _DIGITS.fullmatch(text):
        day = int(text)
        if day >= 1 << 31:
            raise _NoValueError("a day such as 2024-01-31, or the number of days since 1970-01-01")
        return day
    match = _DATE.fullmatch(text)
    day_of = None if match is None else _day(*map(int, match.groups()))
    if day_of is None:
        raise _NoValueError("a day such as 2024-01-31, or the number of days since 1970-01-01")
    return day_of


def _time(text: str, type_: DataType, zone: Zone) -> object:
    nanos = int(text) * 1_000_000 if _DIGITS.fullmatch(text) else _clock_ns(text)
    if nanos is None or nanos >= DAY_NS or nanos % 1_000_000:
        raise _NoValueError("a time of the day such as 08:30:00, or its milliseconds")
    return nanos // 1_000_000


def _timestamp(text: str, type_: DataType, zone: Zone) -> object:
    precision = 6 if type_.precision is None else type_.precision
    expected = f"a time such as 2024-01-31 08:30:00, of at most {precision} digits behind the second"
    match = _TIMESTAMP.fullmatch(text)
    if _DIGITS.fullmatch(text):
        nanos: int | None = int(text) * 1_000_000 if int(text) < 1 << 63 else None
    elif match is None:
        raise _NoValueError(expected)
    else:
        day = _day(int(match[1]), int(match[2]), int(match[3])) if int(match[1]) else None
        clock = match[4] or (f"{match[5]}{match[6] or ':00'}" if match[5] else "0:0:0")
        clock_ns = _clock_ns(clock)
        nanos = None if day is None or clock_ns is None else day * DAY_NS + clock_ns
    if nanos is None or nanos % 10 ** (9 - precision):
        raise _NoValueError(expected)
    return Timestamp(*divmod(nanos, 1_000_000))


def _instant(text: str, type_: DataType, zone: Zone) -> object:
    """Read a time of the declared zone, or one of UTC with T and Z: partition paths have the clock of UTC, but no Z."""
    if text.endswith("Z") == ("T" not in text) or _DIGITS.fullmatch(text):
        raise _NoValueError("a time of the declared zone such as 2024-01-31 08:30:00, or 2024-01-31T08:30:00Z for UTC")
    found = _timestamp(text.removesuffix("Z"), type_, zone)
    assert isinstance(found, Timestamp)
    return found if text.endswith("Z") else _in_zone(found, zone)


def _in_zone(clock: Timestamp, zone: Zone) -> Timestamp:
    """Return the instant of a wall clock. A time that clocks show twice, or never, is refused."""
    assert zone is not None
    local = datetime(1970, 1, 1) + timedelta(milliseconds=clock.epoch_ms)
    first, last = earliest_ms(local, zone), latest_ms(local, zone)
    if first != last or local_time(first, zone) != local:
        raise _NoValueError("a time that clocks in the declared zone show once; give it in UTC, with T and Z")
    return Timestamp(first, clock.nano_of_ms)


def _day(year: int, month: int, day: int) -> int | None:
    """Return an epoch day, `None` if the calendar does not have this day."""
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    found = epoch_day(year, month, day)
    return found if civil_date(found) == (year, month, day) else None


def _clock_ns(text: str) -> int | None:
    """Return the nanosecond of the day, `None` if no clock shows this."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(match[part]) for part in (1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (hour * 3600 + minute * 60 + second) * 1_000_000_000 + int((match[4] or "").ljust(9, "0"))


_BY_ROOT: Mapping[str, Callable[[str, DataType, Zone], object]] = {
    "BOOLEAN": _boolean,
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys(("CHAR", "VARCHAR"), _characters),
    "FLOAT": _float,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _instant,
}
