"""`fast_forward`: give main the history of a branch.

`operations/branches/rules/fast_forward.py` decides what changes in main. The branch and all files remain. Files that
only main's former snapshots need become orphans.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakesweep.errors import RefusedError
from lakesweep.model.plan import MOVE_PHASES, Plan
from lakesweep.model.roots import BranchListing, Root, TableListing
from lakesweep.model.steering import Steering, Target
from lakesweep.model.table_ref import MAIN
from lakesweep.operations.branches.fast_forward_actions import forward_actions, hint_puts, read_hints
from lakesweep.operations.branches.fast_forward_warnings import forward_warnings
from lakesweep.operations.branches.history import read_history
from lakesweep.operations.branches.iceberg import refuse_iceberg
from lakesweep.operations.branches.names import check_known_name, check_on_main, no_such_branch
from lakesweep.operations.branches.newly_orphaned import find_stranded
from lakesweep.operations.branches.rules.fast_forward import Course, fast_forward_course, schema_conflict
from lakesweep.operations.branches.target_files import LOST_FILES, check_target, describe_lost
from lakesweep.operations.tags.protection import given_up_in_vain, protectors, refuse_protected
from lakesweep.operations.tags.removal import read_own_tags
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.session import Table
from lakesweep.runs.view import Draft, begin, frame_of
from lakesweep.table.documents import read_schema
from lakesweep.table.outside_files import OutsideFiles
from lakesweep.table.reach.completeness import lost_files

OPERATION = "fast_forward"
SCHEMA_CONFLICT = "schema_conflict"
IS_EMPTY = "branch_is_empty"


def plan_fast_forward(table: Table, name: str, lost_tags: Sequence[str] = ()) -> Plan:
    """Plan main's fast-forward to a branch.

    Args:
        table: The table; its branch is main.
        name: The name of the branch.
        lost_tags: Tags of main that the plan may delete although something protects them.

    Raises:
        UsageError: The call is about another branch than main, or no branch can have the name.
        RefusedError: The branch does not exist, has no snapshots, or its newest snapshot lacks files. Also if the
            schema would change under a root that needs it, or if a tag is protected.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    check_on_main(table, OPERATION)
    check_known_name(name)
    draft = begin(table, OPERATION)
    refuse_iceberg(table, draft.schema.options)
    branch = _branch_of(draft, name)
    ours, theirs = read_history(draft, draft.own), read_history(draft, branch)
    course = fast_forward_course(ours, theirs)
    frame = frame_of(draft.own, {"branch": name, **({"lose_tag": list(lost_tags)} if lost_tags else {})})
    tags = {root.ref.name for root in ours.tags}
    if course.is_empty:
        nothing = f"{MAIN} equals branch {name} already"
        return draft.plan((), frame, warnings=(nothing, *given_up_in_vain(lost_tags, tags, ())))
    target = theirs.snapshots[-1]
    _refuse_conflict(draft, name, course)
    protected = _protected(draft, name, course)
    instead = f"branch {name} to have the same tags"
    refuse_protected(str(table.ref), f"a fast-forward to branch {name}", protected, lost_tags, instead=instead)
    _refuse_lost_files(replace(draft, own=branch, schema=read_schema(table.store, branch)), course, target)
    actions = (*forward_actions(name, course), *hint_puts(read_hints(draft), name, course, theirs))
    stranded = find_stranded(draft, course.going)
    warnings = forward_warnings(draft, name, course, ours, theirs)
    return draft.plan(
        sorted(actions, key=lambda action: MOVE_PHASES.index(action.phase)),
        frame,
        warnings=(
            *given_up_in_vain(lost_tags, tags, protected),
            *warnings,
            *(f"the number of newly orphaned files is not known exactly: {each}" for each in stranded.unknown),
        ),
        findings={
            "branch": {"name": name},
            "lost": _lost(course, ours.snapshots[-1:], target),
            "stranded": stranded.to_json(),
        },
        steering=Steering(
            complete_roots=tuple(
                sorted({f"{root.ref.kind}/{root.ref.kind}-{root.ref.name}" for root in (target, *course.coming)})
            ),
            target=Target(target.ref.id, None, target.snapshot.time_ms),
        ),
    )


def _branch_of(draft: Draft, name: str) -> BranchListing:
    """Return the listing of the branch whose history main gets.

    Raises:
        RefusedError: The branch does not exist, or it has no snapshots.
    """
    branch = draft.listing.branches.get(name)
    if branch is None:
        raise no_such_branch(draft.table, name, draft.listing.branches)
    if not branch.snapshots:
        raise RefusedError(
            f"table {draft.table.ref}: branch {name} has no snapshot; expected one, since {MAIN} would be left with "
            "none",
            code=IS_EMPTY,
        )
    return branch


def _refuse_conflict(draft: Draft, name: str, course: Course) -> None:
    """Refuse if readers would read a root of main with a schema that is not its own.

    Raises:
        RefusedError: With code `schema_conflict`.
    """
    conflict = schema_conflict(course)
    if conflict is None:
        return
    what = "has no schema of that id" if conflict.goes else "has another schema of that id"
    raise RefusedError(
        f"table {draft.table.ref}: {conflict.root.ref} needs schema {conflict.schema_id} of {MAIN}, and branch {name} "
        f"{what}; expected a branch with the same schema, since {MAIN} is read with it",
        code=SCHEMA_CONFLICT,
    )


def _protected(draft: Draft, name: str, course: Course) -> Mapping[str, str]:
    """Return what protects the tags to delete, by name: branches other than the source, and the fleet policy."""
    if not course.withdrawn_tags:
        return {}
    others = {each: branch for each, branch in draft.listing.branches.items() if each != name}
    among = replace(draft, listing=TableListing(others, draft.listing.links))
    going = [root.ref.name for root in course.withdrawn_tags]
    return protectors(among, read_own_tags(draft), going, ruling_of(draft.table))


def _refuse_lost_files(draft: Draft, course: Course, target: Root) -> None:
    """Refuse a branch with an incomplete root: main would get that root, too.

    Raises:
        RefusedError: With code `target_lost_files`.
    """
    check_target(draft.table, draft, target)
    others = [root for root in course.coming if root.ref != target.ref]
    lost = (
        lost_files(
            draft.table.store, draft.schema, others, outside=OutsideFiles(draft.table.store, draft.table.open_store)
        )
        if others
        else ()
    )
    if lost:
        name = draft.own.name
        raise RefusedError(
            f"table {draft.table.ref}: snapshots or tags of branch {name} have lost {describe_lost([*lost])}; expected "
            f"all of them to be complete; expire-snapshots with --branch {name} deletes what an unfinished expiry left",
            code=LOST_FILES,
        )


def _lost(course: Course, newest: tuple[Root, ...], target: Root) -> dict[str, object]:
    snapshots = sorted((root for root in course.going if root.ref.kind == "snapshot"), key=lambda root: root.ref.id)
    before = next((root.snapshot.total_record_count for root in newest if snapshots), None)
    after = target.snapshot.total_record_count
    replaced = {old.id for old, _ in course.put_schemas if old is not None}
    return {
        "snapshots": [root.ref.id for root in snapshots],
        "changelogs": [],
        "tags": sorted(root.ref.name for root in course.withdrawn_tags),
        "rows": None if before is None or after is None else before - after,
        "commit_users": list(dict.fromkeys(root.snapshot.commit_user for root in snapshots)),
        "schemas": sorted(replaced | {schema.id for schema in course.dropped_schemas}),
    }
