"""The arguments of a scan for orphan files in messages and invocations, where no single process runs the scan."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.model.scan_arguments import PARALLELISM, OrphanArguments
from lakesweep.operations.orphans import local as remove_orphan_files
from lakesweep.operations.registry import OPERATIONS, Call, parse_call

OPERATION = remove_orphan_files.OPERATION
ENGINES = ("auto", "local", "lambda", "spark")
OF_THE_CHOICE = frozenset({"engine", "objects"})
"""Arguments that say where a scan runs, not what it does."""
_NOT_HERE = frozenset({"dry_run", "mode", "parallelism"})
"""Arguments that only a scan in one process can use."""


def call_of(arguments: Mapping[str, object]) -> Call:
    """Check the arguments of a scan that may run in several processes.

    Raises:
        UsageError: An argument is not valid, or not valid for this kind of scan.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    engine, objects = given.get("engine", "auto"), given.get("objects")
    if engine not in ENGINES:
        raise UsageError(f"engine: expected {', '.join(ENGINES)}, found {engine!r}", code="bad_argument")
    if objects is not None and (not isinstance(objects, int) or isinstance(objects, bool) or objects < 0):
        raise UsageError(f"objects: expected the approximate number, found {objects!r}", code="bad_argument")
    if there := sorted(_NOT_HERE & given.keys()):
        raise UsageError(f"{there[0]}: engine {engine} does not use this argument; expected none", code="bad_argument")
    if given.get("inventory") is not None and engine in ("auto", "lambda"):
        raise UsageError(
            "inventory: functions list the table themselves; expected engine spark, or no engine", code="bad_argument"
        )
    return parse_call(OPERATIONS[OPERATION], of_the_scan(given))


def orphan_arguments(call: Call) -> OrphanArguments:
    """Return the arguments that the scan itself needs."""
    return OrphanArguments(
        older_than_ms=call.older_than_ms,
        no_writers=call.no_writers,
        no_history=call.no_history,
        quarantine_ms=call.quarantine_ms,
        parallelism=PARALLELISM if call.parallelism is None else call.parallelism,
        owned_external=call.owned_external,
        inventory=call.inventory,
    )


def of_the_scan(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments that say what a scan does, without those about where it runs."""
    return {name: value for name, value in arguments.items() if name not in OF_THE_CHOICE}
