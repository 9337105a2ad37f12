"""An append table with deletion vectors whose data files have several formats, schemas and partitions, by pypaimon."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange

FORMATS = ("parquet", "orc", "avro")
ROWS = 30
"""Of each commit."""
_FIELDS: tuple[tuple[str, Any], ...] = (
    ("id", pa.int64()),
    ("day", pa.string()),
    ("x", pa.float64()),
    ("at", pa.timestamp("us")),
    ("seen", pa.timestamp("us", "UTC")),
    ("name", pa.string()),
)
_OPTIONS = {"bucket": "-1", "deletion-vectors.enabled": "true", "source.split.open-file-cost": "40 mb"}
"""Three data files make a split."""
_HOUR = 3_600_000_000


def mixed_table(folder: Path, **options: str) -> Path:
    """Return the location of a new table of 18 data files: three formats, three partitions, two schemas.

    Args:
        folder: The table is made below it.
        options: Further options, with `_` for `.` and `__` for `-`.
    """
    catalog = CatalogFactory.create({"warehouse": str(folder)})
    catalog.create_database("db", True)
    more = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    schema = Schema.from_pyarrow_schema(pa.schema(_FIELDS), partition_keys=["day"], options=_OPTIONS | more)
    catalog.create_table("db.t", schema, False)
    for number, format_ in enumerate(FORMATS):
        _write(catalog, format_, number, pa.schema(_FIELDS))
    catalog.alter_table("db.t", [SchemaChange.add_column("more", AtomicType("INT"))], False)
    for number, format_ in enumerate(FORMATS, len(FORMATS)):
        _write(catalog, format_, number, pa.schema([*_FIELDS, ("more", pa.int32())]))
    return folder / "db.db" / "t"


def _write(catalog: Any, format_: str, number: int, schema: Any) -> None:
    builder = catalog.get_table("db.t").copy({"file.format": format_}).new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    rows = range(number * ROWS, (number + 1) * ROWS)
    columns = {
        "id": [*rows],
        "day": [f"d{row % 3}" for row in rows],
        "x": [None if row % 7 == 0 else row / 2 for row in rows],
        "at": [row * _HOUR for row in rows],
        "seen": [row * _HOUR for row in rows],
        "name": [f"name {row % 10}" for row in rows],
        "more": [row % 4 for row in rows],
    }
    arrays = [pa.array(columns[name], schema.field(name).type) for name in schema.names]
    writer.write_arrow(pa.Table.from_arrays(arrays, schema=schema))
    committer.commit(writer.prepare_commit())
    writer.close()
    committer.close()
