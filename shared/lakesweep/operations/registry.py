"""Operations by name, with arguments from JSON or a command line.

Every edge calls operations here. So the same words mean the same in a command line, a message and a job. Names and
arguments are those of Paimon's Spark procedures.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.operations.branches import create as create_branch
from lakesweep.operations.branches import delete as delete_branch
from lakesweep.operations.branches import fast_forward, rollback
from lakesweep.operations.branches.call import BRANCH_ARGUMENTS, BranchCall, branch_call
from lakesweep.operations.maintenance import all_branches, maintain
from lakesweep.operations.orphans import local as remove_orphan_files
from lakesweep.operations.orphans import remove as orphan_run
from lakesweep.operations.retention import expire_changelogs, expire_consumers, expire_snapshots
from lakesweep.operations.tags import automatic as auto_tags
from lakesweep.operations.tags import create as create_tag
from lakesweep.operations.tags import delete as delete_tag
from lakesweep.operations.tags import expire as expire_tags
from lakesweep.operations.tags import rename as rename_tag
from lakesweep.operations.tags import schedule as tag_schedule
from lakesweep.operations.tags.call import TAG_ARGUMENTS, TagCall, tag_call
from lakesweep.operations.undo import undo
from lakesweep.runs.allowance import allowing
from lakesweep.runs.fleet import watched_ruling
from lakesweep.runs.parameters.call_values import count_of, flag_of, text_of, texts_of, words_of
from lakesweep.runs.parameters.retention_options import ExpireArguments
from lakesweep.runs.parameters.times import parse_span_ms, parse_time_ms
from lakesweep.runs.run import plan_and_execute, plan_and_write, plan_only, refused
from lakesweep.runs.session import Table

RETENTION_OPTIONS = frozenset(
    {
        "snapshot.num-retained.min",
        "snapshot.num-retained.max",
        "snapshot.time-retained",
        "snapshot.expire.limit",
        "changelog.num-retained.min",
        "changelog.num-retained.max",
        "changelog.time-retained",
        "changelog-producer",
        "consumer.changelog-only",
        "consumer.expiration-time",
    }
)
"""Table options that decide what expires. A call may set no other option, since it would silently have no effect."""

TAG_OPTIONS = frozenset(
    {
        "tag.automatic-creation",
        "tag.creation-period",
        "tag.creation-period-duration",
        "tag.creation-delay",
        "tag.period-formatter",
        "tag.num-retained-max",
        "tag.default-time-retained",
        "tag.time-expire-enabled",
        "tag.automatic-completion",
        "tag.batch.customized-name",
        "sink.process-time-zone",
        "sink.watermark-time-zone",
    }
)
"""Table options that decide which tags are made and which are deleted."""


@dataclass(frozen=True, slots=True)
class Call:
    """The checked arguments of one call. `None` means: as the table's options say."""

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    max_deletes: int | None = None
    protect_commit_users: tuple[str, ...] = ()
    grace_ms: int = 0
    delete_all: bool = False
    consumer_id: str | None = None
    next_snapshot_id: int | None = None
    including_consumers: str | None = None
    excluding_consumers: str | None = None
    run_id: str | None = None
    all_branches: bool = False
    min_interval_ms: int = 0
    quarantine_ms: int | None = None
    no_writers: str | None = None
    no_history: str | None = None
    parallelism: int | None = None
    mode: str | None = None
    engine: str | None = None
    inventory: str | None = None
    dry_run: bool = False
    owned_external: tuple[str, ...] = ()
    external_roots: tuple[str, ...] = ()
    """Files outside the table may be deleted below these roots."""
    options: Mapping[str, str] | None = None
    tags: TagCall = field(default_factory=TagCall)
    """For the operations on tags."""
    branches: BranchCall = field(default_factory=BranchCall)
    """For the operations on branches, and for a rollback."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the registry."""

    name: str
    arguments: frozenset[str]
    run: Callable[[Table, Call, bool], RunReport]
    """Makes a plan; executes it, too, if the last argument is true."""
    options: frozenset[str] = frozenset()
    """Table options that a call may set."""


def run_operation(table: Table, name: str, arguments: Mapping[str, object], *, execute: bool) -> RunReport:
    """Run an operation.

    Args:
        table: The table.
        name: Such as `expire_snapshots`.
        arguments: By name; `None` counts as not given. Numbers may be numbers or text. Times and durations are text;
            times may be epoch milliseconds, too. `delete_all` and `all_branches` are true or false. `options` is an
            object of texts.
        execute: If false, nothing in the table changes.

    Raises:
        UsageError: The operation or an argument is not known, or a value is invalid.
        MaintenanceError: As the operation says.
    """
    operation = OPERATIONS.get(name)
    if operation is None:
        raise UsageError(
            f"operation {name!r} is not known; expected one of {', '.join(sorted(OPERATIONS))}",
            code="unknown_operation",
        )
    call = parse_call(operation, arguments)
    table = allowing(table, (*call.external_roots, *call.owned_external))
    if execute and name not in (maintain.OPERATION, undo.OPERATION):  # these two check the policy themselves
        try:
            watched_ruling(table)
        except RefusedError as error:
            return refused(table, name, error)
    return operation.run(table, call, execute)


def parse_call(operation: Operation, arguments: Mapping[str, object]) -> Call:
    """Check the arguments of a call.

    Raises:
        UsageError: The operation does not have an argument, or a value is invalid.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    known = operation.arguments | _ALWAYS
    for name in given:
        if name not in known:
            raise UsageError(
                f"{operation.name} has no argument {name!r}; expected some of {', '.join(sorted(known))}",
                code="unknown_argument",
            )
    grace, min_interval = given.get("grace"), given.get("min_interval")
    older_than, quarantine = given.get("older_than"), given.get("quarantine")
    return Call(
        retain_max=count_of(given.get("retain_max"), "retain_max"),
        retain_min=count_of(given.get("retain_min"), "retain_min"),
        older_than_ms=None if older_than is None else parse_time_ms(text_of(older_than, "older_than"), "older_than"),
        max_deletes=count_of(given.get("max_deletes"), "max_deletes"),
        protect_commit_users=texts_of(given.get("protect_commit_user", ()), "protect_commit_user"),
        grace_ms=0 if grace is None else parse_span_ms(text_of(grace, "grace"), "grace"),
        delete_all=flag_of(given.get("delete_all", False), "delete_all"),
        consumer_id=words_of(given, "consumer_id"),
        next_snapshot_id=count_of(given.get("next_snapshot_id"), "next_snapshot_id"),
        including_consumers=words_of(given, "including_consumers"),
        excluding_consumers=words_of(given, "excluding_consumers"),
        run_id=words_of(given, "run_id"),
        all_branches=flag_of(given.get("all_branches", False), "all_branches"),
        min_interval_ms=0
        if min_interval is None
        else parse_span_ms(text_of(min_interval, "min_interval"), "min_interval"),
        quarantine_ms=None if quarantine is None else parse_span_ms(text_of(quarantine, "quarantine"), "quarantine"),
        no_writers=words_of(given, "no_writers"),
        no_history=words_of(given, "no_history"),
        parallelism=count_of(given.get("parallelism"), "parallelism"),
        mode=words_of(given, "mode"),
        engine=words_of(given, "engine"),
        inventory=words_of(given, "inventory"),
        dry_run=flag_of(given.get("dry_run", False), "dry_run"),
        owned_external=texts_of(given.get("owned_external", ()), "owned_external"),
        external_roots=texts_of(given.get("external_roots", ()), "external_roots"),
        options=_options(given.get("options"), operation),
        tags=tag_call(given) if operation.name in TAG_ARGUMENTS else TagCall(),
        branches=branch_call(given) if operation.name in BRANCH_ARGUMENTS else BranchCall(),
    )


def _options(value: object, operation: Operation) -> Mapping[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise UsageError(f"options: expected keys and values that are text, found {value!r}", code="bad_argument")
    for key in value:
        if key not in operation.options:
            raise UsageError(
                f"option {key!r} has no effect on {operation.name}; expected one of "
                f"{', '.join(sorted(operation.options))}",
                code="unknown_option",
            )
    return dict(value)


def _limits(call: Call) -> ExpireArguments:
    return ExpireArguments(
        retain_max=call.retain_max,
        retain_min=call.retain_min,
        older_than_ms=call.older_than_ms,
        max_deletes=call.max_deletes,
        protect_commit_users=call.protect_commit_users,
        options=call.options or {},
    )


def _run(table: Table, name: str, planner: Callable[[Table], Plan], call: Call, execute: bool) -> RunReport:
    if execute:
        return plan_and_execute(table, name, planner, grace_ms=call.grace_ms)
    return plan_only(table, name, planner)


def _expire_snapshots(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = _limits(call)
    name = expire_snapshots.OPERATION
    return _run(table, name, lambda target: expire_snapshots.plan_expire_snapshots(target, arguments), call, execute)


def _expire_changelogs(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = expire_changelogs.ExpireChangelogsArguments(limits=_limits(call), delete_all=call.delete_all)
    if call.delete_all and arguments.limits.overrides_table:
        raise UsageError(
            "delete_all deletes every changelog; expected it without a number to retain, a time or a limit",
            code="bad_argument",
        )
    name = expire_changelogs.OPERATION
    return _run(table, name, lambda target: expire_changelogs.plan_expire_changelogs(target, arguments), call, execute)


def _clear_consumers(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = expire_consumers.ConsumerArguments(
        including=call.including_consumers, excluding=call.excluding_consumers
    )
    name = expire_consumers.CLEAR
    return _run(table, name, lambda target: expire_consumers.plan_clear_consumers(target, arguments), call, execute)


def _reset_consumer(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = expire_consumers.ConsumerArguments(consumer=call.consumer_id, next_snapshot=call.next_snapshot_id)
    name = expire_consumers.RESET
    return _run(table, name, lambda target: expire_consumers.plan_reset_consumer(target, arguments), call, execute)


def _maintain(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = maintain.MaintainArguments(
        options=call.options or {},
        min_interval_ms=call.min_interval_ms,
        protect_commit_users=call.protect_commit_users,
    )
    run = all_branches.maintain_all_branches if call.all_branches else maintain.maintain
    return run(table, arguments, execute=execute)


def _remove_orphan_files(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = remove_orphan_files.OrphanArguments(
        older_than_ms=call.older_than_ms,
        no_writers=call.no_writers,
        no_history=call.no_history,
        quarantine_ms=call.quarantine_ms,
        parallelism=remove_orphan_files.PARALLELISM if call.parallelism is None else call.parallelism,
        owned_external=call.owned_external,
        inventory=call.inventory,
    )
    return orphan_run.remove_orphan_files(table, arguments, _orphan_engine(call), execute=execute and not call.dry_run)


def _orphan_engine(call: Call) -> str | None:
    """Return the backend that `mode` or `engine` names."""
    if call.mode not in (None, *_MODES):
        raise UsageError(f"mode: expected local or distributed, found {call.mode!r}", code="bad_argument")
    if call.engine not in (None, *orphan_run.ENGINES):
        raise UsageError(
            f"engine: expected {', '.join(orphan_run.ENGINES)}, found {call.engine!r}", code="bad_argument"
        )
    if call.mode is None:
        return call.engine
    engine = _MODES[call.mode]
    if call.engine not in (None, "auto", engine):
        raise UsageError(f"mode {call.mode} and engine {call.engine}: expected one of the two", code="bad_argument")
    return engine


_MODES = {"local": "local", "distributed": "spark"}
"""The modes of Paimon's procedure, and their backends."""


def _create_tag(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = call.tags.to_create()
    if not execute:
        return plan_only(table, create_tag.CREATE, lambda target: create_tag.plan_create_tag(target, arguments))
    # The write itself finds out whether the name exists.
    return plan_and_write(
        table, create_tag.CREATE, lambda target: create_tag.plan_create_tag(target, arguments, looks_for_name=False)
    )


def _replace_tag(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = call.tags.to_create()
    run = plan_and_write if execute else plan_only
    return run(table, create_tag.REPLACE, lambda target: create_tag.plan_replace_tag(target, arguments))


def _rename_tag(table: Table, call: Call, execute: bool) -> RunReport:
    name, target_name = call.tags.to_rename()
    return _run(
        table,
        rename_tag.OPERATION,
        lambda target: rename_tag.plan_rename_tag(target, name, target_name),
        call,
        execute,
    )


def _delete_tag(table: Table, call: Call, execute: bool) -> RunReport:
    names = call.tags.to_delete()
    return _run(table, delete_tag.OPERATION, lambda target: delete_tag.plan_delete_tag(target, names), call, execute)


def _expire_tags(table: Table, call: Call, execute: bool) -> RunReport:
    keep = call.tags.keep_rules()
    if keep and call.older_than_ms is not None:
        raise UsageError(
            "older_than applies to all tags, and match to some; expected one of the two", code="bad_argument"
        )
    arguments = expire_tags.ExpireTagsArguments(
        older_than_ms=call.older_than_ms,
        keep=keep,
        time_zone=call.tags.time_zone,
        options=call.options or {},
    )
    return _run(
        table, expire_tags.OPERATION, lambda target: expire_tags.plan_expire_tags(target, arguments), call, execute
    )


def _tag_schedule(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = auto_tags.AutoTagArguments(call.tags.backfill, call.tags.time_zone, call.options or {})
    return tag_schedule.trigger_tags(table, arguments, execute=execute)


def _rollback(table: Table, call: Call, execute: bool) -> RunReport:
    return rollback.rollback(table, call.branches.to_rollback(), execute=execute)


def _create_branch(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = call.branches.to_create()
    name = create_branch.OPERATION
    return _run(table, name, lambda target: create_branch.plan_create_branch(target, arguments), call, execute)


def _delete_branch(table: Table, call: Call, execute: bool) -> RunReport:
    branch, name = call.branches.name(), delete_branch.OPERATION
    return _run(table, name, lambda target: delete_branch.plan_delete_branch(target, branch), call, execute)


def _fast_forward(table: Table, call: Call, execute: bool) -> RunReport:
    branch, lost = call.branches.name(), call.branches.lost_tags
    name = fast_forward.OPERATION
    return _run(table, name, lambda target: fast_forward.plan_fast_forward(target, branch, lost), call, execute)


def _undo(table: Table, call: Call, execute: bool) -> RunReport:
    if call.run_id is None:
        raise UsageError("undo takes a run back; expected run_id", code="bad_argument")
    return undo.undo(table, call.run_id, execute=execute)


_ALWAYS = frozenset({"external_roots"})
"""Arguments of every operation, since each operation first finishes the plan that another run began."""
_LIMITS = frozenset({"retain_max", "retain_min", "older_than", "max_deletes", "grace"})
_SCAN = frozenset(
    {
        "older_than",
        "quarantine",
        "no_writers",
        "no_history",
        "parallelism",
        "mode",
        "engine",
        "dry_run",
        "owned_external",
        "inventory",
    }
)
_PASS = frozenset({"all_branches", "min_interval", "protect_commit_user", "options"})

OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation(
            expire_snapshots.OPERATION,
            _LIMITS | {"protect_commit_user", "options"},
            _expire_snapshots,
            RETENTION_OPTIONS - {"consumer.expiration-time"},
        ),
        Operation(expire_changelogs.OPERATION, _LIMITS | {"delete_all"}, _expire_changelogs),
        Operation(expire_consumers.CLEAR, frozenset({"including_consumers", "excluding_consumers"}), _clear_consumers),
        Operation(expire_consumers.RESET, frozenset({"consumer_id", "next_snapshot_id"}), _reset_consumer),
        Operation(remove_orphan_files.OPERATION, _SCAN, _remove_orphan_files),
        Operation(create_tag.CREATE, TAG_ARGUMENTS[create_tag.CREATE], _create_tag),
        Operation(create_tag.REPLACE, TAG_ARGUMENTS[create_tag.REPLACE], _replace_tag),
        Operation(rename_tag.OPERATION, TAG_ARGUMENTS[rename_tag.OPERATION], _rename_tag),
        Operation(delete_tag.OPERATION, TAG_ARGUMENTS[delete_tag.OPERATION], _delete_tag),
        Operation(
            expire_tags.OPERATION,
            TAG_ARGUMENTS[expire_tags.OPERATION] | {"older_than", "grace", "options"},
            _expire_tags,
            TAG_OPTIONS,
        ),
        Operation(
            tag_schedule.OPERATION, TAG_ARGUMENTS[tag_schedule.OPERATION] | {"options"}, _tag_schedule, TAG_OPTIONS
        ),
        Operation(rollback.OPERATION, BRANCH_ARGUMENTS[rollback.OPERATION], _rollback),
        Operation(create_branch.OPERATION, BRANCH_ARGUMENTS[create_branch.OPERATION], _create_branch),
        Operation(delete_branch.OPERATION, BRANCH_ARGUMENTS[delete_branch.OPERATION], _delete_branch),
        Operation(fast_forward.OPERATION, BRANCH_ARGUMENTS[fast_forward.OPERATION], _fast_forward),
        Operation(undo.OPERATION, frozenset({"run_id"}), _undo),
        Operation(maintain.OPERATION, _PASS, _maintain, RETENTION_OPTIONS | TAG_OPTIONS),
    )
}
