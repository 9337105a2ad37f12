"""`undo`: take a run back, completely or not at all.

A run's objects can come back where the bucket keeps versions: the ledger names the delete marker of each. What would
come back is checked whole before anything does: each marker is the current version of its key and hides an object, the
history is the one that the run shortened, and every snapshot and changelog would have all that it needs, read from the
table as it will be. Otherwise the undo is refused and nothing changes.

What is there decides, however often a run was undone: objects may have gone again since, by a request of the run that
came late. They come back, too, unless another run has deleted them.

A plan may have taken several runs, when the first ones died. They are undone together.

A run that moved a branch took documents alone, and its plan has them all: that is undone in another way, by a plan of
its own (`operations/undo_move.py`).
"""

import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.ends import plan_end, record_undone, undone_by
from lakesweep.control.lease import acquire, read_lease
from lakesweep.control.ledger import fates, plan_of_run
from lakesweep.control.markers import makers_of
from lakesweep.control.plans import load_header, load_plan
from lakesweep.control.reports import load_report, store_report
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.execute.batches import BATCH_KEYS, DOCUMENT_PHASE, ROOT_KINDS, TAG_PHASE
from lakesweep.execute.spine import Environment, Executed
from lakesweep.execute.undo import Undo, id_of, restore, settled_ground, undelete
from lakesweep.format.changelog import parse_changelog
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.format.tag import parse_tag
from lakesweep.model.allowed import check_action, is_external
from lakesweep.model.facts import base_name
from lakesweep.model.plan import MOVE_FORMAT_VERSION, Action, Delete, Plan, Put, Restore, moves_roots, to_bytes
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.model.table_ref import MAIN, branch_dir
from lakesweep.operations import undo_move
from lakesweep.operations.context import Table
from lakesweep.operations.fleet import watched_ruling
from lakesweep.operations.identifiers import new_id
from lakesweep.operations.retention_options import changelog_producer
from lakesweep.operations.run import finish_begun, refused, require_area
from lakesweep.operations.table_environment import environment
from lakesweep.storage.returning import ReturningStore
from lakesweep.storage.store import Body, Store, UndeleteResult
from lakesweep.table.completeness import first_missing
from lakesweep.table.discover import discover
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint, read_roots, read_schema
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores

OPERATION = undo_move.OPERATION
_DECIDES_NOTHING = ("hint", "tag_success")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What the control location knows about a run's plan."""

    plan: Plan
    restores: tuple[Restore, ...]
    """Everything that was deleted: files, then documents from the highest id down, then hints. Of a run that moved a
    branch nothing: the plan has it."""
    undone_by: str | None


def undo(table: Table, run_id: str, *, execute: bool) -> RunReport:
    """Take a run back, or say what that would bring back. A table that a fleet policy pauses stays as it is."""
    area = require_area(table, "undo")
    try:
        if execute:
            _check_not_paused(table, run_id)
            if (finished := _finish_undo(table, area, run_id)) is not None:
                return finished
        record = load_record(area, run_id)
        table = dataclasses.replace(table, ref=dataclasses.replace(table.ref, branch=record.plan.header.branch))
        report = _undo(table, area, record, run_id, execute=execute)
    except RefusedError as error:
        return refused(table, OPERATION, error)
    if record.undone_by is None or report.status != "nothing_to_do":
        return report
    before = f"run {run_id} was undone before, by run {record.undone_by}: all is there, and nothing is left to restore"
    return dataclasses.replace(report, warnings=(before, *report.warnings))


def _undo(table: Table, area: ControlArea, record: RunRecord, run_id: str, *, execute: bool) -> RunReport:
    if moves_roots(record.plan.actions):
        return undo_move.undo_move(table, record.plan, run_id, execute=execute)
    if execute:
        return _execute(table, area, run_id)
    planned = plan_undo(_environment(table, area, record), record)
    return _report(table, "planned" if planned.restores or planned.after else "nothing_to_do", run_id, planned)


def _finish_undo(table: Table, area: ControlArea, run_id: str) -> RunReport | None:
    """Finish an undo of a run that another process began; that of a run that moved a branch has a plan."""
    lease = read_lease(area)
    if lease.intent is None:
        return None
    header = load_header(area, lease.intent.plan_id)
    if header.operation != OPERATION or header.arguments.get("run_id") != run_id:
        return None
    return finish_begun(table, lease)


def _check_not_paused(table: Table, run_id: str) -> None:
    try:
        watched_ruling(table)
    except RefusedError as error:
        raise RefusedError(f"{error}; run {run_id} can be undone when the pause is over", code=error.code) from error


def _execute(table: Table, area: ControlArea, run_id: str) -> RunReport:
    started_ms = table.store.now_ms()
    own_id = new_id(started_ms)
    lease = acquire(area, own_id)
    try:
        record = load_record(area, run_id)  # again: from here on no other run changes what it says
        env = _environment(table, area, record).under(lease)
        planned = plan_undo(env, record, lease.check)
        executed = restore(env, planned, own_id, lease) if planned.restores or planned.after else None
        if executed.status == "done" if executed is not None else record.undone_by is None:
            record_undone(area, record.plan.header.plan_id, own_id)
    finally:
        lease.release(ended=True)
    if executed is None:
        return _report(table, "nothing_to_do", run_id, planned)
    report = _report(table, "done" if executed.status == "done" else "partial", run_id, planned, own_id, executed)
    store_report(area, own_id, report.to_json(), report.all_warnings(), (started_ms, table.store.now_ms()))
    return report


def load_record(area: ControlArea, run_id: str) -> RunRecord:
    """Return what a run deleted, as far as its ledger lets all of it be taken back.

    Raises:
        RefusedError: `no_such_run`, `run_unfinished`, `plan_stale`, `not_undoable`, `nothing_to_undo`,
            `not_versioned`, `unknown_result`, or as `load_plan`.
    """
    begun = read_lease(area).intent
    if begun is not None:
        raise _refusal(
            area,
            run_id,
            "run_unfinished",
            f"plan {begun.plan_id}, which run {begun.runs[-1]} began, has not ended; expected it to be finished first, "
            f"as lakesweep execute TABLE {begun.plan_id} does",
        )
    if not _RUN_ID.fullmatch(run_id):
        raise RefusedError(f"table {area.table}: expected a run id, found {run_id!r}", code="no_such_run")
    plan_id = plan_of_run(area, run_id) or _plan_that_it_ended(area, run_id)
    if plan_id is None:
        raise _refusal(area, run_id, "nothing_to_undo", "it deleted nothing")
    end = plan_end(area, plan_id)
    if end is None:
        raise _refusal(area, run_id, "run_unfinished", f"its plan {plan_id} has not ended")
    if run_id not in end.runs:
        raise _refusal(area, run_id, "not_undoable", f"it took plan {plan_id} back; expected a run that deleted")
    if end.status == "stale":
        raise _refusal(area, run_id, "plan_stale", f"its plan {plan_id} ended stale, and what it had begun was settled")
    plan = load_plan(area, plan_id)
    if plan.header.operation == OPERATION:
        raise _refusal(area, run_id, "not_undoable", "it is an undo; expected the operation to be run again")
    if moves_roots(plan.actions):
        return RunRecord(plan, (), undone_by(area, plan_id))
    if any(isinstance(action, Put) and action.kind == "consumer" for action in plan.actions):
        raise _refusal(area, run_id, "not_undoable", "it moved a consumer, and nobody knows where from")
    restores = tuple(_restores(area, run_id, plan, end.runs))
    if not restores:
        raise _refusal(area, run_id, "nothing_to_undo", "it deleted nothing")
    return RunRecord(plan, restores, undone_by(area, plan_id))


def _plan_that_it_ended(area: ControlArea, run_id: str) -> str | None:
    """Return the plan of a run without rows.

    It ended what an earlier run had carried out, and had died over; or the plan deletes nothing and moved a branch.
    """
    try:
        report = load_report(area, run_id).get("report")
    except RefusedError:
        report = {"plan_id": run_id}  # it died before it wrote one, and the run that made a plan has the plan's id
        end = plan_end(area, run_id)
        if end is not None and run_id not in end.runs:
            raise RefusedError(
                f"table {area.table}: {run_id} is a plan; expected the run that carried it out, {end.run_id}",
                code="no_such_run",
            ) from None
        if end is None:
            raise
    plan_id = report.get("plan_id") if isinstance(report, dict) else None
    end = plan_end(area, plan_id) if isinstance(plan_id, str) else None
    if not isinstance(plan_id, str) or end is None or run_id not in end.runs:
        return None
    # One of several runs ended what another one began; alone, a run without rows deleted nothing.
    return plan_id if len(end.runs) > 1 or _is_move(area, plan_id) else None


def _is_move(area: ControlArea, plan_id: str) -> bool:
    """Tell whether a plan moved a branch. One that deletes nothing has no row in the ledger."""
    try:
        return load_header(area, plan_id).format_version == MOVE_FORMAT_VERSION
    except RefusedError:  # tags are written without a stored plan
        return False


def _restores(area: ControlArea, run_id: str, plan: Plan, runs: tuple[str, ...]) -> Iterator[Restore]:
    known = fates(area, plan.header.plan_id, runs)
    backwards = list(reversed(plan.deletes))
    for delete in sorted(backwards, key=_rank):
        fate = known.get(delete.path)
        if fate is None:
            continue
        lost = fate.result == "already_gone" and delete.kind in ROOT_KINDS
        if fate.result == "unknown" or lost:
            raise _refusal(area, run_id, "unknown_result", f"nobody knows which request deleted {delete.path}")
        if fate.result != "deleted":
            continue
        if fate.version_id is None and delete.body is None:
            if delete.kind in _DECIDES_NOTHING:
                continue
            raise _refusal(
                area, run_id, "not_versioned", f"{delete.path} was deleted for good; expected a versioned bucket"
            )
        body = delete.body if fate.version_id is None else None
        reason = f"run {run_id} is undone"
        yield Restore(
            delete.phase, delete.kind, delete.path, delete.size_bytes, fate.version_id, reason, delete.etag, body
        )


def _rank(delete: Delete) -> tuple[int, int]:
    """Order what comes back: files, in the opposite order of the plan; documents, downwards; what decides nothing."""
    if delete.phase == DOCUMENT_PHASE:
        return 1, -id_of(delete.path)
    return (2 if delete.kind in _DECIDES_NOTHING else 1 if delete.kind == "tag" else 0), 0


def plan_undo(env: Environment, record: RunRecord, still_ours: Callable[[], None] = lambda: None) -> Undo:
    """Return what takes a run back, checked whole. Without restores and actions there is nothing to do.

    Args:
        env: Stores of the table.
        record: What the run deleted.
        still_ours: Called now and then; raises when the lease is lost.

    Raises:
        RefusedError: The undo would not be complete, or would not fit into the table as it is now.
        StorageError: A request failed.
    """
    own = settled_ground(env.stores.table, record.plan, env.sleep)
    returning = tuple(_returning(env, record, still_ours))
    still_ours()
    _check_complete(env, record, returning, own)
    _check_all_told(env, record, own)
    after = (*_earliest(env, record), *_written_changelogs(env, record, own), *_new_names(env, record))
    for action in after:
        check_action(action)
    return Undo(record.plan, returning, after)


def _returning(env: Environment, record: RunRecord, still_ours: Callable[[], None]) -> Iterator[Restore]:
    """Yield what is not back already."""
    for start in range(0, len(record.restores), BATCH_KEYS):
        still_ours()
        batch = record.restores[start : start + BATCH_KEYS]
        found: dict[str, UndeleteResult] = {}
        try:
            undelete(env.stores, batch, found, only_check=True)
        except StorageError as error:
            if error.code != "not_versioned":
                raise
            raise RefusedError(f"table {env.area.table}: {error}", code="not_versioned") from error
        gone = [each for each in batch if found[each.path].code == "marker_gone"]
        if gone:
            found |= _deleted_again(env, record, gone)
        for each in batch:
            code, etag = found[each.path].code, found[each.path].etag
            if code == "restorable":
                if each.etag not in (None, etag):
                    raise RefusedError(
                        f"table {env.area.table}: {each.path} would come back as another document; expected the "
                        "one that was deleted",
                        code="id_reused",
                    )
                yield dataclasses.replace(each, version_id=found[each.path].version_id or each.version_id)
            elif each.kind == "tag" and (code == "marker_not_current" or etag not in (None, each.etag)):
                raise RefusedError(
                    f"table {env.area.table}: plan {record.plan.header.plan_id} cannot be undone: {each.path} is "
                    "another tag now; expected none of that name",
                    code="tag_exists",
                )
            elif code != "already_there" and each.kind not in _DECIDES_NOTHING:
                raise RefusedError(
                    f"table {env.area.table}: {each.path} would not come back ({code}); expected delete marker "
                    f"{each.version_id} as its newest version, with an object below",
                    code=code,
                )


def _deleted_again(env: Environment, record: RunRecord, gone: list[Restore]) -> dict[str, UndeleteResult]:
    """Say of objects that came back before, and are gone again, whether they would come back once more.

    A request of the run that came late has left markers which its ledger may not know. Those that another run's ledger
    knows are that run's.

    Raises:
        RefusedError: Another run has deleted one since.
    """
    found: dict[str, UndeleteResult] = {}
    undelete(env.stores, gone, found, only_check=True, any_marker=True)
    markers = {path: each.version_id for path, each in found.items() if each.code == "restorable" and each.version_id}
    makers = makers_of(env.area, markers, record.plan.header.plan_id) if markers else {}
    for path, run_id in makers.items():
        raise RefusedError(
            f"table {env.area.table}: plan {record.plan.header.plan_id} cannot be undone: {path} was deleted again, by "
            f"run {run_id}; expected that run undone first",
            code="later_run",
        )
    return {path: each for path, each in found.items() if path in markers}


def _is_there(store: Store, path: str) -> bool:
    try:
        store.read(path, MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return False
    return True


def _check_all_told(env: Environment, record: RunRecord, own: BranchListing) -> None:
    """Refuse where a document of the plan is not there, and no ledger tells of it: a part of the ledger is gone."""
    told = {each.path for each in record.restores}
    there = {ref.path for ref in (*own.snapshots, *own.changelogs)}
    for delete in record.plan.deletes:
        if delete.kind not in ROOT_KINDS or delete.path in told or delete.path in there:
            continue
        if delete.kind != "tag" or not _is_there(env.stores.table, delete.path):
            raise RefusedError(
                f"table {env.area.table}: plan {record.plan.header.plan_id} cannot be undone: {delete.path} is gone, "
                "and no ledger of its runs says which request deleted it; expected a row for each document of the plan",
                code="unknown_result",
            )


def _check_complete(env: Environment, record: RunRecord, returning: tuple[Restore, ...], own: BranchListing) -> None:
    """Refuse when a snapshot or changelog would come back without something that it needs."""
    documents = [each for each in record.restores if each.kind in ROOT_KINDS]
    if not documents:
        return
    table, branch = env.stores.table, record.plan.header.branch
    markers = {each.path: each.version_id for each in returning}
    bodies = {each.path: to_bytes(each.body) for each in returning if each.body is not None}
    own_markers = {path: marker for path, marker in markers.items() if marker is not None and not is_external(path)}
    view = ReturningStore(table, own_markers, bodies)
    listing = discover(table)
    tagged = _tagged_ids(env, listing.branches.get(branch) or own)
    schema = read_schema(table, listing.branches.get(branch) or own)
    roots = [_root(view, branch, each) for each in documents]
    keys = view.keys()
    exists = _External(env.stores, frozenset(markers))
    try:
        missing = first_missing(
            view,
            TablePaths(schema),
            roots,
            lambda path: exists(path) if is_external(path) else path in keys,
            lambda root: branch != MAIN or root.ref.kind == "tag" or root.snapshot.id in tagged,
            changelogs_need_delta=changelog_producer(schema.options) == "none",
        )
    except FormatError as error:
        missing = str(error)
    if missing is not None:
        raise RefusedError(
            f"table {env.area.table}: plan {record.plan.header.plan_id} cannot be undone completely: {missing}; "
            "expected everything that its snapshots need",
            code="would_stay_absent",
        )


class _External:
    """Tells whether a file outside the table is there or comes back; each external root is listed once, if at all."""

    def __init__(self, stores: TableStores, returning: frozenset[str]) -> None:
        self._stores = stores
        self._returning = returning
        self._keys: dict[str, frozenset[str]] = {}

    def __call__(self, path: str) -> bool:
        if path in self._returning:
            return True
        store, key = self._stores.resolve(path)
        if store.location not in self._keys:
            self._keys[store.location] = frozenset(entry.key for entry in store.list(""))
        return key in self._keys[store.location]


def _tagged_ids(env: Environment, own: BranchListing) -> frozenset[int]:
    return frozenset(root.snapshot.id for root in read_roots(env.stores.table, own.tags).roots)


def _root(view: ReturningStore, branch: str, document: Restore) -> Root:
    body = view.read(document.path, MAX_DOCUMENT_BYTES)
    if document.kind == "tag":
        return _tag(branch, document, body)
    is_snapshot = document.kind == "snapshot"
    try:
        snapshot = (parse_snapshot if is_snapshot else parse_changelog)(body.data, document.path)
    except FormatError as error:
        raise RefusedError(f"table {view.location}: {error}", code="unreadable_root") from error
    ref = RootRef(
        branch,
        "snapshot" if is_snapshot else "changelog",
        str(id_of(document.path)),
        document.path,
        body.etag,
        len(body.data),
    )
    return Root(ref, snapshot, body.data)


def _tag(branch: str, document: Restore, body: Body) -> Root:
    name = document.path.removeprefix(f"{branch_dir(branch)}tag/tag-")
    ref = RootRef(branch, "tag", name, document.path, body.etag, len(body.data))
    return Root(ref, parse_tag(body.data, document.path).snapshot, body.data)


def _earliest(env: Environment, record: RunRecord) -> Iterator[Put]:
    """Yield hints that must come to name the lowest id that is back."""
    ids = [id_of(each.path) for each in record.restores if each.phase == DOCUMENT_PHASE]
    for action in record.plan.actions:
        if ids and isinstance(action, Put) and base_name(action.path) == "EARLIEST":
            lowest = min(ids)
            if read_hint(env.stores.table, action.path) != lowest:
                yield Put("hints", "hint", action.path, str(lowest), f"{lowest} is the lowest id again")


def _written_changelogs(env: Environment, record: RunRecord, own: BranchListing) -> Iterator[Action]:
    """Yield the removal of changelog documents that the plan wrote, as far as they are what it wrote.

    Their snapshots are back then, and need all that they need. The hints beside them go first: they never name what
    does not exist.
    """
    table = env.stores.table
    back = {ref.id for ref in own.snapshots}
    back |= {id_of(each.path) for each in record.restores if each.kind == "snapshot"}
    bodies = {
        action.path: action.body
        for action in record.plan.actions
        if isinstance(action, Put)
        and action.kind == "changelog_document"
        and action.path not in record.plan.header.roots_seen
    }
    going = [
        ref
        for ref in reversed(own.changelogs)
        if ref.path in bodies
        and ref.id in back
        and table.read(ref.path, MAX_DOCUMENT_BYTES).data == to_bytes(bodies[ref.path])
    ]
    if not going:
        return
    gone = {ref.id for ref in going}
    staying = [ref.id for ref in own.changelogs if ref.id not in gone]
    for name, choose in (("LATEST", max), ("EARLIEST", min)):
        document = own.hints.get(f"changelog/{name}")
        path = f"{branch_dir(record.plan.header.branch)}changelog/{name}"
        if document is None:
            continue
        if not staying:
            yield Delete("hints", "hint", path, document.size_bytes, "no changelog stays", etag=document.etag)
        elif read_hint(table, path) in gone:
            kept = choose(staying)
            yield Put("hints", "hint", path, str(kept), f"changelog {kept} is the one that it should name")
    for ref in going:
        reason = f"snapshot {ref.id} is back"
        yield Delete("changelog_documents", "changelog_document", ref.path, ref.size_bytes, reason, etag=ref.etag)


def _new_names(env: Environment, record: RunRecord) -> Iterator[Delete]:
    """Yield the removal of the names that the plan gave to tags, as far as they are what it wrote."""
    for action in record.plan.actions:
        if not isinstance(action, Put) or action.phase != TAG_PHASE:
            continue
        try:
            found = env.stores.table.read(action.path, MAX_DOCUMENT_BYTES)
        except ObjectNotFoundError:
            continue
        if found.data == to_bytes(action.body):
            reason = "the tag has its old name again"
            yield Delete(TAG_PHASE, action.kind, action.path, len(found.data), reason, etag=found.etag)


def _environment(table: Table, area: ControlArea, record: RunRecord) -> Environment:
    return environment(table, area, record.plan)


def _report(
    table: Table,
    status: Status,
    run_id: str,
    planned: Undo,
    own_id: str | None = None,
    executed: Executed | None = None,
) -> RunReport:
    undone = planned.undone.header
    header = dataclasses.replace(
        undone,
        operation=OPERATION,
        arguments={"run_id": run_id},
        policy={},
        kept={},
        warnings=(),
        needs_confirmation=False,
        snapshots={
            "earliest": undone.snapshots.get("earliest"),
            "latest": undone.snapshots.get("latest"),
            "expired": [],
        },
        findings={} if moves_roots(planned.undone.actions) else undone.findings,
        action_count=len(planned.after),
        parts=(),
    )
    message = executed.message if executed is not None else ""
    return RunReport(
        operation=OPERATION,
        table=table.ref.location,
        branch=undone.branch,
        status=status,
        plan=Plan(header, planned.after),
        run_id=own_id,
        executed=executed is not None,
        refusal=Refusal(executed.code, f"{message}; ask again to restore the rest") if executed and message else None,
        outcome=executed.outcome if executed is not None else None,
        requests=table.counter.snapshot(),
        restores=planned.restores,
    )


def _refusal(area: ControlArea, run_id: str, code: str, what: str) -> RefusedError:
    return RefusedError(f"table {area.table}: run {run_id} cannot be undone: {what}", code=code)
