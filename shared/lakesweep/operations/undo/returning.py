"""Which of the rows that a run deleted come back on a snapshot, and which do not.

A row comes back only if it is the run's deletion that still hides it. It may have come back meanwhile, by an undo or a
rollback as latest, and somebody else may have deleted it again. So the vector of a data file must still lie where the
run wrote it, or each snapshot since then must be there and must have deleted the row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.commit.base import Base
from lakesweep.format.row_entries import RowEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.combined import without
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.commits.returned import FileLeft
from lakesweep.model.reading.plan import ReadFile
from lakesweep.model.roots import BranchListing, Root
from lakesweep.model.vectors import LocatedVector
from lakesweep.operations.rows.groups import Change
from lakesweep.operations.undo.committed import DeletedRows
from lakesweep.operations.undo.deleted_positions import DeletedPositions, read_all, snapshot_of
from lakesweep.runs.session import Table
from lakesweep.table.documents import TagDocument, read_roots, read_tags
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.row_files import row_files
from lakesweep.table.vectors import VectorKey, locate, vector_entries


@dataclass(frozen=True, slots=True)
class Returning:
    """What comes back on one snapshot."""

    changes: tuple[Change, ...] = ()
    """Data files with the positions that leave their vectors."""
    rows: int = 0
    left: tuple[FileLeft, ...] = ()
    there_already: int = 0
    """Rows that came back before."""


@dataclass(slots=True)
class Return:
    """Looks at snapshots of the run's branch."""

    table: Table
    run: DeletedRows
    deleted: DeletedPositions
    _vectors: dict[LocatedVector, DeletionVector] = field(default_factory=dict)
    """Vectors that were read."""

    def at(self, base: Base) -> Returning:
        """Return what comes back on a snapshot.

        Raises:
            RefusedError: As `snapshot_of`, or metadata are missing or damaged.
            StorageError: A request failed.
        """
        listing, own = snapshot_of(self.table, self.run)
        deleted = self.deleted
        entries = row_files(self.table.store, base.root, with_stats=False)
        live = {(each.entry.partition, each.entry.bucket, each.entry.file_name): each for each in entries}
        now = self._located(base.schema, base.root)
        here = {key: now[key] for key in deleted.positions if key in live and key in now}
        moved = {key: place for key, place in here.items() if place != deleted.places[key]}
        self._read(moved.values())
        history = self._history(listing, own, base, moved) if moved else {}
        paths = TablePaths(base.schema)
        changes, left, rows, there_already = list[Change](), list[FileLeft](), 0, 0
        for key, count in deleted.whole.items():
            if key in live:
                there_already += count
            else:
                left.append(FileLeft(key[2], count, "left_whole"))
        for key, positions in deleted.positions.items():
            if key not in live:
                left.append(FileLeft(key[2], positions.cardinality, "gone"))
                continue
            hidden = positions if key in here else None
            if key in moved:
                hidden = _both(positions, self._vectors[moved[key]])
            ours = hidden if key not in moved else self._ours(hidden, history.get(key))
            count, count_ours = _count(hidden), _count(ours)
            there_already += positions.cardinality - count
            if count > count_ours:
                left.append(FileLeft(key[2], count - count_ours, "unclear"))
            if ours is not None:
                changes.append(Change(_file(live[key], here[key], paths), ours.blob.tobytes()))
                rows += count_ours
        return Returning(tuple(changes), rows, tuple(sorted(left, key=lambda each: each.name)), there_already)

    def _located(self, schema: TableSchema, root: Root) -> Mapping[VectorKey, LocatedVector]:
        return locate(self.table.store, vector_entries(self.table.store, schema, root), TablePaths(schema))

    def _read(self, places: Iterable[LocatedVector]) -> None:
        unread = [place for place in dict.fromkeys(places) if place not in self._vectors]
        self._vectors |= read_all(self.table, unread)

    def _ours(
        self, hidden: DeletionVector | None, history: Sequence[LocatedVector | None] | None
    ) -> DeletionVector | None:
        """Return those of the run's positions that are deleted now, and were deleted in each snapshot since."""
        places = [place for place in history or () if place is not None]
        if not history or len(places) < len(history):
            return None
        self._read(places)
        for place in places:
            if hidden is not None:
                hidden = _both(hidden, self._vectors[place])
        return hidden

    def _history(
        self, listing: BranchListing, own: Root, base: Base, moved: Mapping[VectorKey, LocatedVector]
    ) -> Mapping[VectorKey, Sequence[LocatedVector | None]]:
        """Return where the vectors of data files lay in each snapshot from the run's on; nothing if one is not there.

        `None` in a history: the file had no vector.
        """
        refs = [ref for ref in listing.snapshots if own.snapshot.id < ref.id < base.id]
        between = read_roots(self.table.store, refs).roots
        if len(between) != base.id - own.snapshot.id - 1:
            return {}
        later = {root.snapshot.index_manifest for root in (*between, base.root)} - {own.snapshot.index_manifest}
        if later & self._former_indexes(listing, own):
            return {}  # somebody committed a version from before the run again, so that one hides what is hidden
        found: dict[VectorKey, list[LocatedVector | None]] = {key: [] for key in moved}
        seen: str | None = ""
        for root in (own, *between, base.root):
            if root.snapshot.index_manifest == seen:
                continue
            seen = root.snapshot.index_manifest
            located = self._located(base.schema, root)
            for key, places in found.items():
                places.append(located.get(key))
        return found

    def _former_indexes(self, listing: BranchListing, own: Root) -> frozenset[str | None]:
        """Return the index manifests of versions from before the run, as far as they still exist."""
        store, last = self.table.store, own.snapshot.id
        roots = list(read_roots(store, [ref for ref in listing.snapshots if ref.id < last]).roots)
        roots += (tag.root for _, tag in read_tags(store, listing.tags) if isinstance(tag, TagDocument))
        return frozenset(root.snapshot.index_manifest for root in roots if root.snapshot.id < last)


def _both(one: DeletionVector, other: DeletionVector) -> DeletionVector | None:
    """Return the positions that two vectors have."""
    apart = without(one, other)
    return one if apart is None else without(one, apart)


def _count(positions: DeletionVector | None) -> int:
    return 0 if positions is None else positions.cardinality


def _file(live: RowEntry, vector: LocatedVector, paths: TablePaths) -> ReadFile:
    return ReadFile.of(live, paths.data_file(live.entry), vector)
