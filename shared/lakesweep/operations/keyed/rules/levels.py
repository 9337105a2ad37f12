"""Levels of one bucket: which of its files make a sorted run, and which runs are newer.

Each file of level 0 is a run, the newest first. All files of a level from 1 on are one run. The level below a run has
older rows.

Source: Paimon 1.4 `Levels`, `SortedRun`.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from lakesweep.errors import RefusedError
from lakesweep.model.keyed import KeyedFile, Run


@dataclass(frozen=True, slots=True)
class Levels:
    """The runs of one bucket."""

    runs: tuple[Run, ...]
    """From the newest to the oldest."""
    last: int
    """The level of a compaction of all files."""

    @property
    def level_0(self) -> tuple[KeyedFile, ...]:
        """The files of level 0, the newest first."""
        return tuple(run[0] for run in self.runs if run[0].level == 0)

    @property
    def highest(self) -> int:
        """The highest level with files; -1: there are no files."""
        return self.runs[-1][0].level if self.runs else -1

    @property
    def files(self) -> tuple[KeyedFile, ...]:
        """All files, in the order of the runs."""
        return tuple(file for run in self.runs for file in run)

    def below(self, level: int) -> tuple[Run, ...]:
        """Return the runs that lie deeper than a level."""
        return tuple(run for run in self.runs if run[0].level > level)


def levels_of(files: Iterable[KeyedFile], num_levels: int) -> Levels:
    """Return the levels of one bucket.

    Args:
        files: Its live data files.
        num_levels: See `LevelOptions.num_levels`. Files on a higher level count as if the option were larger.

    Raises:
        RefusedError: Keys of two files of one level overlap, so no reader knows which row is the newest.
    """
    by_level: defaultdict[int, list[KeyedFile]] = defaultdict(list)
    for file in files:
        by_level[file.level].append(file)
    runs: list[Run] = [(file,) for file in sorted(by_level.pop(0, ()), key=_age)]
    runs += [_sorted_run(by_level[level]) for level in sorted(by_level)]
    return Levels(tuple(runs), max(num_levels - 1, *by_level, 0))


def _age(file: KeyedFile) -> tuple[int, int, int, str]:
    """Order files of level 0 from the newest on."""
    return -file.max_sequence, file.file.min_sequence, file.file.created_ms or 0, file.name


def _sorted_run(files: list[KeyedFile]) -> Run:
    run = tuple(sorted(files, key=lambda file: file.low))
    for before, after in pairwise(run):
        if after.low <= before.high:
            raise RefusedError(
                f"expected files of level {after.level} whose keys do not overlap, found {before.file.path} and "
                f"{after.file.path}",
                code="overlapping_files",
            )
    return run
