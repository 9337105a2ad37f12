"""What calls return: the report of an operation, or a document of what was read. Each is what `--json` prints."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from lakesweep.api.outcome import REFUSED, document_of, exit_code_of, warnings_of
from lakesweep.errors import MaintenanceError, RefusedError, StalePlanError
from lakesweep.model.report import Refusal, RunReport, ToldStatus


class RunError(MaintenanceError):
    """A run did not do what was asked for: it was refused, it is partial, or the table is damaged.

    `code` and `exit_code` are those of the command line.
    """

    def __init__(self, report: "Report", message: str, code: str) -> None:
        super().__init__(message, code=code)
        self.report = report
        """Everything that is known about the run."""
        self.exit_code = report.exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report, str(self), self.code)


class RunRefusedError(RunError, RefusedError):
    """Lakesweep refused the run, since it could lose data. Nothing was changed."""


class RunStaleError(RunRefusedError, StalePlanError):
    """The table changed in a way that the plan does not allow. Plan again."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report:
    """One operation: what it planned or did. `to_json()` has everything; the properties are what programs ask for."""

    run: RunReport = field(repr=False)
    """The record behind it. Not a part of the API."""
    arguments: Mapping[str, object] = field(default_factory=dict)
    """The arguments of the call, by name."""

    @property
    def operation(self) -> str:
        """Name of the operation, such as `expire-snapshots`."""
        return self.run.operation

    @property
    def table(self) -> str:
        """Location of the table."""
        return self.run.table

    @property
    def branch(self) -> str | None:
        """The branch; `None`: all branches, and `steps` has a report for each."""
        return self.run.branch

    @property
    def status(self) -> ToldStatus:
        """`planned`, `done` or `nothing_to_do`, if all is well. Otherwise `ok` is false."""
        return self.run.told_status

    @property
    def ok(self) -> bool:
        """Whether the work is planned, done or not needed. Never true of a table that is known to be damaged."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """Exit code of the command line for this report."""
        return exit_code_of(self.run)

    @property
    def plan_id(self) -> str | None:
        """Id of the plan, if there is one."""
        found = self.run.to_json()["plan_id"]
        return found if isinstance(found, str) else None

    @property
    def run_id(self) -> str | None:
        """Id of the run; `None`: nothing was executed."""
        return self.run.run_id

    @property
    def executed(self) -> bool:
        """Whether the call changed the table, or tried to."""
        return self.run.executed

    @property
    def needs_confirmation(self) -> bool:
        """Whether `execute` wants the plan's id once more, as `confirm`."""
        return any(plan.header.needs_confirmation for plan in self.run.plans())

    @property
    def to_delete(self) -> int:
        """How many objects the plans delete."""
        return sum(len(plan.deletes) or sum(plan.delete_kinds.values()) for plan in self.run.plans())

    @property
    def to_delete_bytes(self) -> int:
        """How many bytes the plans delete."""
        return sum(plan.delete_bytes for plan in self.run.plans())

    @property
    def deleted(self) -> int:
        """How many objects the run deleted."""
        return sum(each.outcome.deleted for each in self.run.leaves() if each.outcome is not None)

    @property
    def deleted_bytes(self) -> int:
        """How many bytes the run deleted."""
        return sum(each.outcome.deleted_bytes for each in self.run.leaves() if each.outcome is not None)

    @property
    def refusal(self) -> Refusal | None:
        """Why it was refused or did not end: a code and a sentence."""
        return self.run.refusal

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for people."""
        return tuple(warnings_of(self.run))

    @property
    def requests(self) -> Mapping[str, int]:
        """Requests that the call sent, by kind."""
        return dict(self.run.requests)

    @property
    def steps(self) -> tuple["Report", ...]:
        """The reports of the steps of a pass, or of its branches, in order."""
        return tuple(Report(step) for step in self.run.steps or ())

    def to_json(self) -> dict[str, Any]:
        """Return the document that `--json` prints (docs/cli_json.md). It is the caller's own."""
        return document_of(self.run)

    def raise_for_status(self) -> "Report":
        """Return this report if all is well.

        Raises:
            RunStaleError: The table changed in a way that the plan does not allow.
            RunRefusedError: The run was refused, and nothing was changed.
            RunError: Only a part is done, the table is damaged, or it has lost a commit.
        """
        if self.ok:
            return self
        refusals = [step.refusal for step in self.run.leaves() if step.refusal is not None]
        refusal = self.refusal or (refusals[0] if refusals else None)
        if refusal is not None:
            message, code = refusal.message, refusal.code
        else:
            message = f"{self.operation} of {self.table}: {self.status.replace('_', ' ')}; the report has the details"
            code = str(self.status)
        kind: type[RunError] = RunError
        if self.exit_code == REFUSED:
            kind = RunStaleError if "stale" in (self.status, code) else RunRefusedError
        raise kind(self, message, code)

    def __repr__(self) -> str:
        what = f"{self.to_delete} objects to delete" if self.status == "planned" else f"{self.deleted} objects deleted"
        ids = "".join(f", {name} {value}" for name, value in (("plan", self.plan_id), ("run", self.run_id)) if value)
        return f"<{self.operation} of {self.table}, branch {self.branch or 'all'}: {self.status}, {what}{ids}>"


class Document(Mapping[str, Any]):
    """What was read: a read-only mapping with the keys that `--json` prints (docs/cli_json.md)."""

    __slots__ = ("_found",)

    def __init__(self, found: Mapping[str, Any]) -> None:
        """Wrap a document."""
        self._found = dict(found)

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key. Values are plain JSON: numbers, texts, lists, dicts, `None`."""
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter(self._found)

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for people."""
        return tuple(self._found.get("warnings") or ())

    def to_json(self) -> dict[str, Any]:
        """Return the document that `--json` prints. It is the caller's own: to change it changes nothing here."""
        return deepcopy(self._found)

    def __repr__(self) -> str:
        return f"<Document with {', '.join(self._found)}>"
