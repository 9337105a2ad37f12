"""Which roots show, or may show, rows that a deletion takes out of the newest snapshot; see `shown`.

Each manifest is read once, and with statistics once more if a root may show rows in files that are gone from the newest
snapshot. Memory grows with these files, by some hundred bytes each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from hashlib import blake2b
from operator import or_

from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, RefusedError
from lakesweep.format.identity_digests import SIZE, Digests
from lakesweep.format.manifest import DELETION_VECTORS, IndexEntry, ManifestMeta
from lakesweep.format.row_entries import RowEntry
from lakesweep.format.vectors.vector import DeletionVector, read_vector
from lakesweep.model.partitions.ranges import ranges_of
from lakesweep.model.reading.plan import ReadFile, ReadPlan
from lakesweep.model.reading.pruning import may_match, stated_ranges
from lakesweep.model.roots import Root, base_name
from lakesweep.model.vectors import LocatedVector
from lakesweep.model.where.facts import ColumnFacts, ColumnRange
from lakesweep.operations.reading.arrow import stores_of
from lakesweep.operations.rows.schemas import BranchSchemas
from lakesweep.operations.rows.search import Match
from lakesweep.runs.view import TableView
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.holders import Holders
from lakesweep.table.vectors import locate, read_vectors


class RowsInRoots:
    """Looks for rows in some roots. A set of roots is a number with one bit for each; see `Holders`."""

    def __init__(self, view: TableView, plan: ReadPlan, touched: Mapping[str, Match], roots: Sequence[Root]) -> None:
        """Look.

        Args:
            view: The table.
            plan: How the newest snapshot was searched, with the condition.
            touched: Path of a data file with such rows -> the rows.
            roots: The roots, of all branches.

        Raises:
            StorageError: A request failed.
        """
        self._view, self._plan = view, plan
        self._touched = touched
        self._files = {
            base_name(file.path): file
            for split in plan.splits
            for file in split.files
            if file.path in touched or file.vector is not None
        }
        """Data files of the newest snapshot of which some rows are deleted, or will be."""
        self._reader = MetadataReader(view.table.store, again=True)
        self._holders = Holders(self._reader, roots)
        self._newest = self._set_of(lambda root: root.ref == view.own.snapshots[-1])
        self._schemas = BranchSchemas(view)
        self._vectors: dict[str, list[tuple[LocatedVector, int]]] = {}
        """Name of one of these files -> its vectors, each with the roots whose readers apply it."""
        self._gone: dict[bytes, int] = {}
        """Digest of the name of another data file -> roots that have it. In the end, of files that are gone."""
        self._compared: list[tuple[ReadFile, LocatedVector, int]] = []
        """Vectors that may delete all matched rows of their file."""
        self._shows = self._may_show = 0
        self._look()

    @property
    def showing(self) -> frozenset[str]:
        """The paths of the roots that show rows."""
        return frozenset(root.ref.path for root in self._holders.roots_in(self._shows))

    @property
    def maybe_showing(self) -> frozenset[str]:
        """The paths of the others that may show rows."""
        return frozenset(root.ref.path for root in self._holders.roots_in(self._may_show & ~self._shows))

    def _look(self) -> None:
        self._note_vectors()
        live = Digests()
        for mention in self._holders.mentions(among=self._among()):
            name, roots = mention.entry.file_name, mention.needed_by
            if name in self._files:
                self._look_at(name, roots)
            elif roots & self._newest:
                live.add(_digest(name))
            elif roots:  # other manifests may say that the newest snapshot has it, too
                key = _digest(name)
                self._gone[key] = self._holders.shared(self._gone.get(key, 0) | roots)
        self._gone = {key: roots for key, roots in self._gone.items() if key not in live}
        self._compare()
        self._ask_statistics()
        gaps = {gap.root.ref.path for gap in self._holders.gaps}
        self._may_show |= self._set_of(lambda root: root.ref.path in gaps)

    def _set_of(self, is_in: Callable[[Root], bool]) -> int:
        return sum(1 << number for number, root in enumerate(self._holders.roots) if is_in(root))

    def _among(self) -> Callable[[str], bool] | None:
        """Return what tells by its name whether a manifest may have files with rows of the condition."""
        if not all(self._schemas.has_same_keys(root.ref.branch) for root in self._holders.roots):
            return None
        wanted = {name for name, each in self._holders.manifests() if self._may_hold(each.meta)}
        return wanted.__contains__

    def _may_hold(self, meta: ManifestMeta) -> bool:
        plan, schema = self._plan, self._view.schema
        assert plan.where is not None
        found = ranges_of(meta, schema.partition_types)
        if found is None:
            return True
        ranges = {
            key: ColumnRange(low, high)
            for key, (low, high) in zip(schema.partition_keys, found, strict=True)
            if not isinstance(low, float) and not isinstance(high, float)
        }
        return plan.where.may_match(ColumnFacts(1, ranges))

    def _note_vectors(self) -> None:
        """Note the vectors of the files of the newest snapshot that matter."""
        applied = self._set_of(lambda root: self._schemas.applies_vectors(root.ref.branch))
        paths, store = TablePaths(self._view.schema), self._view.table.store
        found: dict[IndexEntry, int] = {}
        for each in self._holders.indexes(only_needed=True):
            if each.entry.index_type == DELETION_VECTORS and (roots := each.needed_by & applied):
                found[each.entry] = self._holders.shared(found.get(each.entry, 0) | roots)
        for entry, roots in found.items():
            try:
                located = locate(store, [entry], paths)
            except (RefusedError, FormatError):  # readers of these roots fail there
                self._may_show |= roots
                continue
            for (_, _, name), vector in located.items():
                if name in self._files:
                    self._vectors.setdefault(name, []).append((vector, roots))

    def _look_at(self, name: str, roots: int) -> None:
        """Look at a data file of the newest snapshot that these roots have."""
        file = self._files[name]
        match = self._touched.get(file.path)
        for vector, applied in self._vectors.get(name, ()):
            same = roots & applied
            roots &= ~applied
            if vector == file.vector:
                self._shows |= same if match is not None else 0
            elif match is None:
                self._may_show |= same
            elif vector.cardinality is None or vector.cardinality >= match.count:
                self._compared.append((file, vector, same))
            else:
                self._shows |= same
        # No vector deletes rows there.
        if match is not None:
            self._shows |= roots
        else:
            self._may_show |= roots

    def _compare(self) -> None:
        """Read vectors that may delete all matched rows, as far as their roots are not known to show rows."""
        stores = stores_of(self._plan, self._view.table.store, self._view.table.open_store)
        for file, vector, roots in self._compared:
            if not roots & ~self._shows:
                continue
            try:
                (deleted,) = read_vectors(stores, [vector])
                is_left = _leaves_some(deleted, self._touched[file.path].blob, file)
            except (RefusedError, FormatError, ObjectNotFoundError):
                self._may_show |= roots
                continue
            if is_left:
                self._shows |= roots

    def _ask_statistics(self) -> None:
        """Look at the statistics of files that the newest snapshot has no more."""
        pending = reduce(or_, self._gone.values(), 0) & ~self._shows & ~self._may_show
        if not pending:
            return
        among = self._among()
        metas = [
            each.meta
            for name, each in self._holders.manifests()
            if each.meta.added_count and each.named & pending and (among is None or among(name))
        ]

        def look(entries: Iterator[RowEntry]) -> None:
            for each in entries:
                roots = self._gone.get(_digest(each.entry.file_name), 0) & ~self._shows & ~self._may_show
                if each.is_add and roots and self._may_match(each, roots):
                    self._may_show |= roots

        for _, content in self._reader.scan_row_entries(metas, look, with_stats=True):
            if isinstance(content, Unreadable):
                self._may_show |= pending

    def _may_match(self, each: RowEntry, roots: int) -> bool:
        plan = self._plan
        assert plan.where is not None
        branches = {root.ref.branch for root in self._holders.roots_in(roots)}
        fields = self._schemas.fields(branches, each.schema_id)
        if fields is None:
            return True
        file = ReadFile.of(each, each.entry.file_name)
        try:
            ranges = stated_ranges(each, fields, file.format)
            shared = replace(plan.shared, schemas={each.schema_id: fields})
            return may_match(plan.where, shared, file, file.rows, ranges)
        except MaintenanceError:  # the partition is none of this table
            return True


def _leaves_some(deleted: DeletionVector, blob: bytes | None, file: ReadFile) -> bool:
    """Tell whether a vector leaves some of the rows with these positions."""
    if blob is None:
        return deleted.cardinality < file.rows
    rows = read_vector(blob, None, file.path)
    count = rows.last + 1
    wanted, gone = (int.from_bytes(each.deleted(0, count), "little") for each in (rows, deleted))
    return bool(wanted & ~gone)


def _digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=SIZE).digest()
