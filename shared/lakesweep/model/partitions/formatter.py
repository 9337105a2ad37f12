"""Read the time of a partition, by the rules of Java's formatters.

A time is a number here: nanoseconds from 1970-01-01T00:00 to a wall clock, without a zone. Python's own times end at
the year 9999 and at microseconds.

A pattern may have the letters `y u M L d D H k K h a m s S n`, quoted text, `[` and `]`. Java knows more letters. They
need names in a language, weeks or zones, so they are refused. Source: Java `DateTimeFormatterBuilder.appendPattern`,
Paimon `PartitionTimeExtractor`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakesweep.format.values.options import bad_option
from lakesweep.model.partitions.calendar import resolved
from lakesweep.model.partitions.parsers import Fields, Fraction, Literally, Number, Optionally, Parser, Word, parse_all

_NAMES = {
    "y": "year_of_era",
    "u": "year",
    "M": "month",
    "L": "month",
    "d": "day",
    "D": "day_of_year",
    "H": "hour",
    "k": "clock_hour",
    "K": "half_day_hour",
    "h": "half_day_clock_hour",
    "a": "half_day",
    "m": "minute",
    "s": "second",
    "S": "nano",
    "n": "nano",
}
_HALF_DAYS = (("AM", 0), ("PM", 1))
_MOST_DIGITS = 19
_MAX_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class Formatter:
    """A pattern that is ready to read times."""

    parts: tuple[Parser, ...]
    is_lenient: bool = False
    """The 32nd of a month is a day of the next month. Else the 31st of a short month is its last day, the 32nd none."""

    def time_ns(self, text: str) -> int | None:
        """Return the time that a text states, `None` if the text does not match; a day alone is its midnight."""
        fields: Fields = {}
        if parse_all(self.parts, text, 0, fields) != len(text):
            return None
        return resolved(fields, is_lenient=self.is_lenient)


def parse_pattern(pattern: str, option: str) -> Formatter:
    """Read a pattern such as `yyyyMMdd HH:mm`.

    Raises:
        FormatError: With code `bad_option`: Java refuses the pattern, or it has a letter that is not known here.
    """
    if not 0 < len(pattern) <= _MAX_LENGTH:
        raise bad_option(option, f"a pattern of 1 to {_MAX_LENGTH} characters", pattern)
    reader = _Reader(pattern, option)
    return Formatter(reader.all_parts())


class _Reader:
    """Turns a pattern into its parts."""

    def __init__(self, pattern: str, option: str) -> None:
        self._pattern = pattern
        self._option = option
        self._position = 0
        self._open: list[_Parts] = [_Parts()]

    def all_parts(self) -> tuple[Parser, ...]:
        """Return the parts of the whole pattern. Java, too, closes what is still open at the end."""
        while self._position < len(self._pattern):
            self._read()
        while len(self._open) > 1:
            self._close()
        return tuple(self._open[0].parts)

    def _read(self) -> None:
        sign = self._pattern[self._position]
        if sign.isascii() and sign.isalpha():
            count = len(self._pattern) - self._position - len(self._pattern[self._position :].lstrip(sign))
            self._position += count
            self._open[-1].add(self._field(sign, count))
            return
        if sign == "'":
            self._open[-1].add(Literally(self._quoted()))
            return
        self._position += 1
        match sign:
            case "[":
                self._open[-1].start = -1
                self._open.append(_Parts())
            case "]":
                if len(self._open) == 1:
                    raise self._refusal("a [ before each ]")
                self._close()
            case "{" | "}" | "#":
                raise self._refusal(f"a pattern without {sign}, which Java reserves")
            case _:
                self._open[-1].add(Literally(sign))

    def _close(self) -> None:
        inner = self._open.pop()
        if inner.parts:
            self._open[-1].add(Optionally(tuple(inner.parts)))

    def _quoted(self) -> str:
        text, start = "", self._position + 1
        while (end := self._pattern.find("'", start)) >= 0:
            text += self._pattern[start:end]
            if self._pattern[end + 1 : end + 2] != "'":
                self._position = end + 1
                return text or "'"
            text, start = text + "'", end + 2
        raise self._refusal("a quote at the end of quoted text")

    def _field(self, letter: str, count: int) -> Parser:
        if letter not in _NAMES:
            raise self._refusal(f"the letters {' '.join(sorted(_NAMES))}, as the letter {letter} is not supported")
        part = _BY_LETTER[letter](_NAMES[letter], count)
        if part is None:
            raise self._refusal(f"fewer letters {letter} in a row")
        return part

    def _refusal(self, expected: str) -> Exception:
        return bad_option(self._option, f"a pattern of Java with {expected}", self._pattern)


class _Parts:
    """The parts of a pattern, or of an optional part of it."""

    def __init__(self) -> None:
        self.parts: list[Parser] = []
        self.start = -1
        """Place of the number that leaves digits to numbers directly behind it; -1: there is none."""

    def add(self, part: Parser) -> None:
        """Add a part. A number of a fixed width directly behind another number takes its digits from that one."""
        width = part.at_least if isinstance(part, (Number, Fraction)) else 0
        is_fixed = part.is_fixed if isinstance(part, Number) else isinstance(part, Fraction)
        first = self.parts[self.start] if self.start >= 0 else None
        if isinstance(first, Number) and width and is_fixed:
            self.parts[self.start] = replace(first, followed_by=first.followed_by + width)
        else:
            self.start = len(self.parts) if width else -1
        self.parts.append(part)


def _plain(field: str, count: int) -> Parser | None:
    if count == 1:
        return Number(field, 1, _MOST_DIGITS, "normal")
    return Number(field, 2, 2) if count == 2 else None


def _year(field: str, count: int) -> Parser | None:
    if count == 2:
        return Number(field, 2, 2, is_two_digit_year=True)
    if count > _MOST_DIGITS:
        return None
    return Number(field, count, _MOST_DIGITS, "normal" if count < 4 else "exceeds_pad")


def _day_of_year(field: str, count: int) -> Parser | None:
    if count == 1:
        return Number(field, 1, _MOST_DIGITS, "normal")
    return Number(field, count, 3) if count <= 3 else None


def _half_day(field: str, count: int) -> Parser | None:
    return Word(field, _HALF_DAYS) if count == 1 else None


def _fraction(field: str, count: int) -> Parser | None:
    return Fraction(count, count) if count <= 9 else None


def _nano(field: str, count: int) -> Parser | None:
    return Number(field, count, _MOST_DIGITS, "normal") if count <= _MOST_DIGITS else None


_BY_LETTER: Mapping[str, Callable[[str, int], Parser | None]] = {
    **dict.fromkeys("MLdHkKhms", _plain),
    **dict.fromkeys("yu", _year),
    "D": _day_of_year,
    "a": _half_day,
    "S": _fraction,
    "n": _nano,
}

_DATE = (
    Number("year", 1, 10, "normal"),
    Literally("-"),
    Number("month", 1, 2, "normal"),
    Literally("-"),
    Number("day", 1, 2, "normal"),
)
_CLOCK = (
    Literally(" "),
    Number("hour", 1, 2, "normal"),
    Literally(":"),
    Number("minute", 1, 2, "normal"),
    Literally(":"),
    Number("second", 1, 2, "normal"),
    Optionally((Fraction(1, 9, has_point=True),)),
)
DEFAULT = Formatter((*_DATE, Optionally(_CLOCK)), is_lenient=True)
"""`y-M-d`, with or without ` H:m:s` and a fraction: for tables that state no formatter."""
