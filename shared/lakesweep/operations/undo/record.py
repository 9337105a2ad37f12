"""The run to undo: its plan, and what its ledger says became of each object.

If runs died, several runs may have worked on one plan. They are undone together.

Only the ledger names the deletions and their delete markers. If a part were lost, objects would stay absent unnoticed.
So the chain of each run is checked. Every deletion without a row is compared with the table. An object that exists was
not deleted, or is back. If an object is absent, its deletion stays unknown, and nothing is undone.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.verify import RunAudit, audit_run
from lakesweep.control.expired import SUFFIX
from lakesweep.control.lease import read_lease
from lakesweep.control.ledger_rows import Fate, fates, plan_of_run
from lakesweep.control.plans import NO_SUCH_PLAN, load_header, load_plan
from lakesweep.control.reports import PUT_OFF, PlanEnd, load_report, plan_end, undone_by
from lakesweep.errors import RefusedError
from lakesweep.execute.attempt import Environment
from lakesweep.execute.batches import DOCUMENT_PHASE, ROOT_KINDS
from lakesweep.execute.undo import id_of
from lakesweep.model.plan import MOVE_FORMAT_VERSION, Delete, Plan, Put, Restore, moves_roots
from lakesweep.operations.undo.branch_rewrites import OPERATION
from lakesweep.operations.undo.committed import DeletedRows, committed_by
from lakesweep.table.stores import TableStores

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
DECIDES_NOTHING = ("hint", "tag_success")
UNKNOWN_RESULT = "unknown_result"
"""Code for a deletion with an unknown result."""


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


def load_record(area: ControlArea, run_id: str) -> RunRecord | DeletedRows:
    """Return what a run deleted, if its ledger lets the undo take all of it back; or the rows that it deleted.

    Raises:
        RefusedError: `no_such_run`, `run_unfinished`, `plan_stale`, `not_undoable`, `nothing_to_undo`,
            `not_versioned`, `unknown_result`, or as `load_plan`.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise RefusedError(f"table {area.table}: expected a run id, found {run_id[:200]!r}", code="no_such_run")
    begun = read_lease(area).intent
    if begun is not None:
        raise _refusal(
            area,
            run_id,
            "run_unfinished",
            f"plan {begun.plan_id}, which run {begun.runs[-1]} began, has not ended; expected it to be finished first, "
            f"as lakesweep execute TABLE {begun.plan_id} does",
        )
    plan_id = plan_of_run(area, run_id) or _plan_that_it_ended(area, run_id)
    if plan_id is None:
        committed = committed_by(area, run_id)
        if committed is None:
            raise _refusal(area, run_id, "nothing_to_undo", "it deleted nothing")
        return committed
    end = plan_end(area, plan_id)
    if end is None:
        _plan_of(area, run_id, plan_id)  # with an old plan, housekeeping deletes how it ended
        raise _refusal(area, run_id, "run_unfinished", f"its plan {plan_id} has not ended")
    if run_id not in end.runs:
        raise _refusal(area, run_id, "not_undoable", f"it is an undo, of plan {plan_id}; expected another run")
    if end.status == "stale":
        raise _refusal(area, run_id, "plan_stale", f"its plan {plan_id} ended stale, and what it had begun was settled")
    plan = _plan_of(area, run_id, plan_id)
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


def _plan_of(area: ControlArea, run_id: str, plan_id: str) -> Plan:
    if plan_id.endswith(SUFFIX):
        raise _refusal(area, run_id, "not_undoable", "it deleted documents of the control location, not of the table")
    try:
        return load_plan(area, plan_id)
    except RefusedError as error:
        if error.code != NO_SUCH_PLAN:
            raise
        raise _refusal(
            area, run_id, NO_SUCH_PLAN, f"its plan {plan_id} is not stored any more; housekeeping deletes old plans"
        ) from error


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
            if delete.kind in DECIDES_NOTHING:
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
    return (2 if delete.kind in DECIDES_NOTHING else 1 if delete.kind == "tag" else 0), 0


def _refusal(area: ControlArea, run_id: str, code: str, what: str) -> RefusedError:
    return RefusedError(f"table {area.table}: run {run_id} cannot be undone: {what}", code=code)


class Presence:
    """Tells whether an object exists or comes back; each store is listed at most once."""

    def __init__(self, stores: TableStores, returning: frozenset[str] = frozenset()) -> None:
        """Look into `stores`; paths in `returning` count as existing."""
        self._stores = stores
        self._returning = returning
        self._keys: dict[str, frozenset[str]] = {}

    def __call__(self, path: str) -> bool:
        """Tell whether the object exists or comes back."""
        if path in self._returning:
            return True
        store, key = self._stores.resolve(path)
        if store.location not in self._keys:
            self._keys[store.location] = frozenset(entry.key for entry in store.list(""))
        return key in self._keys[store.location]


def check_ledger(env: Environment, plan: Plan, end: PlanEnd, silent: Sequence[Delete]) -> None:
    """Make sure that no object of a plan is absent without a row in the ledger.

    Args:
        env: Stores of the table.
        plan: The plan to undo.
        end: How it ended.
        silent: Deletions without a usable row in the ledger.

    Raises:
        RefusedError: `unknown_result`: such an object is absent.
        StorageError: A request failed.
    """
    audits = tuple(_audits(env.area, plan, end))
    problems = [problem for each in audits for problem in each.problems]
    suspects = plan.deletes if problems else silent
    if not problems and end.status == PUT_OFF and all(each.verdict == "whole" for each in audits):
        return  # such a plan may end before everything is deleted, and the chain proves that no row is lost
    is_there = Presence(env.stores)
    absent = next((delete.path for delete in suspects if not is_there(delete.path)), None)
    if absent is None:
        return
    what = f"its ledger is damaged ({problems[0]})" if problems else "the ledger has no result for it"
    raise RefusedError(
        f"table {env.area.table}: run {end.run_id} cannot be undone: {absent} is not there, and {what}; expected a row "
        f"for each deletion of plan {plan.header.plan_id}; `lakesweep audit verify` says what is wrong with the ledger",
        code=UNKNOWN_RESULT,
    )


def _audits(area: ControlArea, plan: Plan, end: PlanEnd) -> Iterator[RunAudit]:
    for run_id in end.runs:
        found = audit_run(area, run_id, {plan.header.plan_id: plan.header.content_hash})
        if found is not None:
            yield found
