"""The option `--run-id`: a job on Spark that may start twice commits once, and leaves its result for functions."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesweep.cli.command import Typed
from lakesweep.errors import MaintenanceError
from lakesweep.runs.parameters.parameter import text

if TYPE_CHECKING:
    from lakesweep.model.report import RunReport
    from lakesweep.runs.session import Table

RUN_ID = text(
    "run_id",
    "Id of the run, for a job that may start twice: it commits once, deletes nothing, and leaves its result below "
    "scans/ in the control location.",
    "ID",
)


def of_run(typed: Typed, table: "Table") -> "Table":
    """Return a table of the run whose id was typed.

    Raises:
        UsageError: The id is not valid, or there is no control location.
    """
    run_id = typed.values.get(RUN_ID.name)
    if run_id is None:
        return table
    from lakesweep.api.opening import require_control
    from lakesweep.model.scans import check_scan_id

    check_scan_id(run_id)
    require_control(table)
    return replace(table, run_id=run_id, may_delete=False)


def leaving(typed: Typed) -> "Callable[[Table, RunReport | MaintenanceError], None]":
    """Return what stores how a run ended, unless another attempt may end it better."""
    run_id = typed.values.get(RUN_ID.name)

    def leave(table: "Table", result: "RunReport | MaintenanceError") -> None:
        if run_id is None or table.area is None:
            return
        from lakesweep.aws.scans.result import ScanResult, run_document_of

        document = run_document_of(result)
        if document is not None:
            ScanResult(table.area, run_id).leave(document)

    return leave
