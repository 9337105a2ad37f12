"""Time zones by the names that Java knows, and the clocks in them.

Source: Java `ZoneId.of`, `ZoneOffset.of`.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from lakesweep.errors import FormatError
from lakesweep.format.options import bad_option

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_EXPECTED = "a time zone such as Europe/Berlin, UTC or +08:00"
_MAX_OFFSET = timedelta(hours=18)

# A day from the ends of what Python can say, so that no offset leads beyond.
_FIRST_MS = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _MS
_LAST_MS = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH) // _MS

_OFFSET = re.compile(r"([+-])(?:(\d)|(\d\d)(?::(\d\d)(?::(\d\d))?|(\d\d)(\d\d)?)?)", re.ASCII)
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
# What some zone databases have besides: the machine's own zone, and copies with other rules.
_NO_REGIONS = re.compile(r"(?:localtime|posixrules|Factory|posix/.*|right/.*|.*\.(?:tab|zi|list|txt)|.*\.\..*)")


def parse_zone(text: str, name: str) -> tzinfo:
    """Read a zone as Java does: a region, `Z`, an offset, or `UTC`, `GMT` or `UT` with or without one.

    Raises:
        FormatError: With code `bad_option`, when there is no such zone; `name` is what the message calls it.
    """
    if text == "Z":
        return UTC
    rest = text
    for prefix in ("UTC", "GMT", "UT"):
        if text == prefix:
            return UTC
        if text.startswith((prefix + "+", prefix + "-")):
            rest = text.removeprefix(prefix)
            break
    return _offset(rest, text, name) if rest[:1] in ("+", "-") else _region(text, name)


def local_time(epoch_ms: int, zone: tzinfo) -> datetime:
    """Return what clocks in a zone show, without the zone. Times that no calendar of ours has become its ends."""
    return (_EPOCH + _MS * min(max(epoch_ms, _FIRST_MS), _LAST_MS)).astimezone(zone).replace(tzinfo=None, fold=0)


def earliest_ms(local: datetime, zone: tzinfo) -> int:
    """Return the first millisecond at which clocks in a zone show `local` or later.

    Of an hour that is shown twice it is the first; of one that is left out, the moment at which the clocks jump.
    """
    before, after = (_instant_ms(local, zone, fold) for fold in (0, 1))
    if before <= after:
        # Rounded up to a millisecond, the last of an hour that is shown again is the first of its repetition.
        return before if local_time(before, zone) >= local else after
    # In a gap Python counts `fold=0` with the offset before the jump, which is after it, and the other way round.
    low, high = after, before
    while low < high:
        middle = (low + high) // 2
        if local_time(middle, zone) >= local:
            high = middle
        else:
            low = middle + 1
    return low


def latest_ms(local: datetime, zone: tzinfo) -> int:
    """Return the last millisecond that `local` can mean: of an hour that is shown twice the second."""
    return max(_instant_ms(local, zone, fold) for fold in (0, 1))


def _instant_ms(local: datetime, zone: tzinfo, fold: int) -> int:
    if not datetime(1, 1, 2) <= local <= datetime(9999, 12, 30):
        return _FIRST_MS if local.year == 1 else _LAST_MS
    return -(-(local.replace(tzinfo=zone, fold=fold) - _EPOCH) // _MS)


def _offset(rest: str, text: str, name: str) -> tzinfo:
    match = _OFFSET.fullmatch(rest)
    if match is None:
        raise bad_option(name, _EXPECTED, text)
    sign, digit, hours, minutes, seconds, plain_minutes, plain_seconds = match.groups(default="")
    parts = int(digit or hours), int(minutes or plain_minutes or 0), int(seconds or plain_seconds or 0)
    offset = timedelta(hours=parts[0], minutes=parts[1], seconds=parts[2])
    if parts[1] > 59 or parts[2] > 59 or offset > _MAX_OFFSET:
        raise bad_option(name, _EXPECTED, text)
    return timezone(-offset if sign == "-" else offset)


def _region(text: str, name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if not _REGION.fullmatch(text) or _NO_REGIONS.fullmatch(text):
        raise bad_option(name, _EXPECTED, text)
    try:
        return ZoneInfo(text)
    # OSError: the name of a folder of the zone database, such as Europe. ValueError: a file that is no zone.
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        raise FormatError(str(bad_option(name, _EXPECTED, text)), code="bad_option") from error
