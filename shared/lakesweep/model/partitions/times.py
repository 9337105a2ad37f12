"""What the values of a partition say about its time, by the strategy `values-time`.

A value counts as Java prints it: a DATE as its number of days, a time stamp with a T. So without a formatter neither of
them is a time, and such partitions never expire.

The pattern is followed as later versions of Paimon do: each `$key` stands for a value, the longest key first, and a
value is taken literally. Paimon 1.4.2 replaces key after key by regular expressions. There, `$h` also takes the
beginning of `$hour`, `$` and backslashes in values act as references, and a null in any key is an error. Source: Paimon
`PartitionTimeExtractor`, `PartitionValuesTimeExpireStrategy`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakesweep.errors import UnsupportedFormatError
from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.partition_path import value_text
from lakesweep.model.partitions.rules import PartitionRules

MAX_TEXT = 10_000
"""No time has more characters, so a longer text is none. Without a limit, patterns multiply long values."""
_REMEMBERED = 10_000
_REFERENCE = re.compile(r"[$\\]")
_Text = str | None


class _PaimonFailsError(Exception):
    """Paimon 1.4.2 has no time for this partition."""


@dataclass(frozen=True, slots=True)
class ValueTimes:
    """Reads the time of partitions of one table."""

    rules: PartitionRules
    keys: tuple[str, ...]
    types: tuple[DataType, ...]
    _parts: tuple[tuple[str, int | None], ...] = field(init=False, repr=False)
    """The pattern: a text as it is, or a `$key` with the key's place."""
    _has_nested_names: bool = field(init=False, repr=False)
    _times: dict[str, int | None] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Prepare what all partitions share."""
        places = {f"${key}": place for place, key in enumerate(self.keys)}
        names = re.compile(f"({'|'.join(re.escape(name) for name in sorted(places, key=len, reverse=True))})")
        parts = names.split(self.rules.pattern or "") if places else ()
        object.__setattr__(self, "_parts", tuple((part, places.get(part)) for part in parts if part))
        nested = any(a != b and b.startswith(a) for a in self.keys for b in self.keys)
        object.__setattr__(self, "_has_nested_names", nested)

    def text(self, row: Sequence[object]) -> str | None:
        """Return the text that states the time, `None` if a value that it needs is null.

        Of a text that is too long for a time, it is only the beginning.
        """
        if self.rules.pattern is None:
            return java_text(row[0], self.types[0])
        found, length = [], 0
        for part, place in self._parts:
            text = part if place is None else java_text(row[place], self.types[place])
            if text is None:
                return None
            if length <= MAX_TEXT:
                found.append(text)
                length += len(text)
        return "".join(found)

    def time_ns(self, text: str) -> int | None:
        """Return the wall clock that a text states, in nanoseconds from 1970-01-01T00:00; `None`: it states none."""
        if len(text) > MAX_TEXT:
            return None
        if text not in self._times:
            if len(self._times) >= _REMEMBERED:
                self._times.clear()
            self._times[text] = self.rules.formatter.time_ns(text)
        return self._times[text]

    def time_in_1_4_2(self, row: Sequence[object]) -> int | None:
        """Return the time that Paimon 1.4.2 reads, `None` if it reads none or fails."""
        if self.rules.pattern is None:
            text = self.text(row)
            return None if text is None else self.time_ns(text)
        try:
            return self.time_ns(self._text_in_1_4_2(row))
        except _PaimonFailsError:
            return None

    def may_differ_in_1_4_2(self, row: Sequence[object]) -> bool:
        """Tell whether `time_in_1_4_2` may be another time."""
        if self.rules.pattern is None:
            return False
        return self._has_nested_names or any(
            value is None or (isinstance(value, str) and _REFERENCE.search(value) is not None) for value in row
        )

    def _text_in_1_4_2(self, row: Sequence[object]) -> str:
        text = self.rules.pattern or ""
        for key, value, type_ in zip(self.keys, row, self.types, strict=True):
            replacement = java_text(value, type_)
            if replacement is None:
                raise _PaimonFailsError
            if count := text.count(f"${key}"):
                if count * len(replacement) > MAX_TEXT * 2:  # two characters of a replacement may stand for one
                    raise _PaimonFailsError
                text = text.replace(f"${key}", _as_reference(replacement, f"${key}"))
            if len(text) > MAX_TEXT:
                raise _PaimonFailsError
        return text


def java_text(value: object, type_: DataType) -> str | None:
    """Return a value as Java's `toString` prints it, `None` for null; bytes have no text that repeats."""
    if value is None or isinstance(value, str):
        return value
    try:
        return value_text(value, type_, legacy_name=True)
    except UnsupportedFormatError:
        return f"[{type_.root}]"


def _as_reference(value: str, whole: str) -> str:
    """Return what Java makes of a value in the place of a replacement. `$0` is the text that is replaced."""
    text, rest = "", value
    while match := _REFERENCE.search(rest):
        text, sign, rest = text + rest[: match.start()], match[0], rest[match.end() :]
        if not rest or (sign == "$" and rest[0] != "0"):
            raise _PaimonFailsError
        text, rest = text + (whole if sign == "$" else rest[0]), rest[1:]
    return text + rest
