"""The record of one operation: the plan and the result, in one JSON document.

The same document is the output of `--json`, the stored report of the run, and the source of the text output.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.errors import RefusedError
from lakesweep.model.commits.lost import LostCommit
from lakesweep.model.commits.report import CommitsReport
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Delete, Plan, Restore
from lakesweep.model.receipt import RunReceipt

Status = Literal["planned", "done", "nothing_to_do", "refused", "partial", "stale"]
ToldStatus = Literal["planned", "done", "nothing_to_do", "refused", "partial", "stale", "damaged", "commit_lost"]
_SUCCESS = frozenset({"planned", "done", "nothing_to_do"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was done."""

    code: str
    message: str
    exit_code: int = RefusedError.exit_code
    """Exit code of the error behind it, for the command line."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """One operation on one branch of one table, or on all of its branches one after the other."""

    operation: str
    table: str
    branch: str | None
    """`None`: all branches. Then `steps` has a report for each, and the document adds up their plans and results."""
    status: Status
    plan: Plan | None = None
    run_id: str | None = None
    executed: bool = False
    refusal: Refusal | None = None
    outcome: Outcome | None = None
    requests: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Sentences for people. They are printed on standard error, and stored beside the document in a report."""
    steps: tuple["RunReport", ...] | None = None
    restores: tuple[Restore, ...] | None = None
    """The objects to restore; only for an undo."""
    engine: Mapping[str, object] | None = None
    """Where a scan ran, why, its estimate and its result; only for the removal of orphan files."""
    is_stored_plan: bool = False
    """An earlier call made the plan and reported the damage that it noticed. This call did not look for damage."""
    is_withdrawn: bool = False
    """The only document that this call deleted is a tag that it had just written."""
    commits: CommitsReport | None = None
    """What the operation commits; only for operations that commit a snapshot."""
    lost: tuple[LostCommit, ...] = ()
    """Commits that a pass over one branch found lost."""
    receipt: RunReceipt | None = None
    """What the run, or the call, cost and freed."""

    @property
    def is_damaged(self) -> bool:
        """Tell whether any step noticed that the table is damaged, or damaged it."""
        if any(report.commits is not None and report.commits.is_damaged for report in self.leaves()):
            return True
        return not self.is_stored_plan and any(
            report.plan.header.steering.is_damaged for report in self.leaves() if report.plan is not None
        )

    @property
    def told_status(self) -> ToldStatus:
        """Return the status for callers: never a success for a damaged table, or one that has lost a commit."""
        if self.status not in _SUCCESS:
            return self.status
        return "damaged" if self.is_damaged else "commit_lost" if self.all_lost() else self.status

    def all_warnings(self) -> tuple[str, ...]:
        """Return the warnings of the plan, the run and its steps."""
        if self.branch is None:
            return self.warnings + tuple(
                f"branch {step.branch}: {warning}" for step in self.steps or () for warning in step.all_warnings()
            )
        if self.steps is not None:
            return self.warnings + tuple(warning for step in self.steps for warning in step.all_warnings())
        return (self.plan.header.warnings if self.plan else ()) + self.warnings

    def all_lost(self) -> tuple[LostCommit, ...]:
        """Return the lost commits of all branches."""
        return self.lost + tuple(commit for step in self.steps or () for commit in step.all_lost())

    def leaves(self) -> Iterator["RunReport"]:
        """Yield the reports of single steps, in order."""
        if not self.steps:
            yield self
        for step in self.steps or ():
            yield from step.leaves()

    def plans(self) -> tuple[Plan, ...]:
        """Return the plans of the document: its own, or the plans of all branches."""
        if self.branch is None:
            return tuple(plan for step in self.steps or () for plan in step.plans())
        return () if self.plan is None else (self.plan,)

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        plan, plans = self.plan, self.plans()
        deletes = [delete for each in plans for delete in each.deletes]
        findings = {**plan.header.findings, **plan.header.steering.shown()} if plan else {}
        return {
            "operation": self.operation,
            "table": self.table,
            "branch": self.branch,
            "plan_id": plan.header.plan_id if plan and (not plan.is_empty or self.restores) else None,
            "run_id": self.run_id,
            "executed": self.executed,
            "status": self.told_status,
            "refusal": {"code": self.refusal.code, "message": self.refusal.message} if self.refusal else None,
            "snapshots": dict(plan.header.snapshots) if plan else {"earliest": None, "latest": None, "expired": []},
            "delete": {
                "count": sum(len(each.deletes) or sum(each.delete_kinds.values()) for each in plans),
                "bytes": sum(each.delete_bytes for each in plans),
                "by_kind": dict(sorted(_total(each.delete_kinds for each in plans).items())),
            },
            "created": [
                {"kind": action.kind, "path": action.path}
                for action in (*(self.restores or ()), *(action for each in plans for action in each.actions))
                if not isinstance(action, Delete)
            ],
            "kept": _total(plan.header.kept for plan in plans),
            "kept_bytes": _total(plan.header.kept_bytes for plan in plans),
            "actions": [action_to_json(action) for action in deletes],
            "outcome": self._outcome(),
            "requests": dict(self.requests),
            **({"receipt": self.receipt.to_json()} if self.receipt is not None else {}),
            **({"findings": findings} if findings else {}),
            **({"engine": dict(self.engine)} if self.engine is not None else {}),
            **({"commits": self.commits.to_json()} if self.commits is not None else {}),
            **({"lost_commits": [commit.to_json() for commit in self.lost]} if self.lost else {}),
            "steps": [step.to_json() for step in self.steps] if self.steps is not None else None,
        }

    def _outcome(self) -> dict[str, object] | None:
        outcome = self.outcome
        if self.branch is None:
            done = [step.outcome for step in self.steps or () if step.outcome is not None]
            outcome = sum(done, Outcome()) if done else None
        if outcome is None:
            return None
        restored = {} if self.restores is None else {"restored": outcome.restored}
        return {**outcome_to_json(outcome), **restored}


def _total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def action_to_json(delete: Delete) -> dict[str, object]:
    """Return one planned deletion as it appears under `actions`."""
    return {name: getattr(delete, name) for name in ("phase", "kind", "path", "size_bytes", "reason")}


def outcome_to_json(outcome: Outcome) -> dict[str, object]:
    """Return an outcome as it appears under `outcome`."""
    return {
        "deleted": outcome.deleted,
        "already_gone": outcome.already_gone,
        "failed": [{"path": failed.path, "code": failed.code} for failed in outcome.failed],
        "kept_by_recheck": outcome.kept_by_recheck,
        "bytes": outcome.deleted_bytes,
    }
