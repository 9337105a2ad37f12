"""Times and durations as callers write them."""

from datetime import UTC, datetime, timedelta

from lakesweep.errors import FormatError, UsageError
from lakesweep.format.values.options import parse_duration_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time_ms(text: str, name: str) -> int:
    """Read ISO-8601 with a zone, or epoch milliseconds. Digits below a millisecond are cut off.

    Raises:
        UsageError: Any other text; a time without a zone could be wrong by hours.
    """
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= 19 else _refuse(text, name)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return _refuse(text, name)
    if time.tzinfo is None:
        return _refuse(text, name, " without a zone")
    return (time - _EPOCH) // timedelta(milliseconds=1)


def parse_span_ms(text: str, name: str) -> int:
    """Read a duration in Paimon's format.

    Raises:
        UsageError: The text is no duration.
    """
    try:
        return parse_duration_ms(text, name)
    except FormatError as error:
        raise UsageError(
            f"{name}: expected a duration such as 10 min, 1 d or 500 ms, found {text!r}", code="bad_argument"
        ) from error


def say_span(span_ms: int) -> str:
    """Return a duration in the largest unit that divides it, as Paimon writes durations."""
    for unit, length_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if span_ms and span_ms % length_ms == 0:
            return f"{span_ms // length_ms} {unit}"
    return f"{span_ms} ms"


def say_time(epoch_ms: int) -> str:
    """Return a time as ISO-8601 in UTC, or the number if it lies outside the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{epoch_ms} ms after the epoch"


def _refuse(text: str, name: str, what: str = "") -> int:
    raise UsageError(
        f"{name}: expected a time with its zone, such as 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+01:00, "
        f"or epoch milliseconds, found {text!r}{what}",
        code="bad_argument",
    )
