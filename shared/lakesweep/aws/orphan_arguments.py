"""The arguments of a scan for orphan files in messages and invocations, where no single process runs the scan."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.runs.parameters.parameter import Call
from lakesweep.runs.parameters.signatures import REMOVE_ORPHAN_FILES

OPERATION = REMOVE_ORPHAN_FILES.name
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
    engine, objects, inventory = given.get("engine", "auto"), given.get("objects"), given.get("inventory")
    if engine not in ENGINES:
        raise UsageError(f"engine: expected {', '.join(ENGINES)}, found {engine!r}", code="bad_argument")
    if objects is not None and (not isinstance(objects, int) or isinstance(objects, bool) or objects < 0):
        raise UsageError(f"objects: expected the approximate number, found {objects!r}", code="bad_argument")
    if there := sorted(_NOT_HERE & given.keys()):
        raise UsageError(
            f"{there[0]}: a scan by a deployment does not take it; expected it left out", code="bad_argument"
        )
    if inventory is not None and engine in ("auto", "lambda"):
        raise UsageError(
            "inventory: functions list the table themselves; expected engine spark, or no engine", code="bad_argument"
        )
    if engine == "spark" and inventory is not None and not str(inventory).startswith("s3://"):
        raise UsageError(f"inventory: expected s3://bucket/key of a manifest, found {inventory!r}", code="bad_argument")
    return REMOVE_ORPHAN_FILES.parse(of_the_scan(given))


def of_the_scan(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments that say what a scan does, without those about where it runs."""
    return {name: value for name, value in arguments.items() if name not in OF_THE_CHOICE}
