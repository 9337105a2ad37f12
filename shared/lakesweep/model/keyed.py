"""Data files of a table with a primary key: what decides about their compaction.

Each bucket of such a table is an LSM tree. Writers add files on level 0, and compaction merges them upwards. A *sorted
run* is some files whose keys do not overlap: one file of level 0, or all files of a level from 1 on. Everything here
pickles.

Source: Paimon `DataFileMeta`, `SortedRun`, `LevelSortedRun`.
"""

from dataclasses import dataclass
from typing import NamedTuple

from lakesweep.model.reading.plan import ReadFile

Key = tuple[object, ...]
"""A primary key without the partition's keys, whose order among tuples of Python is Paimon's: a text is its UTF-8, a
point in time a pair of milliseconds and nanoseconds."""


class KeyedFile(NamedTuple):
    """One data file."""

    file: ReadFile
    """Where it lies, its level, rows, deletion vector and smallest sequence number."""
    low: Key
    """Its smallest key."""
    high: Key
    """Its largest key."""
    max_sequence: int
    delete_rows: int | None
    """Rows that delete others; `None`: unknown."""
    total_buckets: int
    deleted_on: frozenset[int] = frozenset()
    """Deeper levels on which it was before a rollback. A DELETE of it stands there, so nobody sees it there again."""

    @property
    def name(self) -> str:
        """Return its name, without a folder."""
        return self.file.path.rpartition("/")[2]

    @property
    def level(self) -> int:
        """Return its level."""
        return self.file.level


Run = tuple[KeyedFile, ...]
"""The files of a sorted run, ascending by key."""


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How rows with the same key are merged: the one with the largest sequence number counts."""

    keys: tuple[str, ...]
    """The primary key without the partition's keys, in its order."""
    has_vectors: bool
    """Readers apply deletion vectors, and do not see level 0."""
    ignores_deletes: bool = False
    """Rows that delete others do nothing (`ignore-delete`)."""
    sequence: tuple[str, ...] = ()
    """The columns that count before the sequence number (`sequence.field`)."""
    is_descending: bool = False
    """The smallest value of these columns counts, not the largest."""
    is_thin: bool = False
    """Files have no columns `_KEY_` (`data-file.thin-mode`)."""


@dataclass(frozen=True, slots=True)
class MergeJob:
    """Files of one bucket that one task merges."""

    level: int
    """That of the new files."""
    runs: tuple[Run, ...]
    """What is merged. With equal sequence numbers, the row of the earlier run counts; in Paimon, one of them."""
    deeper: tuple[Run, ...] = ()
    """Runs of the levels below the new files, from the upper one on. Their rows with the same keys are marked."""
    drops_deletes: bool = True
    """Nothing lies below that a row which deletes others would have to delete."""
    is_upgrade: bool = False
    """The one file stays as it is, and only changes its level. Its keys are read, and looked up in `deeper`."""

    @property
    def partition(self) -> bytes:
        """The partition."""
        return self.runs[0][0].file.partition

    @property
    def bucket(self) -> int:
        """The bucket."""
        return self.runs[0][0].file.bucket

    @property
    def files(self) -> tuple[KeyedFile, ...]:
        """The files that are merged."""
        return tuple(file for run in self.runs for file in run)

    @property
    def size_bytes(self) -> int:
        """The size of these files."""
        return sum(file.file.size_bytes for file in self.files)
