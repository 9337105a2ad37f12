"""Run the operation that erases rows."""

from collections.abc import Mapping

from lakesweep.model.report import RunReport
from lakesweep.operations.erasure.arguments import EraseArguments
from lakesweep.operations.erasure.erase import erase
from lakesweep.operations.registered.planned import Run
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.condition import read_condition
from lakesweep.operations.rows.hiding import values_kept
from lakesweep.runs.committing.catalog import Catalog, catalog_of
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters import erasure as given
from lakesweep.runs.parameters import rows
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.parameters.partitions import FALLBACK_REAPPEARS
from lakesweep.runs.session import Table


def _erase(table: Table, call: Call, execute: bool) -> RunReport:
    if execute:
        require_area(table)
    catalog, finish = catalog_of(table, call), call[given.FINISH]
    has_condition = call[rows.WHERE] is not None or call[rows.WHERE_FILE] is not None
    wanted = _rows(table, call, catalog) if has_condition or finish is None else None
    with values_kept(f"table {table.ref}"):
        return erase(table, EraseArguments(wanted, finish, catalog), execute=execute)


def _rows(table: Table, call: Call, catalog: Catalog) -> DeleteRowsArguments:
    return DeleteRowsArguments(
        where=read_condition(table, call[rows.WHERE], call[rows.WHERE_FILE]),
        zone=call[given.TIME_ZONE],
        catalog=catalog,
        confirm=call[rows.CONFIRM],
        fallback_reappears=call[FALLBACK_REAPPEARS],
        options=call[OPTIONS],
    )


RUNS: Mapping[str, Run] = {given.ERASE.name: _erase}
