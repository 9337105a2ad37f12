"""What `check` finds about roots. It reads each document and list; a listing shows whether the manifests exist.

So the number of roots and manifests limits the cost, however much data the table holds. Some parts of a root may be
missing without damage; orphan scans decide by the same rule (`Wholeness`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.roots import BranchListing, Root, RootRef, TableListing
from lakesweep.operations.inspect.health import Finding, command, expire_down_to, restore
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_hint, read_roots
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.live_set import LiveSet, Wholeness, add_roots
from lakesweep.table.reach.missing import EXPIRING, may_be_expiring


@dataclass(slots=True)
class _Problem:
    ref: RootRef
    sentence: str
    is_document: bool = False
    """The document itself cannot be read."""
    schema_id: int | None = None
    """The schema that does not exist."""
    is_missing: bool = False
    has_state: bool = False
    """Only its changelog is missing."""


def root_findings(table: Table, listing: TableListing, told: frozenset[str]) -> Iterator[Finding]:
    """Find roots whose document, lists, manifests or schema are missing or unreadable.

    Args:
        table: All branches of it.
        listing: Its roots.
        told: Paths of roots with problems that other findings already report.

    Raises:
        StorageError: A request failed.
    """
    problems = [problem for problem in _problems(table.store, listing) if problem.ref.path not in told]
    if not problems:
        return
    now = discover(table.store)  # an expiry deletes the files of a root before the root itself
    there = now.etags()
    for problem in problems:
        ref = problem.ref
        if there.get(ref.path) != ref.etag:
            continue
        if problem.schema_id is not None and problem.schema_id in _schema_ids(now.branches[ref.branch]):
            continue  # the schema was written after the first listing
        yield _finding(table, listing, problem)


def schema_findings(table: Table, listing: TableListing) -> Iterator[Finding]:
    """Find branches that have roots but no schema."""
    location = table.ref.location
    for name, branch in listing.branches.items():
        first = next(branch.roots(), None)
        if branch.schemas or first is None:
            continue
        folder = "schema/" if name == "main" else f"branch/branch-{name}/schema/"
        otherwise = None if name == "main" else command("delete-branch", location, name)
        says = f"branch {name} has no schema, although {first.path} exists; no reader can open it"
        yield Finding("roots", says, restore(folder, otherwise), (folder,))


def unreadable(table: Table, listing: TableListing, ref: RootRef, problem: str) -> Finding:
    """Return the finding of a root that lacks a list or a manifest."""
    return Finding("roots", problem, _give_up(table, listing, ref), (ref.path,))


def readable_roots(store: Store, refs: Iterable[RootRef]) -> Iterator[Root]:
    """Yield the roots whose documents can be read.

    Raises:
        StorageError: A request failed.
    """
    for _, found in _read_each(store, tuple(refs)):
        if isinstance(found, Root):
            yield found


def _problems(store: Store, listing: TableListing) -> Iterator[_Problem]:
    roots: list[Root] = []
    for ref, found in _read_each(store, tuple(listing.roots())):
        if isinstance(found, Root):
            roots.append(found)
        else:
            yield _Problem(ref, found, is_document=True)
    reader = MetadataReader(store)
    reader.manifest_lists(_lists(roots))  # many at a time; the loop below asks for one root after another
    reader.index_manifests(name for root in roots if (name := root.snapshot.index_manifest) is not None)
    sizes = {entry.key: entry.size_bytes for entry in store.list("manifest/")} if roots else {}
    live = LiveSet(tagged={(root.ref.branch, root.snapshot.id) for root in roots if root.ref.kind == "tag"})

    def earliest(branch: BranchListing) -> int | None:
        document = branch.hints.get("snapshot/EARLIEST")
        return None if document is None else read_hint(store, document.path)

    unless_tagged = Wholeness(listing, frozenset(), earliest)
    for root in roots:
        ref, schemas = root.ref, _schema_ids(listing.branches[root.ref.branch])
        try:
            add_roots(live, reader, (root,), listing, earliest, _Listed(sizes))
        except RefusedError as error:
            yield _Problem(ref, f"{ref.path} is incomplete: {error}")
            continue
        problem = live.damaged.get(ref.path) or _lost_changelog(root, reader)
        if problem is not None:
            yield _Problem(ref, f"{ref.path} is incomplete: {problem}", is_missing=True)
        elif (hollow := live.hollow.get(ref.path)) is not None and unless_tagged.is_strict(root, "changelog"):
            yield _Problem(ref, f"{ref.path} has lost its changelog: {hollow}", has_state=True)
        elif schemas and root.snapshot.schema_id not in schemas:
            yield _Problem(
                ref,
                f"{ref.path} needs schema {root.snapshot.schema_id}, which does not exist",
                schema_id=root.snapshot.schema_id,
            )


def _read_each(store: Store, refs: tuple[RootRef, ...]) -> Iterator[tuple[RootRef, Root | str]]:
    """Yield each root, or the problem of its document. Vanished roots are skipped."""
    try:
        yield from [(root.ref, root) for root in read_roots(store, refs).roots]
        return
    except MaintenanceError as error:
        if not _is_content(error):
            raise
        # Some documents cannot be read. Only one after another shows which.
    for ref in refs:
        try:
            yield from [(ref, root) for root in read_roots(store, [ref]).roots]
        except MaintenanceError as error:
            if not _is_content(error):
                raise
            yield ref, str(error)


def _is_content(error: MaintenanceError) -> bool:
    return isinstance(error, RefusedError) and error.code == "unreadable_root"


def _lists(roots: Iterable[Root]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for root in roots:
        snapshot = root.snapshot
        found[snapshot.base_manifest_list] = snapshot.base_manifest_list_size
        found[snapshot.delta_manifest_list] = snapshot.delta_manifest_list_size
        if snapshot.changelog_manifest_list is not None:
            found[snapshot.changelog_manifest_list] = snapshot.changelog_manifest_list_size
    return found


def _lost_changelog(root: Root, reader: MetadataReader) -> str | None:
    """Return the problem of a changelog document's own list; its other lists were deleted with its snapshot."""
    name = root.snapshot.changelog_manifest_list
    if root.ref.kind != "changelog" or name is None:
        return None
    content = reader.manifest_lists({name: root.snapshot.changelog_manifest_list_size})[name]
    return content.problem if isinstance(content, Unreadable) else None


@dataclass(frozen=True, slots=True)
class _Listed:
    """Replaces the reading of manifests: a listing says whether each exists, and its size."""

    sizes: dict[str, int] = field(default_factory=dict)

    def __call__(
        self, reader: MetadataReader, metas: Iterable[ManifestMeta], note: Callable[[Iterator[ManifestEntry]], None]
    ) -> Iterator[tuple[str, Unreadable | None]]:
        for meta in metas:
            path = f"manifest/{meta.file_name}"
            size = self.sizes.get(path)
            found = None
            if size is None:
                found = Unreadable(path, f"{path} does not exist", missing=True)
            elif size != meta.file_size:
                found = Unreadable(
                    path, f"{path}: expected {meta.file_size} bytes as its list states, found {size}", missing=False
                )
            yield meta.file_name, found


def _schema_ids(branch: BranchListing) -> frozenset[int]:
    return frozenset(int(document.name) for document in branch.schemas)


def _finding(table: Table, listing: TableListing, problem: _Problem) -> Finding:
    ref, location = problem.ref, table.ref.location
    if problem.schema_id is not None:
        folder = "" if ref.branch == "main" else f"branch/branch-{ref.branch}/"
        return Finding(
            "roots",
            problem.sentence,
            restore(f"{folder}schema/schema-{problem.schema_id}"),
            (ref.path,),
        )
    if problem.has_state:
        newer = [each for each in listing.branches[ref.branch].snapshots if each.id > ref.id]
        says = (
            f"{problem.sentence}; its state can be read, but streaming readers fail when they reach it; a rollback to "
            "its tag does not repair it"
        )
        mend = restore("that file", expire_down_to(location, len(newer), ref.branch) if newer else None)
        return Finding("roots", says, mend, (ref.path,))
    if not problem.is_document:
        says = problem.sentence
        if problem.is_missing and may_be_expiring(listing, [ref]):
            says += f"; {EXPIRING}"
        return unreadable(table, listing, ref, says)
    if ref.kind == "tag":
        return Finding(
            "roots",
            f"{problem.sentence}; if nobody can restore it, replace-tag overwrites it with a valid document, which "
            "delete-tag can then delete",
            command("replace-tag", location, ref.name, branch=ref.branch),
            (ref.path,),
        )
    return Finding("roots", problem.sentence, restore(ref.path), (ref.path,))


def _give_up(table: Table, listing: TableListing, ref: RootRef) -> str:
    """Return the command that gives up an unreadable root. Only other means, for example a backup, restore it."""
    location, branch = table.ref.location, ref.branch
    if ref.kind == "tag":
        return command("delete-tag", location, ref.name, branch=branch)
    if ref.kind == "changelog":
        return command("expire-changelogs", location, branch=branch)
    ids = [each.id for each in listing.branches[branch].snapshots]
    newer = [each for each in ids if each > ref.id]
    older = [each for each in ids if each < ref.id]
    if newer:
        return expire_down_to(location, len(newer), branch)
    if older:
        return command("rollback", location, "--snapshot", str(older[-1]), branch=branch)
    return command("explain", location, ref.path, executes=False)
