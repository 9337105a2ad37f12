"""Run the operations that drop partitions, truncate a table, and expire partitions."""

from collections.abc import Mapping

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.arguments import (
    DropArguments,
    ExpirePartitionsArguments,
    TruncateArguments,
)
from lakesweep.operations.partitions.drop_partition import drop_partition
from lakesweep.operations.partitions.expire_partitions import expire_partitions
from lakesweep.operations.partitions.truncate import truncate
from lakesweep.operations.registered.planned import Run
from lakesweep.runs.committing.catalog import catalog_of, declared_catalog, stated_catalog
from lakesweep.runs.execution import require_area
from lakesweep.runs.fleet import rule_of, ruling_of
from lakesweep.runs.parameters import partitions as given
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.session import Table


def _drop_partition(table: Table, call: Call, execute: bool) -> RunReport:
    if not call[given.PARTITION]:
        raise UsageError("drop-partition: expected at least one partition, found none", code="bad_argument")
    _check_area(table, execute)
    catalog, reappears = catalog_of(table, call), call[given.FALLBACK_REAPPEARS]
    arguments = DropArguments(call[given.PARTITION], catalog, reappears, call[OPTIONS])
    return drop_partition(table, arguments, execute=execute)


def _truncate(table: Table, call: Call, execute: bool) -> RunReport:
    _check_area(table, execute)
    arguments = TruncateArguments(catalog_of(table, call), call[given.FALLBACK_REAPPEARS], call[OPTIONS])
    return truncate(table, arguments, execute=execute)


def _expire_partitions(table: Table, call: Call, execute: bool) -> RunReport:
    options = folded_options(call)
    _check_area(table, execute)
    ruling = ruling_of(table)
    rule = rule_of(ruling)
    arguments = ExpirePartitionsArguments(
        catalog=declared_catalog(stated_catalog(call), ruling),
        options=options,
        time_zone=call[given.TIME_ZONE] or rule.time_zone,
        force_check=True,  # as Paimon's procedure
        otherwise=rule.partitions,
    )
    return expire_partitions(table, arguments, execute=execute)


def folded_options(call: Call) -> Mapping[str, str]:
    """Return the table options of a call, among them those that the procedure's own arguments stand for.

    Raises:
        UsageError: An argument and an option state the same.
    """
    options = dict(call[OPTIONS])
    for parameter, key in given.PROCEDURE_OPTIONS.items():
        value = call[parameter]
        if value is None:
            continue
        if key in options:
            raise UsageError(
                f"{parameter.name} and option {key} state the same; expected one of the two", code="bad_argument"
            )
        options[key] = str(value)
    return options


def _check_area(table: Table, execute: bool) -> None:
    if execute:
        require_area(table)


RUNS: Mapping[str, Run] = {
    given.DROP_PARTITION.name: _drop_partition,
    given.TRUNCATE.name: _truncate,
    given.EXPIRE_PARTITIONS.name: _expire_partitions,
}
