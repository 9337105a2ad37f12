"""Times and durations as callers write them."""

from datetime import UTC, datetime, timedelta
from typing import NoReturn

from lakesweep.errors import FormatError, UsageError
from lakesweep.format.values.options import parse_stated_ms
from lakesweep.runs.parameters.age import Age

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000}
_TIME = (
    "a time with its zone, such as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+01:00, or epoch milliseconds (13 digits)"
)
_IN_SECONDS = range(10**9, 10**10)
"""These numbers are times since 2001 in epoch seconds. In milliseconds they are times before May 1970."""


def parse_time_ms(text: str, name: str) -> int:
    """Read ISO-8601 with a zone, or epoch milliseconds. Digits below a millisecond are cut off.

    Raises:
        UsageError: Any other text; a time without a zone could be wrong by hours, and a short number is in seconds.
    """
    return _time_ms(text, name, _TIME)


def parse_past(text: str, name: str) -> int | Age:
    """Read a time, or an age: a duration with its unit.

    Raises:
        UsageError: The text is neither. A small number may be an age without its unit.
    """
    expected = f"an age with its unit such as '3 d', or {_TIME}"
    if _is_number(text):
        if int(text[:20]) < _IN_SECONDS.start:
            _refuse_number(int(text[:20]), name, expected)
        return _time_ms(text, name, expected)
    try:
        return Age(parse_stated_ms(text, name))
    except FormatError:
        return _time_ms(text, name, expected)


def parse_span_ms(text: str, name: str, meant: str = "s") -> int:
    """Read a duration in Paimon's format, with its unit. Only 0 needs none.

    Args:
        text: As typed.
        name: The name in messages.
        meant: The unit that people mean if they leave it out.

    Raises:
        UsageError: The text is no duration. Paimon reads a number without a unit as milliseconds, people do not.
    """
    try:
        span_ms = parse_stated_ms(text, name)
    except FormatError as error:
        raise UsageError(
            f"{name}: expected a duration such as 10 min, 1 d or 500 ms, at least 1 ms or 0, found {text!r}",
            code="bad_argument",
        ) from error
    number = text.strip()
    if _is_number(number) and span_ms:
        raise UsageError(
            f"{name}: {number} has no unit; expected {_typed(number, 'ms', 1)}, as Paimon would read it, or "
            f"{_typed(number, meant, _UNIT_MS[meant])}",
            code="bad_argument",
        )
    return span_ms


def say_span(span_ms: int) -> str:
    """Return a duration in the largest unit that divides it, as Paimon writes durations."""
    for unit, length_ms in _UNIT_MS.items():
        if span_ms and span_ms % length_ms == 0:
            return f"{span_ms // length_ms} {unit}"
    return f"{span_ms} ms"


def say_time(epoch_ms: int) -> str:
    """Return a time as ISO-8601 in UTC, or the number if it lies outside the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{epoch_ms} ms after the epoch"


def _time_ms(text: str, name: str, expected: str) -> int:
    if _is_number(text):
        number = int(text) if len(text) <= 19 else _refuse(text, name, expected)
        return _refuse_number(number, name, expected) if number in _IN_SECONDS else number
    try:
        time = datetime.fromisoformat(text if text.isprintable() else "")  # any character may stand before the hours
    except ValueError:
        return _refuse(text, name, expected)
    if time.tzinfo is None:
        return _refuse(text, name, expected, " without a zone")
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _typed(number: str, unit: str, length_ms: int) -> str:
    """Return a duration as it should be typed, and in brackets in a larger unit."""
    typed, said = f"{number} {unit}", say_span(int(number) * length_ms)
    return f"'{typed}'" if said == typed else f"'{typed}' ({said})"


def _refuse_number(number: int, name: str, expected: str) -> NoReturn:
    other = f"in epoch seconds it is {say_time(number * 1000)}" if number in _IN_SECONDS else "an age has a unit"
    raise UsageError(
        f"{name}: {number} is {say_time(number)} in epoch milliseconds, and {other}; expected {expected}",
        code="bad_argument",
    )


def _refuse(text: str, name: str, expected: str, what: str = "") -> NoReturn:
    raise UsageError(f"{name}: expected {expected}, found {text!r}{what}", code="bad_argument")
