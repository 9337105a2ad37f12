"""Sections: files whose keys overlap, apart from all others, so that each section can be merged by itself.

The files of a section become as few runs as possible. Their order is Paimon's, so it comes from a queue that works as
Java's. Where several rows have the same key and sequence number, Paimon's own choice varies.

Source: Paimon 1.4 `IntervalPartition`, Java `PriorityQueue`.
"""

from collections.abc import Iterable

from lakesweep.model.keyed import KeyedFile, Run

Section = tuple[Run, ...]
"""The runs of a section, in Paimon's order."""


def sections_of(files: Iterable[KeyedFile]) -> tuple[Section, ...]:
    """Return the sections of some files of one bucket, ascending by key.

    Args:
        files: The files. Where two have the same keys, their order matters.
    """
    found: list[list[KeyedFile]] = []
    bound = None
    for file in sorted(files, key=lambda file: (file.low, file.high)):
        if bound is None or file.low > bound:
            found.append([])
            bound = file.high
        found[-1].append(file)
        bound = max(bound, file.high)
    return tuple(_runs(each) for each in found)


def _runs(files: list[KeyedFile]) -> Section:
    """Put files, ascending by their smallest key, into runs: each behind the run that ends first, if it can."""
    queue = _Queue()
    for file in files:
        run = queue.poll() if queue.runs else None
        if run is None:
            queue.add([file])
        elif file.low > run[-1].high:
            queue.add([*run, file])
        else:
            queue.add([file])
            queue.add(run)
    return tuple(map(tuple, queue.runs))


class _Queue:
    """Runs by their largest key, in the places where Java's queue has them."""

    def __init__(self) -> None:
        self.runs: list[list[KeyedFile]] = []

    def add(self, run: list[KeyedFile]) -> None:
        """Add a run."""
        place = len(self.runs)
        self.runs.append(run)
        while place and run[-1].high < self.runs[parent := (place - 1) // 2][-1].high:
            self.runs[place] = self.runs[parent]
            place = parent
        self.runs[place] = run

    def poll(self) -> list[KeyedFile]:
        """Take the run that ends first."""
        first, last = self.runs[0], self.runs.pop()
        count, place = len(self.runs), 0
        while (child := 2 * place + 1) < count:
            if child + 1 < count and self.runs[child][-1].high > self.runs[child + 1][-1].high:
                child += 1
            if last[-1].high <= self.runs[child][-1].high:
                break
            self.runs[place] = self.runs[child]
            place = child
        if count:
            self.runs[place] = last
        return first
