"""`rollback`: make an older version the newest again.

A rollback deletes documents and no other files. It deletes the snapshots above the target, from the newest down, and
the changelogs and tags of later versions. So readers can open the branch after each request. If the run dies, the next
run finishes the rollback. Files that only these documents named then belong to no version, and the orphan scan finds
them.

If the target's own document is gone but a tag holds it, the rollback first writes the document again. (Paimon deletes
first. If it dies in between, it leaves a table without a snapshot.)

An unfinished expiry may delete files that the target needs, since files that later snapshots deleted are live again at
the target. So an unfinished expiry of Lakesweep stops the rollback. Lakesweep cannot know what other programs do. So it
looks for all files that the target needs, before the first request and after the last
(`execute/branch_rewrites/rewrite.py`).

Source: Paimon `RollbackHelper`, `AbstractFileStoreTable#rollbackTo`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.errors import RefusedError, some_of
from lakesweep.format.tag import tag_body
from lakesweep.model.document_actions import write_document
from lakesweep.model.plan import Action, Plan, Put
from lakesweep.model.report import RunReport
from lakesweep.model.roots import BranchListing, Root, branch_dir
from lakesweep.model.steering import Steering, Target
from lakesweep.operations.branches.documents import RemovedDocuments, lost_rows, put_hint, withdrawal
from lakesweep.operations.branches.newly_orphaned import find_newly_orphaned
from lakesweep.operations.branches.target_files import check_target, refuse_iceberg
from lakesweep.operations.tags.delete import OwnTags, read_own_tags
from lakesweep.operations.tags.options import is_write_only
from lakesweep.operations.tags.protection import give_up_tags, given_up_in_vain
from lakesweep.runs.execution import require_area
from lakesweep.runs.expiry_conflict import may_conflict, refuse_conflict
from lakesweep.runs.metadata_cache import invalidate
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.parameters.time_travel import NO_VERSION, Version, resolve
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.reports import refused
from lakesweep.runs.run import plan_and_execute, plan_only
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin, inputs_of
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_consumers, read_hint
from lakesweep.table.metadata import MetadataReader, Unreadable

OPERATION = "rollback"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class RollbackArguments:
    """The arguments of a call."""

    version: Version
    lost_tags: tuple[str, ...] = ()
    """Tags that the plan may delete although something protects them."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        version = self.version
        return stated(
            snapshot=version.snapshot_id,
            tag=version.tag,
            version=version.version,
            timestamp_ms=version.timestamp_ms,
            watermark=version.watermark,
            lose_tag=self.lost_tags,
        )


def rollback(table: Table, arguments: RollbackArguments, *, execute: bool) -> RunReport:
    """Roll a branch back, unless an unfinished run has deleted, or may delete, files that the target needs."""

    def planner(target: Table) -> Plan:
        return plan_rollback(target, arguments)

    area = require_area(table) if execute else table.area
    if area is None:
        return plan_only(table, OPERATION, planner)
    lease = read_lease(area)
    try:
        refuse_while_expiring(table, area, lease, arguments.version)
    except RefusedError as error:
        return refused(table, OPERATION, error)
    if execute:
        return plan_and_execute(table, OPERATION, planner, lease=lease)
    report = plan_only(table, OPERATION, planner)
    if lease.intent is None:
        return report
    begun = (
        f"plan {lease.intent.plan_id}, which run {lease.intent.runs[-1]} began, has not ended: executing this rollback "
        "finishes that plan first, and then less may be left to do"
    )
    return replace(report, warnings=(begun, *report.warnings))


def refuse_while_expiring(table: Table, area: ControlArea, lease: LeaseDocument, version: Version) -> None:
    """Refuse if an unfinished expiry deletes the target, instead of finishing that expiry first.

    A tag is safe from the expiry of snapshots, since an expiry keeps what a tag needs. In that case the expiry is
    finished first.

    Raises:
        RefusedError: With code `expiry_under_way`; or the version does not exist, and then the expiry is not finished.
    """
    begun = lease.intent
    if begun is None or not may_conflict(area, begun, table.ref.branch):
        return
    own = discover(table.store).branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    asked = version.snapshot_id
    try:
        root = resolve(table, own, version, purpose="rollback")
    except RefusedError:
        if asked is None or begun.end_id is None or asked >= begun.end_id:
            raise
        root = None  # the snapshot is gone already, but its files may still exist
    target = asked if root is None else root.snapshot.id
    if target is not None:
        refuse_conflict(str(table.ref), begun, target, is_tag=root is not None and root.ref.kind == "tag")


def plan_rollback(table: Table, arguments: RollbackArguments) -> Plan:
    """Plan a rollback of one branch.

    Args:
        table: One branch of a table.
        arguments: The target, and the tags that the caller gives up.

    Raises:
        RefusedError: The version does not exist or has lost files, a tag is protected, or the table has Iceberg
            metadata that Paimon would have to change.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    view = begin(table, OPERATION)
    refuse_iceberg(table, view.schema.options)  # no check of tag callbacks: Paimon's rollback calls none for its tags
    target = resolve(view.table, view.own, arguments.version, purpose="rollback")
    if target is None:
        raise RefusedError(f"table {table.ref}: there is no version to roll back to; expected one", code=NO_VERSION)
    snapshot_id = target.snapshot.id
    tags = read_own_tags(view)
    coming = _coming(view, target)
    going = withdrawal(view, tags, snapshot_id)
    inputs = inputs_of(view.own, arguments.to_json())
    if not coming and not going.actions and not going.tag_actions:
        newest = f"snapshot {snapshot_id} of {say_time(target.snapshot.time_ms)} is the newest already"
        return view.plan((), inputs, warnings=(newest, *given_up_in_vain(arguments.lost_tags, view.own.tags, ())))
    rewrite = f"a rollback to snapshot {snapshot_id}"
    given_up = give_up_tags(view, tags, going.tags, arguments.lost_tags, rewrite=rewrite, instead="a later target")
    check_target(table, view, target)
    newly_orphaned = find_newly_orphaned(view, going.roots, [target] if coming else [])
    earliest = () if coming else _unhidden(view, snapshot_id)
    latest = put_hint(view, "point", "snapshot/LATEST", snapshot_id, f"snapshot {snapshot_id} becomes the newest")
    return view.plan(
        (*going.tag_actions, *coming, *earliest, latest, *going.actions),
        inputs,
        warnings=(
            *given_up,
            *_warnings(view, target, tags, going, comes_back=bool(coming)),
            *newly_orphaned.warnings(),
        ),
        findings={
            "lost": _lost(going, target),
            "newly_orphaned": newly_orphaned.to_json(),
        },
        steering=Steering(
            complete_roots=(_snapshot_path(view, snapshot_id),),
            target=Target(snapshot_id, target.ref.name if target.ref.kind == "tag" else None, target.snapshot.time_ms),
        ),
    )


def _coming(view: TableView, target: Root) -> tuple[Action, ...]:
    """Return the actions that bring the target back, if only a tag holds it. It then becomes the earliest snapshot.

    Raises:
        RefusedError: Another snapshot now has its id.
    """
    if target.ref.kind != "tag":
        return ()
    snapshot_id = target.snapshot.id
    there = next((ref for ref in view.own.snapshots if ref.id == snapshot_id), None)
    if there is not None:
        (root,) = view.own_documents([there])
        if (root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list) != (
            target.snapshot.base_manifest_list,
            target.snapshot.delta_manifest_list,
        ):
            raise RefusedError(
                f"table {view.table.ref}: tag {target.ref.name!r} holds another state than {there.path}, which has "
                f"the same id; expected the one snapshot {snapshot_id}",
                code="id_reused",
            )
        return ()
    body = tag_body(target.body, target.ref.path, None, None)
    why = f"tag {target.ref.name} holds snapshot {snapshot_id}"
    return (
        write_document("target", "snapshot", _snapshot_path(view, snapshot_id), body, why),
        put_hint(view, "target", "snapshot/EARLIEST", snapshot_id, f"snapshot {snapshot_id} becomes the earliest"),
    )


def _unhidden(view: TableView, snapshot_id: int) -> tuple[Put, ...]:
    """Return the action that corrects an EARLIEST above the target, if there is one.

    Otherwise it would hide the target once the branch reaches that id again. Paimon leaves the hint as it is.
    """
    hint = view.own.hints.get("snapshot/EARLIEST")
    said = None if hint is None else read_hint(view.table.store, hint.path)
    if said is None or said <= snapshot_id:
        return ()
    first = view.own.snapshots[0].id
    why = f"snapshot {said} is deleted; {first} is the oldest"
    return (put_hint(view, "target", "snapshot/EARLIEST", first, why),)


def _lost(going: RemovedDocuments, target: Root) -> dict[str, object]:
    return {
        "snapshots": list(going.snapshot_ids),
        "changelogs": list(going.changelog_ids),
        "tags": list(going.tags),
        "rows": lost_rows(going.newest, target.snapshot),
        "commit_users": list(going.commit_users),
    }


def _snapshot_path(view: TableView, snapshot_id: int) -> str:
    return f"{branch_dir(view.own.name)}snapshot/snapshot-{snapshot_id}"


def _warnings(
    view: TableView, target: Root, tags: OwnTags, going: RemovedDocuments, *, comes_back: bool
) -> Iterator[str]:
    """Yield who else reads and writes the branch, and what does not change."""
    snapshot_id = target.snapshot.id
    yield (
        f"stop the writers of {view.table.ref} before, and start them again after: a writer that continues from a "
        f"later snapshot than {snapshot_id} fails, or commits on top of a deleted snapshot"
    )
    yield from _consumers(view, snapshot_id)
    for name, problem in tags.unreadable.items():
        yield f"tag {name} cannot be read, so it is kept ({problem})"
    if not is_write_only(view.schema.options):
        yield (
            "writers of this table may expire its snapshots themselves; one that does so right now may delete files "
            f"of snapshot {snapshot_id} after the last check of them"
        )
    if comes_back:
        hidden = [ref.id for ref in view.own.snapshots if ref.id < snapshot_id]
        if hidden:
            yield (
                f"EARLIEST will name snapshot {snapshot_id}, so {len(hidden)} older snapshots ({hidden[0]} to "
                f"{hidden[-1]}) are kept but no longer found"
            )
        if _has_lost_changelog(view, target):
            yield (
                f"the changelog of snapshot {snapshot_id} has expired, and its document still names it: keep tag "
                f"{target.ref.name} as long as the snapshot, or else the scan for orphan files reports it as damaged"
            )
    latest = view.schema.id
    if target.snapshot.schema_id != latest:
        yield (
            f"schemas do not change: snapshot {snapshot_id} was committed under schema {target.snapshot.schema_id}, "
            f"and readers and writers continue with schema {latest}"
        )
    damaged = len(going.snapshot_ids) - sum(root.ref.kind == "snapshot" for root in going.roots)
    if damaged:
        yield f"{damaged} of the snapshots to delete cannot be read, so their files are not counted"


def _has_lost_changelog(view: TableView, target: Root) -> bool:
    """Tell whether an expiry deleted the target's changelog list, as it does for a tagged snapshot."""
    name = target.snapshot.changelog_manifest_list
    if name is None:
        return False
    invalidate(view.table, (name,))
    content = MetadataReader(view.table.store).manifest_lists({name: None})[name]
    return isinstance(content, Unreadable) and content.missing


def _consumers(view: TableView, snapshot_id: int) -> Iterator[str]:
    """Warn of readers that are beyond the target: they fail, since they wait for an id that a new commit will get."""
    try:
        consumers = read_consumers(view.table.store, view.own.consumers)
    except RefusedError as error:
        yield f"a consumer cannot be read, so it is not known whether it is beyond the target: {error}"
        return
    ahead = sorted(name for name, next_id in consumers.items() if next_id > snapshot_id + 1)
    if ahead:
        yield (
            f"readers are beyond snapshot {snapshot_id} and fail until their consumers are reset or deleted: "
            f"consumer{'s'[: len(ahead) != 1]} {some_of(ahead, _NAMED)}"
        )
