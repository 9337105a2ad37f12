"""Operations by name, with arguments as JSON or a command line gives them.

Every edge calls operations here, so that a command line, a message and a job mean the same by the same words. Names
and arguments are those of Paimon's Spark procedures.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakesweep.errors import UsageError
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.operations import expire_snapshots, maintain
from lakesweep.operations.context import Table
from lakesweep.operations.retention_options import ExpireArguments
from lakesweep.operations.run import plan_and_execute, plan_only
from lakesweep.operations.times import parse_span_ms, parse_time_ms

RETENTION_OPTIONS = frozenset(
    {
        "snapshot.num-retained.min",
        "snapshot.num-retained.max",
        "snapshot.time-retained",
        "snapshot.expire.limit",
        "changelog.num-retained.min",
        "changelog.num-retained.max",
        "changelog.time-retained",
        "consumer.changelog-only",
    }
)
"""Table options that decide which snapshots go. No other one may be given for a call: it would silently do nothing."""


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call, checked. `None` leaves it to the table's options."""

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    max_deletes: int | None = None
    grace_ms: int = 0
    options: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the registry."""

    name: str
    arguments: frozenset[str]
    run: Callable[[Table, Call, bool], RunReport]
    """Plans; with a true last argument executes, too."""


def run_operation(table: Table, name: str, arguments: Mapping[str, object], *, execute: bool) -> RunReport:
    """Run an operation.

    Args:
        table: On what.
        name: Such as `expire_snapshots`.
        arguments: By name; `None` counts as not given. Numbers may be numbers or text, times and durations are text
            (times also epoch milliseconds), `options` is an object of texts.
        execute: Otherwise nothing in the table changes.

    Raises:
        UsageError: No such operation, no such argument, or a value that means nothing.
        MaintenanceError: As the operation says.
    """
    operation = OPERATIONS.get(name)
    if operation is None:
        raise UsageError(
            f"operation {name!r} is not known; expected one of {', '.join(sorted(OPERATIONS))}",
            code="unknown_operation",
        )
    return operation.run(table, parse_call(operation, arguments), execute)


def parse_call(operation: Operation, arguments: Mapping[str, object]) -> Call:
    """Check the arguments of a call.

    Raises:
        UsageError: An argument that the operation does not have, or a value that means nothing.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    for name in given:
        if name not in operation.arguments:
            raise UsageError(
                f"{operation.name} has no argument {name!r}; expected some of {', '.join(sorted(operation.arguments))}",
                code="unknown_argument",
            )
    grace = given.get("grace")
    older_than = given.get("older_than")
    return Call(
        retain_max=_count(given.get("retain_max"), "retain_max"),
        retain_min=_count(given.get("retain_min"), "retain_min"),
        older_than_ms=None if older_than is None else parse_time_ms(_text(older_than, "older_than"), "older_than"),
        max_deletes=_count(given.get("max_deletes"), "max_deletes"),
        grace_ms=0 if grace is None else parse_span_ms(_text(grace, "grace"), "grace"),
        options=_options(given.get("options"), operation),
    )


def _count(value: object, name: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 19):
        raise UsageError(f"{name}: expected a whole number, found {value!r}", code="bad_argument")
    return int(text)


def _text(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise UsageError(f"{name}: expected text, found {value!r}", code="bad_argument")


def _options(value: object, operation: Operation) -> Mapping[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise UsageError(f"options: expected keys and values that are text, found {value!r}", code="bad_argument")
    for key in value:
        if key not in RETENTION_OPTIONS:
            raise UsageError(
                f"option {key!r} plays no part in {operation.name}; expected one of "
                f"{', '.join(sorted(RETENTION_OPTIONS))}",
                code="unknown_option",
            )
    return dict(value)


def _expire_snapshots(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = ExpireArguments(
        retain_max=call.retain_max,
        retain_min=call.retain_min,
        older_than_ms=call.older_than_ms,
        max_deletes=call.max_deletes,
        options=call.options or {},
    )
    name = expire_snapshots.OPERATION

    def planner(target: Table) -> Plan:
        return expire_snapshots.plan_expire_snapshots(target, arguments)

    if execute:
        return plan_and_execute(table, name, planner, grace_ms=call.grace_ms)
    return plan_only(table, name, planner)


def _maintain(table: Table, call: Call, execute: bool) -> RunReport:
    return maintain.maintain(table, maintain.MaintainArguments(options=call.options or {}), execute=execute)


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation(
            expire_snapshots.OPERATION,
            frozenset({"retain_max", "retain_min", "older_than", "max_deletes", "grace", "options"}),
            _expire_snapshots,
        ),
        Operation(maintain.OPERATION, frozenset({"options"}), _maintain),
    )
}
