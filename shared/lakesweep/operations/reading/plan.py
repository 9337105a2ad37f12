"""Plan the reading of a version: which data files hold its rows, and how they go into splits. This changes nothing.

The version is not protected here. A caller that reads for long makes sure that no expiry deletes its files meanwhile.

The columns are those of the version's own schema, as for Paimon's readers. Without a version they are those of the
latest schema, which may be later than the latest snapshot. Options are always those of the latest schema.

Source: Paimon `AbstractFileStoreTable#tryTimeTravel`, `SnapshotReaderImpl`.
"""

from collections.abc import Iterable, Mapping, Sequence

from lakesweep.errors import FormatError, RefusedError, UsageError, some_of
from lakesweep.format.row_entries import RowEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField, DataType, type_name
from lakesweep.format.values.options import parse_memory_bytes
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.reading.casts import unsupported
from lakesweep.model.reading.columns import by_id
from lakesweep.model.reading.plan import ReadColumn, ReadCounts, ReadFile, ReadPlan, pack
from lakesweep.model.reading.visible import (
    NotReadableError,
    check_buckets,
    check_evolution,
    check_options,
    check_raw,
    skips_level_0,
)
from lakesweep.model.roots import BranchListing, Root
from lakesweep.runs.parameters.time_travel import Version, resolve
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_all_schemas, read_schema, read_schemas
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.row_files import row_files
from lakesweep.table.stores import declared_roots
from lakesweep.table.vectors import check_rows, locate, vector_entries

FORMATS = ("parquet", "orc", "avro")
_UNREADABLE_TYPES = frozenset(("VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"))
_TARGET, _TARGET_DEFAULT = "source.split.target-size", "128 mb"
_OPEN_COST, _OPEN_COST_DEFAULT = "source.split.open-file-cost", "4 mb"


def plan_read(
    table: Table,
    version: Version,
    *,
    columns: Sequence[str] | None = None,
    falls_back_to_tags: bool = False,
) -> ReadPlan:
    """Return what is to be read of a version.

    Args:
        table: One branch of a table.
        version: The version.
        columns: Names of the wanted columns, in the order of the result; `None` for all.
        falls_back_to_tags: See `time_travel.resolve`.

    Raises:
        UsageError: More than one version was asked for, or a column does not exist (`no_such_column`).
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
    chosen = _columns(table, schema, columns)
    try:
        files, counts = _files(store, latest, schema, root)
        target = parse_memory_bytes(latest.options.get(_TARGET, _TARGET_DEFAULT), _TARGET)
        open_cost = parse_memory_bytes(latest.options.get(_OPEN_COST, _OPEN_COST_DEFAULT), _OPEN_COST)
    except NotReadableError as error:
        raise RefusedError(f"table {table.ref}: {error}", code=error.code) from error
    except FormatError as error:
        raise RefusedError(f"table {table.ref}: {error}", code=error.code) from error
    schemas = _fields(store, own, (latest, schema), files)
    _check_casts(table, chosen, schemas)
    outside = [file for file in files if is_external(file.path)]
    outside += [file for file in files if file.vector is not None and is_external(file.vector.index_file)]
    return ReadPlan(
        table=table.ref.location,
        branch=table.ref.branch,
        snapshot_id=None if root is None else root.snapshot.id,
        tag=root.ref.name if root is not None and root.ref.kind == "tag" else None,
        schema_id=schema.id,
        fields=schema.fields,
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        columns=chosen,
        schemas=schemas,
        splits=pack(files, target, open_cost),
        counts=counts,
        external_roots=declared_roots(store.location, read_all_schemas(store, listing)) if outside else (),
    )


def _columns(table: Table, schema: TableSchema, names: Sequence[str] | None) -> tuple[ReadColumn, ...]:
    fields = {field.name: field for field in schema.fields}
    chosen = list(fields) if names is None else list(names)
    for name in chosen:
        if name not in fields:
            raise UsageError(
                f"table {table.ref}: expected one of the columns {some_of(list(fields))}, found {name!r}",
                code="no_such_column",
            )
        if found := _unreadable(fields[name].type):
            raise RefusedError(
                f"table {table.ref}: column {name} has the type {found}, which Lakesweep does not read; leave it out",
                code="unsupported_type",
            )
    if len(set(chosen)) < len(chosen) or not chosen:
        raise UsageError(f"table {table.ref}: expected each column once, found {', '.join(chosen) or 'none'}")
    return tuple(ReadColumn(fields[name], name in schema.partition_keys) for name in chosen)


def _unreadable(type_: DataType) -> str | None:
    if type_.root in _UNREADABLE_TYPES:
        return type_.root
    inner = (*type_.children, *(field.type for field in type_.fields))
    return next((found for each in inner if (found := _unreadable(each)) is not None), None)


def _files(
    store: Store, latest: TableSchema, schema: TableSchema, root: Root | None
) -> tuple[tuple[ReadFile, ...], ReadCounts]:
    if root is None:
        return (), ReadCounts()
    check_options(latest.options)
    entries: Sequence[RowEntry] = row_files(store, root)
    check_buckets(entries)
    hidden: Sequence[RowEntry] = ()
    if schema.primary_keys:
        skips = skips_level_0(latest.options)
        if skips:
            hidden = [each for each in entries if each.entry.level == 0]
            entries = [each for each in entries if each.entry.level > 0]
        check_raw(entries, skipped_level_0=skips)
    check_evolution(latest.options, entries)
    paths = TablePaths(latest)
    located = locate(store, vector_entries(store, latest, root), paths)
    files = []
    for each in entries:
        entry = each.entry
        vector = located.get((entry.partition, entry.bucket, entry.file_name))
        if vector is not None:
            check_rows(store, vector, entry)
        files.append(
            ReadFile(
                path=paths.data_file(entry),
                size_bytes=entry.file_size,
                rows=entry.row_count,
                format=_format(store, entry.file_name),
                schema_id=each.schema_id,
                level=entry.level,
                bucket=entry.bucket,
                partition=entry.partition,
                vector=vector,
                write_cols=each.write_cols,
            )
        )
    files.sort(key=lambda file: file.path)
    deleted = [0 if file.vector is None else file.vector.cardinality for file in files]
    return tuple(files), ReadCounts(
        files=len(files),
        rows=sum(file.rows for file in files),
        deleted_rows=None if None in deleted else sum(count for count in deleted if count is not None),
        level_0_files=len(hidden),
        level_0_rows=sum(each.entry.row_count for each in hidden),
    )


def _format(store: Store, name: str) -> str:
    suffix = name.rpartition(".")[2].lower()
    if suffix not in FORMATS or name.endswith(f".blob.{suffix}") or ".vector." in name:
        raise RefusedError(
            f"table {store.location}: expected data files in Parquet, ORC or Avro, found {name}",
            code="unsupported_file_format",
        )
    return suffix


def _fields(
    store: Store, own: BranchListing, known: Iterable[TableSchema], files: Iterable[ReadFile]
) -> Mapping[int, tuple[DataField, ...]]:
    wanted = {file.schema_id for file in files}
    found = {schema.id: schema.fields for schema in known if schema.id in wanted}
    missing = sorted(wanted - found.keys())
    return found | {number: schema.fields for number, schema in read_schemas(store, own, missing).items()}


def _check_casts(table: Table, columns: Iterable[ReadColumn], schemas: Mapping[int, tuple[DataField, ...]]) -> None:
    """Make sure that each column can be read from the files of each schema."""
    for schema_id, fields in schemas.items():
        for column in columns:
            mine = None if column.is_partition else by_id(fields, column.field.id)
            for found, wanted in () if mine is None else unsupported(mine.type, column.field.type):
                raise RefusedError(
                    f"table {table.ref}: column {column.name} has files of schema {schema_id} with the type "
                    f"{type_name(found)}, which Lakesweep does not read as {type_name(wanted)}; leave the column out",
                    code="unsupported_cast",
                )
