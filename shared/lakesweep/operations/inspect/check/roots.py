"""What `check` finds about roots. It reads each document and list; a listing shows whether the manifests exist.

So the number of roots and manifests limits the cost, however much data the table holds. Some parts of a root may be
missing without damage; orphan scans decide by the same rule (`Wholeness`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.format.manifest import ManifestMeta
from lakesweep.model.roots import BranchListing, Root, RootRef, TableListing
from lakesweep.operations.inspect.health import Finding, command, expire_down_to, restore
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_roots
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import LiveSet, Note, Wholeness, add_roots
from lakesweep.table.reach.missing import EXPIRING, may_be_expiring

_LOST_MANIFEST = re.compile(r"(manifest/manifest-(?!list-)\S+) does not exist")


@dataclass(frozen=True, slots=True)
class _Problem:
    ref: RootRef
    kind: Literal["document", "list", "missing", "changelog", "schema"]
    """What is wrong: the document itself, a damaged list or manifest, a missing one, a missing one of the changelog
    alone, or a missing schema."""
    sentence: str
    schema_id: int = 0
    """The missing schema."""


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
        if problem.kind == "schema" and problem.schema_id in _schema_ids(now.branches[ref.branch]):
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
    return Finding("roots", problem, _give_up(table, listing, ref, problem), (ref.path,))


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
            yield _Problem(ref, "document", found)
    reader = MetadataReader(store)
    holders = Holders(reader, roots)  # Reads all lists at once; the loop below asks for one root after another.
    reader.index_manifests(named.name for named in holders.named() if named.kind == "index_manifest")
    # The other lists of a changelog document were deleted with its snapshot.
    lost = {
        root.ref.path: content.problem
        for root, part, content in holders.gaps
        if root.ref.kind == "changelog" and part == "changelog"
    }
    sizes = {entry.key: entry.size_bytes for entry in store.list("manifest/")} if roots else {}
    live = LiveSet(tagged={(root.ref.branch, root.snapshot.id) for root in roots if root.ref.kind == "tag"})
    unless_tagged = Wholeness(store, listing, frozenset())
    for root in roots:
        ref, schema_id, schemas = root.ref, root.snapshot.schema_id, _schema_ids(listing.branches[root.ref.branch])
        try:
            add_roots(live, reader, (root,), listing, store, partial(_listed_manifests, sizes))
        except RefusedError as error:
            yield _Problem(ref, "list", f"{ref.path} is incomplete: {error}")
            continue
        problem = live.damaged.get(ref.path) or lost.get(ref.path)
        if problem is not None:
            yield _Problem(ref, "missing", f"{ref.path} is incomplete: {problem}")
        elif (incomplete := live.incomplete.get(ref.path)) is not None and unless_tagged.is_strict(root, "changelog"):
            yield _Problem(ref, "changelog", f"{ref.path} has lost its changelog: {incomplete}")
        elif schemas and schema_id not in schemas:
            yield _Problem(ref, "schema", f"{ref.path} needs schema {schema_id}, which does not exist", schema_id)


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


def _listed_manifests(
    sizes: Mapping[str, int], reader: MetadataReader, metas: Iterable[ManifestMeta], note: Note
) -> Iterator[tuple[str, Unreadable | None]]:
    """Replace the reading of manifests: a listing says whether each exists, and its size."""
    for meta in metas:
        path = f"manifest/{meta.file_name}"
        size = sizes.get(path)
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
    ref, says, location = problem.ref, problem.sentence, table.ref.location
    mend = restore(ref.path)
    if problem.kind == "schema":
        folder = "" if ref.branch == "main" else f"branch/branch-{ref.branch}/"
        mend = restore(f"{folder}schema/schema-{problem.schema_id}")
    elif problem.kind == "changelog":
        newer = [each for each in listing.branches[ref.branch].snapshots if each.id > ref.id]
        says += (
            "; its state can be read, but streaming readers fail when they reach it; a rollback to its tag does not "
            "repair it"
        )
        mend = restore("that file", expire_down_to(location, len(newer), ref.branch) if newer else None)
    elif problem.kind != "document":
        if problem.kind == "missing" and may_be_expiring(listing, [ref]):
            says += f"; {EXPIRING}"
        mend = _give_up(table, listing, ref, problem.sentence)
    elif ref.kind == "tag":
        says += (
            "; if nobody can restore it, replace-tag overwrites it with a valid document, which delete-tag can then "
            "delete"
        )
        mend = command("replace-tag", location, ref.name, branch=ref.branch)
    return Finding("roots", says, mend, (ref.path,))


def _give_up(table: Table, listing: TableListing, ref: RootRef, problem: str) -> str:
    """Return the command that gives up an unreadable root, or a manifest that the newest snapshot lacks.

    Only other means, for example a backup, restore it.
    """
    location, branch = table.ref.location, ref.branch
    manifest = _LOST_MANIFEST.search(problem)
    if manifest is not None and ref in listing.branches[branch].snapshots[-1:]:
        repair = command("remove-unexisting-manifests", location, branch=branch, executes=False)
        return restore(manifest[1], repair)
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
