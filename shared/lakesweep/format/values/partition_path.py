"""Partition paths: the directories of a partition, named by its values.

They serve to locate files. Values are never read back from a path, since null, '' and ' ' are three partitions in one
directory. Source: Paimon `InternalRowPartitionComputer`, `PartitionPathUtils`.
"""

from collections.abc import Sequence
from decimal import Decimal

from lakesweep.errors import UnsupportedFormatError
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.java_text import (
    civil_date,
    date_text,
    double_text,
    float_text,
    local_date_time_text,
    second_of_day,
)

DEFAULT_NAME = "__DEFAULT_PARTITION__"

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
    year, month, day = civil_date(value.epoch_ms // 86_400_000)
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
