"""Segments: the names in some manifests, as rows that any later scan can use.

Paimon never writes a manifest twice under one name, so the names in its entries never change. A *segment* is a spill
with one row for each name in each entry of its manifests:

    16 bytes   hash of the name (`lakesweep.table.reach.live_set.name_hash`)
      8 bytes   number that a deletion of the entry must match; 0 for a name from a root or a manifest list
     4 bytes   number of the manifest in the segment's list of them
     1 byte    flags (`lakesweep.table.reach.named_entries`)

A manifest that is there twice has its rows twice. Rows are not combined here: whether an unlisted file is missing
depends on which roots hold which entry.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from struct import Struct

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.manifest import ManifestEntry, ManifestMeta
from lakesweep.operations.orphans.fan_out.spill import Spill, SpillWriter, head_of, read_slots
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.named_entries import BY_ROOT, named_entries

NAMES = "names"
"""Root of the area with the segments of all tables, so that one rule of the bucket removes old ones."""
ROW = Struct(">16sqIB")
"""`ROW.iter_unpack(block)` yields the rows of a block: hash, number to match, number of the manifest, flags."""
_MANIFEST_AT, _FLAGS_AT = 24, 28
_Rows = list[tuple[bytes, int, int]]


def names_of_table(area: ControlArea) -> ControlArea:
    """Return the area that holds the segments of a table."""
    return replace(area, root=NAMES)


@dataclass(slots=True)
class Names:
    """The rows of one segment while Lakesweep writes it."""

    writer: SpillWriter = field(default_factory=lambda: SpillWriter(packed=False))
    manifests: list[str] = field(default_factory=list)
    """Manifests whose names are all here. A row holds the position of its manifest in this list."""
    entries: int = 0
    """How many entries were decoded."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)

    def decode(self, reader: MetadataReader, metas: Iterable[ManifestMeta]) -> None:
        """Add the names in some manifests. A manifest that cannot be read adds nothing.

        Raises:
            StorageError: A request failed.
        """
        known = set(self.manifests)
        for name, rows in reader.scan_manifests([meta for meta in metas if meta.file_name not in known], _rows_of):
            if isinstance(rows, Unreadable):
                self.unreadable[name] = rows
            else:
                self._add(name, rows)

    def _add(self, manifest: str, rows: tuple[int, _Rows]) -> None:
        count, found = rows
        number, add, pack = len(self.manifests), self.writer.add, ROW.pack
        for hashed, ident, flags in found:
            add(hashed, pack(hashed, ident, number, flags))
        self.manifests.append(manifest)
        self.entries += count

    def add_hashes(self, hashes: Iterable[bytes]) -> None:
        """Add names from roots and manifest lists, given as hashes."""
        for hashed in hashes:
            self.writer.add(hashed, ROW.pack(hashed, 0, 0, BY_ROOT))

    def copy(self, area: ControlArea, segment: str, alive: Collection[str]) -> bool:
        """Copy rows from another segment, for manifests that are alive and not here yet.

        Args:
            area: The area with the segments.
            segment: Name of the other segment.
            alive: Names of the manifests that some root names.

        Returns:
            False if the segment is gone or damaged. Then nothing was added, and its manifests have to be decoded again.

        Raises:
            StorageError: A request failed.
        """
        key = area.prefix + segment
        try:
            spill = head_of(area.store, key)
            manifests = manifests_of(spill, area.path(segment))
            blocks = list(read_slots(area.store, key, spill))  # all of them, before the first row is added
            _check_rows(blocks, len(manifests), area.path(segment))
        except (ObjectNotFoundError, FormatError):
            return False
        here = set(self.manifests)
        numbers: list[bytes | None] = []
        for name in manifests:
            if name in here or name not in alive:
                numbers.append(None)
                continue
            here.add(name)
            numbers.append(len(self.manifests).to_bytes(4, "big"))
            self.manifests.append(name)
        if not any(numbers):
            return True
        add, size = self.writer.add, ROW.size
        for block in blocks:
            for start in range(0, len(block), size):
                row = block[start : start + size]
                number = numbers[int.from_bytes(row[_MANIFEST_AT:_FLAGS_AT], "big")]
                if number is not None:
                    add(row, row[:_MANIFEST_AT] + number + row[_FLAGS_AT:])
        return True

    def info(self) -> dict[str, object]:
        """Return the facts for the head of the segment."""
        return {"manifests": list(self.manifests), "entries": self.entries}

    def to_bytes(self) -> bytes:
        """Return the segment as bytes and release its rows."""
        return self.writer.to_bytes(self.info())


def manifests_of(spill: Spill, path: str) -> tuple[str, ...]:
    """Return the manifests of a segment, in the order of their numbers.

    Raises:
        FormatError: The segment's head names no manifests.
    """
    found = spill.info.get("manifests")
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise FormatError(f"{path}: expected the head of a segment with its manifests, found {type(found).__name__}")
    return tuple(found)


def _rows_of(entries: Iterator[ManifestEntry]) -> tuple[int, _Rows]:
    """Return the number of entries of a manifest; and for each name its hash, number to match and flags."""
    rows: _Rows = []
    count = 0

    def counted() -> Iterator[ManifestEntry]:
        nonlocal count
        for entry in entries:
            count += 1
            yield entry

    for name, ident, flags in named_entries(counted()):
        rows.append((name_hash(name), ident, flags))
    return count, rows


def _check_rows(blocks: Iterable[bytes], manifests: int, path: str) -> None:
    """Check that blocks hold whole rows, and only of the segment's own manifests."""
    for block in blocks:
        if len(block) % ROW.size or any(row[2] >= manifests for row in ROW.iter_unpack(block)):
            raise FormatError(f"{path}: expected rows of {manifests} manifests, found others in {len(block)} bytes")
