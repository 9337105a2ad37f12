"""What a compaction rewrites: the bins of one snapshot, and what a report says of them."""

from dataclasses import replace
from datetime import tzinfo

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.index_files import refuse_external
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.roots import base_name
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.partitions import partition_bins, wanted_partitions
from lakesweep.operations.compaction.rules.choice import Choice, Limits, choose
from lakesweep.operations.compaction.rules.pick import bins_of, pick_options
from lakesweep.operations.reading.plan import plan_at
from lakesweep.operations.rows.checks import check_append_table, check_files
from lakesweep.operations.writing.options import Writing, writing_of
from lakesweep.operations.writing.parquet import check_types
from lakesweep.runs.metadata_cache import remembering_manifests
from lakesweep.runs.session import Table

OPERATION = "compact"
INSTEAD = "compact in Paimon instead (CALL sys.compact)"


class Task:
    """What a call compacts."""

    def __init__(
        self, table: Table, schema: TableSchema, arguments: CompactArguments, zone: tzinfo | None, now_ms: int
    ) -> None:
        self.arguments, self.zone, self._now_ms = arguments, zone, now_ms
        self.table = remembering_manifests(table)
        self.options = {**schema.options, **arguments.options}
        self.writing: Writing = writing_of(replace(schema, options=self.options), schema.fields)
        check_types(schema.fields)
        self._is_wanted = wanted_partitions(schema, arguments.partitions, zone)

    def allow(self, base: Base) -> tuple[str, ...]:
        """Return the warnings of a commit that a table allows.

        Raises:
            RefusedError: It does not allow the commit.
        """
        check_append_table(base.schema, INSTEAD)
        refuse_external(self.table.store, base.schema)
        newest = base.root
        return refuse_commit(base.schema, newest.snapshot, newest.body, self.arguments.catalog.type, "compact", True)

    def plan(self, base: Base) -> ReadPlan:
        """Return the live data files of a snapshot, with all columns."""
        names = [field.name for field in base.schema.fields]
        plan = plan_at(self.table, base.root, base.schema, None, names)
        check_files(plan)
        return plan

    def choice(self, plan: ReadPlan) -> Choice:
        """Return the bins to rewrite, and what is left for another run.

        Raises:
            RefusedError: An option does not parse.
        """
        files = [file for split in plan.splits for file in split.files]
        is_wanted, only = self._is_wanted, self.arguments.only
        if is_wanted is not None:
            files = [file for file in files if is_wanted(file.partition)]
        all_files = len(files)
        if only is not None:
            files = [file for file in files if file.vector is not None and base_name(file.path) in only]
        try:
            found = bins_of(files, pick_options(self.options), force=self.arguments.full or only is not None)
        except FormatError as error:
            raise RefusedError(str(error), code="bad_option") from error
        given = self.arguments
        limits = Limits(given.max_bytes, given.max_partition_bytes, given.idle_ms)
        return replace(choose(found, files, limits, self._now_ms, self.zone), all_files=all_files)

    def report(self, schema: TableSchema, choice: Choice) -> CompactionReport:
        """Return what a report says."""
        return CompactionReport(
            partitions=partition_bins(schema, ((each.files, 1) for each in choice.bins)),
            all_files=choice.all_files,
            waiting_files=choice.waiting_files,
            busy_files=choice.busy_files,
            idle_from_ms=choice.idle_from_ms,
            catalog=self.arguments.catalog.type,
        )
