"""Operations by name, with arguments from JSON or a command line.

Every edge calls operations here. So the same words mean the same in a command line, a message and a job. Names and
arguments are those of Paimon's Spark procedures, with dashes in the names; `signatures` declares them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.scans import PARALLELISM, OrphanArguments
from lakesweep.operations.branches import call as branch_call
from lakesweep.operations.branches.create import plan_create_branch
from lakesweep.operations.branches.delete import plan_delete_branch
from lakesweep.operations.branches.fast_forward import plan_fast_forward
from lakesweep.operations.branches.rollback import rollback
from lakesweep.operations.maintenance import maintain
from lakesweep.operations.orphans import remove as orphan_run
from lakesweep.operations.retention.expire_changelogs import ExpireChangelogsArguments, plan_expire_changelogs
from lakesweep.operations.retention.expire_consumers import ConsumerArguments, plan_clear_consumers, plan_reset_consumer
from lakesweep.operations.retention.expire_snapshots import plan_expire_snapshots
from lakesweep.operations.tags import call as tag_call
from lakesweep.operations.tags.automatic import AutoTagArguments
from lakesweep.operations.tags.create import CREATE, REPLACE, plan_create_tag, plan_replace_tag
from lakesweep.operations.tags.delete import plan_delete_tag
from lakesweep.operations.tags.expire import ExpireTagsArguments, plan_expire_tags
from lakesweep.operations.tags.rename import plan_rename_tag
from lakesweep.operations.tags.steps import trigger_tags
from lakesweep.operations.undo import undo
from lakesweep.runs.allowance import allowing
from lakesweep.runs.fleet import watched_ruling
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.age import Age
from lakesweep.runs.parameters.parameter import EXTERNAL_ROOTS, OPTIONS, Call, Signature
from lakesweep.runs.parameters.retention_options import ExpireArguments
from lakesweep.runs.reports import refused
from lakesweep.runs.run import plan_and_execute, plan_and_write, plan_only
from lakesweep.runs.session import Table

Arguments = TypeVar("Arguments")


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the registry."""

    signature: Signature
    run: Callable[[Table, Call, bool], RunReport]
    """Makes a plan; executes it, too, if the last argument is true."""


def run_operation(table: Table, name: str, arguments: Mapping[str, object], *, execute: bool) -> RunReport:
    """Run an operation.

    Args:
        table: The table.
        name: Such as `expire-snapshots`; see `operation_named` for other spellings.
        arguments: By name; `None` counts as not given. Numbers may be numbers or text. Times and durations are text;
            times may be epoch milliseconds, too. An age counts back from now by the store's clock. `delete_all` and
            `all_branches` are true or false. `options` is an object of texts.
        execute: If false, nothing in the table changes.

    Raises:
        UsageError: The operation or an argument is not known, or a value is invalid.
        MaintenanceError: As the operation says.
    """
    name = given.operation_named(name)
    operation = OPERATIONS.get(name)
    if operation is None:
        raise UsageError(
            f"operation {name!r} is not known; expected one of {', '.join(sorted(OPERATIONS))}",
            code="unknown_operation",
        )
    call = operation.signature.parse(arguments, table.store.now_ms)
    table = allowing(table, (*call[EXTERNAL_ROOTS], *call[given.OWNED_EXTERNAL]))
    if execute and name not in (maintain.OPERATION, undo.OPERATION):  # these two check the policy themselves
        try:
            watched_ruling(table)
        except RefusedError as error:
            return refused(table, name, error)
    report = operation.run(table, call, execute)
    return replace(report, warnings=(*report.warnings, *_unitless(call[OPTIONS])))


def _unitless(options: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each duration of this call without a unit, which has Paimon's meaning."""
    for key in given.DURATIONS:
        number = options.get(key, "").strip()
        if number.isdigit() and int(number):
            yield f"option {key}={number} has no unit, so it means {number} ms, as in Paimon; state the unit, as in 3 d"


def orphan_arguments(call: Call) -> OrphanArguments:
    """Return the arguments of a scan for orphan files."""
    parallelism, older_than = call[given.PARALLELISM], call[given.OLDER_THAN]
    return OrphanArguments(
        older_than_ms=None if isinstance(older_than, Age) else older_than,
        age_ms=older_than.span_ms if isinstance(older_than, Age) else None,
        no_writers=call[given.NO_WRITERS],
        no_history=call[given.NO_HISTORY],
        quarantine_ms=call[given.QUARANTINE],
        parallelism=PARALLELISM if parallelism is None else parallelism,
        owned_external=call[given.OWNED_EXTERNAL],
        inventory=call[given.INVENTORY],
    )


def _planned(
    signature: Signature, plan: Callable[[Table, Arguments], Plan], arguments_of: Callable[[Call], Arguments]
) -> Operation:
    """Return an operation that makes a plan, and executes it if asked."""

    def run(table: Table, call: Call, execute: bool) -> RunReport:
        arguments = arguments_of(call)
        if not execute:
            return plan_only(table, signature.name, lambda target: plan(target, arguments))
        return plan_and_execute(
            table, signature.name, lambda target: plan(target, arguments), grace_ms=call[given.GRACE] or 0
        )

    return Operation(signature, run)


def _cutoff_ms(call: Call) -> int | None:
    """Return the time before which things expire, if the call states one."""
    if call[given.OLDER_THAN] is not None and call[given.RETAINED] is not None:
        raise UsageError("older_than and time_retained state the same; expected one of the two", code="bad_argument")
    return call.time_ms(given.OLDER_THAN if call[given.RETAINED] is None else given.RETAINED)


def _limits(call: Call) -> ExpireArguments:
    return ExpireArguments(
        retain_max=call[given.RETAIN_MAX],
        retain_min=call[given.RETAIN_MIN],
        older_than_ms=_cutoff_ms(call),
        max_deletes=call[given.MAX_DELETES],
        protect_commit_users=call[given.PROTECT_COMMIT_USER],
        options=call[OPTIONS],
    )


def _of_changelogs(call: Call) -> ExpireChangelogsArguments:
    arguments = ExpireChangelogsArguments(limits=_limits(call), delete_all=call[given.DELETE_ALL])
    if arguments.delete_all and arguments.limits.overrides_table:
        raise UsageError(
            "delete_all deletes every changelog; expected it without a number to retain, a time or a limit",
            code="bad_argument",
        )
    return arguments


def _of_tags(call: Call) -> ExpireTagsArguments:
    older_than_ms, keep = _cutoff_ms(call), tag_call.keep_rules(call)
    if keep and older_than_ms is not None:
        name = given.OLDER_THAN.name if call[given.RETAINED] is None else given.RETAINED.name
        raise UsageError(
            f"{name} applies to all tags, and pattern to some; expected one of the two", code="bad_argument"
        )
    return ExpireTagsArguments(older_than_ms, keep, call[given.TIME_ZONE], call[OPTIONS])


def _maintain(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = maintain.MaintainArguments(
        options=call[OPTIONS],
        min_interval_ms=call[given.MIN_INTERVAL] or 0,
        protect_commit_users=call[given.PROTECT_COMMIT_USER],
    )
    run = maintain.maintain_all_branches if call[given.ALL_BRANCHES] else maintain.maintain
    return run(table, arguments, execute=execute)


def _remove_orphan_files(table: Table, call: Call, execute: bool) -> RunReport:
    executes = execute and not call[given.DRY_RUN]
    return orphan_run.remove_orphan_files(table, orphan_arguments(call), _orphan_engine(call), execute=executes)


def _orphan_engine(call: Call) -> str | None:
    """Return the backend that `mode` or `engine` names."""
    mode, engine = call[given.MODE], call[given.ENGINE]
    if mode not in (None, *_MODES):
        raise UsageError(f"mode: expected local or distributed, found {mode!r}", code="bad_argument")
    if engine not in (None, *orphan_run.ENGINES):
        raise UsageError(f"engine: expected {', '.join(orphan_run.ENGINES)}, found {engine!r}", code="bad_argument")
    if mode is None:
        return engine
    if engine not in (None, "auto", _MODES[mode]):
        raise UsageError(f"mode {mode} and engine {engine}: expected one of the two", code="bad_argument")
    return _MODES[mode]


_MODES = {"local": "local", "distributed": "spark"}
"""The modes of Paimon's procedure, and their backends."""


def _create_tag(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = tag_call.to_create(call)
    run = plan_and_write if execute else plan_only  # the write itself finds out whether the name exists
    return run(table, CREATE, lambda target: plan_create_tag(target, arguments, looks_for_name=not execute))


def _replace_tag(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = tag_call.to_create(call)
    run = plan_and_write if execute else plan_only
    return run(table, REPLACE, lambda target: plan_replace_tag(target, arguments))


def _tag_schedule(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = AutoTagArguments(call[given.BACKFILL], call[given.TIME_ZONE], call[OPTIONS])
    return trigger_tags(table, arguments, execute=execute)


def _rollback(table: Table, call: Call, execute: bool) -> RunReport:
    return rollback(table, branch_call.to_rollback(call), execute=execute)


def _undo(table: Table, call: Call, execute: bool) -> RunReport:
    run_id = call[given.RUN_ID]
    if run_id is None:
        raise UsageError("undo takes a run back; expected run_id", code="bad_argument")
    return undo.undo(table, run_id, execute=execute)


OPERATIONS: Mapping[str, Operation] = {
    operation.signature.name: operation
    for operation in (
        _planned(given.EXPIRE_SNAPSHOTS, plan_expire_snapshots, _limits),
        _planned(given.EXPIRE_CHANGELOGS, plan_expire_changelogs, _of_changelogs),
        _planned(
            given.CLEAR_CONSUMERS,
            plan_clear_consumers,
            lambda call: ConsumerArguments(including=call[given.INCLUDING], excluding=call[given.EXCLUDING]),
        ),
        _planned(
            given.RESET_CONSUMER,
            plan_reset_consumer,
            lambda call: ConsumerArguments(call[given.CONSUMER_ID], call[given.NEXT_SNAPSHOT]),
        ),
        Operation(given.REMOVE_ORPHAN_FILES, _remove_orphan_files),
        Operation(given.CREATE_TAG, _create_tag),
        Operation(given.REPLACE_TAG, _replace_tag),
        _planned(given.RENAME_TAG, lambda table, names: plan_rename_tag(table, *names), tag_call.to_rename),
        _planned(given.DELETE_TAG, plan_delete_tag, tag_call.to_delete),
        _planned(given.EXPIRE_TAGS, plan_expire_tags, _of_tags),
        Operation(given.TAG_SCHEDULE, _tag_schedule),
        Operation(given.ROLLBACK, _rollback),
        _planned(given.CREATE_BRANCH, plan_create_branch, branch_call.to_create),
        _planned(given.DELETE_BRANCH, plan_delete_branch, branch_call.name_of),
        _planned(given.FAST_FORWARD, lambda table, asked: plan_fast_forward(table, *asked), branch_call.to_forward),
        Operation(given.UNDO, _undo),
        Operation(given.MAINTAIN, _maintain),
    )
}
