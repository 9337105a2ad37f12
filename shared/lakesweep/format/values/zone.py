"""Time zones by their names in Java, and the local times in them.

Source: Java `ZoneId.of`, `ZoneOffset.of`.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from lakesweep.errors import FormatError
from lakesweep.format.values.options import bad_option

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_EXPECTED = "a time zone such as Europe/Berlin, UTC or +08:00"
_MAX_OFFSET = timedelta(hours=18)

# One day from the ends of Python's range, so that no offset leads beyond them.
_FIRST_MS = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _MS
_LAST_MS = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH) // _MS

_OFFSET = re.compile(r"([+-])(?:(\d)|(\d\d)(?::(\d\d)(?::(\d\d))?|(\d\d)(\d\d)?)?)", re.ASCII)
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
# Some zone databases also have these names: the machine's own zone, and copies with other rules.
_NO_REGIONS = re.compile(r"(?:localtime|posixrules|Factory|posix/.*|right/.*|.*\.(?:tab|zi|list|txt)|.*\.\..*)")


def parse_zone(text: str, name: str) -> tzinfo:
    """Read a zone as Java does: a region, `Z`, an offset, or `UTC`, `GMT` or `UT` with or without an offset.

    Raises:
        FormatError: With code `bad_option`, if there is no such zone. The message contains `name`.
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
    """Return the local time in a zone. Times outside of Python's calendar become the ends of the calendar."""
    return (_EPOCH + _MS * min(max(epoch_ms, _FIRST_MS), _LAST_MS)).astimezone(zone).replace(tzinfo=None, fold=0)


def earliest_ms(local: datetime, zone: tzinfo) -> int:
    """Return the first millisecond at which clocks in a zone show `local` or later.

    If clocks show an hour twice, this is in the first one. If they skip an hour, this is the moment of the jump.
    """
    before, after = (_instant_ms(local, zone, fold) for fold in (0, 1))
    if before <= after:
        # Rounded up to a millisecond, the end of the first of two equal hours is the begin of the second.
        return before if local_time(before, zone) >= local else after
    # In a gap, Python counts `fold=0` with the offset before the jump, which gives the later time, and vice versa.
    low, high = after, before
    while low < high:
        middle = (low + high) // 2
        if local_time(middle, zone) >= local:
            high = middle
        else:
            low = middle + 1
    return low


def latest_ms(local: datetime, zone: tzinfo) -> int:
    """Return the last millisecond that `local` can mean: if clocks show an hour twice, in the second one."""
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
