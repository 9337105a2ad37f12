"""What is done with the files of a unit: which are merged, each job by itself, and which only change their level.

Sections are merged each by itself, and small ones together with their neighbours, so that files get larger. A large
file whose keys no other file has only changes its level. Between two jobs lies no key of a third, so their new files do
not overlap.

Source: Paimon 1.4 `MergeTreeCompactTask`, `FileRewriteCompactTask`, `LookupMergeTreeCompactRewriter#upgradeStrategy`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from lakesweep.model.keyed import Key, KeyedFile, MergeJob, MergeRules, Run
from lakesweep.operations.keyed.rules.levels import Levels
from lakesweep.operations.keyed.rules.pick import Unit
from lakesweep.operations.keyed.rules.sections import Section, sections_of

MAX_JOB_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class BucketWork:
    """What a compaction of one bucket does. Files of the unit in neither list stay as they are."""

    level: int
    """That of all new files."""
    jobs: tuple[MergeJob, ...]
    """Ascending by key."""
    moved: tuple[KeyedFile, ...]
    """They change their level, and nobody has to read them."""


def work_of(
    levels: Levels, unit: Unit, rules: MergeRules, small_bytes: int, max_bytes: int = MAX_JOB_BYTES
) -> BucketWork:
    """Return what a compaction does.

    Args:
        levels: The bucket.
        unit: What is compacted of it.
        rules: How rows are merged.
        small_bytes: A smaller file is rewritten together with its neighbours.
        max_bytes: A job is closed before it gets larger; one section is never divided.
    """
    planner = _Planner(levels, unit, rules)
    if unit.one_by_one:
        for file in unit.files:
            planner.merge([((file,),)])
        return planner.work
    part: list[Section] = []
    size = 0
    for section in sections_of(unit.files):
        file, own = section[0][0], _size(section)
        is_stable = len(section) == 1 and file.file.size_bytes >= small_bytes and not planner.hides_rows(file)
        if part and (is_stable or size + own > max_bytes):
            planner.add(part)
            part, size = [], 0
        if is_stable:
            planner.add([section])
        else:
            part.append(section)
            size += own
    planner.add(part)
    return planner.work


class _Planner:
    """Collects jobs and moved files."""

    def __init__(self, levels: Levels, unit: Unit, rules: MergeRules) -> None:
        self._unit, self._rules = unit, rules
        self._is_last = unit.level == levels.last
        self._below = levels.below(unit.level)
        self._jobs: list[MergeJob] = []
        self._moved: list[KeyedFile] = []

    @property
    def work(self) -> BucketWork:
        """What was collected."""
        return BucketWork(self._unit.level, tuple(self._jobs), tuple(self._moved))

    def hides_rows(self, file: KeyedFile) -> bool:
        """Tell whether a file is to be rewritten for its deletion vector."""
        return self._unit.clears_vectors and file.file.vector is not None

    def add(self, sections: Sequence[Section]) -> None:
        """Merge some sections, or move the file if it is only one."""
        if len(sections) == 1 and len(sections[0]) == 1 and not self._rewrites(file := sections[0][0][0]):
            self._move(file)
        elif sections:
            self.merge(sections)

    def merge(self, sections: Sequence[Section], *, is_upgrade: bool = False) -> None:
        """Merge some sections, ascending by key, into files of their own."""
        runs = (tuple(chain.from_iterable(parts)) for parts in zip_longest(*sections, fillvalue=()))
        self._jobs.append(
            MergeJob(
                level=self._unit.level,
                runs=tuple(runs),
                deeper=tuple(self._deeper(sections)) if self._rules.has_vectors else (),
                drops_deletes=self._rules.has_vectors or not self._below,
                is_upgrade=is_upgrade,
            )
        )

    def _rewrites(self, file: KeyedFile) -> bool:
        """Tell whether a file, though it is alone, must not stay as it is."""
        if self.hides_rows(file) or self._unit.level in file.deleted_on:
            return True
        may_delete = file.delete_rows != 0
        if self._is_last and may_delete:
            return True
        may_lose = bool(self._rules.sequence) and not self._is_last  # against a row of a deeper file
        return file.level == 0 and self._rules.has_vectors and (may_delete or may_lose)

    def _move(self, file: KeyedFile) -> None:
        if file.level == self._unit.level:
            return
        section = ((file,),)
        if file.level == 0 or (self._rules.has_vectors and any(self._deeper([section]))):
            self.merge([section], is_upgrade=True)
        else:
            self._moved.append(file)

    def _deeper(self, sections: Sequence[Section]) -> Iterator[Run]:
        """Yield the deeper files that may have keys of some sections, by run."""
        lows, highs = zip(*map(_bounds, sections), strict=True)

        def overlaps(file: KeyedFile) -> bool:
            place = bisect_left(highs, file.low)
            return place < len(lows) and bool(lows[place] <= file.high)

        for run in self._below:
            first, end = bisect_left(run, lows[0], key=_high), bisect_right(run, highs[-1], key=_low)
            if found := tuple(filter(overlaps, run[first:end])):
                yield found


def _low(file: KeyedFile) -> Key:
    return file.low


def _high(file: KeyedFile) -> Key:
    return file.high


def _bounds(section: Section) -> tuple[Key, Key]:
    return min(run[0].low for run in section), max(run[-1].high for run in section)


def _size(runs: Iterable[Run]) -> int:
    return sum(file.file.size_bytes for run in runs for file in run)
