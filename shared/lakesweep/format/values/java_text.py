"""Values as Java prints them, since the names of partition directories contain these texts.

Source: Java `Double.toString`, `Float.toString` (the shortest digits, as since JDK 19), `LocalDateTime.toString`.
"""

import struct

_DAY_MS = 86_400_000


def double_text(value: float) -> str:
    """Return the result of `Double.toString`, such as `1.5` or `1.0E10`."""
    return _float_text(value, _two_digits(value, repr(value)))


def float_text(value: float) -> str:
    """Return the result of `Float.toString` for a number of single precision."""
    packed = struct.pack("<f", value)
    for digits in range(9):
        text = f"{value:.{digits}e}"
        # Rounding up the largest number leaves the range of single precision.
        if abs(float(text)) <= 3.4028235677973366e38 and struct.pack("<f", float(text)) == packed:
            return _float_text(value, _two_digits(value, text))
    return _float_text(value, f"{value:.9e}")


def date_text(epoch_day: int) -> str:
    """Return `2024-01-02`."""
    year, month, day = civil_date(epoch_day)
    return f"{year:04d}-{month:02d}-{day:02d}"


def local_date_time_text(epoch_ms: int, nano_of_ms: int) -> str:
    """Return `2024-01-02T03:04:05.123456`: no seconds if they are zero, fractions in groups of three digits."""
    year, month, day = civil_date(epoch_ms // _DAY_MS)
    seconds, nanos = second_of_day(epoch_ms, nano_of_ms)
    prefix = "-" if year < 0 else "+" if year > 9999 else ""
    text = f"{prefix}{abs(year):04d}-{month:02d}-{day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if seconds % 60 or nanos:
        text += f":{seconds % 60:02d}"
    if nanos:
        fraction = f"{nanos:09d}"
        while fraction.endswith("000"):
            fraction = fraction[:-3]
        text += f".{fraction}"
    return text


def second_of_day(epoch_ms: int, nano_of_ms: int) -> tuple[int, int]:
    """Return the second of the day and the nanosecond of that second."""
    seconds, milliseconds = divmod(epoch_ms % _DAY_MS, 1000)
    return seconds, milliseconds * 1_000_000 + nano_of_ms


def civil_date(epoch_day: int) -> tuple[int, int, int]:
    """Return year, month and day of the Gregorian calendar for any year, whereas Python's dates end at 9999.

    Years begin in March here, so that the leap day is the last day of its year.
    """
    era, day = divmod(epoch_day + 719_468, 146_097)  # 0000-03-01 is day 0; an era is 400 years.
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    return year + era * 400 + (month >= 10), month + 3 if month < 10 else month - 9, day


def _two_digits(value: float, text: str) -> str:
    """Return the nearest number of two digits if one is enough. Java prints two at least, and the nearest."""
    return f"{value:.1e}" if len(text.lstrip("-").partition("e")[0].replace(".", "").strip("0")) == 1 else text


def _float_text(value: float, text: str) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent_text = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The number is 0.digits times ten to the power of `point`.
    point = len(whole) + int(exponent_text or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0.0"
    if -2 <= point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
