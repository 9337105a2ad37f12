"""Make a time from the fields that a formatter read.

Source: Java `Parsed`, `IsoChronology.resolveDate`, the resolver styles SMART and LENIENT.
"""

from collections.abc import Mapping

from lakesweep.format.values.partition_path import civil_date

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS
MAX_YEAR = 999_999_999
"""The last year of Java's calendar. The first one is the same year before the year 0."""

_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY_FIELDS = frozenset(("year", "year_of_era", "month", "day", "day_of_year"))
_MOST = {"hour": 23, "minute": 59, "second": 59, "nano": SECOND_NS - 1, "half_day": 1, "half_day_hour": 11}
"""The largest numbers of a time; the smallest are 0."""


def resolved(fields: Mapping[str, int], *, is_lenient: bool) -> int | None:
    """Return a wall clock in nanoseconds from 1970-01-01T00:00, `None` if the fields are no day or contradict.

    Args:
        fields: What a formatter read.
        is_lenient: Numbers that are too large roll over. Else a day beyond the end of its month, up to the 31st, is the
            last day of the month, and other numbers that are too large are no time.
    """
    day = _lenient_day(fields) if is_lenient else _smart_day(fields)
    clock_ns = _lenient_clock(fields) if is_lenient else _smart_clock(fields)
    if day is None or clock_ns is None:
        return None
    if not _FIRST_DAY <= day + clock_ns // DAY_NS <= _LAST_DAY:
        return None
    return day * DAY_NS + clock_ns


def epoch_day(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to a day of the Gregorian calendar, of any year."""
    year -= month <= 2  # Years begin in March, so that the leap day is the last day of its year.
    era, rest = divmod(year, 400)
    return era * 146_097 + rest * 365 + rest // 4 - rest // 100 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719_469


def first_day(year: int) -> int:
    """Return the epoch day of the first of January."""
    return epoch_day(year, 1, 1)


_FIRST_DAY = first_day(-MAX_YEAR)
_LAST_DAY = first_day(MAX_YEAR + 1) - 1


def _lenient_day(fields: Mapping[str, int]) -> int | None:
    year, month, day = (fields.get(name) for name in ("year", "month", "day"))
    if year is None or month is None or day is None or abs(year) > MAX_YEAR:
        return None
    years, months = divmod(month - 1, 12)
    return epoch_day(year + years, months + 1, 1) + day - 1


def _lenient_clock(fields: Mapping[str, int]) -> int:
    hour, minute, second = (fields.get(name, 0) for name in ("hour", "minute", "second"))
    return (hour * 3600 + minute * 60 + second) * SECOND_NS + fields.get("nano", 0)


def _smart_day(fields: Mapping[str, int]) -> int | None:
    year = _smart_year(fields)
    if year is None or abs(year) > MAX_YEAR:
        return None
    month, day, day_of_year = (fields.get(name) for name in ("month", "day", "day_of_year"))
    if month is not None and day is not None:
        if not 1 <= month <= 12 or not 1 <= day <= 31:
            return None
        found = epoch_day(year, month, min(day, _month_length(year, month)))
        return found if day_of_year in (None, found - first_day(year) + 1) else None
    if day_of_year is None or not 1 <= day_of_year <= first_day(year + 1) - first_day(year):
        return None
    found = first_day(year) + day_of_year - 1
    _, found_month, found_day = civil_date(found)
    return found if month in (None, found_month) and day in (None, found_day) else None


def _smart_year(fields: Mapping[str, int]) -> int | None:
    year, of_era = fields.get("year"), fields.get("year_of_era")
    if of_era is None:
        return year
    if not 1 <= of_era <= MAX_YEAR + 1:
        return None
    # Without an era, only a year before the first one says that the year counts backwards.
    stated = of_era if year is None or year > 0 else 1 - of_era
    return stated if year in (None, stated) else None


def _month_length(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 28 if month == 2 and not is_leap else _DAYS[month - 1]


def _smart_clock(fields: Mapping[str, int]) -> int | None:
    """Return the nanosecond of the day, `None` if the fields are no time. Without a whole time it is midnight."""
    if fields.keys() <= _DAY_FIELDS:
        return 0
    parts = _with_hour(fields)
    if parts is None:
        return None
    hour, minute, second, nano = (parts.get(name) for name in ("hour", "minute", "second", "nano"))
    later = (second, nano) if minute is None else (nano,) if second is None else ()
    if hour is not None and any(part is not None for part in later):
        return 0  # Java does not look at the numbers of a time that is not whole.
    is_end_of_day = hour == 24 and not minute and not second and not nano
    for name, number in parts.items():
        if name not in _DAY_FIELDS and not 0 <= number <= _MOST[name] and not (is_end_of_day and name == "hour"):
            return None
    if hour is None:
        return 0
    if parts.get("half_day", hour % 24 // 12) != hour % 24 // 12 or parts.get("half_day_hour", hour % 12) != hour % 12:
        return None
    return ((hour * 60 + (minute or 0)) * 60 + (second or 0)) * SECOND_NS + (nano or 0)


def _with_hour(fields: Mapping[str, int]) -> dict[str, int] | None:
    """Return the fields with the hour of the day, however a pattern states it; `None` if two parts contradict."""
    parts = dict(fields)
    for stated, name, most in (("clock_hour", "hour", 24), ("half_day_clock_hour", "half_day_hour", 12)):
        number = parts.pop(stated, None)
        if number is None:
            continue
        if not 0 <= number <= most or parts.setdefault(name, number % most) != number % most:
            return None
    half_day, hour = parts.get("half_day"), parts.get("half_day_hour")
    if half_day is not None and hour is not None:
        if not 0 <= hour <= 11 or parts.setdefault("hour", half_day * 12 + hour) != half_day * 12 + hour:
            return None
    elif half_day is not None and not parts.keys() & {"hour", "minute", "second", "nano"}:
        # Newer JDKs take the middle of the half day, older ones midnight. The later time expires later.
        parts["hour"] = half_day * 12 + 6
    return parts
