"""`delete-branch`: delete a branch's documents. The files that only this branch needs become orphans.

Paimon deletes the branch's folder. Lakesweep's plan names each object in it, with its content. So each object can be
put back during the execution and afterwards.

The plan deletes tags first, then snapshots from the newest down, so that the history never has a hole. It deletes
schemas last, and the newest schema at the very end, so that nobody can write with an older schema. Lakesweep cannot
judge an object that is no document of a branch. If the folder has such an object, Lakesweep keeps the branch.

Source: Paimon `AbstractFileStoreTable#deleteBranch`, `FileSystemBranchManager#dropBranch`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.errors import FormatError, RefusedError, some_of
from lakesweep.format.tag import tag_body
from lakesweep.format.values.json_document import shorten
from lakesweep.model.paths.allowed import check_action
from lakesweep.model.plan import MOVE_PHASES, Delete, Plan, to_text
from lakesweep.model.roots import BranchListing, Root, RootRef, branch_dir
from lakesweep.model.steering import Steering
from lakesweep.operations.branches.documents import read_bodies
from lakesweep.operations.branches.names import (
    BranchObjects,
    check_known_name,
    check_on_main,
    check_unused,
    list_branch,
    no_such_branch,
)
from lakesweep.operations.branches.newly_orphaned import find_newly_orphaned
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin, inputs_of
from lakesweep.storage.store import StoredObject
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_roots

OPERATION = "delete-branch"
UNKNOWN = "unknown_objects"
Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Place:
    """A kind of documents: their path, and the phase that deletes them."""

    phase: str
    kind: str
    pattern: re.Pattern[str]
    """If the pattern has a group, it matches an id."""
    descends: bool = True
    """Delete the highest id first."""


_PLACES = tuple(
    _Place(phase, kind, re.compile(pattern, re.DOTALL), descends)
    for phase, kind, pattern, descends in (
        ("withdraw_tags", "tag", r"tag/tag-(?!success-file/).+", True),
        ("withdraw_tags", "tag_success", r"tag/tag-success-file/[^/]+_SUCCESS", True),
        ("withdraw", "snapshot", r"snapshot/snapshot-([0-9]+)", True),
        ("withdraw", "consumer", r"consumer/consumer-[^/]+", True),
        ("withdraw_changelogs", "hint", r"changelog/(?:EARLIEST|LATEST)", True),
        ("withdraw_changelogs", "changelog_document", r"changelog/changelog-([0-9]+)", True),
        ("publish_hints", "hint", r"snapshot/(?:EARLIEST|LATEST)", True),
        ("clean", "schema", r"schema/schema-([0-9]+)", False),
        ("withdraw", "branch_document", r"(?:snapshot|changelog|tag|schema|consumer)/[^/]+", True),
    )
)
"""The first match counts."""


def plan_delete_branch(table: Table, name: str) -> Plan:
    """Plan the removal of a branch.

    Raises:
        UsageError: Another branch than main was chosen, or no branch can have this name.
        RefusedError: The branch does not exist, another branch reads it, or its folder has objects that are no
            documents of a branch.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    check_on_main(table, OPERATION)
    check_known_name(name)
    view = begin(table, OPERATION)
    found = list_branch(table, name)
    if not found.objects:
        raise no_such_branch(table, name, view.listing.branches)
    check_unused(view.table, view.listing, name)
    going = tuple(_going(table, name, found))
    loss = find_loss(view, found.own)
    return view.seeing(found.own).plan(  # other branches may appear and vanish meanwhile
        going,
        inputs_of(found.own, {"branch": name}),
        warnings=(*loss.warnings, *_warnings(name, found.own)),
        findings={
            "branch": {"name": name, "tags": [ref.name for ref in found.own.tags], "objects": len(going)},
            "lost": loss.lost,
            "newly_orphaned": loss.newly_orphaned,
        },
        steering=Steering(complete_roots=()),
    )


def _going(table: Table, name: str, found: BranchObjects) -> Iterable[Delete]:
    """Return the deletions in the order of their phases, each with the content of its object."""
    planned = [(_planned(name, entry), entry) for entry in found.objects]
    unknown = [entry.key for delete, entry in planned if delete is None or entry.size_bytes > MAX_DOCUMENT_BYTES]
    if unknown or found.others:
        raise _unknown(table, name, found.others, unknown)
    deletes = sorted((delete for delete, _ in planned if delete is not None), key=_turn)
    for delete, body in read_bodies(table.store, deletes):
        yield replace(delete, body=to_text(body))


def _planned(name: str, entry: StoredObject) -> Delete | None:
    """Return the action that deletes an object of the branch, `None` if the object is no document of a branch."""
    path = entry.key.removeprefix(branch_dir(name))
    place = next((place for place in _PLACES if place.pattern.fullmatch(path)), None)
    if place is None:
        return None
    delete = Delete(place.phase, place.kind, entry.key, entry.size_bytes, f"branch {name} is deleted", etag=entry.etag)
    try:
        check_action(delete)
    except RefusedError:
        return None
    return delete


def _turn(delete: Delete) -> tuple[int, int, int, str]:
    """Return the sort key of a deletion: its phase, its kind in the order of `_PLACES`, its id."""
    ranks = [number for number, place in enumerate(_PLACES) if (place.phase, place.kind) == (delete.phase, delete.kind)]
    place = _PLACES[ranks[0]]
    match = re.search(r"-([0-9]+)\Z", delete.path) if place.pattern.groups else None
    number = int(match[1]) if match else 0
    return MOVE_PHASES.index(delete.phase), ranks[0], -number if place.descends else number, delete.path


def _unknown(table: Table, name: str, others: Iterable[str], keys: Iterable[str]) -> RefusedError:
    found = [shorten(repr(each)) for each in (*(f"branch {other}" for other in others), *keys)]
    return RefusedError(
        f"table {table.ref}: the folder of branch {name!r} holds more than documents of the branch: {some_of(found)}; "
        "expected only its documents, since Lakesweep cannot judge other objects",
        code=UNKNOWN,
    )


def _warnings(name: str, own: BranchListing) -> Iterable[str]:
    if own.consumers:
        consumers = some_of([shorten(repr(consumer.name)[1:-1]) for consumer in own.consumers])
        yield f"branch {name!r} has consumers: {consumers}; their readers will fail"
    yield (
        f"stop the writers of branch {name!r} before it is deleted; a writer that commits later leaves a snapshot in "
        "a branch without schemas"
    )


@dataclass(frozen=True, slots=True)
class BranchLoss:
    """Information for people; Lakesweep decides nothing by it."""

    lost: Json
    newly_orphaned: Json | None
    """`None`: not known."""
    warnings: tuple[str, ...]


def find_loss(view: TableView, own: BranchListing) -> BranchLoss:
    """Return what the deletion of a branch loses. Unreadable documents are only counted by name.

    Args:
        view: Of any branch of the table.
        own: The branch to delete.

    Raises:
        StorageError: A request failed.
    """
    going, unreadable = read_each(view, own.roots())
    warnings = [
        f"{problem}; it is deleted all the same, and its files are not counted" for problem in unreadable.values()
    ]
    try:
        others = view.other_documents([ref.path for ref in own.roots()]).roots
        newly_orphaned = find_newly_orphaned(view, going)
    except RefusedError as error:
        others, found = (), None
        warnings.append(f"the files that only branch {own.name!r} needs are not known: {error}")
    else:
        found = newly_orphaned.to_json()
        about = f"the files that only branch {own.name!r} needs are not known exactly"
        warnings += [f"{about}: {what}" for what in newly_orphaned.unknown]
    known = {content_of(root) for root in others}
    alone = [root for root in going if content_of(root) not in known]
    return BranchLoss(_lost(own, alone, unreadable), found, tuple(warnings))


def read_each(view: TableView, refs: Iterable[RootRef]) -> tuple[tuple[Root, ...], Mapping[str, str]]:
    """Return the readable roots, and for each unreadable one path -> problem. Vanished roots are in neither.

    Raises:
        StorageError: A request failed.
    """
    refs = tuple(refs)
    try:
        return read_roots(view.table.store, refs).roots, {}
    except RefusedError:
        pass  # some roots cannot be read; only one after another shows which
    roots: list[Root] = []
    unreadable: dict[str, str] = {}
    for ref in refs:
        try:
            roots += read_roots(view.table.store, [ref]).roots
        except RefusedError as error:
            unreadable[ref.path] = str(error)
    return tuple(roots), unreadable


def content_of(root: Root) -> bytes:
    """Return the content that a snapshot, its tags and its changelog have in common."""
    try:
        return tag_body(root.body, root.ref.path, None, None)
    except (FormatError, RefusedError):
        return root.body


def _lost(own: BranchListing, alone: Sequence[Root], unreadable: Mapping[str, str]) -> Json:
    paths = {root.ref.path for root in alone} | unreadable.keys()
    snapshots = [root.snapshot for root in alone if root.ref.kind == "snapshot"]
    return {
        "snapshots": [ref.id for ref in own.snapshots if ref.path in paths],
        "changelogs": [ref.id for ref in own.changelogs if ref.path in paths],
        "tags": [ref.name for ref in own.tags if ref.path in paths],
        "rows": max(0, sum(snapshot.delta_record_count or 0 for snapshot in snapshots)),
        "commit_users": sorted({snapshot.commit_user for snapshot in snapshots}),
    }
