"""Change single members of a JSON text, and leave every other character as it is.

The text has been parsed before, so it is valid JSON in which no key is given twice. A member that was added and is
removed again leaves the text as it was.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

_BLANKS = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Span:
    """Where a member of an object, or an item of an array, stands in the text."""

    key: str
    """Empty for an item."""
    start: int
    """Where the key begins, or the item."""
    value: int
    """Where the value begins."""
    end: int
    """Behind the value."""


@dataclass(frozen=True, slots=True)
class Change:
    """What replaces a part of the text."""

    start: int
    end: int
    text: str


def changed(text: str, changes: Iterable[Change]) -> str:
    """Return the text with changes, none of which overlaps another."""
    parts, at = [], 0
    for each in sorted(changes, key=lambda each: (each.start, each.end)):
        parts += [text[at : each.start], each.text]
        at = each.end
    return "".join([*parts, text[at:]])


def root(text: str) -> int:
    """Return where the value of a document begins."""
    return _skipped(text, 0)


def members(text: str, at: int) -> list[Span]:
    """Return the members of the object that begins at a place."""
    found: list[Span] = []
    at = _skipped(text, at + 1)
    while text[at] != "}":
        at = _skipped(text, at + 1) if text[at] == "," else at
        start = at
        key, at = _decode(text, at)
        value = _skipped(text, _skipped(text, at) + 1)
        end = _decode(text, value)[1]
        found.append(Span(key, start, value, end))
        at = _skipped(text, end)
    return found


def items(text: str, at: int) -> list[Span]:
    """Return the items of the array that begins at a place."""
    found: list[Span] = []
    at = _skipped(text, at + 1)
    while text[at] != "]":
        at = _skipped(text, at + 1) if text[at] == "," else at
        end = _decode(text, at)[1]
        found.append(Span("", at, at, end))
        at = _skipped(text, end)
    return found


def removed(spans: Sequence[Span], gone: Collection[int]) -> list[Change]:
    """Return the changes that remove members or items, each with one comma.

    Args:
        spans: All of the object or the array.
        gone: Their numbers.
    """
    kept = [number for number in range(len(spans)) if number not in gone]
    if not kept:
        return [Change(spans[0].start, spans[-1].end, "")] if gone else []
    leading = [Change(spans[0].start, spans[kept[0]].start, "")] if kept[0] else []
    return leading + [Change(spans[n - 1].end, spans[n].end, "") for n in sorted(gone) if n > kept[0]]


def inserted(text: str, spans: Sequence[Span], after: int, addition: str) -> Change:
    """Return the change that adds a member or an item behind another, with blanks as the text has them there.

    Args:
        text: The text.
        spans: All of the object or the array.
        after: The number of the one that it follows.
        addition: What is added.
    """
    other = spans[after + 1] if after + 1 < len(spans) else spans[after]
    blanks = text[_blanks_before(text, other.start) : other.start]
    if text[_blanks_before(text, other.start) - 1] != "," and "\n" not in blanks:
        blanks = " "  # the only one of its line: what stands before it says nothing
    return Change(spans[after].end, spans[after].end, f",{blanks}{addition}")


def _blanks_before(text: str, at: int) -> int:
    while text[at - 1] in " \t\n\r":
        at -= 1
    return at


def _skipped(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()
