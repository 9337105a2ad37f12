"""Which of some data files a snapshot has. Its manifests alone decide: a file that a store lost is live, too.

A file that was overlooked would count as gone, and its deleted rows would return. So each manifest is read, whatever
statistics say of its partitions. Files are told apart by name, which contains a UUID: a file of the same name in any
partition or bucket, or at any level, is live.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from lakesweep.errors import FormatError
from lakesweep.format.avro.projection import Row
from lakesweep.format.identity_digests import identity_digest
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.raw_entries import read_raw_manifest
from lakesweep.table.contents.strict import StrictMetadata

_Named = tuple[tuple[str, bytes], ...]
"""Name and digest of the identity of some entries."""


class _Entries(NamedTuple):
    """The entries of one manifest with names that were asked for."""

    adds: _Named
    deletes: _Named


@dataclass(slots=True)
class LiveNames:
    """Reads the manifests of snapshots of one branch, each once. Memory grows with the names that are asked for."""

    metadata: StrictMetadata
    _names: frozenset[str] = frozenset()
    _found: dict[str, _Entries] = field(default_factory=dict)
    """By manifest, for `_names`."""

    def among(self, names: frozenset[str], metas: Sequence[ManifestMeta]) -> frozenset[str]:
        """Return those of some names that live files have.

        Args:
            names: Names of data files.
            metas: All manifests of a snapshot.

        Raises:
            RefusedError: With code `corrupt_manifests`: a manifest is missing, damaged or not as its list states, or
                entries of such a name contradict each other.
            UnsupportedFormatError: A manifest is intact, and Lakesweep cannot read it.
            StorageError: A request failed.
        """
        if not names <= self._names:
            self._names, self._found = names, {}
        self._read([meta for meta in metas if meta.file_name not in self._found])
        found = [self._found[meta.file_name] for meta in metas]
        added = self._once((each for entries in found for each in entries.adds), "added")
        deleted = self._once((each for entries in found for each in entries.deletes), "deleted")
        if missing := deleted.keys() - added.keys():
            raise self.metadata.corrupt(f"{deleted[min(missing)]} is deleted, and no manifest adds it")
        return names.intersection(name for digest, name in added.items() if digest not in deleted)

    def _once(self, entries: Iterable[tuple[str, bytes]], done: str) -> dict[bytes, str]:
        found: dict[bytes, str] = {}
        for name, digest in entries:
            if digest in found:
                raise self.metadata.corrupt(f"{name} is {done} twice")
            found[digest] = name
        return found

    def _read(self, metas: Sequence[ManifestMeta]) -> None:
        by_name = {meta.file_name: meta for meta in metas}
        sizes = {name: meta.file_size for name, meta in by_name.items()}
        for name, body in self.metadata.bodies(sizes, sizes):
            self._found[name] = self.metadata.decoded(body, name, partial(self._entries, by_name[name]))

    def _entries(self, meta: ManifestMeta, body: bytes, path: str) -> _Entries:
        added = deleted = 0
        found: tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]] = ([], [])
        for adds, deletes in read_raw_manifest(body, path, expected_size=meta.file_size).copies(identified=True):
            added, deleted = added + len(adds), deleted + len(deletes)
            found[0].extend(self._named(adds))
            found[1].extend(self._named(deletes))
        if (added, deleted) != (meta.added_count, meta.deleted_count):
            raise FormatError(
                f"{path}: expected {meta.added_count} added and {meta.deleted_count} deleted files as its list states, "
                f"found {added} and {deleted}"
            )
        return _Entries(tuple(found[0]), tuple(found[1]))

    def _named(self, rows: Iterable[Row]) -> list[tuple[str, bytes]]:
        names = self._names
        return [(row[2][4], identity_digest(row)) for row in rows if row[2][4] in names]
