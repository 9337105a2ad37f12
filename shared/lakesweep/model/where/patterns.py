"""Patterns of `LIKE`: `%` stands for any characters, `_` for one.

Source: Spark `StringUtils.escapeLikeRegex`.
"""

from dataclasses import dataclass
from typing import Literal

Wild = Literal["%", "_"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Texts and wildcards in turn. Two texts never follow each other, and no text is empty."""

    parts: tuple["Text | Wild", ...]

    @property
    def prefix(self) -> str:
        """The text that every match begins with."""
        first = self.parts[0] if self.parts else ""
        return first.text if isinstance(first, Text) else ""

    @property
    def whole(self) -> str | None:
        """The only text that matches; None if there are several."""
        match self.parts:
            case ():
                return ""
            case (Text(text),):
                return text
        return None

    @property
    def is_any(self) -> bool:
        """Whether every text matches."""
        return bool(self.parts) and all(part == "%" for part in self.parts)

    @property
    def regex(self) -> str:
        """The pattern in the words of RE2. A `_` is one character of Unicode, and lines do not matter."""
        return rf"(?s)\A{''.join(map(_regex, self.parts))}\z"


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves."""

    text: str


class BadPatternError(Exception):
    """The escape character stands where it may not."""


def parse_pattern(text: str, escape: str) -> Pattern:
    """Read a pattern.

    Raises:
        BadPatternError: As Spark, which refuses an escape before any other character, and at the end.
    """
    parts: list[Text | Wild] = []
    characters: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == escape:
            character = text[position : position + 1]
            position += 1
            if character not in ("_", "%", escape):
                raise BadPatternError
            characters.append(character)
        elif character == "%" or character == "_":
            if characters:
                parts.append(Text("".join(characters)))
                characters = []
            parts.append("%" if character == "%" else "_")
        else:
            characters.append(character)
    if characters:
        parts.append(Text("".join(characters)))
    return Pattern(tuple(parts))


def _regex(part: Text | Wild) -> str:
    if part == "%":
        return ".*"
    if part == "_":
        return "."
    assert isinstance(part, Text)
    return "".join(each if each.isalnum() and each.isascii() else rf"\x{{{ord(each):x}}}" for each in part.text)
