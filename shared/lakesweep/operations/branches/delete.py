"""`delete_branch`: delete a branch's documents. The files that only this branch needs become orphans.

Paimon deletes the branch's folder. Lakesweep's plan names each object in it, with its content. So each object can be
put back during the execution and afterwards.

The plan deletes tags first, then snapshots from the newest down, so that the history never has a hole. It deletes
schemas last, and the newest schema at the very end, so that nobody can write with an older schema. Lakesweep cannot
judge an object that is no document of a branch. If the folder has such an object, Lakesweep keeps the branch.

Source: Paimon `AbstractFileStoreTable#deleteBranch`, `FileSystemBranchManager#dropBranch`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakesweep.errors import RefusedError
from lakesweep.format.values.json_document import shorten
from lakesweep.model.paths.allowed import check_action
from lakesweep.model.plan import MOVE_PHASES, Delete, Plan, to_text
from lakesweep.model.roots import BranchListing
from lakesweep.model.steering import Steering
from lakesweep.model.table_ref import branch_dir
from lakesweep.model.wording import some_of
from lakesweep.operations.branches.documents import read_bodies
from lakesweep.operations.branches.loss import find_loss
from lakesweep.operations.branches.names import (
    BranchObjects,
    check_known_name,
    check_on_main,
    check_unused,
    list_branch,
    no_such_branch,
)
from lakesweep.runs.session import Table
from lakesweep.runs.view import begin, inputs_of
from lakesweep.storage.store import StoredObject
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

OPERATION = "delete_branch"
UNKNOWN = "unknown_objects"


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
