"""The record of one operation: what was planned, what happened, in one JSON document.

The same document answers `--json`, is stored as the run's report, and is what text output renders.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Delete, Plan, Restore, count_by_kind

Status = Literal["planned", "done", "nothing_to_do", "refused", "partial", "stale"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was done."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """One operation on one branch of one table."""

    operation: str
    table: str
    branch: str
    status: Status
    plan: Plan | None = None
    run_id: str | None = None
    executed: bool = False
    refusal: Refusal | None = None
    outcome: Outcome | None = None
    requests: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Sentences for people; on standard error, and beside the document in a stored report."""
    steps: tuple["RunReport", ...] | None = None
    restores: tuple[Restore, ...] | None = None
    """What comes back; of an undo only."""

    def all_warnings(self) -> tuple[str, ...]:
        """Return what people should know: of the plan, of the run, of its steps."""
        if self.steps is not None:
            return self.warnings + tuple(warning for step in self.steps for warning in step.all_warnings())
        return (self.plan.header.warnings if self.plan else ()) + self.warnings

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        plan = self.plan
        deletes = plan.deletes if plan else ()
        return {
            "operation": self.operation,
            "table": self.table,
            "branch": self.branch,
            "plan_id": plan.header.plan_id if plan and (plan.actions or self.restores) else None,
            "run_id": self.run_id,
            "executed": self.executed,
            "status": self.status,
            "refusal": {"code": self.refusal.code, "message": self.refusal.message} if self.refusal else None,
            "snapshots": dict(plan.header.snapshots) if plan else {"earliest": None, "latest": None, "expired": []},
            "delete": {
                "count": len(deletes),
                "bytes": sum(delete.size_bytes or 0 for delete in deletes),
                "by_kind": count_by_kind(deletes),
            },
            "created": [
                {"kind": action.kind, "path": action.path}
                for action in (*(self.restores or ()), *(plan.actions if plan else ()))
                if not isinstance(action, Delete)
            ],
            "kept": dict(plan.header.kept) if plan else {},
            "actions": [action_to_json(action) for action in deletes],
            "outcome": self._outcome(),
            "requests": dict(self.requests),
            "steps": [step.to_json() for step in self.steps] if self.steps is not None else None,
        }

    def _outcome(self) -> dict[str, object] | None:
        if self.outcome is None:
            return None
        restored = {} if self.restores is None else {"restored": self.outcome.restored}
        return {**outcome_to_json(self.outcome), **restored}


def action_to_json(delete: Delete) -> dict[str, object]:
    """Return one planned deletion as it appears under `actions`."""
    return {
        "phase": delete.phase,
        "kind": delete.kind,
        "path": delete.path,
        "size_bytes": delete.size_bytes,
        "reason": delete.reason,
    }


def outcome_to_json(outcome: Outcome) -> dict[str, object]:
    """Return an outcome as it appears under `outcome`."""
    return {
        "deleted": outcome.deleted,
        "already_gone": outcome.already_gone,
        "failed": [{"path": failed.path, "code": failed.code} for failed in outcome.failed],
        "kept_by_look": outcome.kept_by_look,
        "bytes": outcome.deleted_bytes,
    }
