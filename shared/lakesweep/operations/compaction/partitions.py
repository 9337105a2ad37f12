"""The partitions of a compaction: which ones a call names, and what a report says of each."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo

from lakesweep.errors import RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.partition_path import DEFAULT_NAME
from lakesweep.model.commits.compaction import PartitionBins
from lakesweep.model.partitions.names import partition_name
from lakesweep.model.partitions.rules import PARTITION_DEFAULT_NAME
from lakesweep.model.partitions.spec import matcher, parse_specs
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.compaction.rules.pick import deleted_rows


def wanted_partitions(
    schema: TableSchema, given: Sequence[str | Mapping[str, object]], zone: tzinfo | None
) -> Callable[[bytes], bool] | None:
    """Return what tells whether a call names a partition; `None`: it names none, and means all.

    Args:
        schema: The latest schema of the branch.
        given: The partitions that the call names; see `CompactArguments`.
        zone: The declared zone of the writers' clocks.

    Raises:
        UsageError: A partition is not given as the table's keys ask for.
        RefusedError: The table has no partition keys (`not_partitioned`).
    """
    if not given:
        return None
    keys, types = schema.partition_keys, schema.partition_types
    if not keys:
        why = "the table has no partition keys; expected a call without partitions, which compacts all of it"
        raise RefusedError(why, code="not_partitioned")
    matches = matcher(parse_specs(given, keys, types, schema.options.get(PARTITION_DEFAULT_NAME, DEFAULT_NAME), zone))
    known: dict[bytes, bool] = {}

    def is_wanted(partition: bytes) -> bool:
        if partition not in known:
            known[partition] = matches(tuple(decode_row(partition, types, "a partition")))
        return known[partition]

    return is_wanted


def name_of(schema: TableSchema, partition: bytes) -> str:
    """Return a partition as its folder; "" without partition keys."""
    types = schema.partition_types
    return partition_name(schema.partition_keys, types, decode_row(partition, types, "a partition"))


def partition_bins(
    schema: TableSchema, rewritten: Iterable[tuple[Sequence[ReadFile], int]]
) -> tuple[PartitionBins, ...]:
    """Return what is rewritten of each partition.

    Args:
        schema: The latest schema of the branch.
        rewritten: Files of one partition that are rewritten together, and about how many files come out.
    """
    by_partition: defaultdict[bytes, list[tuple[Sequence[ReadFile], int]]] = defaultdict(list)
    for files, count in rewritten:
        by_partition[files[0].partition].append((files, count))
    found = []
    for partition, own in by_partition.items():
        every = [file for files, _ in own for file in files]
        deleted = [deleted_rows(file) for file in every]
        found.append(
            PartitionBins(
                name_of(schema, partition),
                len(every),
                sum(file.size_bytes for file in every),
                sum(file.rows for file in every),
                None if None in deleted else sum(count for count in deleted if count is not None),
                sum(count for _, count in own),
            )
        )
    return tuple(found)
