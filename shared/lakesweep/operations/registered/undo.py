"""Run `undo`."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.registered.planned import Run
from lakesweep.operations.undo import undo
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.parameter import Call
from lakesweep.runs.session import Table


def _undo(table: Table, call: Call, execute: bool) -> RunReport:
    run_id = call[given.RUN_ID]
    if run_id is None:
        raise UsageError("undo takes a run back; expected run_id", code="bad_argument")
    return undo.undo(table, run_id, execute=execute)


RUNS: Mapping[str, Run] = {given.UNDO.name: _undo}
