"""What a branch must give up and take back to hold again what an older version held, entry by entry.

Both versions may name a million files, so no entry is kept. The manifests are read one after another: the DELETEs
first, then the ADDs, and once more where something differs. Memory: some 150 bytes for each DELETE, and for each file
in a manifest that only one of the versions names; 300 bytes for each file that differs.

A file may be in both versions with different entries: a compaction has moved it to another level since. Such a file
must not be deleted and added again. A compaction may move it once more, which adds the very entry that was deleted, and
readers drop every ADD that some DELETE names. So its entry is replaced where the newest version's files are listed.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from lakesweep.errors import FormatError
from lakesweep.format.avro.projection import Row
from lakesweep.format.identity_digests import identity_digest
from lakesweep.format.manifest import ManifestEntry, ManifestMeta
from lakesweep.format.manifest_list_writer import RawList
from lakesweep.format.raw_entries import RawEntry, RawManifest, read_raw_manifest
from lakesweep.format.snapshot import Snapshot
from lakesweep.table.contents.content import TextEntry
from lakesweep.table.contents.strict import StrictMetadata

_NEWEST, _TARGET = 1, 2
_BOTH = _NEWEST | _TARGET
"""A bit for each version; shifted by two, it says that the version deletes the entry."""
_DELETES = 2

Side = Literal["going", "coming"]

FileKey = tuple[bytes, int, str]
"""Partition, bucket and name. Files that Paimon took over from Hive have the same names in every partition."""


class ChangedFile(NamedTuple):
    """A file that only one of the two versions has."""

    partition: bytes
    rows: int
    size_bytes: int


@dataclass(slots=True)
class _Place:
    """A manifest: which versions name it, and what a copy takes from it."""

    meta: ManifestMeta
    versions: int = 0
    has: set[Side] = field(default_factory=set)
    is_clean: bool = True
    """Everything in it is live in the newest version, so that the new base list may name it as it is."""


class Difference:
    """The entries that differ between the newest version of a branch and an older one."""

    def __init__(self, metadata: StrictMetadata, newest: Snapshot, target: Snapshot) -> None:
        """Read the manifests of both versions.

        Args:
            metadata: Reads them.
            newest: What the branch holds.
            target: What it is to hold again.

        Raises:
            RefusedError: The metadata of one of them cannot be built upon.
            UnsupportedFormatError: It is intact, and its records cannot be copied.
            StorageError: A request failed.
        """
        self._metadata = metadata
        self._places: dict[str, _Place] = {}
        self._marks: dict[bytes, int] = {}
        self.rows = {_NEWEST: 0, _TARGET: 0}
        self.next_row_id = 0
        """The row id after the largest that an entry or a list of either version names."""
        self._lists = metadata.lists(newest)
        for version, lists in ((_NEWEST, self._lists), (_TARGET, metadata.lists(target))):
            for meta in (meta for each in lists for meta in each.metas):
                place = self._places.setdefault(meta.file_name, _Place(meta))
                if place.meta[:4] != meta[:4]:
                    raise metadata.corrupt(f"two lists name {meta.file_name} with different sizes or counts")
                place.versions |= version
                self.next_row_id = max(self.next_row_id, (-1 if meta.max_row_id is None else meta.max_row_id) + 1)
        with metadata.refusing():
            self._mark_deletes()
            self._mark_adds()
            self._refuse_unmatched()
            self._find_changes()

    @property
    def target_rows(self) -> int:
        """The rows of all files of the target."""
        return self.rows[_TARGET]

    @property
    def is_empty(self) -> bool:
        """Both versions have the same entries."""
        return not any(place.has for place in self._places.values())

    @property
    def row_delta(self) -> int:
        """The rows of the files that come, less those of the files that go."""
        return sum(file.rows for file in self.coming.values()) - sum(file.rows for file in self.going.values())

    def entries(self, side: Side) -> Iterator[TextEntry]:
        """Yield the ADD entries of the files that go, as the newest version has them, or of those that come.

        Raises:
            RefusedError: A manifest has vanished or changed.
            StorageError: A request failed.
        """
        with self._metadata.refusing():
            for text, found, raw in self._changed():
                if found == side and key_of(raw.entry) not in self.moved:
                    yield text, raw

    def moved_back(self) -> Iterator[TextEntry]:
        """Yield the entries that the target has of the files which were moved since. See `entries`."""
        with self._metadata.refusing():
            for text, found, raw in self._changed() if self.moved else ():
                if found == "coming" and key_of(raw.entry) in self.moved:
                    yield text, raw

    def rest(self) -> Iterator[tuple[bytes, list[Row]]]:
        """Yield the live entries of the newest version that no manifest of `clean_lists` has, but no moved files.

        Yields:
            The text of the writer's schema, and rows as `RawManifest.copies` yields them.
        """
        with self._metadata.refusing():
            for place, manifest in self._read(lambda place: bool(place.versions & _NEWEST) and not place.is_clean):
                for adds, _ in manifest.copies(identified=True):
                    live = [row for row in adds if self._stays(place, row)]
                    if live:
                        yield manifest.schema_text, live

    def clean_lists(self) -> tuple[RawList, ...]:
        """Return the lists of the newest version with the records of those manifests alone that stay as they are."""
        clean = {name for name, place in self._places.items() if place.is_clean}
        return tuple(_only(each, clean) for each in self._lists)

    def _mark_deletes(self) -> None:
        for place, manifest in self._read(lambda place: bool(place.meta.deleted_count)):
            place.is_clean = False
            for _, deletes in manifest.copies(identified=True):
                for row in deletes:
                    self._mark(row, place.versions << _DELETES, "deleted")
                    self._count(place, row, -1)

    def _mark_adds(self) -> None:
        """Note the ADDs of manifests that one version names, and those of the others that some version deletes."""
        marks = self._marks
        for place, manifest in self._read(lambda place: True):
            counts = [0, 0]
            for adds, deletes in manifest.copies(identified=True):
                counts[0] += len(adds)
                counts[1] += len(deletes)
                for row in adds:
                    if place.versions != _BOTH or identity_digest(row) in marks:
                        self._mark(row, place.versions, "added")
                    self._count(place, row, 1)
            if tuple(counts) != (place.meta.added_count, place.meta.deleted_count):
                raise FormatError(
                    f"{manifest.path}: expected {place.meta.added_count} added and {place.meta.deleted_count} deleted "
                    f"files as its list states, found {counts[0]} and {counts[1]}"
                )

    def _mark(self, row: Row, bits: int, done: str) -> None:
        digest = identity_digest(row)
        had = self._marks.get(digest, 0)
        if had & bits:
            raise self._metadata.corrupt(f"{row[2][4]} is {done} twice")
        self._marks[digest] = had | bits

    def _count(self, place: _Place, row: Row, sign: int) -> None:
        _, _, row_count, first_row_id, *_ = row[2]
        for version in (_NEWEST, _TARGET):
            if place.versions & version:
                self.rows[version] += sign * row_count
        if first_row_id is not None:
            self.next_row_id = max(self.next_row_id, first_row_id + row_count)

    def _refuse_unmatched(self) -> None:
        """Refuse a DELETE of what no other entry adds; Paimon could not commit either."""
        alone = {digest for digest, mark in self._marks.items() if mark >> _DELETES & ~mark}
        if not alone:
            return
        for _, manifest in self._read(lambda place: bool(place.meta.deleted_count)):
            for _, deletes in manifest.copies(identified=True):
                for row in deletes:
                    if identity_digest(row) in alone:
                        raise self._metadata.corrupt(f"{row[2][4]} is deleted, and no manifest adds it")

    def _find_changes(self) -> None:
        """Find out which manifests have something that differs, and which stay as they are."""
        for place, manifest in self._read(lambda place: place.versions != _BOTH or bool(self._marks)):
            for adds, _ in manifest.copies(identified=True):
                for row in adds:
                    live = self._live(row)
                    if not live & _NEWEST:
                        place.is_clean = False
                    if (side := _side(live, place)) is not None:
                        place.has.add(side)
        files: dict[Side, dict[FileKey, ChangedFile]] = {"going": {}, "coming": {}}
        for _, side, raw in self._changed():
            entry = raw.entry
            files[side][key_of(entry)] = ChangedFile(entry.partition, entry.row_count, entry.file_size)
        self.moved = files["going"].keys() & files["coming"].keys()
        """Files that both versions have, with another level or other extra files."""
        self.going, self.coming = (
            {name: file for name, file in found.items() if name not in self.moved} for found in files.values()
        )
        """File -> what counts of it, for each that only the newest version has, or only the target."""
        if self.moved:
            for place, manifest in self._read(lambda place: "going" in place.has):
                rows = (row for adds, _ in manifest.copies(identified=True) for row in adds)
                place.is_clean &= all(self._stays(place, row) for row in rows)

    def _live(self, row: Row) -> int:
        """Return the versions in which an ADD of a manifest is live. One that nobody marked is live in both."""
        mark = self._marks.get(identity_digest(row), _BOTH)
        return mark & ~(mark >> _DELETES) & _BOTH

    def _stays(self, place: _Place, row: Row) -> bool:
        """Tell whether an ADD is live in the newest version, and its file is not moved."""
        live = self._live(row)
        return bool(live & _NEWEST) and not (
            (row[0], row[1], row[2][4]) in self.moved and _side(live, place) == "going"
        )

    def _changed(self) -> Iterator[tuple[bytes, Side, RawEntry]]:
        """Yield the ADDs that differ, each once."""
        for place, manifest in self._read(lambda place: bool(place.has)):
            rows = (row for adds, _ in manifest.copies(identified=True) for row in adds)
            adds = (raw for raw in manifest.entries() if raw.is_add)
            for row, raw in zip(rows, adds, strict=True):
                if (side := _side(self._live(row), place)) is not None:
                    yield manifest.schema_text, side, raw

    def _read(self, is_wanted: Callable[[_Place], bool]) -> Iterator[tuple[_Place, RawManifest]]:
        sizes = {name: place.meta.file_size for name, place in self._places.items() if is_wanted(place)}
        for name, body in self._metadata.bodies(sizes, sizes):
            yield self._places[name], read_raw_manifest(body, f"manifest/{name}", expected_size=sizes[name])


def key_of(entry: ManifestEntry) -> FileKey:
    """Return what tells the file of an entry from every other."""
    return entry.partition, entry.bucket, entry.file_name


def _side(live: int, place: _Place) -> Side | None:
    """Tell whether an entry goes or comes. It does so once: from a manifest of the version that has it."""
    if live in (0, _BOTH) or not live & place.versions:
        return None
    return "going" if live == _NEWEST else "coming"


def _only(source: RawList, names: Container[str]) -> RawList:
    kept = [index for index, meta in enumerate(source.metas) if meta.file_name in names]
    return replace(
        source,
        records=tuple(source.records[index] for index in kept),
        metas=tuple(source.metas[index] for index in kept),
    )
