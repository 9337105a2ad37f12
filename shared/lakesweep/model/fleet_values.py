"""Read the values of one rule in the document of the fleet policy.

A value that is not valid makes the whole document invalid. The error names the place in the document.
"""

from collections.abc import Callable
from typing import NoReturn, TypeVar

from lakesweep.errors import MaintenanceError
from lakesweep.format.values.options import parse_int, parse_memory_bytes, parse_stated_ms
from lakesweep.model.fleet_json import bad_policy, refuse
from lakesweep.model.policy import INT_MAX

T = TypeVar("T")


class RuleValues:
    """The values of one rule. Each method reads a value of the key with this name, or refuses the document."""

    def __init__(self, location: str, at: str) -> None:
        """Begin with a rule.

        Args:
            location: The name of the document.
            at: Where the rule is in the document.
        """
        self._location, self._at = location, at

    def _array(self, key: str, value: object, of: str) -> list[object]:
        if not isinstance(value, list):
            self._refuse(key, f"an array of {of}", value)
        return value

    def _each(self, key: str, value: object, of: str, one: str, read: Callable[[str, object], str]) -> tuple[str, ...]:
        """Read an array of texts that has each text once."""
        found: list[str] = []
        for entry in self._array(key, value, of):
            text = read(key, entry)
            if text in found:
                self._refuse(key, f"each {one} once", text)
            found.append(text)
        return tuple(found)

    def _positive(self, key: str, value: object) -> int:
        if type(value) is not int or not 1 <= value <= INT_MAX:
            self._refuse(key, "a whole number, at least 1", value)
        return value

    def _count(self, key: str, value: object) -> int:
        if type(value) is int and abs(value) <= INT_MAX:
            return value
        if not isinstance(value, str):
            self._refuse(key, "a whole number", value)
        return self._parsed(key, "a whole number", value, parse_int)

    def _span(self, key: str, value: object) -> int:
        """Read a duration of at least 1 ms."""
        span_ms = self._duration(key, value)
        if span_ms == 0:
            self._refuse(key, "a duration of at least 1 ms", value)
        return span_ms

    def _duration(self, key: str, value: object) -> int:
        """Read a duration with its unit. A bare number would be milliseconds, hardly the intention in a policy."""
        expected = "a duration with its unit such as 3 d"
        if not isinstance(value, str) or value.strip().isdigit():
            self._refuse(key, expected, value)
        return self._parsed(key, expected, value, parse_stated_ms)

    def _size(self, key: str, value: object) -> int:
        """Read a size with its unit, of at least one byte."""
        expected = "a size with its unit such as 16 mb"
        if not isinstance(value, str) or value.strip().isdigit():
            self._refuse(key, expected, value)
        size_bytes = self._parsed(key, expected, value, parse_memory_bytes)
        if size_bytes == 0:
            self._refuse(key, expected, value)
        return size_bytes

    def _parsed(self, key: str, expected: str, text: str, parse: Callable[[str, str], T]) -> T:
        try:
            return parse(text, key)
        except MaintenanceError as error:
            raise bad_policy(self._location, f"{self._at}.{key}", expected, text) from error

    def _refuse(self, key: str, expected: str, found: object) -> NoReturn:
        refuse(self._location, f"{self._at}.{key}", expected, found)
