"""Run `remove-orphan-files`."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.model.scans import PARALLELISM, OrphanArguments
from lakesweep.operations.orphans import remove as orphan_run
from lakesweep.operations.registered.planned import Run
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.age import Age
from lakesweep.runs.parameters.parameter import Call
from lakesweep.runs.session import Table


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


RUNS: Mapping[str, Run] = {given.REMOVE_ORPHAN_FILES.name: _remove_orphan_files}
