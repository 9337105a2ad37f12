"""A stored plan as it was shown when it was made, who made it, and whether it still holds."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from lakesweep.api.opening import require_control
from lakesweep.api.stored import row_of
from lakesweep.control.area import ControlArea
from lakesweep.control.expired import load_known
from lakesweep.control.lease import read_lease
from lakesweep.control.plans import load_plan
from lakesweep.control.reports import PlanEnd, plan_end, undone_by
from lakesweep.errors import RefusedError
from lakesweep.execute.part_actions import deletions_by_part
from lakesweep.model.plan import Action, Delete, Plan
from lakesweep.model.report import RunReport
from lakesweep.operations.orphans.parts import OPERATION
from lakesweep.runs.local_executor import load_files_plan
from lakesweep.runs.reports import report_of
from lakesweep.runs.run import SHOWN_ACTIONS
from lakesweep.runs.session import Table
from lakesweep.runs.stored.ended import check_open
from lakesweep.runs.stored.recheck import Recheck, recheck_stored

Document = Mapping[str, Any]


def planned(table: Table, plan: Plan) -> RunReport:
    """Return the report of a plan that is not executed."""
    return replace(report_of(table, plan.header.operation, "planned", plan), branch=plan.header.branch)


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A stored plan that was read."""

    table: Table
    area: ControlArea
    plan: Plan
    """The plan, or only the header of a large plan of orphan files."""
    had_kinds: bool
    """Several processes made the plan, and only its counts were shown."""

    def document(self) -> dict[str, Any]:
        """Return everything about the plan except its files."""
        header, area = self.plan.header, self.area
        now_ms, begun, end = self.table.store.now_ms(), read_lease(area).intent, plan_end(area, header.plan_id)
        report = planned(self.table, self.plan)
        warnings = list(report.all_warnings())
        if begun is not None and begun.plan_id == header.plan_id:
            recheck = Recheck(None, "begun", f"run {begun.runs[-1]} began the plan, and the next run finishes it")
        else:
            recheck = self._over(end, now_ms) or recheck_stored(self.table, area, self.plan, begun)
        return {
            "table": self.table.ref.location,
            **row_of(self.plan, end, None if begun is None else begun.plan_id, now_ms),
            "undone_by": undone_by(area, header.plan_id),
            "by": dict(header.by) or None,
            "recheck": asdict(recheck),
            "report": report.to_json() | ({"warnings": warnings} if warnings else {}),
            "warnings": warnings,
        }

    def _over(self, end: PlanEnd | None, now_ms: int) -> Recheck | None:
        """Return the answer for a plan that has ended or expired; `None` for a plan that waits."""
        try:
            check_open(self.area, self.plan.header, end, now_ms)
        except RefusedError as error:
            return Recheck(False, error.code, str(error))
        if end is None:
            return None
        if end.status == "done":
            return Recheck(None, "executed", f"run {end.run_id} executed the plan")
        return Recheck(None, "begun", f"run {end.run_id} began the plan; executing it again finishes it")

    def files(self) -> Iterator[Document]:
        """Yield a row for every object that the plan deletes or writes, in the order of the execution."""
        if not self.plan.is_chunked:
            yield from map(_row, self.plan.actions)
            return
        for part in deletions_by_part(self.area, self.plan.header):
            yield from map(_row, part)


def load_shown(table: Table, plan_id: str) -> StoredPlan:
    """Read a stored plan. Only a large plan of orphan files is not kept in memory.

    Raises:
        RefusedError: As `load_plan`.
        FormatError: As `load_plan`; of a large plan, the parts are checked when they are read.
    """
    area = require_control(table)
    header = load_known(area, plan_id)
    table = replace(table, ref=replace(table.ref, branch=header.branch))
    if header.operation == OPERATION and header.action_count > SHOWN_ACTIONS:
        return StoredPlan(table, area, load_files_plan(area, plan_id), bool(header.by_kind))
    return StoredPlan(table, area, load_plan(area, plan_id), bool(header.by_kind))


def _row(action: Action) -> Document:
    is_delete = isinstance(action, Delete)
    size = action.size_bytes if isinstance(action, Delete) else len(action.body.encode("utf-8", "surrogateescape"))
    return {
        "action": "delete" if is_delete else "write",
        "kind": action.kind,
        "path": action.path,
        "size_bytes": size,
        "reason": action.reason,
    }
