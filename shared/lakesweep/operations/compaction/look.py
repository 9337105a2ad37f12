"""The look of a pass at data files: what a compaction would rewrite, if that is known after few reads.

A look reads the newest snapshot, its lists, its manifests and the index of deletion vectors. So it is limited by the
number of entries that the lists state.
"""

from datetime import tzinfo

from lakesweep.errors import RefusedError
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.buckets.run import planned as planned_merges
from lakesweep.operations.compaction.buckets.task import Task as Merges
from lakesweep.operations.compaction.compact import planned
from lakesweep.operations.compaction.task import INSTEAD, OPERATION, Task
from lakesweep.operations.rows.checks import check_append_table
from lakesweep.runs.committing.opened import opened
from lakesweep.runs.committing.size import TOO_LARGE
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView
from lakesweep.table.contents.strict import StrictMetadata

MOST_ENTRIES = 100_000
"""A pass looks at no more entries of manifests, since it has them in memory."""
MOST_MANIFESTS = 300
"""A pass reads no more manifests; those of a longer list are to be compacted first."""


def look(table: Table, arguments: CompactArguments, zone: tzinfo | None, view: TableView | None) -> RunReport:
    """Plan a compaction, and change nothing.

    Args:
        table: One branch of a table.
        arguments: Of the compaction.
        zone: The declared zone of the writers' clocks.
        view: The table as it was just listed, if it was.

    Raises:
        StorageError: A request failed.
    """
    try:
        target = opened(table, OPERATION, view, execute=True)
        seen, has_key = table if view is None else view.table, bool(target.schema.primary_keys)
        if not has_key:
            check_append_table(target.schema, INSTEAD)
        if target.base is None:
            return report_of(table, OPERATION, "nothing_to_do", None)
        task = (Merges if has_key else Task)(seen, target.schema, arguments, zone, target.now_ms)
        snapshot = target.base.root.snapshot
        metas = [meta for each in StrictMetadata(target.store, str(table.ref)).lists(snapshot) for meta in each.metas]
        entries = sum(meta.added_count + meta.deleted_count for meta in metas)
        if entries > MOST_ENTRIES or len(metas) > MOST_MANIFESTS:
            raise RefusedError(
                f"table {table.ref}: its {len(metas)} manifests have {entries} entries, and a pass looks at "
                f"{MOST_ENTRIES} in {MOST_MANIFESTS} manifests at most; run `lakesweep compact TABLE`",
                code=TOO_LARGE,
            )
        if isinstance(task, Merges):
            return planned_merges(target, target.base, task)
        return planned(target, target.base, task)
    except RefusedError as error:
        return refused(table, OPERATION, error)
