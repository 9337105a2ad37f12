"""`Table`: what a notebook, a task or a program calls. Every call does what the command of the same name does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakesweep.api.arguments import located, plain, required, typed
from lakesweep.api.calling import Caller, Settings, carry_out, speaking
from lakesweep.api.inspected import ReadableTable
from lakesweep.api.outcome import only_plan
from lakesweep.api.results import Report
from lakesweep.errors import UsageError, masked
from lakesweep.model.progress import Progress, no_progress
from lakesweep.model.report import RunReport
from lakesweep.storage.location import parse_location

if TYPE_CHECKING:
    from os import PathLike

    from lakesweep.runs.session import Table as OpenedTable

_EXECUTE = "execute"


class Table(ReadableTable):
    """A Paimon table on S3 or in a local folder, with the place of Lakesweep's own documents about it.

    A `Table` holds settings alone. Each call opens what it needs and leaves nothing open, so there is nothing to close,
    a `Table` can be used as often as you like, and several threads may use one. Nothing is printed. No call changes
    the table unless it says `execute`.

    Errors are those of `lakesweep.errors`, with a stable word (`code`) and the exit code of the command line
    (`exit_code`). Every call may raise `UsageError` for a wrong argument, `RefusedError` for what is no table or cannot
    be read safely, `FormatError` for damaged metadata, and `StorageError` for a store that does not answer.
    """

    __slots__ = ()

    def __init__(
        self,
        table: "str | PathLike[str]",
        branch: str = "main",
        *,
        control: "str | PathLike[str] | None" = None,
        policy: "str | PathLike[str] | None" = None,
        endpoint_url: str | None = None,
        region: str | None = None,
        local_control: bool = False,
        external_roots: Sequence[str] = (),
        progress: Progress = no_progress,
        log: Callable[[str], None] | None = None,
    ) -> None:
        """Name a table. This sends no request, and the table need not exist yet.

        Args:
            table: A table directory: a local path or `s3://bucket/prefix`.
            branch: Branch of the table.
            control: The control location: a local path or `s3://bucket/prefix` outside the table. By default
                `$LAKESWEEP_CONTROL`, else for a local table `~/.local/state/lakesweep`. All maintainers of a table name
                the same one.
            policy: Location of the fleet policy. By default `$LAKESWEEP_POLICY`.
            endpoint_url: Endpoint of an S3-compatible store.
            region: Region of the bucket.
            local_control: Accept a control location on this machine for a table in S3.
            external_roots: Locations outside the table below which files of it may be deleted.
            progress: Called while a call works, from any thread, with what is counted, how many so far, and the total
                or `None`.
            log: Called with sentences about a call that takes long, from any thread.

        Raises:
            UsageError: A location is not valid, or an argument is of a wrong kind.
        """
        if not isinstance(external_roots, list | tuple) or not all(isinstance(each, str) for each in external_roots):
            raise UsageError(f"external_roots: expected a list of locations, found {external_roots!r}")
        for name, value in (("progress", progress), ("log", log)):
            if value is not None and not callable(value):
                raise UsageError(f"{name}: expected a function, found {value!r}")
        stated = located("table", table)
        if stated is None:
            raise UsageError("table: expected a local path or s3://bucket/prefix, found None")
        at = located("control", control)
        place = Settings(
            table=str(parse_location(stated)),
            branch=required("branch", branch, str),
            policy=located("policy", policy),
            control=None if at is None else str(parse_location(at)),
            local_control=required("local_control", local_control, bool),
            external_root=tuple(external_roots),
            endpoint_url=typed("endpoint_url", endpoint_url, str),
            region=typed("region", region, str),
        )
        super().__init__(place, Caller(progress, log))

    @property
    def location(self) -> str:
        """Where the table is, in its normal spelling."""
        return self._place.table

    @property
    def branch(self) -> str:
        """The branch that calls are about."""
        return self._place.branch

    def __repr__(self) -> str:
        return f"<Table {masked(self._place.table)}, branch {self._place.branch}>"

    def plan(self, operation: str, *, check: bool = True, **arguments: Any) -> Report:
        """Plan an operation. Nothing in the table changes; the plan is stored in the control location.

        Args:
            operation: Its name, such as `expire-snapshots` (docs/commands.md).
            check: If false, a refusal is returned as a report.
            arguments: By name, as options without dashes: `retain_max=5`, `older_than=timedelta(days=3)`. Times are
                text with a zone, epoch milliseconds or a datetime with a zone. Durations are text with a unit, or a
                timedelta. `options` is a dict of texts.

        Returns:
            The report: `to_delete`, `to_delete_bytes`, `plan_id`, `warnings`, and everything else as `to_json()`.

        Raises:
            UsageError: The operation or an argument is not known, or has a wrong value.
            RunError: It would be refused, or the table is damaged.
        """
        return self._run(operation, arguments, execute=False, check=check)

    def run(self, operation: str, *, execute: bool = True, check: bool = True, **arguments: Any) -> Report:
        """Plan an operation and execute it at once.

        If an earlier run died, its plan is finished first. Ctrl-C leaves what the next run, or `execute`, finishes.

        Args:
            operation: Its name; see `plan`.
            execute: If false, only plan.
            check: If false, return what else would raise an error, as a report whose `ok` is false.
            arguments: See `plan`.

        Raises:
            UsageError: As `plan`.
            LeaseHeldError: Another maintainer works on the table; try again later.
            RunError: It was refused, only a part is done (the next run goes on), or the table is damaged.
        """
        return self._run(operation, arguments, execute=execute, check=check)

    def execute(
        self, plan: Report | str, *, confirm: str | None = None, grace: Any = None, check: bool = True
    ) -> Report:
        """Execute what was planned. A second call is harmless.

        A stored plan is executed exactly, or not at all if the table changed in a way that it does not allow. A pass
        of several steps, and an operation that commits, have no such plan: they are planned anew with the same
        arguments.

        Args:
            plan: What `plan` returned, or the id of a stored plan.
            confirm: The id of the plan once more, for a plan that needs confirmation.
            grace: How long readers of expiring snapshots may continue: text such as `10 min`, or a timedelta.
            check: See `run`.

        Raises:
            LeaseHeldError: Another maintainer works on the table; try again later.
            RunStaleError: The table changed. Plan again.
            RunError: It was refused, only a part is done (the next run goes on), or the table is damaged.
        """
        check = required("check", check, bool)
        if isinstance(plan, Report):
            if plan.table != self.location:
                raise UsageError(f"plan: expected one of table {self.location}, found one of {plan.table}")
            if plan.run.status != "planned":
                return plan.raise_for_status() if check else plan
            header = only_plan(plan.run)
            if header is None:
                place = self._place if plan.branch is None else replace(self._place, branch=plan.branch)
                return Table._at(place, self._caller)._run(plan.operation, plan.arguments, execute=True, check=check)
            plan_id = header.plan_id
        else:
            plan_id = required("plan", plan, str)
        confirm, waited = typed("confirm", confirm, str), typed("grace", plain(grace), str)

        def run(table: "OpenedTable") -> RunReport:
            from lakesweep.api.stored import execute_plan

            return execute_plan(
                table, plan_id, branch=None, confirm=confirm, grace=waited, show=lambda opened, shown: None
            )

        return carry_out(self._caller, self._place, _EXECUTE, run, check=check, arguments={})

    def maintain(self, *, execute: bool = False, check: bool = True, **arguments: Any) -> Report:
        """Do what the table's own options ask for after a commit; see `run`.

        Call it after each load. It is safe to call it twice, late, or beside another maintainer.
        """
        return self._run("maintain", arguments, execute=execute, check=check)

    def undo(self, run_id: str, *, execute: bool = False, check: bool = True) -> Report:
        """Restore everything that a run deleted; see `run`.

        Raises:
            RunRefusedError: It cannot be undone, for example since the bucket keeps no versions.
        """
        return self._run("undo", {"run_id": run_id}, execute=execute, check=check)

    def _run(self, operation: str, arguments: Mapping[str, Any], *, execute: bool, check: bool) -> Report:
        from lakesweep.api.operations import named, prepared

        with speaking():
            name, check = named(operation), required("check", check, bool)
            place, run = prepared(self._place, name, arguments, execute=required("execute", execute, bool))
        return carry_out(self._caller, place, name, run, check=check, arguments=arguments)

    @classmethod
    def _at(cls, place: Settings, caller: Caller) -> "Table":
        found = cls.__new__(cls)
        ReadableTable.__init__(found, place, caller)
        return found
