"""Run the operation that compacts data files."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import MAX_BYTES, CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.operations.compaction.policy import compact_by_policy
from lakesweep.operations.registered.planned import Run
from lakesweep.runs.committing.catalog import catalog_of
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters import compaction as given
from lakesweep.runs.parameters.parameter import EXTERNAL_ROOTS, OPTIONS, Call
from lakesweep.runs.session import Table


def _compact(table: Table, call: Call, execute: bool) -> RunReport:
    if execute:
        require_area(table)
    if call[given.BY_POLICY]:
        _check_alone(call)
        return compact_by_policy(table, execute=execute, engine=table.compaction_engine)
    most = call[given.MAX_SIZE]
    arguments = CompactArguments(
        catalog=catalog_of(table, call),
        partitions=call[given.PARTITION],
        full=call[given.FULL],
        max_bytes=MAX_BYTES if most is None else most,
        max_partition_bytes=call[given.MAX_PARTITION_SIZE],
        idle_ms=call[given.PARTITION_IDLE_TIME],
        sole_compactor=call[given.SOLE_COMPACTOR],
        zone=call[given.TIME_ZONE],
        options=call[OPTIONS],
    )
    return compact(table, arguments, execute=execute, engine=table.compaction_engine)


def _check_alone(call: Call) -> None:
    allowed = {given.BY_POLICY.name, given.ENGINE.name, EXTERNAL_ROOTS.name}
    if others := sorted(name for name in call.values.keys() - allowed if call.values[name]):
        raise UsageError(f"by_policy: expected no other arguments, found {', '.join(others)}", code="bad_argument")


RUNS: Mapping[str, Run] = {given.COMPACT.name: _compact}
