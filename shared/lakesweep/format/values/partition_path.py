"""Partition paths: the directories of a partition, named by its values.

They serve to locate files. Values are never read back from a path, since null, '' and ' ' are three partitions in one
directory. Source: Paimon `InternalRowPartitionComputer`, `PartitionPathUtils`.

Most values appear as Java prints them. Source: Java `Double.toString`, `Float.toString` (the shortest digits, as since
JDK 19), `LocalDateTime.toString`.
"""

import struct
from collections.abc import Sequence
from decimal import Decimal

from lakesweep.errors import UnsupportedFormatError
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType

DEFAULT_NAME = "__DEFAULT_PARTITION__"
_DAY_MS = 86_400_000

_ESCAPES = {code: f"%{code:02X}" for code in (*range(32), 127, *b"\"#%'*/:=?\\{}[]^")}

_NOT_BLANK_IN_JAVA = "\x85\xa0\u2007\u202f"
"""Characters that are white space in Python but not for Java's `Character.isWhitespace`."""


def partition_path(
    names: Sequence[str],
    types: Sequence[DataType],
    values: Sequence[object],
    *,
    default_name: str = DEFAULT_NAME,
    legacy_name: bool = True,
) -> str:
    """Return the directories of a partition with a trailing slash, `a=1/b=x/`, or "" without partition keys.

    Args:
        names: The partition keys.
        types: Their types.
        values: A decoded row, see `binary_row`.
        default_name: The name for null and blank values: the option `partition.default-name`.
        legacy_name: Print values in Paimon's internal form: the option `partition.legacy-name`.

    Raises:
        UnsupportedFormatError: Only the writer knows how it printed a value.
    """
    return "".join(
        f"{escape(name)}={escape(_text_or_default(value, type_, default_name, legacy_name))}/"
        for name, type_, value in zip(names, types, values, strict=True)
    )


def escape(text: str) -> str:
    """Return `text` with `%XX` for forbidden characters; blanks and letters of any script remain."""
    return text.translate(_ESCAPES)


def value_text(value: object, type_: DataType, *, legacy_name: bool) -> str:
    """Return a value that is not null as Paimon prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case Timestamp():
            return _timestamp_text(value, type_, legacy_name)
        case Decimal():
            return f"{value:f}"
        case float():
            return float_text(value) if type_.root == "FLOAT" else double_text(value)
        case int() if type_.root == "DATE" and not legacy_name:
            return date_text(value)
        case int() if type_.root == "TIME" and not legacy_name:
            return _time_text(value, type_.precision or 0)
        case int():
            return str(value)
    raise _unknowable(f"a {type_.root} value")  # For bytes, Java prints an address in memory.


def _text_or_default(value: object, type_: DataType, default_name: str, legacy_name: bool) -> str:
    if value is None:
        return default_name
    text = value_text(value, type_, legacy_name=legacy_name)
    return default_name if _is_blank(text) else text


def _is_blank(text: str) -> bool:
    return not text or (text.isspace() and not any(sign in text for sign in _NOT_BLANK_IN_JAVA))


def _timestamp_text(value: Timestamp, type_: DataType, legacy_name: bool) -> str:
    if legacy_name:
        return local_date_time_text(value.epoch_ms, value.nano_of_ms)
    if type_.root == "TIMESTAMP_LTZ":
        raise _unknowable("a timestamp in the time zone of its writer")
    year, month, day = civil_date(value.epoch_ms // _DAY_MS)
    seconds, nanos = second_of_day(value.epoch_ms, value.nano_of_ms)
    fraction = f"{nanos:09d}"
    while fraction.endswith("0") and len(fraction) > (type_.precision or 0):
        fraction = fraction[:-1]
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d} {clock}" + (f".{fraction}" if fraction else "")


def _time_text(milliseconds: int, precision: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if precision:
        text += "."
        for _ in range(precision):
            text += str(rest // 100)
            rest = rest % 100 * 10
            if rest == 0:
                break
    return text


def _unknowable(what: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"expected a partition value whose directory is known, found {what}", code="unsupported_partition"
    )


def double_text(value: float) -> str:
    """Return the result of `Double.toString`, such as `1.5` or `1.0E10`."""
    return _float_text(value, _two_digits(value, repr(value)))


def float_text(value: float) -> str:
    """Return the result of `Float.toString` for a number of single precision."""
    packed = struct.pack("<f", value)
    for digits in range(9):
        text = f"{value:.{digits}e}"
        # Rounding up the largest number leaves the range of single precision.
        if abs(float(text)) <= 3.4028235677973366e38 and struct.pack("<f", float(text)) == packed:
            return _float_text(value, _two_digits(value, text))
    return _float_text(value, f"{value:.9e}")


def date_text(epoch_day: int) -> str:
    """Return `2024-01-02`."""
    year, month, day = civil_date(epoch_day)
    return f"{year:04d}-{month:02d}-{day:02d}"


def local_date_time_text(epoch_ms: int, nano_of_ms: int) -> str:
    """Return `2024-01-02T03:04:05.123456`: no seconds if they are zero, fractions in groups of three digits."""
    year, month, day = civil_date(epoch_ms // _DAY_MS)
    seconds, nanos = second_of_day(epoch_ms, nano_of_ms)
    prefix = "-" if year < 0 else "+" if year > 9999 else ""
    text = f"{prefix}{abs(year):04d}-{month:02d}-{day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if seconds % 60 or nanos:
        text += f":{seconds % 60:02d}"
    if nanos:
        fraction = f"{nanos:09d}"
        while fraction.endswith("000"):
            fraction = fraction[:-3]
        text += f".{fraction}"
    return text


def second_of_day(epoch_ms: int, nano_of_ms: int) -> tuple[int, int]:
    """Return the second of the day and the nanosecond of that second."""
    seconds, milliseconds = divmod(epoch_ms % _DAY_MS, 1000)
    return seconds, milliseconds * 1_000_000 + nano_of_ms


def civil_date(epoch_day: int) -> tuple[int, int, int]:
    """Return year, month and day of the Gregorian calendar for any year, whereas Python's dates end at 9999.

    Years begin in March here, so that the leap day is the last day of its year.
    """
    era, day = divmod(epoch_day + 719_468, 146_097)  # 0000-03-01 is day 0; an era is 400 years.
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    return year + era * 400 + (month >= 10), month + 3 if month < 10 else month - 9, day


def _two_digits(value: float, text: str) -> str:
    """Return the nearest number of two digits if one is enough. Java prints two at least, and the nearest."""
    return f"{value:.1e}" if len(text.lstrip("-").partition("e")[0].replace(".", "").strip("0")) == 1 else text


def _float_text(value: float, text: str) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent_text = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The number is 0.digits times ten to the power of `point`.
    point = len(whole) + int(exponent_text or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0.0"
    if -2 <= point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
