"""The files of one snapshot by partition.

The number of files of a partition is the number of its ADD entries less that of its DELETE entries, as in Paimon's
`PartitionEntry`. The newest creation time is the maximum over all of them: an entry whose file is gone shows that the
partition was in use.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakesweep.errors import RefusedError
from lakesweep.format.avro.projection import Row
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.manifest_list_writer import RawList
from lakesweep.format.raw_entries import RawEntry
from lakesweep.model.partitions.expiry import PartitionFacts

Values = tuple[object, ...]
TextEntry = tuple[bytes, RawEntry]
"""The text of the writer's schema, and the entry."""


@dataclass(slots=True)
class Tally:
    """What the entries of one partition add up to."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    newest_ms: int | None = None
    is_undated: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One manifest."""

    meta: ManifestMeta
    tallies: Mapping[bytes, Tally]
    next_row_id: int


class Source(Protocol):
    """What has read the manifests."""

    def values(self, row: bytes) -> Values:
        """Return the values of a partition."""

    def may_ask(self, row: bytes) -> bool:
        """Tell whether the entries of a partition may be asked for."""

    def entries_of(self, parts: Sequence[Part], rows: frozenset[bytes]) -> Iterator[TextEntry]:
        """Yield the entries of some partitions in some manifests."""

    def deletes_of(self, parts: Sequence[Part], rows: frozenset[bytes]) -> Iterator[Row]:
        """Yield the DELETEs of some partitions in some manifests, as `RawManifest.copies` does."""

    def corrupt(self, problem: str) -> RefusedError:
        """Return the error of a table on which nothing can be built."""


@dataclass(frozen=True, slots=True)
class Content:
    """The data files of one snapshot."""

    lists: tuple[RawList, RawList]
    """The base and the delta list."""
    parts: tuple[Part, ...]
    """In the order of the lists."""
    source: Source

    def partitions(self) -> tuple[PartitionFacts, ...]:
        """Return the partitions that the manifests name, also those without files.

        Of a partition that nobody may ask for, manifests may have been passed over, so its numbers may be too small.

        Raises:
            RefusedError: More files were deleted from one than added.
        """
        sums: dict[bytes, Tally] = {}
        for part in self.parts:
            for row, tally in part.tallies.items():
                total = sums.setdefault(row, Tally())
                total.files += tally.files
                total.rows += tally.rows
                total.size_bytes += tally.size_bytes
                total.newest_ms = newest_of(total.newest_ms, tally.newest_ms)
                total.is_undated |= tally.is_undated
        for row, total in sums.items():
            if total.files < 0 and self.source.may_ask(row):
                raise self.source.corrupt(f"more files of partition {self.source.values(row)} are deleted than added")
        return tuple(
            PartitionFacts(
                row,
                self.source.values(row),
                total.rows,
                total.files,
                total.size_bytes,
                None if total.is_undated else total.newest_ms,
            )
            for row, total in sums.items()
        )

    def has(self, row: bytes) -> bool:
        """Tell whether a manifest names a partition in these bytes."""
        return any(row in part.tallies for part in self.parts)

    @property
    def row_count(self) -> int:
        """The rows of all files."""
        return sum(tally.rows for part in self.parts for tally in part.tallies.values())

    @property
    def file_count(self) -> int:
        """The number of all files, as the lists count them."""
        return sum(meta.added_count - meta.deleted_count for each in self.lists for meta in each.metas)

    @property
    def next_row_id(self) -> int:
        """The row id after the largest that an entry or a list names; 0 if none names any."""
        listed = (meta.max_row_id for each in self.lists for meta in each.metas if meta.max_row_id is not None)
        return max([max(listed, default=-1) + 1, *(part.next_row_id for part in self.parts)])


def newest_of(one: int | None, other: int | None) -> int | None:
    """Return the later of two times, if any is known."""
    return max((ms for ms in (one, other) if ms is not None), default=None)
