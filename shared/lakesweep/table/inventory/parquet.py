"""Rows of an S3 Inventory in Parquet, read with pyarrow. Unlike in CSV, keys are not encoded."""

from collections.abc import Generator
from typing import Any

from lakesweep.errors import MaintenanceError, UnsupportedFormatError
from lakesweep.format.values.json_document import shorten
from lakesweep.storage.store import StoredObject
from lakesweep.table.inventory.manifest import NEEDED, VERSION_NEEDED, Inventory, column_name
from lakesweep.table.inventory.pages import batch_rows, check_lengths, damaged, open_bounded

_TEXTS = ("bucket", "key", "etag")
_TYPES = {
    "bucket": ("is_string", "is_large_string"),
    "key": ("is_string", "is_large_string"),
    "size": ("is_integer",),
    "lastmodifieddate": ("is_timestamp",),
    "etag": ("is_string", "is_large_string"),
    "islatest": ("is_boolean",),
    "isdeletemarker": ("is_boolean",),
}
"""Column -> predicates of `pyarrow.types`; one of them must hold."""


def parquet_objects(data: bytes, inventory: Inventory, where: str, prefix: str) -> Generator[StoredObject, None, None]:
    """Yield the current objects below a prefix.

    Args:
        data: A whole file whose MD5 is correct.
        inventory: The inventory of the file.
        where: The file's location, for messages.
        prefix: The prefix from `Inventory.prefix`.

    Raises:
        FormatError: The file is damaged, or a row cannot be understood.
        UnsupportedFormatError: pyarrow is missing.
    """
    arrow, compute, parquet = _load_pyarrow(where)
    wanted = [*NEEDED, *(VERSION_NEEDED if inventory.has_versions else ())]
    wanted += ["bucket"] if "bucket" in inventory.columns else []
    seen = 0
    # pyarrow reports damage as OSError, ValueError or an own class, depending on where it notices the damage.
    try:
        with open_bounded(parquet, arrow.BufferReader(data), data, where) as file:
            names = _names(file.schema_arrow, wanted, where, arrow)
            texts = [names[name] for name in wanted if name in _TEXTS]
            rows = batch_rows(file, data, list(names.values()), texts, where, parquet, arrow)
            for batch in file.iter_batches(rows, columns=list(names.values()), use_threads=False):
                columns = {name: batch.column(names[name]) for name in wanted}
                yield from _objects(columns, seen, inventory, where, prefix, arrow, compute)
                seen += batch.num_rows
    except MaintenanceError:
        raise
    except Exception as error:
        raise damaged(where, f"expected a whole Parquet file, found {shorten(' '.join(str(error).split()))}") from error


def _objects(
    columns: dict[str, Any], seen: int, inventory: Inventory, where: str, prefix: str, arrow: Any, compute: Any
) -> Generator[StoredObject, None, None]:
    count = len(columns["key"])
    check_lengths(columns["key"], f"{where}, rows {seen + 1} to {seen + count}", arrow)
    if "bucket" in columns and not compute.all(compute.equal(columns["bucket"], inventory.bucket), min_count=0).as_py():
        raise damaged(where, f"expected rows of the bucket {inventory.bucket}, found another bucket's")
    for name, column in columns.items():
        if name in ("bucket", "key", *VERSION_NEEDED) and column.null_count:
            raise damaged(where, f"expected a value of {name} in all of rows {seen + 1} to {seen + count}, found none")
    chosen = compute.and_not(
        compute.starts_with(columns["key"], pattern=prefix), compute.ends_with(columns["key"], pattern="/")
    )
    if inventory.has_versions:
        chosen = compute.and_(chosen, columns["islatest"])
        chosen = compute.and_not(chosen, columns["isdeletemarker"])
    rows = arrow.array(range(seen + 1, seen + count + 1)).filter(chosen)
    keys, sizes, times, etags = (columns[name].filter(chosen) for name in NEEDED)
    times = times.cast(arrow.timestamp("ms", times.type.tz), safe=False).cast(arrow.int64())
    cut = len(prefix)
    found = zip(*(column.to_pylist() for column in (rows, keys, sizes, times, etags)), strict=True)
    for row, key, size_bytes, modified_ms, etag in found:
        if size_bytes is None or size_bytes < 0 or modified_ms is None or not etag or not etag.strip('"') or not key:
            raise damaged(
                f"{where}, row {row}",
                "expected a key, a size, a time and an ETag, found "
                f"{shorten(repr((key, size_bytes, modified_ms, etag)))}",
            )
        yield StoredObject(key[cut:], size_bytes, etag.strip('"'), modified_ms)


def _names(schema: Any, wanted: list[str], where: str, arrow: Any) -> dict[str, str]:
    """Return the file's name of each wanted column."""
    found: dict[str, str] = {}
    for field in schema:
        name = column_name(field.name)
        if name not in wanted:
            continue
        if name in found or not any(getattr(arrow.types, test)(field.type) for test in _TYPES[name]):
            raise damaged(where, f"expected one column {field.name} of its usual type, found {field.type}")
        found[name] = field.name
    for name in wanted:
        if name not in found:
            raise damaged(where, f"expected the columns that the manifest states, found no {name}")
    return found


def _load_pyarrow(where: str) -> tuple[Any, Any, Any]:
    try:
        import pyarrow
        from pyarrow import compute, parquet
    except ImportError as error:
        raise UnsupportedFormatError(
            f"{where}: expected CSV, found Parquet, which needs pyarrow: pip install 'lakesweep[orc]'",
            code="inventory_needs_pyarrow",
        ) from error
    return pyarrow, compute, parquet
