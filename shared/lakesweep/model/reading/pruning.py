"""Which files and row groups may have rows of a condition, by statistics.

Statistics are used only where they are certain for the rows as they are read. In ORC, time stamps may be cut to
milliseconds, and CHARs have blanks at their end that readers do not return, so their statistics count as unknown.

Source: Paimon `SimpleStatsEvolution`, `ValueStats` columns of `DataFileMeta`.
"""

from collections.abc import Mapping, Sequence

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.row_entries import RowEntry
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataField
from lakesweep.model.reading.plan import ReadFile, ReadPlan
from lakesweep.model.where.facts import ColumnFacts, ColumnRange, evolved_facts
from lakesweep.model.where.where import Where

_NOT_IN_ORC = ("CHAR", "TIMESTAMP", "TIMESTAMP_LTZ")


def partition_ranges(values: Mapping[str, object], rows: int) -> dict[str, ColumnRange]:
    """Return what the partition of some rows tells: partition key -> its one value."""
    return {key: ColumnRange.of_value(value, rows) for key, value in values.items()}


def stated_ranges(entry: RowEntry, fields: Sequence[DataField], format_: str) -> dict[str, ColumnRange]:
    """Return what a manifest tells about the columns of a data file, by the names in the file's schema.

    Statistics that do not decode count as unknown, since they only save work.
    """
    if entry.stats is None:
        return {}
    by_name = {field.name: field for field in fields}
    names = entry.stats_cols if entry.stats_cols is not None else entry.write_cols
    chosen = list(fields) if names is None else [by_name[name] for name in names if name in by_name]
    if names is not None and len(chosen) != len(names):
        return {}
    types = [field.type for field in chosen]
    try:
        low = decode_row(entry.stats.minimum, types, entry.entry.file_name)
        high = decode_row(entry.stats.maximum, types, entry.entry.file_name)
    except (FormatError, UnsupportedFormatError):
        return {}
    counts = entry.stats.null_counts
    if counts is None or len(counts) != len(chosen):
        counts = (None,) * len(chosen)
    ranges = {}
    for field, least, most, count in zip(chosen, low, high, counts, strict=True):
        is_certain = format_ != "orc" or field.type.root not in _NOT_IN_ORC
        ranges[field.name] = ColumnRange(least, most, count) if is_certain else ColumnRange(null_count=count)
    return ranges


def may_match(where: Where, plan: ReadPlan, file: ReadFile, rows: int, ranges: Mapping[str, ColumnRange]) -> bool:
    """Tell whether some rows of a file may be chosen; False only if it is certain that none is.

    Args:
        where: The condition.
        plan: The plan.
        file: The file.
        rows: How many rows: all, or those of a row group.
        ranges: What is known of them, by the names in the file's schema.
    """
    fields = plan.schemas[file.schema_id]
    if file.write_cols is not None:
        fields = tuple(field for field in fields if field.name in file.write_cols)
    wanted = [field for field in plan.fields if field.name in where.columns and field.name not in plan.partition_keys]
    facts = evolved_facts(rows, fields, ranges, wanted)
    return where.may_match(
        ColumnFacts(rows, {**facts.columns, **partition_ranges(plan.partition_values(file.partition), rows)})
    )
