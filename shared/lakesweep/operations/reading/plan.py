"""Plan the reading of a version: which data files hold its rows, and how they go into splits. This changes nothing.

The version is not protected here. A caller that reads for long makes sure that no expiry deletes its files meanwhile.

The columns are those of the version's own schema, as for Paimon's readers. Without a version they are those of the
latest schema, which may be later than the latest snapshot. Options are always those of the latest schema.

Source: Paimon `AbstractFileStoreTable#tryTimeTravel`, `SnapshotReaderImpl`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from lakesweep.commit.base import list_branch
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.row_entries import RowEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.options import parse_memory_bytes
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.reading.plan import ReadCounts, ReadFile, ReadPlan, pack
from lakesweep.model.reading.pruning import may_match, partition_ranges, stated_ranges
from lakesweep.model.reading.visible import (
    NotReadableError,
    check_buckets,
    check_evolution,
    check_keys,
    check_options,
    check_raw,
    skips_level_0,
)
from lakesweep.model.roots import BranchListing, Root, base_name
from lakesweep.model.vectors import LocatedVector
from lakesweep.model.where.facts import ColumnFacts
from lakesweep.model.where.where import Where, parse_where
from lakesweep.operations.reading.columns import check_casts, check_readable, columns_of
from lakesweep.runs.parameters.time_travel import Version, resolve
from lakesweep.runs.session import Table
from lakesweep.storage.collection import held_back
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_all_schemas, read_schema, read_schemas
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.row_files import row_files
from lakesweep.table.stores import declared_roots
from lakesweep.table.vectors import VectorKey, check_rows, locate, vector_entries

FORMATS = ("parquet", "orc", "avro")
_TARGET, _TARGET_DEFAULT = "source.split.target-size", "128 mb"
_OPEN_COST, _OPEN_COST_DEFAULT = "source.split.open-file-cost", "4 mb"


def plan_read(
    table: Table,
    version: Version,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    zone: str = "UTC",
    falls_back_to_tags: bool = False,
) -> ReadPlan:
    """Return what is to be read of a version.

    Args:
        table: One branch of a table.
        version: The version.
        columns: Names of the wanted columns, in the order of the result; `None` for all.
        where: A condition on rows; see `parse_where`.
        zone: The zone of times in it.
        falls_back_to_tags: See `time_travel.resolve`.

    Raises:
        UsageError: More than one version was asked for, a column does not exist (`no_such_column`), or the condition is
            not valid (`bad_where`).
        RefusedError: This is no table, the version does not exist, or metadata cannot be read. Rows need a merge
            (`needs_merge`) or wait for their bucket (`postponed_files`). Vectors contradict metadata
            (`corrupt_vectors`). A column has a type that is not read, or has changed its type in such a way
            (`unsupported_cast`).
        StorageError: A request failed.
    """
    store = table.store
    listing = discover(store)
    own = listing.branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    latest = read_schema(store, own)
    root = resolve(table, own, version, falls_back_to_tags=falls_back_to_tags)
    schema = latest
    if root is not None and version.given() and root.snapshot.schema_id != latest.id:
        schema = read_schemas(store, own, [root.snapshot.schema_id])[root.snapshot.schema_id]
    condition = None if where is None else parse_where(where, schema.fields, zone=zone)
    plan = ReadPlan(
        table=table.ref.location,
        branch=table.ref.branch,
        snapshot_id=None if root is None else root.snapshot.id,
        tag=root.ref.name if root is not None and root.ref.kind == "tag" else None,
        schema_id=schema.id,
        fields=schema.fields,
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        columns=columns_of(table, schema, columns),
        schemas={},
        splits=(),
        counts=ReadCounts(),
        where=condition,
    )
    if root is None:
        return plan
    try:
        return _planned(table, lambda: own, latest, schema, root, plan, names_version=bool(version.given()))
    except (NotReadableError, FormatError) as error:
        raise RefusedError(f"table {table.ref}: {error}", code=error.code) from error


def plan_at(
    table: Table, root: Root, schema: TableSchema, where: Where | None, columns: Sequence[str] = ()
) -> ReadPlan:
    """Return what is to be read of a snapshot in order to change the table.

    Args:
        table: One branch of a table.
        root: The snapshot.
        schema: The latest schema of the branch.
        where: The condition, on the columns of this schema; `None`: all rows.
        columns: The columns of the result, beside those of the condition; they may be none.

    Raises:
        RefusedError: As `plan_read`.
        StorageError: A request failed.
    """
    plan = ReadPlan(
        table=table.ref.location,
        branch=table.ref.branch,
        snapshot_id=root.snapshot.id,
        tag=None,
        schema_id=schema.id,
        fields=schema.fields,
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        columns=columns_of(table, schema, columns) if columns else (),
        schemas={},
        splits=(),
        counts=ReadCounts(),
        where=where,
    )
    for column in plan.read_columns:
        check_readable(table, column.field)

    def own() -> BranchListing:
        return list_branch(table.store, table.ref.branch, ("schema",))

    try:
        return _planned(table, own, schema, schema, root, plan, names_version=True)
    except (NotReadableError, FormatError) as error:
        raise RefusedError(f"table {table.ref}: {error}", code=error.code) from error


def with_all_columns(table: Table, plan: ReadPlan, schema: TableSchema) -> ReadPlan:
    """Return a plan of `plan_at` with all columns of its schema, and without a condition.

    Raises:
        RefusedError: A column cannot be read, as in `plan_read`.
    """
    whole = replace(plan, columns=columns_of(table, schema, None), where=None)
    check_casts(table, whole)
    return whole


@held_back()
def _planned(
    table: Table,
    own: Callable[[], BranchListing],
    latest: TableSchema,
    schema: TableSchema,
    root: Root,
    plan: ReadPlan,
    *,
    names_version: bool,
) -> ReadPlan:
    """Return the plan with its files; `own` lists the branch's schemas, if some file has an earlier one."""
    store = table.store
    check_options(latest.options, names_version=names_version)
    every = row_files(store, root, with_stats=plan.where is not None)
    entries = _of_partitions(plan, every)
    check_buckets(entries)
    hidden: Sequence[RowEntry] = ()
    if schema.primary_keys:
        skips = skips_level_0(latest.options)
        if skips:
            hidden = [each for each in entries if each.entry.level == 0]
            entries = [each for each in entries if each.entry.level > 0]
        check_raw(entries, skipped_level_0=skips)
    check_evolution(latest.options, entries)
    schemas = _schemas(store, own, (latest, schema), entries)
    check_keys(schema, schemas.values())
    plan = replace(plan, schemas={number: each.fields for number, each in schemas.items()})
    check_casts(table, plan)
    located = locate(store, vector_entries(store, latest, root), TablePaths(latest))
    found = _files(store, latest, entries, located)
    chosen = (file for entry, file in found if plan.where is None or _may_match(plan, entry, file))
    files = tuple(sorted(chosen, key=attrgetter("path")))
    deleted = [0 if file.vector is None else file.vector.cardinality for file in files]
    counts = ReadCounts(
        files=len(files),
        rows=sum(file.rows for file in files),
        deleted_rows=None if None in deleted else sum(count for count in deleted if count is not None),
        pruned_files=len(every) - len(hidden) - len(files),
        level_0_files=len(hidden),
        level_0_rows=sum(each.entry.row_count for each in hidden),
        of_partitions=Counter(each.entry.partition for each in every),
        dangling=_dangling(located, every),
    )
    target = parse_memory_bytes(latest.options.get(_TARGET, _TARGET_DEFAULT), _TARGET)
    open_cost = parse_memory_bytes(latest.options.get(_OPEN_COST, _OPEN_COST_DEFAULT), _OPEN_COST)
    outside = [file for file in files if is_external(file.path)]
    outside += [file for file in files if file.vector is not None and is_external(file.vector.index_file)]
    roots = (
        declared_roots(store.location, read_all_schemas(store, discover(store, ("schema", "branch"))))
        if outside
        else ()
    )
    return replace(plan, splits=pack(files, target, open_cost), counts=counts, external_roots=roots)


def _dangling(located: Mapping[VectorKey, LocatedVector], every: Iterable[RowEntry]) -> frozenset[VectorKey]:
    if not located:
        return frozenset()
    there = ((each.entry.partition, each.entry.bucket, each.entry.file_name) for each in every)
    return frozenset(located).difference(there)


def _of_partitions(plan: ReadPlan, entries: Sequence[RowEntry]) -> Sequence[RowEntry]:
    """Return the entries of partitions that may have rows of the condition."""
    where = plan.where
    if where is None:
        return entries
    chosen: dict[bytes, bool] = {}
    for each in entries:
        partition = each.entry.partition
        if partition not in chosen:
            ranges = partition_ranges(plan.partition_values(partition), 1)
            chosen[partition] = where.may_match(ColumnFacts(1, ranges))
    return [each for each in entries if chosen[each.entry.partition]]


def _may_match(plan: ReadPlan, entry: RowEntry, file: ReadFile) -> bool:
    assert plan.where is not None
    ranges = stated_ranges(entry, plan.schemas[file.schema_id], file.format)
    return may_match(plan.where, plan, file, file.rows, ranges)


def _files(
    store: Store, latest: TableSchema, entries: Iterable[RowEntry], located: Mapping[VectorKey, LocatedVector]
) -> Iterator[tuple[RowEntry, ReadFile]]:
    """Yield each entry with its file."""
    paths = TablePaths(latest)
    for each in entries:
        entry = each.entry
        vector = located.get((entry.partition, entry.bucket, entry.file_name)) if located else None
        if vector is not None:
            check_rows(store, vector, entry)
        file = ReadFile.of(each, paths.data_file(entry), vector)
        _check_format(store, file)
        yield each, file


def is_readable(file: ReadFile) -> bool:
    """Tell by its name whether a data file has rows in a format that Lakesweep reads."""
    name = base_name(file.path)
    return file.format in FORMATS and not name.endswith(f".blob.{file.format}") and ".vector." not in name


def _check_format(store: Store, file: ReadFile) -> None:
    if not is_readable(file):
        raise RefusedError(
            f"table {store.location}: expected data files in Parquet, ORC or Avro, found {base_name(file.path)}",
            code="unsupported_file_format",
        )


def _schemas(
    store: Store, own: Callable[[], BranchListing], known: Iterable[TableSchema], entries: Iterable[RowEntry]
) -> Mapping[int, TableSchema]:
    """Return each schema with which a file was written, by id."""
    wanted = {each.schema_id for each in entries}
    found = {schema.id: schema for schema in known if schema.id in wanted}
    missing = sorted(wanted - found.keys())
    return found | read_schemas(store, own(), missing) if missing else found
