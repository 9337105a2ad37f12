"""Operations by name, with arguments from JSON or a command line.

Every edge calls operations here. So the same words mean the same in a command line, a message and a job. Names and
arguments are those of Paimon's Spark procedures, with dashes in the names; `signatures` declares them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module

from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.report import RunReport
from lakesweep.runs.allowance import allowing
from lakesweep.runs.fleet import watched_ruling
from lakesweep.runs.parameters import compaction, erasure, manifests, partitions, repair, rows
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.parameter import EXTERNAL_ROOTS, OPTIONS, Call, Signature
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the registry."""

    signature: Signature
    capability: str
    """The module of `registered` that runs it."""

    def run(self, table: Table, call: Call, execute: bool) -> RunReport:
        """Make a plan; execute it, too, if asked."""
        # A call needs one capability. To import them all would take longer than many a call.
        module = import_module(f"lakesweep.operations.registered.{self.capability}")
        report: RunReport = module.RUNS[self.signature.name](table, call, execute)
        return report


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
    if execute and name not in (given.MAINTAIN.name, given.UNDO.name):  # these two check the policy themselves
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


_CAPABILITIES = {
    "retention": (given.EXPIRE_SNAPSHOTS, given.EXPIRE_CHANGELOGS, given.CLEAR_CONSUMERS, given.RESET_CONSUMER),
    "orphans": (given.REMOVE_ORPHAN_FILES,),
    "tags": (
        given.CREATE_TAG,
        given.REPLACE_TAG,
        given.RENAME_TAG,
        given.DELETE_TAG,
        given.EXPIRE_TAGS,
        given.TAG_SCHEDULE,
    ),
    "partitions": (partitions.DROP_PARTITION, partitions.TRUNCATE, partitions.EXPIRE_PARTITIONS),
    "rows": (rows.DELETE_ROWS,),
    "erasure": (erasure.ERASE,),
    "compaction": (compaction.COMPACT,),
    "manifests": (manifests.COMPACT_MANIFEST,),
    "repair": repair.REPAIRS,
    "branches": (given.ROLLBACK, given.CREATE_BRANCH, given.DELETE_BRANCH, given.FAST_FORWARD),
    "undo": (given.UNDO,),
    "maintenance": (given.MAINTAIN,),
}
OPERATIONS: Mapping[str, Operation] = {
    signature.name: Operation(signature, capability)
    for capability, signatures in _CAPABILITIES.items()
    for signature in signatures
}
