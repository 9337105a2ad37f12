"""What the entries of a manifest tell of tainted files: statistics, partitions and indexes may be values of rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakesweep.format.row_entries import RowEntry, ValueStats
from lakesweep.format.values.binary_row import has_values
from lakesweep.model.erasure.places import ErasedFiles
from lakesweep.table.paths import real_name


@dataclass(frozen=True, slots=True)
class Taint:
    """The entries of one manifest about tainted files."""

    entries: int = 0
    stats: int = 0
    """Entries with a minimum or maximum of some column."""
    indexes: int = 0
    """Entries with an index of the file's values."""
    partitions: frozenset[bytes] = frozenset()
    """The partitions of the tainted files that certainly have such rows."""
    strangers: int = 0
    """Entries with statistics or an index, of files that no root names: nothing tells whether they had such rows."""
    is_known: bool = True
    """False: the manifest cannot be read."""


def taint_of(
    entries: Iterable[RowEntry], erased: ErasedFiles, is_known: Callable[[str], bool] = lambda name: True
) -> Taint:
    """Return what some entries tell of tainted files.

    Args:
        entries: The entries.
        erased: The tainted files.
        is_known: Tells by its name whether a root names a file, so that the search has judged it.
    """
    count = stats = indexes = strangers = 0
    partitions, names = set[bytes](), erased.names
    for each in entries:
        name = real_name(each.entry.file_name)
        if name not in names:
            is_telling = _says(each.stats) or each.entry.embedded_index is not None
            strangers += is_telling and not is_known(each.entry.file_name)
            continue
        count += 1
        stats += _says(each.stats)
        indexes += each.entry.embedded_index is not None
        if name in erased.holds:
            partitions.add(each.entry.partition)
    return Taint(count, stats, indexes, frozenset(partitions), strangers)


def _says(stats: ValueStats | None) -> bool:
    return stats is not None and (has_values(stats.minimum) or has_values(stats.maximum))
