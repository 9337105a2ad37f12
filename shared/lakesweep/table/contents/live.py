"""The live files of some partitions of one snapshot, one after another.

A table may have a million of them, so no entry is kept: each look at them decodes the manifests again. Memory: some 20
bytes for each entry of these partitions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lakesweep.format.identity_digests import Digests, entry_digest, identity_digest
from lakesweep.table.contents.content import Content, Part, TextEntry
from lakesweep.table.contents.strict import unmatched


@dataclass(slots=True)
class Live:
    """The live files of some partitions."""

    content: Content
    rows: frozenset[bytes]
    """The partitions."""
    lowest_bucket: int = 0
    """Files in lower buckets are passed over."""
    _parts: list[Part] = field(init=False)
    _deleted: Digests = field(default_factory=Digests)

    def __post_init__(self) -> None:
        self._parts = [part for part in self.content.parts if not self.rows.isdisjoint(part.tallies)]
        deleting = [part for part in self._parts if part.meta.deleted_count]
        for row in self.content.source.deletes_of(deleting, self.rows):
            if not self._deleted.add(identity_digest(row)):
                raise self.content.source.corrupt(f"{row[2][4]} is deleted twice")

    def check(self) -> None:
        """Look for faults; see `__iter__`."""
        for _ in self:
            pass

    def __iter__(self) -> Iterator[TextEntry]:
        """Yield the files. The faults are known when all have been yielded.

        Raises:
            RefusedError: An entry is there twice, or deletes what no other adds; Paimon could not commit either.
            StorageError: A request failed.
        """
        source, added, left = self.content.source, Digests(), self._deleted.count
        for found in source.entries_of(self._parts, self.rows):
            entry = found[1].entry
            if not entry.is_add:
                continue
            digest = entry_digest(entry)
            if not added.add(digest):
                raise source.corrupt(f"{entry.file_name} is added twice")
            if digest in self._deleted:
                left -= 1
            elif entry.bucket >= self.lowest_bucket:
                yield found
        if left:
            deletes = source.deletes_of(self._parts, self.rows)
            name = next(row[2][4] for row in deletes if identity_digest(row) not in added)
            raise source.corrupt(unmatched(name, left))
