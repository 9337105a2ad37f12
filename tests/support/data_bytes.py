"""Contents of data files: filler of an exact size, or real Parquet rows."""

import io
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.support.binary_row import parse_type

_KEY_FIELD_OFFSET = 1_073_741_823


def filler(text: str, size: int) -> bytes:
    """Return `size` bytes that show whose they are."""
    line = f"{text}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def sample(type_: str, row: int) -> Any:
    """Return the value that row number `row` has in a column of this type."""
    keyword, _, scale = parse_type(type_)
    if keyword in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        return row
    if keyword in ("STRING", "VARCHAR", "CHAR"):
        return f"v{row:05d}"
    if keyword in ("FLOAT", "DOUBLE"):
        return row + 0.5
    if keyword == "BOOLEAN":
        return row % 2 == 0
    if keyword == "DATE":
        return date(2024, 1, 1) + timedelta(days=row)
    if keyword == "TIMESTAMP":
        return datetime(2024, 1, 1) + timedelta(seconds=row)
    if keyword == "DECIMAL":
        return Decimal(row).scaleb(-scale)
    raise NotImplementedError(f"sample values of type {type_}")


def parquet(fields: Sequence[Mapping[str, Any]], keys: Sequence[str], fixed: Mapping[str, Any], rows: int) -> bytes:
    """Return a Parquet file as a Paimon writer makes it.

    Args:
        fields: The schema's fields.
        keys: The primary key without partition columns; not empty for a primary-key table.
        fixed: Columns that have one value in every row: those of the partition.
        rows: How many rows; they differ in every other column.
    """
    import pyarrow as pa
    from pyarrow import parquet as writer

    columns: list[tuple[str, int, str, str | None]] = []
    if keys:
        types = {field["name"]: field for field in fields}
        columns += [(f"_KEY_{key}", types[key]["id"] + _KEY_FIELD_OFFSET, types[key]["type"], key) for key in keys]
        columns.append(("_SEQUENCE_NUMBER", 2147483646, "BIGINT NOT NULL", None))
        columns.append(("_VALUE_KIND", 2147483645, "TINYINT NOT NULL", None))
    columns += [(field["name"], field["id"], field["type"], field["name"]) for field in fields]

    arrays, described = [], []
    for name, field_id, type_, source in columns:
        if name == "_VALUE_KIND":
            values: list[Any] = [0] * rows
        elif source is not None and source in fixed:
            values = [fixed[source]] * rows
        else:
            values = [sample(type_, row) for row in range(rows)]
        arrays.append(pa.array(values, _arrow_type(type_)))
        described.append(
            pa.field(name, _arrow_type(type_), "NOT NULL" not in type_, {b"PARQUET:field_id": str(field_id).encode()})
        )
    target = io.BytesIO()
    writer.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(described)), target, compression="zstd")
    return target.getvalue()


def _arrow_type(type_: str) -> Any:
    import pyarrow as pa

    keyword, precision, scale = parse_type(type_)
    if keyword == "DECIMAL":
        return pa.decimal128(precision, scale)
    if keyword == "TIMESTAMP":
        return pa.timestamp("ms" if precision <= 3 else "us")
    plain = {
        "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
        "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DATE": pa.date32(),
    }  # fmt: skip
    return plain.get(keyword, pa.string())
