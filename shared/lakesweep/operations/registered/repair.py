"""Run the operations that repair a table."""

from collections.abc import Callable, Mapping

from lakesweep.model.report import RunReport
from lakesweep.operations.registered.planned import Run, planned
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.clean_deletion_vectors import clean_deletion_vectors
from lakesweep.operations.repair.remove_unexisting_files import remove_unexisting_files
from lakesweep.operations.repair.remove_unexisting_manifests import remove_unexisting_manifests
from lakesweep.operations.repair.repair_hints import plan_repair_hints
from lakesweep.runs.committing.catalog import catalog_of
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters import repair as given
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.session import Table


def _committing(run: Callable[..., RunReport]) -> Run:
    def carry_out(table: Table, call: Call, execute: bool) -> RunReport:
        if execute:
            require_area(table)
        arguments = RepairArguments(catalog_of(table, call), call[given.ACCEPT_LOSS], call[OPTIONS])
        return run(table, arguments, execute=execute)

    return carry_out


RUNS: Mapping[str, Run] = {
    given.REMOVE_UNEXISTING_FILES.name: _committing(remove_unexisting_files),
    given.REMOVE_UNEXISTING_MANIFESTS.name: _committing(remove_unexisting_manifests),
    given.CLEAN_DELETION_VECTORS.name: _committing(clean_deletion_vectors),
    given.REPAIR_HINTS.name: planned(given.REPAIR_HINTS, lambda table, _: plan_repair_hints(table), lambda _: None),
}
