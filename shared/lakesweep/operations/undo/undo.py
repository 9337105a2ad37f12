"""`undo`: take a run back, completely or not at all.

A run's objects can come back if the bucket keeps versions: the ledger names the delete marker of each object. Before an
undo changes anything, it checks everything. Each marker must be the current version of its key, and must hide an
object. The history must be the one that the run shortened. Every returning snapshot and changelog must be complete, in
the table as it will be. Otherwise the undo is refused and nothing changes.

The present objects decide, however often a run was undone. A late request of the run may have deleted objects again.
They come back, too, unless another run has deleted them.

If runs died, several runs may have worked on one plan. They are undone together.

A branch rewrite deletes only documents, and its plan contains them all. So it is undone in another way, by a plan of
its own (`operations/undo/move.py`).
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.ends import PUT_OFF, PlanEnd, plan_end, record_undone, undone_by
from lakesweep.control.lease import acquire, read_lease
from lakesweep.control.ledger_rows import Fate, fates, plan_of_run
from lakesweep.control.markers import makers_of
from lakesweep.control.plans import load_header, load_plan
from lakesweep.control.reports import load_report, store_report
from lakesweep.errors import FormatError, RefusedError, StorageError
from lakesweep.execute.batches import BATCH_KEYS, DOCUMENT_PHASE, ROOT_KINDS
from lakesweep.execute.deletions.executor import Environment, Executed
from lakesweep.execute.undo import Undo, id_of, restore, settled_ground, undelete
from lakesweep.format.changelog import parse_changelog
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.format.tag import parse_tag
from lakesweep.model.paths.allowed import check_action, is_external
from lakesweep.model.plan import MOVE_FORMAT_VERSION, Delete, Plan, Put, Restore, moves_roots, to_bytes
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.model.table_ref import MAIN, branch_dir
from lakesweep.operations.undo import move as undo_move
from lakesweep.operations.undo.aftermath import aftermath
from lakesweep.operations.undo.ledger import UNKNOWN_RESULT, Presence, check_ledger
from lakesweep.runs.fleet import watched_ruling
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.parameters.retention_options import changelog_producer
from lakesweep.runs.run import finish_begun, refused, require_area
from lakesweep.runs.session import Table
from lakesweep.runs.table_environment import environment
from lakesweep.storage.store import Body, UndeleteResult
from lakesweep.storage.wrappers.returning import ReturningStore
from lakesweep.table.discover import discover
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_roots, read_schema
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.completeness import first_missing

OPERATION = undo_move.OPERATION
_DECIDES_NOTHING = ("hint", "tag_success")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What the control location knows about a run's plan."""

    plan: Plan
    restores: tuple[Restore, ...]
    """Everything that was deleted, in the order of restoring: files, then documents from the highest id down, then
    hints. Empty for a branch rewrite, since its plan has the documents."""
    undone_by: str | None
    silent: tuple[Delete, ...] = ()
    """Deletions without a result in the ledger, or with a result that cannot be true."""
    end: PlanEnd | None = None
    """How the plan ended."""
    stays_away: tuple[str, ...] = ()
    """Paths of success files that were deleted permanently."""

    @property
    def is_told(self) -> bool:
        """Tell whether the ledger has a result for each deletion that the runs must have reached."""
        return not self.silent or (self.end is not None and self.end.status == PUT_OFF)


def undo(table: Table, run_id: str, *, execute: bool) -> RunReport:
    """Take a run back, or say what that would restore. Nothing changes in a table that a fleet policy pauses."""
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
    planned = plan_undo(environment(table, area, record.plan), record)
    return _report(table, "planned" if planned.restores or planned.after else "nothing_to_do", run_id, planned)


def _finish_undo(table: Table, area: ControlArea, run_id: str) -> RunReport | None:
    """Finish an undo of this run that another process began; only the undo of a branch rewrite has a plan to finish."""
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
        record = load_record(area, run_id)  # read again under the lease: no other run can change it from here on
        env = environment(table, area, record.plan).under(lease)
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
    """Return what a run deleted, if its ledger lets the undo take all of it back.

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
        raise _refusal(area, run_id, "not_undoable", "it moved a consumer, and the former position is not known")
    known = fates(area, plan_id, end.runs)
    restores = tuple(_restores(area, run_id, plan, known))
    silent = tuple(_silent(plan, known))
    if not restores and not silent:
        raise _refusal(area, run_id, "nothing_to_undo", "it deleted nothing")
    back = {each.path for each in restores}
    stays_away = tuple(
        delete.path
        for delete in plan.deletes
        if delete.kind == "tag_success" and delete.path not in back and known.get(delete.path) == Fate("deleted")
    )
    return RunRecord(plan, restores, undone_by(area, plan_id), silent, end, stays_away)


def _plan_that_it_ended(area: ControlArea, run_id: str) -> str | None:
    """Return the plan of a run without rows in the ledger.

    Such a run ended a plan that an earlier run had executed before it died, or its plan rewrote a branch without
    deletions.
    """
    has_deleted = False
    try:
        stored = load_report(area, run_id)
        report, has_deleted = stored.get("report"), _has_deleted(stored)
    except RefusedError:
        report = {"plan_id": run_id}  # it died before it wrote a report; the run that made a plan has the plan's id
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
    # If a plan has several runs, this run ended what another began. A single run without rows deleted nothing, unless
    # its report says otherwise.
    return plan_id if len(end.runs) > 1 or has_deleted or _is_move(area, plan_id) else None


def _has_deleted(stored: Mapping[str, object]) -> bool:
    """Tell whether the report of a run mentions deletions, or parts of a ledger."""
    ledger, report = stored.get("ledger"), stored.get("report")
    outcome = report.get("outcome") if isinstance(report, dict) else None
    parts = ledger.get("parts") if isinstance(ledger, dict) else None
    return bool(parts) or (isinstance(outcome, dict) and bool(outcome.get("deleted")))


def _is_move(area: ControlArea, plan_id: str) -> bool:
    """Tell whether a plan is a branch rewrite. A branch rewrite that deletes nothing has no row in the ledger."""
    try:
        return load_header(area, plan_id).format_version == MOVE_FORMAT_VERSION
    except RefusedError:  # tags are written without a stored plan
        return False


def _silent(plan: Plan, known: Mapping[str, Fate]) -> Iterator[Delete]:
    """Yield deletions without a row, and roots kept according to the ledger, although no run ends with a kept root."""
    for delete in plan.deletes:
        fate = known.get(delete.path)
        if fate is None or (fate.result != "deleted" and delete.kind in ROOT_KINDS):
            yield delete


def _restores(area: ControlArea, run_id: str, plan: Plan, known: Mapping[str, Fate]) -> Iterator[Restore]:
    backwards = list(reversed(plan.deletes))
    for delete in sorted(backwards, key=_rank):
        fate = known.get(delete.path)
        if fate is None:
            continue
        lost = fate.result == "already_gone" and delete.kind in ROOT_KINDS
        if fate.result == "unknown" or lost:
            raise _refusal(
                area,
                run_id,
                UNKNOWN_RESULT,
                f"it is not known which request deleted {delete.path}; `lakesweep audit verify` says whether the "
                "ledger is complete",
            )
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
    """Return the order of restoring: files in reverse order of the plan, documents downwards, then hints."""
    if delete.phase == DOCUMENT_PHASE:
        return 1, -id_of(delete.path)
    return (2 if delete.kind in _DECIDES_NOTHING else 1 if delete.kind == "tag" else 0), 0


def plan_undo(env: Environment, record: RunRecord, still_ours: Callable[[], None] = lambda: None) -> Undo:
    """Return the checked undo of a run. Without restores and actions there is nothing to do.

    Args:
        env: Stores of the table.
        record: What the run deleted.
        still_ours: Called now and then; raises if the lease is lost.

    Raises:
        RefusedError: The undo would not be complete, or would not fit into the table as it is now.
        StorageError: A request failed.
    """
    written_again = frozenset(each.path for each in record.restores if each.body is not None)
    own = settled_ground(env.stores.table, record.plan, env.sleep, written_again)
    if record.end is not None:
        check_ledger(env, record.plan, record.end, record.silent)
    returning = tuple(_returning(env, record, still_ours))
    still_ours()
    _check_complete(env, record, returning, own)
    after = tuple(aftermath(env.stores.table, record.plan, record.restores, returning, own))
    for each in after:
        check_action(each.action)
    warnings = tuple(
        f"{path} does not come back: it was deleted permanently, and no plan has its content"
        for path in record.stays_away
    )
    return Undo(record.plan, returning, after, written_again, warnings)


def _returning(env: Environment, record: RunRecord, still_ours: Callable[[], None]) -> Iterator[Restore]:
    """Yield the restores that are not done already."""
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
                        f"table {env.area.table}: {each.path} would come back with other content; expected "
                        "the deleted document",
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
    """Tell whether objects that came back before, and were deleted again, would come back once more.

    A late request of the run leaves delete markers that its ledger may not know. Markers in another run's ledger belong
    to that run.

    Raises:
        RefusedError: Another run has deleted such an object since.
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


def _check_complete(env: Environment, record: RunRecord, returning: tuple[Restore, ...], own: BranchListing) -> None:
    """Refuse if a snapshot or changelog would come back without a file that it needs."""
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
    exists = Presence(env.stores, frozenset(markers))
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
        warnings=planned.warnings,
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
        plan=Plan(header, tuple(each.action for each in planned.after)),
        run_id=own_id,
        executed=executed is not None,
        refusal=Refusal(executed.code, f"{message}; ask again to restore the rest") if executed and message else None,
        outcome=executed.outcome if executed is not None else None,
        requests=table.counter.snapshot(),
        restores=planned.restores,
    )


def _refusal(area: ControlArea, run_id: str, code: str, what: str) -> RefusedError:
    return RefusedError(f"table {area.table}: run {run_id} cannot be undone: {what}", code=code)
