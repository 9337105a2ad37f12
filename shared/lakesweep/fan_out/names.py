"""Segments: the names in some manifests, as rows that any later scan can use.

A manifest is never written twice under one name, so what its entries name holds for ever. A *segment* is a spill with
one row for each name in each entry of its manifests:

    16 bytes   hash of the name (`lakesweep.table.live_set.name_hash`)
     8 bytes   number of what a deletion of the entry must match; 0 for what a root or a list names
     4 bytes   number of the manifest in the segment's list of them
     1 byte    flags (`lakesweep.table.named_entries`)

Rows repeat where manifests do. Whether a file that no listing showed is missing depends on which roots hold which
entry, so nothing is counted together here.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from struct import Struct

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.fan_out.spill import Spill, SpillWriter, head_of, read_slots
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.table.live_set import name_hash
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.named_entries import BY_ROOT, named_entries

NAMES = "names"
"""Root of the area with the segments of all tables, so that one rule of the bucket removes old ones."""
ROW = Struct(">16sqIB")
"""`ROW.iter_unpack(block)` yields the rows of a block: hash, number to match, number of the manifest, flags."""
_MANIFEST_AT, _FLAGS_AT = 24, 28
_Rows = list[tuple[bytes, int, int]]


def names_of_table(area: ControlArea) -> ControlArea:
    """Return where the segments of a table lie."""
    return replace(area, root=NAMES)


@dataclass(slots=True)
class Names:
    """The rows of one segment, while it is written."""

    writer: SpillWriter = field(default_factory=lambda: SpillWriter(packed=False))
    manifests: list[str] = field(default_factory=list)
    """Those whose names are all here. A row has its manifest's place in this list."""
    entries: int = 0
    """How many were decoded."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)

    def decode(self, reader: MetadataReader, metas: Iterable[ManifestMeta]) -> None:
        """Add the names in some manifests. Of one that cannot be read nothing is added.

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
        """Add what roots and lists name, by the hashes of the names."""
        for hashed in hashes:
            self.writer.add(hashed, ROW.pack(hashed, 0, 0, BY_ROOT))

    def copy(self, area: ControlArea, segment: str, alive: Collection[str]) -> bool:
        """Add the rows of another segment, as far as they are about manifests that are alive and not here yet.

        Args:
            area: With the segments.
            segment: Name of the other one.
            alive: Names of manifests.

        Returns:
            False: it is gone or damaged, and nothing was added; its manifests have to be decoded again.

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
        """Return what the head of a segment says."""
        return {"manifests": list(self.manifests), "entries": self.entries}

    def to_bytes(self) -> bytes:
        """Return the segment, and give its rows up."""
        return self.writer.to_bytes(self.info())


def manifests_of(spill: Spill, path: str) -> tuple[str, ...]:
    """Return the manifests of a segment, in the order of their numbers.

    Raises:
        FormatError: Its head names none.
    """
    found = spill.info.get("manifests")
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise FormatError(f"{path}: expected the head of a segment with its manifests, found {type(found).__name__}")
    return tuple(found)


def _rows_of(entries: Iterator[ManifestEntry]) -> tuple[int, _Rows]:
    """Return how many entries a manifest has, and hash, number to match and flags of each name in them."""
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
    """Make sure that blocks hold whole rows of a segment's own manifests."""
    for block in blocks:
        if len(block) % ROW.size or any(row[2] >= manifests for row in ROW.iter_unpack(block)):
            raise FormatError(f"{path}: expected rows of {manifests} manifests, found others in {len(block)} bytes")
