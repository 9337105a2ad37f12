"""Make the data of a page short."""

import string
from collections.abc import Callable, Iterable, Sequence

_ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
_NONE = "."
_DIGITS = 1_000_000
"""A size in a chart has at least this many steps."""


class Strings:
    """Texts that occur often, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        """Return the texts, in the order of their numbers."""
        return list(self._numbers)


def seconds_before(now_ms: int) -> Callable[[int | None], int | None]:
    """Return a function from epoch milliseconds to whole seconds before `now_ms`; less than 0: after it."""
    return lambda time_ms: None if time_ms is None else (now_ms - time_ms) // 1000


def unit_of(sizes: Iterable[int | None]) -> int:
    """Return the power of 1024 in which sizes are short whole numbers, and still exact enough for a chart."""
    unit, largest = 1, max((size for size in sizes if size is not None), default=0)
    while largest // (unit * 1024) >= _DIGITS:
        unit *= 1024
    return unit


def deltas(points: Iterable[Sequence[int | None]]) -> str:
    """Return points as a text, each number as the difference to the same number of the points before.

    `None` stays, and the next number counts from the last one that is known. A number has as many digits as it needs:
    of 5 bits in a digit's 6 the lowest come first, and the sixth says that another digit follows. The lowest bit of a
    number is its sign.
    """
    digits: list[str] = []
    last: list[int] = []
    for point in points:
        last = last or [0] * len(point)
        for place, value in enumerate(point):
            if value is None:
                digits.append(_NONE)
                continue
            step = value - last[place]
            last[place] = value
            rest = -2 * step + 1 if step < 0 else 2 * step
            while rest > 31:
                digits.append(_ALPHABET[32 + rest % 32])
                rest //= 32
            digits.append(_ALPHABET[rest])
    return "".join(digits)
