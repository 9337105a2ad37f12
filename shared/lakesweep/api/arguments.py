"""Arguments as a Python program states them, made into those of operations, and sentences in a program's words."""

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar

from lakesweep.errors import UsageError
from lakesweep.runs.parameters.age import Age
from lakesweep.runs.parameters.parameter import bad_value
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.parameters.times import parse_past, parse_time_ms

Time = str | int | datetime
"""ISO-8601 with a zone, epoch milliseconds, or a datetime with a zone."""
Past = str | int | datetime | timedelta
"""A time, or an age: a text such as `3 d`, or a timedelta."""
T = TypeVar("T")
_WORDS: Mapping[type, str] = {int: "a whole number", str: "text", bool: "true or false"}
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])")
_SENTENCES = re.compile(r"([;:(,] )")


class VersionArguments(TypedDict, total=False):
    """The arguments that name a version of a table: at most one of the first five; none means the latest snapshot."""

    snapshot: int
    """Id of a snapshot."""
    tag: str
    """Name of a tag."""
    timestamp: Time
    """The last snapshot committed at or before this time."""
    watermark: int
    """The first snapshot with this or a higher watermark, in epoch milliseconds."""
    version: str
    """As in `VERSION AS OF`: a tag, else `watermark-<n>`, else a snapshot's id."""
    fall_back_to_tags: bool
    """If the snapshot has expired, use a tag that still holds it."""


def version_of(arguments: Mapping[str, Any]) -> tuple[Version, bool]:
    """Return the version that a call names, and whether it falls back to tags.

    Raises:
        UsageError: An argument is not known, or its value is not valid.
    """
    for name in arguments:
        if name not in VersionArguments.__annotations__:
            expected = ", ".join(VersionArguments.__annotations__)
            raise UsageError(f"argument {name!r} is not known; expected some of {expected}", code="unknown_argument")
    time = arguments.get("timestamp")
    return (
        Version(
            snapshot_id=typed("snapshot", arguments.get("snapshot"), int),
            tag=typed("tag", arguments.get("tag"), str),
            timestamp_ms=None if time is None else parse_time_ms(time_text("timestamp", time), "timestamp"),
            watermark=typed("watermark", arguments.get("watermark"), int),
            version=typed("version", arguments.get("version"), str),
        ),
        bool(typed("fall_back_to_tags", arguments.get("fall_back_to_tags"), bool)),
    )


def typed(name: str, value: object, kind: type[T]) -> T | None:
    """Return a value of a kind, or `None`.

    Raises:
        UsageError: It is of another kind.
    """
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise bad_value(name, _WORDS.get(kind, kind.__name__), value)
    return value


def required(name: str, value: object, kind: type[T]) -> T:
    """Return a value of a kind.

    Raises:
        UsageError: It is of another kind, or `None`.
    """
    found = typed(name, value, kind)
    if found is None:
        raise bad_value(name, _WORDS.get(kind, kind.__name__), value)
    return found


def texts_of(name: str, value: object) -> tuple[str, ...]:
    """Return some texts.

    Raises:
        UsageError: It is no list of texts.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise bad_value(name, "a list of texts", value)
    return tuple(value)


def located(name: str, value: object) -> str | None:
    """Return a location, given as text or as a path.

    Raises:
        UsageError: It is neither, or empty.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    found = typed(name, value, str)
    if found is not None and not found.strip():
        raise UsageError(f"{name}: expected a local path or s3://bucket/prefix, found nothing")
    return found


def time_text(name: str, value: object) -> str:
    """Return a time or an age as text.

    Raises:
        UsageError: It is neither text, a whole number, a datetime nor a timedelta.
    """
    found = plain(value)
    if isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)):
        return str(found)
    raise bad_value(name, "a time with its zone", value)


def past_ms(name: str, value: object, now_ms: Callable[[], int]) -> int | None:
    """Return a time that may be stated as an age; `None` if it is not stated.

    Raises:
        UsageError: It is not valid.
    """
    if value is None:
        return None
    found = parse_past(time_text(name, value), name)
    return found.before(now_ms()) if isinstance(found, Age) else found


def plain(value: object) -> object:
    """Return a value as an operation reads it: times and durations as text, paths too. Other values are unchanged."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)} ms"
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def spoken(sentence: str) -> str:
    """Return a sentence in which options have the names of arguments: `retain_max`, not `--retain-max`.

    Commands for a shell stay as they are.
    """
    parts = _SENTENCES.split(sentence)
    return "".join(part if "lakesweep " in part else _OPTION.sub(_argument, part) for part in parts)


def _argument(found: re.Match[str]) -> str:
    name = found[1].replace("-", "_")
    return "execute=True" if name == "execute" else name
