"""Several splits at a time: the order of the splits, errors, and callers that stop."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakesweep.model.reading.plan import Split
from lakesweep.operations.reading.ahead import PARALLEL, read_ahead

SPLITS = [Split(()) for _ in range(20)]
NUMBERS = {id(split): number for number, split in enumerate(SPLITS)}


def numbered(split: Split) -> Iterator[Any]:
    number = NUMBERS[id(split)]
    time.sleep(0.02 * ((7 * number) % 3))
    for part in range(9):
        yield number, part


def threads() -> int:
    return sum(thread.name == "rows" for thread in threading.enumerate())


@pytest.mark.parametrize("in_threads", [False, True])
def test_the_order_of_the_splits(in_threads: bool) -> None:
    """Whichever thread is first; never more reads at a time than stated."""
    active: list[Split] = []
    counts = []

    def counted(split: Split) -> Iterator[Any]:
        active.append(split)
        counts.append(len(active))
        yield from numbered(split)
        active.pop()

    found = list(read_ahead(SPLITS, counted, in_threads=in_threads))
    assert found == [(number, (number, part)) for number in range(20) for part in range(9)]
    assert max(counts) <= (PARALLEL if in_threads else 1)


@pytest.mark.parametrize("in_threads", [False, True])
def test_an_error_comes_in_its_place(in_threads: bool) -> None:
    """After the batches of all splits before, and nothing follows."""

    def broken(split: Split) -> Iterator[Any]:
        yield from numbered(split)
        if NUMBERS[id(split)] == 3:
            raise ValueError("broken")

    found = []
    with pytest.raises(ValueError, match="broken"):
        for number, _ in read_ahead(SPLITS, broken, in_threads=in_threads):
            found.append(number)
    assert found == [number for number in range(4) for _ in range(9)]


def test_a_caller_that_stops() -> None:
    """Its threads end."""
    batches = read_ahead(SPLITS, numbered, in_threads=True)
    next(batches)
    batches.close()
    until = time.monotonic() + 30
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    assert threads() == 0
