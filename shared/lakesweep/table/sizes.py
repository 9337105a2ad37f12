"""Which sizes metadata states of files, and which files are of another size than that.

Paimon states sizes in bytes, exactly: readers of formats with a footer begin at the end that the size names. One size
is none of a file: that of a bucket's share of a compacted changelog, whose entry tells what the share had before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lakesweep.format.index_manifest import IndexEntry
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.facts import base_name
from lakesweep.table.live_set import Note, name_hash
from lakesweep.table.metadata import MetadataReader, Unreadable


@dataclass(frozen=True, slots=True)
class WrongSize:
    """A file that is not as long as the metadata of those that need it states."""

    path: str
    expected: int
    found: int


def stated_size(entry: ManifestEntry | IndexEntry) -> int | None:
    """Return the size in bytes that the file of an entry has to have, `None` where the entry does not state it."""
    return None if "$" in base_name(entry.external_path or entry.file_name) else entry.file_size


@dataclass(slots=True)
class NamedSizes:
    """Notes the stated sizes of files while manifests are decoded for something else, by name."""

    sizes: dict[bytes, int | None] = field(default_factory=dict)
    """Hash of a name -> its size; `None` where two entries state two sizes."""

    def decode(
        self, reader: MetadataReader, manifests: Iterable[ManifestMeta], note: Note
    ) -> Iterator[tuple[str, Unreadable | None]]:
        """Decode manifests as a `Decode` does, and note what they state."""
        return reader.scan_manifests(manifests, lambda entries: note(self._noted(entries)))

    def note(self, entry: ManifestEntry | IndexEntry) -> None:
        """Note the size of one file."""
        size = stated_size(entry)
        if size is not None:
            name = name_hash(base_name(entry.external_path or entry.file_name))
            if self.sizes.setdefault(name, size) != size:
                self.sizes[name] = None

    def differs(self, path: str, size: int) -> bool:
        """Tell whether a file of this name has to have another size."""
        stated = self.sizes.get(name_hash(base_name(path)))
        return stated is not None and stated != size

    def _noted(self, entries: Iterator[ManifestEntry]) -> Iterator[ManifestEntry]:
        for entry in entries:
            if entry.is_add:
                self.note(entry)
            yield entry
