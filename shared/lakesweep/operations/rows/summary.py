"""What a report says of the rows that were found: partition by partition, and a few of the rows."""

from collections import defaultdict
from itertools import islice

from lakesweep.commit.base import Base
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.model.commits.rows import PartitionRows
from lakesweep.model.partitions.names import partition_name
from lakesweep.model.reading.plan import Split
from lakesweep.model.where.where import Where
from lakesweep.operations.reading.arrow import read_split, stores_of
from lakesweep.operations.reading.plan import plan_at
from lakesweep.operations.reading.texts import json_lines
from lakesweep.operations.rows.search import Found, Match
from lakesweep.runs.session import Table

SAMPLED_ROWS = 5


def partitions_of(schema: TableSchema, found: Found) -> tuple[PartitionRows, ...]:
    """Return the partitions that lose rows, with the most rows first.

    Raises:
        FormatError: The values of one are not those of a partition of this table.
    """
    by_partition: defaultdict[bytes, list[Match]] = defaultdict(list)
    for match in found.matches:
        by_partition[match.file.partition].append(match)
    keys, types = schema.partition_keys, schema.partition_types
    summaries = []
    for partition, matches in by_partition.items():
        whole = sum(match.is_whole for match in matches)
        values = decode_row(partition, types, "a partition")
        summaries.append(
            PartitionRows(
                partition_name(keys, types, values),
                sum(match.count for match in matches),
                len(matches),
                whole,
                loses_all=whole == found.plan.counts.of_partitions[partition],
            )
        )
    return tuple(sorted(summaries, key=lambda each: (-each.rows, each.partition)))


def sample_of(table: Table, base: Base, where: Where, found: Found) -> tuple[str, ...]:
    """Return a few of the rows as JSON, with all columns.

    Raises:
        MaintenanceError: As `read_split`.
    """
    paths = {match.file.path for match in found.matches}
    names = [field.name for field in base.schema.fields]
    plan = plan_at(table, base.root, base.schema, where, names)
    stores = stores_of(plan, table.store, table.open_store)
    parts = (Split((file,)) for split in plan.splits for file in split.files if file.path in paths)
    fields = [column.field for column in plan.columns]
    lines = (
        line.rstrip("\n")
        for split in parts
        for batch in read_split(stores, plan.shared, split)
        for line in json_lines(batch, fields)
    )
    return tuple(islice(lines, SAMPLED_ROWS))
