"""`fast-forward`: give main the history of a branch.

`operations/branches/rules/fast_forward.py` decides what changes in main. The branch and all files remain. Files that
only main's former snapshots need become orphans.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from lakesweep.errors import RefusedError, some_of
from lakesweep.model.plan import MOVE_PHASES, Plan
from lakesweep.model.roots import MAIN, BranchListing, Root, TableListing
from lakesweep.model.steering import Steering, Target
from lakesweep.operations.branches.documents import lost_rows, read_hint_of, read_history
from lakesweep.operations.branches.names import check_known_name, check_on_main, no_such_branch
from lakesweep.operations.branches.newly_orphaned import find_newly_orphaned
from lakesweep.operations.branches.rules.fast_forward import (
    Course,
    fast_forward_course,
    forward_actions,
    hint_puts,
    needed_by_rollbacks,
    schema_conflict,
)
from lakesweep.operations.branches.rules.history import EARLIEST, LATEST, History
from lakesweep.operations.branches.target_files import LOST_FILES, check_target, describe_lost, refuse_iceberg
from lakesweep.operations.tags.delete import OwnTags, read_own_tags
from lakesweep.operations.tags.options import is_write_only
from lakesweep.operations.tags.protection import give_up_tags, given_up_in_vain
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin, inputs_of
from lakesweep.table.documents import read_consumers, read_schema
from lakesweep.table.reach.completeness import lost_files
from lakesweep.table.stores import OutsideFiles

OPERATION = "fast-forward"
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
    view = begin(table, OPERATION)
    refuse_iceberg(table, view.schema.options)
    branch = _branch_of(view, name)
    ours, theirs = read_history(view, view.own), read_history(view, branch)
    course = fast_forward_course(ours, theirs)
    inputs = inputs_of(view.own, {"branch": name, **({"lose_tag": list(lost_tags)} if lost_tags else {})})
    if course.is_empty:
        nothing = f"{MAIN} equals branch {name} already"
        return view.plan((), inputs, warnings=(nothing, *given_up_in_vain(lost_tags, view.own.tags, ())))
    target = theirs.snapshots[-1]
    _refuse_conflict(view, name, course)
    given_up = _give_up_tags(view, name, course, theirs, lost_tags)
    _refuse_lost_files(replace(view, own=branch, schema=read_schema(table.store, branch)), course, target)
    hints = {path: read_hint_of(view, view.own, path) for path in (LATEST, EARLIEST)}
    actions = (*forward_actions(name, course), *hint_puts(hints, name, course, theirs))
    newly_orphaned = find_newly_orphaned(view, course.going)
    return view.plan(
        sorted(actions, key=lambda action: MOVE_PHASES.index(action.phase)),
        inputs,
        warnings=(
            *given_up,
            *_warnings(view, name, course, ours, theirs),
            *newly_orphaned.warnings(),
        ),
        findings={
            "branch": {"name": name},
            "lost": _lost(course, ours.snapshots[-1:], target),
            "newly_orphaned": newly_orphaned.to_json(),
        },
        steering=Steering(
            complete_roots=tuple(
                sorted({f"{root.ref.kind}/{root.ref.kind}-{root.ref.name}" for root in (target, *course.coming)})
            ),
            target=Target(target.ref.id, None, target.snapshot.time_ms),
        ),
    )


def _branch_of(view: TableView, name: str) -> BranchListing:
    """Return the listing of the branch whose history main gets.

    Raises:
        RefusedError: The branch does not exist, or it has no snapshots.
    """
    branch = view.listing.branches.get(name)
    if branch is None:
        raise no_such_branch(view.table, name, view.listing.branches)
    if not branch.snapshots:
        raise RefusedError(
            f"table {view.table.ref}: branch {name} has no snapshot; expected one, since {MAIN} would be left with "
            "none",
            code=IS_EMPTY,
        )
    return branch


def _refuse_conflict(view: TableView, name: str, course: Course) -> None:
    """Refuse if readers would read a root of main with a schema that is not its own.

    Raises:
        RefusedError: With code `schema_conflict`.
    """
    conflict = schema_conflict(course)
    if conflict is None:
        return
    what = "delete it: the branch has none" if conflict.goes else "replace it: the branch has another one"
    raise RefusedError(
        f"table {view.table.ref}: {conflict.root.ref} needs schema {conflict.schema_id} of {MAIN}, and a fast-forward "
        f"to branch {name} would {what}; expected the same schema {conflict.schema_id} in both",
        code=SCHEMA_CONFLICT,
    )


def _give_up_tags(
    view: TableView, name: str, course: Course, theirs: History, lost_tags: Sequence[str]
) -> tuple[str, ...]:
    """Refuse if branches other than the source, the fleet policy or a rollback protect a tag. Return warnings."""
    others = {each: branch for each, branch in view.listing.branches.items() if each != name}
    going = [root.ref.name for root in course.withdrawn_tags]
    return give_up_tags(
        replace(view, listing=TableListing(others, view.listing.links)),
        read_own_tags(view) if going else OwnTags({}, {}, {}),
        going,
        lost_tags,
        rewrite=f"a fast-forward to branch {name}",
        instead=f"branch {name} to have the same tags",
        more=dict.fromkeys(
            needed_by_rollbacks(course, theirs),
            "it keeps files that a rollback as latest took back from Paimon's expiry",
        ),
    )


def _refuse_lost_files(view: TableView, course: Course, target: Root) -> None:
    """Refuse a branch with an incomplete root: main would get that root, too.

    Raises:
        RefusedError: With code `target_lost_files`.
    """
    check_target(view.table, view, target)
    others = [root for root in course.coming if root.ref != target.ref]
    store, open_store = view.table.store, view.table.open_store
    lost = lost_files(store, view.schema, others, outside=OutsideFiles(store, open_store)) if others else ()
    if lost:
        name = view.own.name
        raise RefusedError(
            f"table {view.table.ref}: snapshots or tags of branch {name} have lost {describe_lost([*lost])}; expected "
            f"all of them to be complete; expire-snapshots with --branch {name} deletes what an unfinished expiry left",
            code=LOST_FILES,
        )


def _lost(course: Course, newest: tuple[Root, ...], target: Root) -> dict[str, object]:
    snapshots = sorted((root for root in course.going if root.ref.kind == "snapshot"), key=lambda root: root.ref.id)
    before = next((root.snapshot for root in newest if snapshots), None)
    replaced = {old.id for old, _ in course.put_schemas if old is not None}
    return {
        "snapshots": [root.ref.id for root in snapshots],
        "changelogs": [],
        "tags": sorted(root.ref.name for root in course.withdrawn_tags),
        "rows": lost_rows(before, target.snapshot),
        "commit_users": list(dict.fromkeys(root.snapshot.commit_user for root in snapshots)),
        "schemas": sorted(replaced | {schema.id for schema in course.dropped_schemas}),
    }


def _warnings(view: TableView, name: str, course: Course, main: History, branch: History) -> Iterator[str]:
    """Yield what people who work with main should know before a fast-forward."""
    lost = [root.ref.id for root in course.going if root.ref.kind == "snapshot"]
    if lost:
        yield (
            f"writers and streaming readers of {MAIN} must be stopped before and started again after: ids from "
            f"{min(lost)} on will belong to other snapshots"
        )
    if course.displaced:
        replaced = some_of([old.ref.id for old in reversed(course.displaced)])
        yield (
            f"{MAIN} and branch {name} have different snapshots of the ids {replaced}, and those of {MAIN} are "
            "overwritten; readers that have loaded the old ones continue with them"
        )
    yield from _consumers(view, branch.snapshots[-1].ref.id + 1)
    if not is_write_only(view.schema.options):
        yield (
            f"writers of this table may expire its snapshots themselves, and then consider one branch alone: {MAIN} "
            f"and {name} will share files, so delete branch {name} soon, or make the table write-only"
        )
    changelogs = [root.ref.id for root in main.changelogs if root.ref.id >= branch.first.ref.id]
    if changelogs:
        yield f"changelogs {some_of(changelogs)} of {MAIN} are kept, although they belong to its former history"
    there = sorted({root.ref.id for root in (*course.staying, *course.coming) if root.ref.kind == "snapshot"})
    earliest = branch.earliest_id or main.earliest_id or 0
    hidden = [i for i in there if earliest in there and i < earliest]
    if hidden:
        yield (
            f"EARLIEST will be {earliest}, which hides snapshots {some_of(hidden)} from readers and from Paimon's "
            "expiry"
        )
    missing = [i + 1 for i, after in pairwise(there) if after != i + 1]
    if missing:
        yield f"{MAIN} will have no snapshot {some_of(missing)}; a search by time or watermark may fail there"


def _consumers(view: TableView, end: int) -> Iterator[str]:
    """Warn of readers that wait for an id beyond the next commit: they fail."""
    try:
        consumers = read_consumers(view.table.store, view.own.consumers)
    except RefusedError as error:
        yield f"a consumer cannot be read, so it is not known whether it is beyond the new end of {MAIN}: {error}"
        return
    for consumer, next_id in sorted(consumers.items()):
        if next_id > end:
            yield (
                f"consumer {consumer} waits for snapshot {next_id}, but the next commit of {MAIN} is {end}; its reader "
                "fails until the consumer is reset"
            )
