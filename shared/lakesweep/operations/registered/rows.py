"""Run the operation that deletes rows."""

from collections.abc import Mapping

from lakesweep.model.report import RunReport
from lakesweep.operations.registered.planned import Run
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.condition import read_condition
from lakesweep.operations.rows.delete_rows import delete_rows
from lakesweep.operations.rows.hiding import values_kept
from lakesweep.runs.committing.catalog import catalog_of
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters import rows as given
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.parameters.partitions import FALLBACK_REAPPEARS
from lakesweep.runs.session import Table


def _delete_rows(table: Table, call: Call, execute: bool) -> RunReport:
    if execute:
        require_area(table)
    arguments = DeleteRowsArguments(
        where=read_condition(table, call[given.WHERE], call[given.WHERE_FILE]),
        zone=call[given.TIME_ZONE],
        catalog=catalog_of(table, call),
        confirm=call[given.CONFIRM],
        show_rows=call[given.SHOW_ROWS] and not execute,
        keep_condition=call[given.KEEP_CONDITION],
        fallback_reappears=call[FALLBACK_REAPPEARS],
        options=call[OPTIONS],
    )
    with values_kept(f"table {table.ref}"):
        return delete_rows(table, arguments, execute=execute, engine=table.rows_engine)


RUNS: Mapping[str, Run] = {given.DELETE_ROWS.name: _delete_rows}
