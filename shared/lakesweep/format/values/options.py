"""Option values: table options are texts, parsed by Paimon's grammar and no other.

Source: Paimon `OptionsUtils`, `TimeUtils`, `MemorySize`.
"""

import re

from lakesweep.errors import FormatError
from lakesweep.format.values.json_document import describe

_MAX_LONG = (1 << 63) - 1
_MAX_INT = (1 << 31) - 1

_UNIT_NS = {
    name: nanos
    for nanos, names in (
        (86_400_000_000_000, ("d", "day", "days")),
        (3_600_000_000_000, ("h", "hour", "hours")),
        (60_000_000_000, ("m", "min", "minute", "minutes")),
        (1_000_000_000, ("s", "sec", "secs", "second", "seconds")),
        (1_000_000, ("", "ms", "milli", "millis", "millisecond", "milliseconds")),
        (1_000, ("\u00b5s", "micro", "micros", "microsecond", "microseconds")),
        (1, ("ns", "nano", "nanos", "nanosecond", "nanoseconds")),
    )
    for name in names
}

_UNIT_BYTES = {
    name: 1 << shift
    for shift, names in (
        (0, ("", "b", "bytes")),
        (10, ("k", "kb", "kibibytes")),
        (20, ("m", "mb", "mebibytes")),
        (30, ("g", "gb", "gibibytes")),
        (40, ("t", "tb", "tebibytes")),
    )
    for name in names
}

_JAVA_BLANKS = "".join(map(chr, range(33)))
"""The characters that Java's `String.trim` removes."""

_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,4000})(.*)", re.DOTALL)
_JAVA_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")


def parse_duration_ns(text: str, key: str) -> int:
    """Read a duration such as `1 d`, `10min` or `500` (milliseconds), exactly, in nanoseconds."""
    number, unit = _number_and_unit(text, key, "a duration such as 1 d")
    if unit not in _UNIT_NS:
        raise bad_option(key, "a duration such as 1 d", text)
    nanos = number * _UNIT_NS[unit]
    if nanos // 1_000_000 > _MAX_LONG:
        raise bad_option(key, "a duration whose milliseconds fit in 64 bits", text)
    return nanos


def parse_duration_ms(text: str, key: str) -> int:
    """Read a duration in whole milliseconds. As in Java, fractions of a millisecond are cut off."""
    return parse_duration_ns(text, key) // 1_000_000


def parse_stated_ms(text: str, key: str) -> int:
    """Read a duration that a person states outside of table options, in whole milliseconds.

    A duration below 1 ms would silently count as 0, and characters that nobody sees hide a slip. Both are refused.
    """
    nanos = parse_duration_ns(text, key)
    if not text.isprintable() or 0 < nanos < 1_000_000:
        raise bad_option(key, "a duration such as 1 d, of at least 1 ms or 0", text)
    return nanos // 1_000_000


def parse_memory_bytes(text: str, key: str) -> int:
    """Read a memory size such as `128 mb`; every unit is a power of 1024."""
    number, unit = _number_and_unit(text, key, "a memory size such as 128 mb")
    if unit not in _UNIT_BYTES or number * _UNIT_BYTES[unit] > _MAX_LONG:
        raise bad_option(key, "a memory size such as 128 mb", text)
    return number * _UNIT_BYTES[unit]


def parse_int(text: str, key: str) -> int:
    """Read a whole number of 32 bits."""
    return _integer(text, key, _MAX_INT, "a 32-bit integer")


def parse_long(text: str, key: str) -> int:
    """Read a whole number of 64 bits."""
    return _integer(text, key, _MAX_LONG, "a 64-bit integer")


def parse_bool(text: str, key: str) -> bool:
    """Read `true` or `false` in any case, without blanks."""
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise bad_option(key, "true or false", text)


def bad_option(key: str, expected: str, found: str) -> FormatError:
    """Build the error for an option with an invalid value."""
    return FormatError(f"option {key}: expected {expected}, found {describe(found)}", code="bad_option")


def _number_and_unit(text: str, key: str, expected: str) -> tuple[int, str]:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip(_JAVA_BLANKS))
    if match is None or (number := int(match[1])) > _MAX_LONG:
        raise bad_option(key, expected, text)
    return number, match[2].strip(_JAVA_BLANKS).lower()


def _integer(text: str, key: str, largest: int, expected: str) -> int:
    if not _JAVA_INTEGER.fullmatch(text) or not -largest - 1 <= (number := int(text)) <= largest:
        raise bad_option(key, expected, text)
    return number
