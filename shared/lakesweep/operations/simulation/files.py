"""Every file that the roots of a table name, with its life as far as the expiry of one branch decides it.

Two walks tell a life. The visitor (`table/reach/holders.py`) says which roots need a file. The rules of Paimon's expiry
(`table/reach/freed.py`) say from which snapshot on a file is freed. A plan deletes a file that is freed and that no
remaining root needs, so both count here as in a plan.

Sizes of metadata are those of the listings of `manifest/`, `index/` and `statistics/`; other sizes are as manifests
state them. A damaged or missing document of a root is refused, since its files would be missing in every sum.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError
from lakesweep.format.manifest import IndexEntry
from lakesweep.model.paths.allowed import is_external, may_delete
from lakesweep.model.roots import Freed, Root, base_name
from lakesweep.operations.simulation.gaps import refusal, refuse_gaps
from lakesweep.operations.simulation.rules.lives import NEVER, Lives
from lakesweep.runs.view import TableView
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.paths import real_name
from lakesweep.table.reach.freed import Collector, Lifecycle
from lakesweep.table.reach.held import ManifestHolders
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.root_files import RootFiles, lists_of, read_root_files

_FOLDERS = ("manifest/", "index/", "statistics/")
_SHOWN = 1000
"""Progress is shown after this many manifests."""


@dataclass(frozen=True, slots=True)
class FilesRead:
    """The lives of a table's files."""

    lives: Lives
    without_size: int
    """Extra files, whose sizes no document states. They count as 0 bytes."""
    missing: int
    """Index and statistics files that roots need, and that the listing does not show. They are not counted."""


class _File:
    """What is known of one file so far."""

    __slots__ = ("end", "first", "freed_at", "is_data", "is_held", "owner", "parts", "size", "tags")

    def __init__(self, size: int | None, *, is_data: bool, owner: str | None = None) -> None:
        self.size = size
        self.is_data = is_data
        self.owner = owner
        """The data file that an extra file belongs to."""
        self.first = NEVER
        """The position of the first snapshot that needs or names it."""
        self.freed_at = NEVER
        """It is freed once this many snapshots are expired."""
        self.end = 0
        """No remaining snapshot needs it once this many are expired; 0: none of the branch does."""
        self.tags = 0
        self.is_held = False
        self.parts: dict[str, int] | None = None
        """Entry -> bytes, for a changelog file that several entries share."""


class FileReader:
    """Reads the files of a branch's roots, and of all others."""

    def __init__(
        self, view: TableView, own: Sequence[Root], tags: Sequence[Root], others: Sequence[Root], lifecycle: Lifecycle
    ) -> None:
        """Take the roots.

        Args:
            view: The branch.
            own: Its snapshots, ascending by id.
            tags: Its tags. Bit n of a set of tags stands for the n-th of them.
            others: The roots of other branches, and changelogs.
            lifecycle: How long the changes of a snapshot can be read.
        """
        self._view = view
        self._own = own
        self._lifecycle = lifecycle
        self._roots = (*own, *tags, *others)
        self._paths = view.paths()
        self._own_mask = (1 << len(own)) - 1
        self._tag_count = len(tags)
        self._files: dict[str, _File] = {}
        self._external: dict[str, str] = {}
        """Path outside the table -> name."""
        self._last: tuple[int, tuple[int, int, int, bool]] = (0, (NEVER, 0, 0, False))

    def read(self) -> FilesRead:
        """Read all metadata.

        Raises:
            RefusedError: A document of a root is missing or damaged, or the path of a file cannot be determined.
            StorageError: A request failed.
        """
        store = self._view.table.store
        reader = MetadataReader(store, again=True)
        holders = Holders(reader, self._roots, lambda root: (each for each in lists_of(root) if each.is_needed))
        refuse_gaps(self._view, self._roots, holders.gaps)
        sizes = {entry.key: entry.size_bytes for folder in _FOLDERS for entry in store.list(folder)}
        missing = self._metadata(holders, sizes)
        self._data(holders)
        refuse_gaps(self._view, self._roots, holders.gaps)
        self._freed(reader)
        self._keep_outside()
        return FilesRead(self._sum(), sum(file.size is None for file in self._files.values()), missing)

    # Who needs what.

    def _split(self, needed: int) -> tuple[int, int, int, bool]:
        """Return of a set of roots: its first snapshot, the number of snapshots up to its last, its tags, the rest."""
        known, found = self._last
        if needed is not known:
            own = needed & self._own_mask
            above = needed >> len(self._own)
            first = (own & -own).bit_length() - 1 if own else NEVER
            tags = above & ((1 << self._tag_count) - 1)
            found = first, own.bit_length(), tags, bool(above >> self._tag_count)
            self._last = needed, found
        return found

    def _note(self, name: str, size: int | None, needed: int, *, is_data: bool, owner: str | None = None) -> _File:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = _File(size, is_data=is_data, owner=owner)
        if needed:
            first, end, tags, is_held = self._split(needed)
            file.first = min(file.first, first)
            file.end = max(file.end, end)
            file.tags |= tags
            file.is_held = file.is_held or is_held
        return file

    def _data(self, holders: Holders) -> None:
        total = sum(1 for _ in holders.manifests())
        seen: set[str] = set()
        for mention in holders.mentions():
            if mention.manifest not in seen:
                seen.add(mention.manifest)
                if len(seen) % _SHOWN == 0:
                    self._view.table.progress("manifests read", len(seen), total)
            entry, needed = mention.entry, mention.needed_by
            if not needed or not entry.is_add:
                continue
            name = entry.file_name
            if "$" in name:
                name = real_name(name)
                file = self._note(name, 0, needed, is_data=True)
                file.parts = file.parts or {}
                file.parts[entry.file_name] = entry.file_size
                continue
            self._note(name, entry.file_size, needed, is_data=True)
            for extra in entry.extra_files:
                self._note(extra, None, needed, is_data=True, owner=name)

    def _metadata(self, holders: Holders, sizes: Mapping[str, int]) -> int:
        """Note lists, manifests, index files and statistics. Return how many needed ones are not there."""
        missing = 0
        frees_lists = self._lifecycle is not Lifecycle.BY_DELTA
        lacking = frozenset(gap.content.path for gap in holders.gaps)
        own_changelogs = frozenset(root.snapshot.changelog_manifest_list for root in self._own)
        for named in holders.named():
            if named.kind == "manifest":
                continue
            size = sizes.get(named.path)
            if named.needed_by and named.kind != "statistics" and named.path not in lacking:
                self._check(named.path, size, named.size_bytes)
            if size is None:
                missing += named.kind == "statistics" and bool(named.needed_by)
                continue
            file = self._note(named.name, size, named.needed_by, is_data=False)
            is_freed = named.kind != "manifest_list" or (
                frees_lists and (self._lifecycle is Lifecycle.COUPLED or named.name not in own_changelogs)
            )
            self._freed_with(file, named.named_by if is_freed else 0)
        for name, each in holders.manifests():
            if each.needed:
                self._check(f"manifest/{name}", sizes.get(f"manifest/{name}"), each.meta.file_size)
            for manifest in (name, *each.meta.extra_files):
                size = sizes.get(f"manifest/{manifest}")
                if size is not None:
                    file = self._note(manifest, size, each.needed, is_data=False)
                    self._freed_with(file, self._freeing(each) if frees_lists else 0)
        for index in holders.indexes(only_needed=True):
            entry = index.entry
            path = self._path_of_index(entry)
            name = base_name(path)
            size = sizes.get(path) if path.startswith("index/") else entry.file_size
            if is_external(path):
                self._external[path] = name
            if size is None:
                missing += bool(index.needed_by)
                continue
            file = self._note(name, size, index.needed_by, is_data=False)
            self._freed_with(file, index.named_by if may_delete("index", path) or is_external(path) else 0)
        return missing

    def _check(self, path: str, size: int | None, stated: int | None) -> None:
        """Refuse a document that the store does not have as stated. It may have been read from a cache."""
        if size is None:
            raise refusal(self._view, f"{path} does not exist")
        if stated not in (None, size):
            raise refusal(self._view, f"{path}: expected {stated} bytes as is stated of it, found {size}")

    def _path_of_index(self, entry: IndexEntry) -> str:
        try:
            return self._paths.index_file(entry)
        except FormatError as error:
            raise refusal(self._view, str(error)) from error

    def _freeing(self, each: ManifestHolders) -> int:
        """Return the roots whose expiry frees a manifest. Changelogs that outlive a snapshot keep their manifests."""
        return each.named if self._lifecycle is Lifecycle.COUPLED else each.in_state

    def _freed_with(self, file: _File, named: int) -> None:
        """Note that the expiry of the first snapshot among some roots frees a file."""
        first = self._split(named)[0] if named else NEVER
        if first < NEVER:
            file.first = min(file.first, first)
            file.freed_at = min(file.freed_at, first + 1)

    # What expiry frees.

    def _freed(self, reader: MetadataReader) -> None:
        """Ask the rules of expiry, for each snapshot, which data files its delta frees, and which changelog files."""
        collector = Collector(reader, self._paths)
        coupled, by_delta = self._lifecycle is Lifecycle.COUPLED, self._lifecycle is Lifecycle.BY_DELTA
        files = read_root_files(reader, self._own, with_changelog=lambda _: coupled)
        for position, root in enumerate(self._own):
            each = files[root.ref.path]
            if position and _deletes(each):
                self._note_freed(position, collector.data_files([each], keep_appended=by_delta))
            if coupled and each.changelog:
                self._note_freed(position + 1, collector.changelog_files([each]))
        if collector.warnings:
            raise refusal(self._view, collector.warnings[0])

    def _note_freed(self, expired: int, freed: Iterable[Freed]) -> None:
        for each in freed:
            name = each.name
            if is_external(each.path):
                name = each.owner if each.kind == "data" else name  # its path may be spelled in another way elsewhere
                self._external[each.path] = name
            elif not may_delete(each.kind, each.path):
                continue
            owner = each.owner if each.kind == "extra" else None
            file = self._files.get(name)
            if file is None:
                file = self._files[name] = _File(each.size_bytes, is_data=True, owner=owner)
            file.freed_at = min(file.freed_at, expired)

    def _keep_outside(self) -> None:
        """Keep the files outside the table that no run may delete."""
        if not self._external:
            return
        freed = [Freed("data", path, None, "", name) for path, name in self._external.items()]
        for path in self._view.stores(freed).stays((file.kind, file.path) for file in freed):
            file = self._files.get(self._external[path])
            if file is not None:
                file.is_held = True

    # The sum.

    def _sum(self) -> Lives:
        lives = Lives()
        for file in self._files.values():
            owner = self._files.get(file.owner) if file.owner is not None else None
            first, end, tags, is_held = file.first, file.end, file.tags, file.is_held
            if owner is not None:  # a file stays as long as its data file
                first, end = min(first, owner.first), max(end, owner.end)
                tags, is_held = tags | owner.tags, is_held or owner.is_held
            if not end:  # no snapshot of the branch needs it: it was added and deleted in one commit, or others have it
                first = file.freed_at if file.freed_at < NEVER and not (tags or is_held) else 0
            lives.add(
                sum(file.parts.values()) if file.parts else file.size or 0,
                is_data=file.is_data,
                born=first,
                goes=NEVER if file.freed_at == NEVER else max(file.freed_at, end),
                tags=tags,
                is_of_tags=bool(tags) and not end,
                is_held=is_held,
            )
        return lives


def _deletes(files: RootFiles) -> bool:
    return isinstance(files.delta, tuple) and any(meta.deleted_count for meta in files.delta)
