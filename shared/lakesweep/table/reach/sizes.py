"""The sizes of files that metadata states, and the files of a different size.

Paimon states exact sizes in bytes, since readers of formats with a footer begin at the stated end. One stated size is
not the size of a file: for a bucket's share of a compacted changelog, the entry states the share's size before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lakesweep.format.manifest import IndexEntry, ManifestEntry, ManifestMeta
from lakesweep.model.roots import base_name
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.live_set import Note, name_hash


@dataclass(frozen=True, slots=True)
class WrongSize:
    """A file whose size differs from the size in the metadata of its roots."""

    path: str
    expected: int
    found: int


def stated_size(entry: ManifestEntry | IndexEntry) -> int | None:
    """Return the size in bytes that the file of an entry must have, `None` if the entry does not state it."""
    return None if "$" in base_name(entry.external_path or entry.file_name) else entry.file_size


@dataclass(slots=True)
class NamedSizes:
    """Notes the stated sizes of files by name, while manifests are decoded for another purpose."""

    sizes: dict[bytes, int | None] = field(default_factory=dict)
    """Hash of a name -> its size; `None` if two entries state different sizes."""

    def decode(
        self, reader: MetadataReader, manifests: Iterable[ManifestMeta], note: Note
    ) -> Iterator[tuple[str, Unreadable | None]]:
        """Decode manifests as a `Decode` does, and note the sizes that they state."""
        return reader.scan_manifests(manifests, lambda entries: note(self._noted(entries)))

    def note(self, entry: ManifestEntry | IndexEntry) -> None:
        """Note the size of one file."""
        size = stated_size(entry)
        if size is not None:
            name = name_hash(base_name(entry.external_path or entry.file_name))
            if self.sizes.setdefault(name, size) != size:
                self.sizes[name] = None

    def differs(self, path: str, size: int) -> bool:
        """Tell whether a file of this name must have another size."""
        stated = self.sizes.get(name_hash(base_name(path)))
        return stated is not None and stated != size

    def _noted(self, entries: Iterator[ManifestEntry]) -> Iterator[ManifestEntry]:
        for entry in entries:
            if entry.is_add:
                self.note(entry)
            yield entry
