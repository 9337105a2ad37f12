"""What a compaction rewrites: the bins of one snapshot, and what a report says of them."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import tzinfo

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.index_files import refuse_external
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.partition_path import DEFAULT_NAME
from lakesweep.model.commits.compaction import CompactionReport, PartitionBins
from lakesweep.model.partitions.names import partition_name
from lakesweep.model.partitions.rules import PARTITION_DEFAULT_NAME
from lakesweep.model.partitions.spec import matcher, parse_specs
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.roots import base_name
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.rules.choice import Choice, Limits, choose
from lakesweep.operations.compaction.rules.pick import bins_of, deleted_rows, pick_options
from lakesweep.operations.reading.plan import plan_at
from lakesweep.operations.rows.checks import check_append_table, check_files
from lakesweep.operations.writing.bins import Bin
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
        name = schema.options.get(PARTITION_DEFAULT_NAME, DEFAULT_NAME)
        keys, types = schema.partition_keys, schema.partition_types
        self._matches: Callable[[tuple[object, ...]], bool] | None = None
        if arguments.partitions:
            if not keys:
                why = "the table has no partition keys; expected a call without partitions, which compacts all of it"
                raise RefusedError(why, code="not_partitioned")
            self._matches = matcher(parse_specs(arguments.partitions, keys, types, name, zone))

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

    def choice(self, schema: TableSchema, plan: ReadPlan) -> Choice:
        """Return the bins to rewrite, and what is left for another run.

        Raises:
            RefusedError: An option does not parse.
        """
        files = [file for split in plan.splits for file in split.files]
        matches, only = self._matches, self.arguments.only
        if matches is not None:
            chosen = {
                row: matches(tuple(decode_row(row, schema.partition_types, "a partition")))
                for row in {file.partition for file in files}
            }
            files = [file for file in files if chosen[file.partition]]
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
            partitions=_partitions(schema, choice.bins),
            all_files=choice.all_files,
            waiting_files=choice.waiting_files,
            busy_files=choice.busy_files,
            idle_from_ms=choice.idle_from_ms,
            catalog=self.arguments.catalog.type,
        )


def _partitions(schema: TableSchema, bins: Sequence[Bin]) -> tuple[PartitionBins, ...]:
    by_partition: defaultdict[bytes, list[Bin]] = defaultdict(list)
    for each in bins:
        by_partition[each.partition].append(each)
    keys, types = schema.partition_keys, schema.partition_types
    found = []
    for partition, own in by_partition.items():
        files = [file for each in own for file in each.files]
        deleted = [deleted_rows(file) for file in files]
        found.append(
            PartitionBins(
                partition_name(keys, types, decode_row(partition, types, "a partition")),
                len(files),
                sum(file.size_bytes for file in files),
                sum(file.rows for file in files),
                None if None in deleted else sum(count for count in deleted if count is not None),
                len(own),
            )
        )
    return tuple(found)
