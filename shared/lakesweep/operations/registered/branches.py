"""Run the operations on branches and histories."""

from collections.abc import Mapping

from lakesweep.model.report import RunReport
from lakesweep.operations.branches import call as branch_call
from lakesweep.operations.branches.as_latest.operation import rollback_as_latest
from lakesweep.operations.branches.create import plan_create_branch
from lakesweep.operations.branches.delete import plan_delete_branch
from lakesweep.operations.branches.fast_forward import plan_fast_forward
from lakesweep.operations.branches.rollback import rollback
from lakesweep.operations.registered.planned import Run, planned
from lakesweep.runs.committing.catalog import catalog_of
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.commits import AS_LATEST
from lakesweep.runs.parameters.parameter import Call
from lakesweep.runs.session import Table


def _rollback(table: Table, call: Call, execute: bool) -> RunReport:
    if call[AS_LATEST]:
        if execute:
            require_area(table)
        return rollback_as_latest(table, branch_call.to_as_latest(call, catalog_of(table, call)), execute=execute)
    return rollback(table, branch_call.to_rollback(call), execute=execute)


RUNS: Mapping[str, Run] = {
    given.ROLLBACK.name: _rollback,
    given.CREATE_BRANCH.name: planned(given.CREATE_BRANCH, plan_create_branch, branch_call.to_create),
    given.DELETE_BRANCH.name: planned(given.DELETE_BRANCH, plan_delete_branch, branch_call.name_of),
    given.FAST_FORWARD.name: planned(
        given.FAST_FORWARD, lambda table, asked: plan_fast_forward(table, *asked), branch_call.to_forward
    ),
}
