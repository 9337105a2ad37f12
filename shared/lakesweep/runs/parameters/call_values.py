"""Read single arguments from JSON or a command line."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.parameters.times import parse_time_ms


def count_of(value: object, name: str) -> int | None:
    """Read a whole number, given as a number or as text."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    text = value.strip() if isinstance(value, str) else ""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise UsageError(f"{name}: expected a whole number, found {value!r}", code="bad_argument")
    return int(text)


def text_of(value: object, name: str) -> str:
    """Read a text; a whole number is accepted, too."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise UsageError(f"{name}: expected text, found {value!r}", code="bad_argument")


def texts_of(value: object, name: str) -> tuple[str, ...]:
    """Read one text or several."""
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(text, str) and text.strip() for text in values):
        raise UsageError(f"{name}: expected a text or an array of texts, found {value!r}", code="bad_argument")
    return tuple(dict.fromkeys(values))


def words_of(given: Mapping[str, object], name: str) -> str | None:
    """Read a text by name, `None` if it is not given."""
    return text_of(given[name], name) if name in given else None


def flag_of(value: object, name: str) -> bool:
    """Read true or false, given as a JSON value or as text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise UsageError(f"{name}: expected true or false, found {value!r}", code="bad_argument")


def version_of(given: Mapping[str, object], *, tag: str = "tag") -> Version:
    """Read all arguments that choose a version of a branch; whether there are too many is checked later.

    Args:
        given: The arguments of the call.
        tag: The name of the argument for a tag.
    """
    timestamp = given.get("timestamp")
    return Version(
        snapshot_id=count_of(given.get("snapshot"), "snapshot"),
        tag=words_of(given, tag),
        timestamp_ms=None if timestamp is None else parse_time_ms(text_of(timestamp, "timestamp"), "timestamp"),
        watermark=count_of(given.get("watermark"), "watermark"),
        version=words_of(given, "version"),
    )
