"""Search the data files of every root for the rows of a condition, also rows that deletion vectors hide.

A data file is searched once, whichever roots need it, with the columns of one branch that needs it: the branch of the
call, if its schemas can say what the file holds. A file counts as one that may have such rows in these cases:

- It cannot be read, or it is no file that Lakesweep searches.
- No branch that needs it can say what its columns are.
- A column of the condition had another type, or another column had its name, so older readers saw other values.
- No root needs it, though manifests of roots still name it, and statistics do not rule such rows out.

Memory grows with the data files of all roots by some 20 bytes each, and with those that have such rows by their names.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lakesweep.errors import (
    FormatError,
    RefusedError,
)
from lakesweep.format.identity_digests import Digests
from lakesweep.format.row_entries import RowEntry
from lakesweep.model.erasure.places import ErasedFiles, Reason, head_of
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.reading.plan import ReadFile, ReadPlan
from lakesweep.model.reading.pruning import may_match, stated_ranges
from lakesweep.model.roots import Root
from lakesweep.model.where.where import Where
from lakesweep.operations.erasure.places.held import real_gaps
from lakesweep.operations.erasure.places.raw_search import search_raw
from lakesweep.operations.erasure.places.viewpoint import Viewpoint, Viewpoints
from lakesweep.operations.reading.matching import matching_partition
from lakesweep.operations.reading.plan import is_readable
from lakesweep.operations.rows.engine import RowsEngine
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_all_schemas, read_each_root
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import real_name
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.stores import declared_roots

_AT_ONCE = 4_096
"""So many files are searched together; then their rows are forgotten."""
_SPLIT_BYTES, _OPEN_COST_BYTES = 128 << 20, 4 << 20


def tainted_files(
    view: TableView, where: Where, engine: RowsEngine, marks: Mapping[str, str] | None = None
) -> ErasedFiles:
    """Return the data files of all roots of all branches that have rows of a condition, or may have some.

    To know what a commit has left behind, search after the commit: until then others may copy rows into new files.

    Args:
        view: The table, with all of its roots.
        where: The condition, on the columns of the latest schema of the view's branch.
        engine: Searches data files.
        marks: What an earlier search found by the same condition; see `ErasedFiles.marks`.

    Raises:
        RefusedError: The partitions of the view's branch cannot be read, or an earlier search found other rows in a
            file, so the condition was another one (`other_condition`).
        StorageError: A request failed, and the file was neither absent nor forbidden.
    """
    search = _Search(view, where, engine)
    found = search.result()
    if any(search.contradicts(found, name, mark) for name, mark in (marks or {}).items()):
        raise RefusedError(
            f"table {view.table.ref}: an earlier search found other rows in the same files; expected the same "
            "condition, with the same values",
            code="other_condition",
        )
    return found


class _Search:
    """One search."""

    def __init__(self, view: TableView, where: Where, engine: RowsEngine) -> None:
        self._view, self._engine = view, engine
        self._viewpoints = Viewpoints(view, where)
        self._needed: defaultdict[str, Digests] = defaultdict(Digests)
        """Branch -> the files that some root of it needs."""
        self._named: defaultdict[str, Digests] = defaultdict(Digests)
        """Branch -> the files that some root of it merely names."""
        self._in_newest: defaultdict[str, Digests] = defaultdict(Digests)
        """Branch -> the files that its newest snapshot needs."""
        self._seen = Digests()
        """The files that were searched, or will be."""
        self._pending: dict[str, list[ReadFile]] = {}
        """Branch -> files to search with its columns."""
        self._chosen: dict[tuple[str, bytes], bool] = {}
        """Branch and partition -> whether a condition on partition keys is true there."""
        self._external: tuple[str, ...] | None = None
        self._holds: set[str] = set()
        self._marks: dict[str, str] = {}
        self._may_hold: dict[str, Reason] = {}
        self._unread: set[str] = set()
        self._rows = self._searched = 0

    def result(self) -> ErasedFiles:
        """Search."""
        view = self._view
        refs = list(view.listing.roots())
        documents = read_each_root(view.table.store, refs)
        self._unread |= {path for path, found in documents.items() if isinstance(found, RefusedError)}
        roots = [root for ref in refs if isinstance(root := documents[ref.path], Root)]
        reader = MetadataReader(view.table.store, again=True)
        holders = Holders(reader, roots)
        self._note_needed(holders, newest := self._newest(roots))
        metas = [each.meta for _, each in holders.manifests()]
        for path, content in reader.scan_row_entries(metas, self._take, with_stats=True):
            if isinstance(content, Unreadable):
                self._unread.add(f"manifest/{path}")
        for branch in list(self._pending):
            self._flush(branch)
        self._unread |= {gap.content.path for gap in real_gaps(view, holders)}
        tainted = [name_hash(name) for name in {*self._holds, *self._may_hold}]
        return ErasedFiles(
            searched_ms=view.now_ms,
            holds=frozenset(self._holds),
            may_hold={name: why for name, why in self._may_hold.items() if name not in self._holds},
            rows=self._rows,
            searched_files=self._searched,
            unread=tuple(sorted(self._unread)),
            heads=dict.fromkeys(view.listing.branches, "") | {b: head_of(r.snapshot) for b, r in newest.items()},
            marks=self._marks,
            open=frozenset(branch for branch, files in self._in_newest.items() if files.overlaps(tainted)),
        )

    def contradicts(self, found: ErasedFiles, name: str, mark: str) -> bool:
        """Tell whether this search found something else in a file, which never changes, than an earlier one."""
        if name in found.marks:
            return found.marks[name] != mark
        return name not in found.names and any(name_hash(name) in files for files in self._needed.values())

    def _newest(self, roots: Sequence[Root]) -> dict[str, Root]:
        """Return branch -> its newest snapshot."""
        snapshots = [root for root in roots if root.ref.kind == "snapshot"]
        return {root.ref.branch: root for root in sorted(snapshots, key=lambda root: root.ref.id)}

    def _note_needed(self, holders: Holders, newest: Mapping[str, Root]) -> None:
        bits = {
            branch: sum(1 << number for number, each in enumerate(holders.roots) if each is root)
            for branch, root in newest.items()
        }
        branches: dict[int, tuple[str, ...]] = {}
        for mention in holders.mentions():
            name = mention.entry.file_name
            if mention.is_change:
                self._may_hold[real_name(name)] = "changelog"
                continue
            roots, known = mention.needed_by, self._needed
            if not roots:
                roots, known = mention.named_by, self._named
            if roots not in branches:
                branches[roots] = tuple({root.ref.branch for root in holders.roots_in(roots)})
            for branch in branches[roots]:
                known[branch].add(name_hash(name))
                if mention.needed_by & bits.get(branch, 0):
                    self._in_newest[branch].add(name_hash(name))

    def _take(self, entries: Iterator[RowEntry]) -> None:
        """Take the files of one manifest that may have such rows."""
        for each in entries:
            digest = name_hash(each.entry.file_name)
            if digest in self._seen:
                continue
            self._seen.add(digest)
            if branches := [branch for branch, files in self._needed.items() if digest in files]:
                self._judge(each, branches, is_needed=True)
            elif branches := [branch for branch, files in self._named.items() if digest in files]:
                self._judge(each, branches, is_needed=False)

    def _judge(self, each: RowEntry, branches: Collection[str], *, is_needed: bool) -> None:
        name = each.entry.file_name
        found = self._viewpoints.of(branches, each.schema_id)
        if found is None:
            self._may_hold[name] = "other_columns"
            return
        try:
            self._place(found, each, is_needed=is_needed)
        except (FormatError, RefusedError):  # the partition is none of this branch
            self._may_hold[name] = "damaged"

    def _place(self, found: Viewpoint, each: RowEntry, *, is_needed: bool) -> None:
        """Note a file, or let it wait for the search."""
        file, plan = found.file(each), found.plan(self._view.table)
        name = each.entry.file_name
        in_partition, is_searched = self._in_partition(found, plan, file), is_needed and is_readable(file)
        if in_partition is False or not file.rows:
            return
        if in_partition:
            self._holds.add(name)
            self._rows += file.rows if is_needed else 0
            return
        hides = found.hides(each.schema_id, file)
        ranges = stated_ranges(each, found.fields(each.schema_id), file.format)
        may = hides or may_match(found.where, plan, file, file.rows, ranges)
        if may and not is_searched:
            self._may_hold[name] = "format" if is_needed else "unneeded"
        elif may and not found.converts(each.schema_id):
            self._may_hold[name] = "other_columns"
        elif may:
            if hides:
                self._may_hold[name] = "other_columns"
            self._wait(found.branch, file)

    def _wait(self, branch: str, file: ReadFile) -> None:
        pending = self._pending.setdefault(branch, [])
        pending.append(file)
        if len(pending) >= _AT_ONCE:
            self._flush(branch)

    def _in_partition(self, found: Viewpoint, plan: ReadPlan, file: ReadFile) -> bool | None:
        """Tell by its partition whether all rows of a file are chosen, or none; `None`: this depends on its rows."""
        where = found.where
        if where.always is not None:
            return where.always
        if not where.columns <= set(plan.partition_keys):
            return None
        key = found.branch, file.partition
        if key not in self._chosen:
            self._chosen[key] = matching_partition(plan, file.partition)
        return self._chosen[key]

    def _flush(self, branch: str) -> None:
        """Search the files that wait."""
        files, plan = self._pending.pop(branch, []), self._viewpoints.known(branch).plan(self._view.table)
        roots = self._roots_outside() if any(is_external(file.path) for file in files) else ()
        self._searched += len(files)
        found = search_raw(self._engine, replace(plan, external_roots=roots), files)
        self._holds |= found.rows.keys()
        self._marks |= found.marks
        self._rows += sum(found.rows.values())
        self._may_hold = {**found.failed, **self._may_hold}

    def _roots_outside(self) -> tuple[str, ...]:
        if self._external is None:
            store = self._view.table.store
            self._external = declared_roots(store.location, read_all_schemas(store, self._view.listing))
        return self._external
