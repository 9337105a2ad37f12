"""`truncate`: take all rows out of a table by a commit. Source: Paimon `FileStoreCommitImpl#truncateTable`."""

from lakesweep.errors import RefusedError
from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.arguments import TruncateArguments
from lakesweep.operations.partitions.contents import Contents
from lakesweep.operations.partitions.drop_partition import choose_matching
from lakesweep.operations.partitions.run import carry_out
from lakesweep.operations.partitions.task import Task
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table
from lakesweep.runs.view import begin

OPERATION = "truncate"


def truncate(table: Table, arguments: TruncateArguments, *, execute: bool) -> RunReport:
    """Take all rows out of a branch. Older snapshots, tags and other branches keep them.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        view = begin(table, OPERATION)
    except RefusedError as error:
        return refused(table, OPERATION, error)
    task = Task(
        operation=OPERATION,
        arguments=arguments.to_json(),
        catalog=arguments.catalog,
        contents=Contents(view.table.store, str(table.ref), view.schema.partition_types, lambda values: True),
        choose=choose_matching(lambda values: True),
        options={**view.schema.options, **arguments.options},
        fallback_reappears=arguments.fallback_reappears,
    )
    return carry_out(table, view, task, execute=execute)
