"""Consumers: the marks that streaming readers leave, and the ways to delete forgotten ones.

A consumer keeps its next snapshot and everything later. A forgotten consumer keeps them for ever, unless the table
limits the time (`consumer.expiration-time`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace

from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.format.values.options import parse_duration_ms
from lakesweep.model.plan import Delete, Plan, Put
from lakesweep.model.roots import DocumentRef, branch_dir
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.parameters.retention_options import ExpireArguments, check_stated
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin, inputs_of

EXPIRE = "expire-consumers"
CLEAR = "clear-consumers"
RESET = "reset-consumer"
EXPIRATION_TIME = "consumer.expiration-time"
STAYS = "consumer_stays"
"""Why consumers are kept: neither a rule nor the call deletes them."""


@dataclass(frozen=True, slots=True)
class ConsumerArguments:
    """The arguments of a consumer operation."""

    consumer: str | None = None
    """The consumer to reset."""
    next_snapshot: int | None = None
    """The snapshot at which it continues; `None` deletes the consumer."""
    including: str | None = None
    """Pattern of consumers to clear; it must match the whole name."""
    excluding: str | None = None
    """Pattern of consumers to keep."""
    options: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        return stated(**asdict(self))


def plan_expire_consumers(
    table: Table, arguments: ConsumerArguments, limits: ExpireArguments, view: TableView | None = None
) -> Plan:
    """Plan the deletion of consumers that were not moved for longer than the table allows.

    This runs unattended, so it requires a stated retention.

    Args:
        table: One branch of a table.
        arguments: Options of the call.
        limits: The arguments of the pass, which say where retention may be stated.
        view: The table as it was just listed, if it was.

    Raises:
        RefusedError: The table states no retention, or the option does not parse.

    Source: Paimon `ConsumerManager#expire`.
    """
    view = begin(table, EXPIRE) if view is None else replace(view, operation=EXPIRE)
    options = {**view.schema.options, **arguments.options}
    check_stated(options, limits)
    forgotten = _forgotten(view, options)
    return _plan(
        view, arguments, [_delete(ref, f"it was not moved for {options[EXPIRATION_TIME]}") for ref in forgotten]
    )


def plan_clear_consumers(table: Table, arguments: ConsumerArguments) -> Plan:
    """Plan the deletion of consumers by name.

    Raises:
        UsageError: A pattern does not compile.

    Source: Paimon `ConsumerManager#clearConsumers`.
    """
    view = begin(table, CLEAR)
    wanted = _matcher(arguments.including, "including_consumers", True)
    spared = _matcher(arguments.excluding, "excluding_consumers", False)
    going = [ref for ref in view.own.consumers if wanted(ref.name) and not spared(ref.name)]
    return _plan(view, arguments, [_delete(ref, "cleared manually") for ref in going])


def plan_reset_consumer(table: Table, arguments: ConsumerArguments) -> Plan:
    """Plan to move a consumer to another snapshot, or to delete it.

    Raises:
        RefusedError: The consumer to delete, or the snapshot to continue at, does not exist.

    Source: Paimon `ResetConsumerProcedure`.
    """
    view = begin(table, RESET)
    name = arguments.consumer or ""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise UsageError(f"consumer: expected a name without slashes, found {name!r}", code="bad_argument")
    if arguments.next_snapshot is None:
        going = [ref for ref in view.own.consumers if ref.name == name]
        if not going:
            raise RefusedError(f"table {table.ref}: no consumer {name!r} to remove", code="no_such_consumer")
        return _plan(view, arguments, [_delete(ref, "deleted manually") for ref in going])
    if all(ref.id != arguments.next_snapshot for ref in view.own.snapshots):
        raise RefusedError(
            f"table {table.ref}: no snapshot {arguments.next_snapshot} for consumer {name!r} to continue at",
            code="no_such_snapshot",
        )
    path = f"{branch_dir(view.own.name)}consumer/consumer-{name}"
    body = f'{{\n  "nextSnapshot" : {arguments.next_snapshot}\n}}'
    return _plan(view, arguments, [Put("consumers", "consumer", path, body, "reset manually")])


def _forgotten(view: TableView, options: Mapping[str, str]) -> tuple[DocumentRef, ...]:
    """Return the consumers not moved for longer than `consumer.expiration-time`; none without that option.

    Raises:
        RefusedError: The option does not parse.
    """
    if EXPIRATION_TIME not in options:
        return ()
    try:
        cutoff_ms = view.now_ms - parse_duration_ms(options[EXPIRATION_TIME], EXPIRATION_TIME)
    except FormatError as error:
        raise RefusedError(f"table {view.table.ref}: {error}", code="bad_option") from error
    return tuple(ref for ref in view.own.consumers if ref.modified_ms < cutoff_ms)


def _delete(ref: DocumentRef, reason: str) -> Delete:
    return Delete("consumers", "consumer", ref.path, ref.size_bytes, reason, etag=ref.etag)


def _plan(view: TableView, arguments: ConsumerArguments, actions: list[Delete] | list[Put]) -> Plan:
    inputs = inputs_of(view.own, arguments.to_json())
    gone = {action.path for action in actions if isinstance(action, Delete)}
    staying = sum(ref.path not in gone for ref in view.own.consumers)
    return view.plan(actions, inputs, kept={STAYS: staying} if staying else {})


def _matcher(pattern: str | None, argument: str, without: bool) -> Callable[[str], bool]:
    if pattern is None:
        return lambda _name: without
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"{argument}: expected a regular expression, found {pattern!r}: {error}", code="bad_argument"
        ) from error
    return lambda name: compiled.fullmatch(name) is not None
