"""Which data files are rewritten, and which of them together.

A file is a candidate if it is small, or if many of its rows are deleted. Candidates of one partition go into *bins* in
the order in which their rows were written; a bin becomes about one file. A bin is worth its rewriting if it has several
files, or deleted rows enough.

Source: Paimon 1.4 `AppendCompactCoordinator`, `CoreOptions` (`compaction.min.file-num`, `target-file-size`,
`compaction.delete-ratio-threshold`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakesweep.format.values.options import bad_option, parse_int, parse_memory_bytes
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.writing.bins import Bin

_TARGET = ("target-file-size", "256 mb")
_MIN_FILES = ("compaction.min.file-num", "5")
_DELETED = ("compaction.delete-ratio-threshold", "0.2")


@dataclass(frozen=True, slots=True)
class PickOptions:
    """What decides about a file."""

    target_bytes: int
    min_files: int
    """So many small files are worth a rewriting."""
    deleted_share: float
    """A file with a larger share of deleted rows is rewritten, however large it is."""

    @property
    def small_bytes(self) -> int:
        """A smaller file is small."""
        return self.target_bytes // 10 * 7


def pick_options(options: Mapping[str, str]) -> PickOptions:
    """Return what a table's options say.

    Raises:
        FormatError: One does not parse.
    """
    text = options.get(*_DELETED)
    try:
        share = float(text)
    except ValueError as error:
        raise bad_option(_DELETED[0], "a number from 0 to 1", text) from error
    if not 0 <= share <= 1:
        raise bad_option(_DELETED[0], "a number from 0 to 1", text)
    target = parse_memory_bytes(options.get(*_TARGET), _TARGET[0])
    return PickOptions(max(1, target), parse_int(options.get(*_MIN_FILES), _MIN_FILES[0]), share)


def bins_of(files: Iterable[ReadFile], options: PickOptions, *, force: bool = False) -> tuple[Bin, ...]:
    """Return the bins of some files.

    Args:
        files: Live data files of one snapshot.
        options: What decides.
        force: Every file is a candidate, and every bin is worth it that has several files or deleted rows.
    """
    by_partition: defaultdict[bytes, list[ReadFile]] = defaultdict(list)
    for file in files:
        if force or file.size_bytes < options.small_bytes or _is_due(file, options):
            by_partition[file.partition].append(file)
    return tuple(
        found
        for partition in sorted(by_partition)
        for found in _packed(sorted(by_partition[partition], key=_order), options)
        if _is_worth(found, options, force)
    )


def _packed(files: Iterable[ReadFile], options: PickOptions) -> Iterator[Bin]:
    part: list[ReadFile] = []
    weight = 0
    for file in files:
        size = live_bytes(file)
        if part and weight + size > options.target_bytes:
            yield Bin(tuple(part))
            part, weight = [], 0
        part.append(file)
        weight += size
    if part:
        yield Bin(tuple(part))


def _is_worth(found: Bin, options: PickOptions, force: bool) -> bool:
    if any(_is_due(file, options) for file in found.files):
        return True
    if force:
        return len(found.files) > 1 or any(deleted_rows(file) != 0 for file in found.files)
    is_full = sum(map(live_bytes, found.files)) >= options.small_bytes
    return len(found.files) > 1 and (is_full or len(found.files) >= options.min_files)


def _is_due(file: ReadFile, options: PickOptions) -> bool:
    """Tell whether many rows of a file are deleted; unknown numbers count as many."""
    deleted = deleted_rows(file)
    return deleted is None or deleted > options.deleted_share * file.rows


def deleted_rows(file: ReadFile) -> int | None:
    """Return how many rows of a file are deleted; `None`: unknown."""
    return 0 if file.vector is None else file.vector.cardinality


def live_bytes(file: ReadFile) -> int:
    """Return about how many bytes the rows take that are not deleted."""
    deleted = deleted_rows(file) or 0
    return file.size_bytes * (file.rows - deleted) // max(1, file.rows)


def _order(file: ReadFile) -> tuple[int, int, str]:
    """Order files as they were written: writers of such tables begin their sequence numbers at 0 again and again."""
    return file.created_ms or 0, file.min_sequence, file.path
