"""Read numbers, texts and optional parts from a text, as a formatter of Java does.

Each parser takes a text, a position and the fields that are known so far. It returns the position behind what it read,
or -1. Nothing is tried a second time: an optional part that fails is skipped, and its fields are forgotten.

Source: Java `DateTimeFormatterBuilder` (`NumberPrinterParser`, `FractionPrinterParser`, `ReducedPrinterParser`,
`CompositePrinterParser`), in its strict mode.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Fields = dict[str, int]
Sign = Literal["normal", "not_negative", "exceeds_pad"]
"""`normal`: a minus may precede. `exceeds_pad`: a plus has to precede a number of more digits than the least."""

_DIGITS = re.compile("[0-9]+")


class Parser(Protocol):
    """A part of a pattern."""

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Return the position behind this part, or -1."""


@dataclass(frozen=True, slots=True)
class Literally:
    """Characters that have to stand there."""

    text: str

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Return the position behind the characters, or -1."""
        return position + len(self.text) if text.startswith(self.text, position) else -1


@dataclass(frozen=True, slots=True)
class Word:
    """One of some words, with the number that it means."""

    field: str
    words: tuple[tuple[str, int], ...]

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Return the position behind the word, or -1."""
        for word, number in self.words:
            if text.startswith(word, position):
                return _put(fields, self.field, number, position + len(word))
        return -1


@dataclass(frozen=True, slots=True)
class Number:
    """A number of so many digits."""

    field: str
    at_least: int
    at_most: int
    sign: Sign = "not_negative"
    followed_by: int = 0
    """Digits of the numbers that follow without a separator; this number leaves them alone."""
    is_two_digit_year: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether a number before this one knows how many digits to leave."""
        return self.at_least == self.at_most and self.sign == "not_negative"

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Return the position behind the number, or -1."""
        sign = text[position : position + 1]
        if sign == "+" or sign == "-":
            if self.sign == "not_negative" or (sign == "+" and self.sign == "normal"):
                return -1
            position += 1
        end = digits_end(text, position, self.at_most + self.followed_by)
        if self.followed_by:
            end = min(end, position + max(self.at_least, end - position - self.followed_by))
        count = end - position
        if count < self.at_least:
            return -1
        number = int(text[position:end])
        if number >= 1 << 63:
            number, end = number // 10, end - 1
        if sign == "-":
            if number == 0:
                return -1
            number = -number
        elif self.sign == "exceeds_pad" and (sign == "+") != (count > self.at_least):
            return -1
        if self.is_two_digit_year:
            number += 2000
        return _put(fields, self.field, number, end)


@dataclass(frozen=True, slots=True)
class Fraction:
    """Digits behind the second, as nanoseconds."""

    at_least: int
    at_most: int
    has_point: bool = False

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Return the position behind the digits, or -1."""
        if self.has_point:
            if not text.startswith(".", position):
                return -1
            position += 1
        end = digits_end(text, position, self.at_most)
        if end - position < self.at_least:
            return -1
        return _put(fields, "nano", int(text[position:end].ljust(9, "0")), end)


@dataclass(frozen=True, slots=True)
class Optionally:
    """Parts that are read together or skipped together."""

    parts: tuple[Parser, ...]

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Return the position behind the parts, or the same position."""
        tried = dict(fields)
        end = parse_all(self.parts, text, position, tried)
        if end < 0:
            return position
        fields.update(tried)
        return end


def parse_all(parts: Sequence[Parser], text: str, position: int, fields: Fields) -> int:
    """Read parts one after the other; return the position behind the last one, or -1."""
    for part in parts:
        position = part.parse(text, position, fields)
        if position < 0:
            return -1
    return position


def digits_end(text: str, position: int, at_most: int) -> int:
    """Return the position behind the ASCII digits from `position` on."""
    found = _DIGITS.match(text, position, position + at_most)
    return position if found is None else found.end()


def _put(fields: Fields, field: str, number: int, end: int) -> int:
    """Note a field. A field that is read twice has to have the same number."""
    return end if fields.setdefault(field, number) == number else -1
