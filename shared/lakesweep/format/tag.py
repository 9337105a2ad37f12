"""Tags: a snapshot that is kept under a name, perhaps for a limited time. Source: Paimon `Tag`."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from lakesweep.format.snapshot import WRITTEN_FIELDS, Snapshot, snapshot_of
from lakesweep.format.values import json_document
from lakesweep.format.values.json_text import RawNumber, parse_raw, print_object

_CREATE_TIME = "tagCreateTime"
_TIME_RETAINED = "tagTimeRetained"
_SECOND_NS = 1_000_000_000
_MAX_SECONDS = (1 << 63) - 1

_LOCAL_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_DURATION = re.compile(
    r"(?P<sign>[-+])?P(?:(?P<days>[-+]?\d{1,19})D)?"
    r"(?:T(?:(?P<hours>[-+]?\d{1,19})H)?(?:(?P<minutes>[-+]?\d{1,19})M)?"
    r"(?:(?P<seconds>[-+]?\d{1,19})(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Tag:
    """A snapshot document with two more fields; a tag without a time to live has neither."""

    snapshot: Snapshot
    create_time: datetime | None
    """The creator's wall clock, without a zone."""
    time_retained_ns: int | None


def parse_tag(body: bytes, path: str) -> Tag:
    """Read a tag document."""
    document = json_document.parse_object(body, path)
    return Tag(snapshot_of(document, path), _create_time(document, path), _time_retained_ns(document, path))


def tag_body(snapshot_body: bytes, path: str, create_time: datetime | None, time_retained_ns: int | None) -> bytes:
    """Return the document of a tag, as Paimon writes it.

    Unknown fields follow the known ones. Without a time to live, neither of its two fields is written.

    Args:
        snapshot_body: The document of the snapshot, or of another tag of this snapshot.
        path: The path of this document.
        create_time: The creator's wall clock; written only together with a time to live.
        time_retained_ns: The time to live.

    Raises:
        FormatError: The document is not a snapshot.
        UnsupportedFormatError: A later version wrote it.

    Source: Paimon `TagManager#createOrReplaceTag`, `Tag#fromSnapshotAndTagTtl`.
    """
    document = parse_raw(snapshot_body, path)
    snapshot_of(json_document.parse_object(snapshot_body, path), path)
    for field in (_CREATE_TIME, _TIME_RETAINED):
        document.pop(field, None)
    # Paimon leaves out null fields.
    known = {field: document[field] for field in WRITTEN_FIELDS if document.get(field) is not None}
    others = {field: value for field, value in document.items() if field not in WRITTEN_FIELDS}
    life: dict[str, object] = {}
    if time_retained_ns is not None:
        if create_time is None:
            raise ValueError("expected no time to live without the time of creation, found one")
        life = {_CREATE_TIME: _time_array(create_time), _TIME_RETAINED: _seconds(time_retained_ns)}
    return print_object(known | others | life, path)


def _time_array(local: datetime) -> list[int]:
    """Return a local time as Jackson's `JavaTimeModule` does: without seconds and nanoseconds if they are zero."""
    parts = [local.year, local.month, local.day, local.hour, local.minute]
    if local.second or local.microsecond:
        parts.append(local.second)
    if local.microsecond:
        parts.append(local.microsecond * 1000)
    return parts


def _seconds(nanos: int) -> RawNumber:
    """Return seconds as Java prints a `BigDecimal` with nine decimals; Python's rule is the same."""
    digits = tuple(map(int, str(abs(nanos))))
    return RawNumber(str(Decimal((nanos < 0, digits, -9))) if nanos else "0.0")


def _create_time(document: dict[str, object], path: str) -> datetime | None:
    value = document.get(_CREATE_TIME)
    if value is None:
        return None
    parts = _numbers(value) if isinstance(value, list) else _text_parts(value) if isinstance(value, str) else None
    if parts is not None:
        year, month, day, hour, minute, second, nanos = (*parts, 0, 0)[:7]
        # Microseconds are rounded up, so that a tag never looks older than it is.
        micros = -(-nanos // 1000)
        try:
            if 0 <= nanos < _SECOND_NS:
                return datetime(year, month, day, hour, minute, second) + timedelta(microseconds=micros)
        except (ValueError, OverflowError):
            pass
    raise json_document.wrong_type(path, _CREATE_TIME, "a local date and time", value)


def _numbers(value: list[object]) -> list[int] | None:
    numbers = [part for part in value if type(part) is int]
    return numbers if len(numbers) == len(value) and 5 <= len(numbers) <= 7 else None


def _text_parts(value: str) -> list[int] | None:
    match = _LOCAL_TIME.fullmatch(value)
    if match is None:
        return None
    *parts, fraction = match.groups(default="0")
    return [*map(int, parts), int(fraction.ljust(9, "0"))]


def _time_retained_ns(document: dict[str, object], path: str) -> int | None:
    value = document.get(_TIME_RETAINED)
    if value is None:
        return None
    nanos: int | None = None
    if type(value) is int:
        nanos = value * _SECOND_NS if abs(value) <= _MAX_SECONDS else None
    elif isinstance(value, Decimal):
        nanos = _decimal_ns(value)
    elif isinstance(value, str):
        nanos = _text_ns(value)
    if nanos is None or abs(nanos) > _MAX_SECONDS * _SECOND_NS:
        raise json_document.wrong_type(path, _TIME_RETAINED, "seconds or an ISO-8601 duration", value)
    return nanos


def _decimal_ns(seconds: Decimal) -> int | None:
    if seconds.adjusted() > 20:  # Beyond 64 bits; expanding the exponent could take all memory.
        return None
    sign, digits, exponent = seconds.as_tuple()
    if not isinstance(exponent, int) or len(digits) > 100:
        return None
    shift = exponent + 9
    number = int("".join(map(str, digits)))
    # As in Java, fractions of a nanosecond are cut off; a very small exponent must not become a huge power of ten.
    nanos: int = number * 10**shift if shift >= 0 else number // 10 ** min(-shift, 120)
    return -nanos if sign else nanos


def _text_ns(text: str) -> int | None:
    match = _DURATION.fullmatch(text)
    if match is None or text[-1] in "PpTt":
        return None
    days, hours, minutes, seconds = (int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    fraction = int((match["fraction"] or "").ljust(9, "0"))
    if (match["seconds"] or "").startswith("-"):
        fraction = -fraction
    nanos = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * _SECOND_NS + fraction
    return -nanos if match["sign"] == "-" else nanos
