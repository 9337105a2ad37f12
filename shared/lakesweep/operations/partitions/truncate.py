"""`truncate`: take all rows out of a table by a commit. Source: Paimon `FileStoreCommitImpl#truncateTable`."""

from lakesweep.errors import RefusedError
from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.arguments import TruncateArguments
from lakesweep.operations.partitions.drop_partition import choose_matching
from lakesweep.operations.partitions.run import carry_out
from lakesweep.operations.partitions.task import Task
from lakesweep.runs.committing.opened import opened
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table
from lakesweep.table.contents.content import Values
from lakesweep.table.contents.contents import Contents

OPERATION = "truncate"


def truncate(table: Table, arguments: TruncateArguments, *, execute: bool) -> RunReport:
    """Take all rows out of a branch. Older snapshots, tags and other branches keep them.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, execute=execute)
    except RefusedError as error:
        return refused(table, OPERATION, error)

    def matches(values: Values) -> bool:
        return True

    task = Task(
        operation=OPERATION,
        arguments=arguments.to_json(),
        catalog=arguments.catalog,
        contents=Contents(target.store, str(table.ref), target.schema.partition_types, matches),
        choose=choose_matching(matches),
        options={**target.schema.options, **arguments.options},
        matches=matches,
        fallback_reappears=arguments.fallback_reappears,
    )
    return carry_out(target, task, execute=execute)
