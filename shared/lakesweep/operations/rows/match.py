"""What a search for rows finds: positions in data files."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lakesweep.format.vectors.vector import Width, collect, encode
from lakesweep.model.reading.plan import ReadPlan, Split
from lakesweep.operations.reading.matching import matched_positions
from lakesweep.table.stores import TableStores

_MOST_NARROW = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class FileMatch:
    """The rows of one data file for which a condition is true. It pickles small."""

    path: str
    """The data file's, relative to the table root."""
    count: int
    """How many rows, at least one. Rows that a vector deleted before are not among them."""
    blob: bytes = field(repr=False)
    """Their positions, as the bytes of a deletion vector (`read_vector`)."""


def match_split(stores: TableStores, plan: ReadPlan, split: Split) -> Iterator[FileMatch]:
    """Yield what each data file of a split has of a condition; nothing for a file without such rows.

    Args:
        stores: The table's store, and those of its external roots.
        plan: The plan, with a condition; it may be `ReadPlan.shared`.
        split: One of its splits.

    Raises:
        RefusedError: A data file does not exist (`missing_data_file`), or a vector contradicts it (`corrupt_vectors`).
        FormatError: A file is damaged.
        UnsupportedFormatError: pyroaring is missing.
        StorageError: A read failed.
    """
    for file, positions in matched_positions(stores, plan, split):
        width: Width = 32 if positions[-1] <= _MOST_NARROW else 64
        yield FileMatch(file.path, len(positions), encode(collect(positions, width), width))
