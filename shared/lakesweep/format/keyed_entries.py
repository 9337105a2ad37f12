"""Keyed entries: the entries of a manifest with what a compaction of a table with a primary key needs.

Keys stay as bytes. Their types are in the schema.

Source: Paimon `DataFileMeta`, `ManifestEntry`.
"""

from collections.abc import Iterator
from itertools import tee
from typing import NamedTuple

from lakesweep.format.manifest import Identity, entries_of
from lakesweep.format.manifest_fields import KEYED_ENTRY
from lakesweep.format.metadata_file import read_rows
from lakesweep.format.row_entries import RowEntry


class KeyedEntry(NamedTuple):
    """One data file, added or deleted."""

    row: RowEntry
    """Without statistics."""
    min_key: bytes
    """The smallest key as one row, without the partition's keys; see `binary_row`."""
    max_key: bytes
    max_sequence: int
    """The largest sequence number of its rows."""
    total_buckets: int
    """Of its partition, when the file was written."""

    @property
    def is_add(self) -> bool:
        """Tell whether the entry adds a file."""
        return self.row.entry.is_add

    @property
    def identity(self) -> Identity:
        """The values that a DELETE must match."""
        return self.row.entry.identity


def read_keyed_entries(body: bytes, path: str) -> Iterator[KeyedEntry]:
    """Read a manifest, in the order of the file, as `read_manifest` does.

    Args:
        body: The whole file.
        path: The path for messages.

    Raises:
        FormatError: The file is damaged; this may come after some of the entries.
    """
    rows, again = tee(read_rows(body, path, KEYED_ENTRY, None))
    for entry, row in zip(entries_of(rows, path), again, strict=False):  # each entry is of the row beside it
        schema_id, deletes, first_row_id, write_cols, min_sequence, created_ms, low, high, last = row[4][8:]
        of_row = RowEntry(
            entry=entry,
            schema_id=schema_id,
            delete_row_count=deletes,
            first_row_id=first_row_id,
            write_cols=write_cols,
            stats=None,
            stats_cols=None,
            min_sequence=min_sequence or 0,
            created_ms=created_ms,
        )
        yield KeyedEntry(of_row, low, high, last, total_buckets=row[5])
