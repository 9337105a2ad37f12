"""Row entries: the entries of a manifest with what a reader of rows needs beyond the file's place.

Statistics stay as bytes. Only a reader with a condition on a column decodes them, by the schema of the data file.

Source: Paimon `DataFileMeta`, `SimpleStats`.
"""

from collections.abc import Iterator
from itertools import tee
from typing import NamedTuple

from lakesweep.errors import FormatError
from lakesweep.format.manifest import Identity, ManifestEntry, entries_of
from lakesweep.format.manifest_fields import ROW_ENTRY, ROW_ENTRY_WITH_STATS
from lakesweep.format.metadata_file import read_rows


class ValueStats(NamedTuple):
    """Statistics of some columns of a data file."""

    minimum: bytes
    """The smallest values as one row; see `binary_row`."""
    maximum: bytes
    null_counts: tuple[int | None, ...] | None
    """`None`: unknown, for one column or for all."""


class RowEntry(NamedTuple):
    """One data file, added or deleted."""

    entry: ManifestEntry
    schema_id: int
    """The schema with which the data file was written."""
    delete_row_count: int | None
    """The number of rows that delete others; `None`: unknown."""
    first_row_id: int | None
    write_cols: tuple[str, ...] | None
    """The columns in the file; `None`: those of the schema."""
    stats: ValueStats | None
    stats_cols: tuple[str, ...] | None
    """The columns of the statistics; `None`: those in the file."""
    min_sequence: int = 0
    """The smallest sequence number of its rows."""
    created_ms: int | None = None
    """When it was written, as the writer's clock says without its zone."""

    @property
    def is_add(self) -> bool:
        """Tell whether the entry adds a file."""
        return self.entry.is_add

    @property
    def identity(self) -> Identity:
        """The values that a DELETE must match."""
        return self.entry.identity


def read_row_entries(body: bytes, path: str, *, with_stats: bool) -> Iterator[RowEntry]:
    """Read a manifest, in the order of the file, as `read_manifest` does.

    Args:
        body: The whole file.
        path: The path for messages.
        with_stats: Decode the statistics; otherwise there are none.

    Raises:
        FormatError: The file is damaged; this may come after some of the entries.
    """
    new = tuple.__new__  # The constructor of a named tuple takes twice as long.
    rows, again = tee(read_rows(body, path, ROW_ENTRY_WITH_STATS if with_stats else ROW_ENTRY, None))
    for entry, row in zip(entries_of(rows, path), again, strict=False):  # each entry is of the row beside it
        schema_id, deletes, first_row_id, write_cols, min_sequence, created_ms, *more = row[4][8:]
        stats, stats_cols = (_stats(more[0], path), more[1]) if more else (None, None)
        yield new(
            RowEntry,
            (
                *(entry, schema_id, deletes, first_row_id, write_cols, stats, stats_cols),
                *(min_sequence or 0, created_ms),
            ),
        )


def _stats(stats: tuple[bytes | None, bytes | None, object] | None, path: str) -> ValueStats | None:
    if stats is None:
        return None
    minimum, maximum, counts = stats
    if minimum is None or maximum is None:
        return None
    if counts is not None and not (
        isinstance(counts, list) and all(each is None or type(each) is int for each in counts)
    ):
        raise FormatError(f"{path}: expected numbers in _NULL_COUNTS, found {type(counts).__name__}")
    return ValueStats(minimum, maximum, None if counts is None else tuple(counts))
