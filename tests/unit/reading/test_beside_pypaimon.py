"""Lakesweep reads the rows and types that pypaimon reads, and those that pypaimon wrote."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory, Schema

from lakesweep.storage.local.store import LocalStore
from tests.support.rows_read import arrow_rows, planned

READ_BY_BOTH = (
    "parquet-append_table_row_tracking_with_compact",
    "parquet-append_with_bitmap",
    "parquet-append_with_bitmap_no_embedding",
    "parquet-append_with_global_index",
    "parquet-pk_dv_index_in_data_no_external",
    "parquet-pk_table_scan_and_read_first_row",
    "parquet-pk_table_with_alter_table",
    "parquet-pk_table_with_dv_cardinality",
)


def read_by_pypaimon(warehouse: Path) -> Any:
    builder = CatalogFactory.create({"warehouse": str(warehouse)}).get_table("db.t").new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def rows_of(table: Any) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("name", READ_BY_BOTH)
def test_real_tables(fixtures_dir: Path, tmp_path: Path, name: str) -> None:
    """Rows and types of the latest version."""
    (tmp_path / "db.db").mkdir()
    (tmp_path / "db.db" / "t").symlink_to(fixtures_dir / "tables" / name)
    store = LocalStore(str(fixtures_dir / "tables" / name))
    mine, theirs = arrow_rows(store, planned(store)), read_by_pypaimon(tmp_path)
    assert mine.schema.types == theirs.schema.types
    assert rows_of(mine) == rows_of(theirs)


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_what_pypaimon_writes(tmp_path: Path, format_: str) -> None:
    """Plain types, NULLs, and a partition."""
    schema = pa.schema(
        [
            ("dt", pa.string()), ("b", pa.bool_()), ("i", pa.int32()), ("l", pa.int64()), ("f", pa.float32()),
            ("d", pa.float64()), ("s", pa.string()), ("x", pa.binary()), ("day", pa.date32()),
            ("n", pa.decimal128(12, 3)), ("t", pa.timestamp("us")),
        ]
    )  # fmt: skip
    row = ["x", True, -5, 1 << 40, 1.5, -0.25, "\u00e4", b"\0\1", date(2024, 1, 2), Decimal("-12.345")]
    rows = [dict(zip(schema.names, [*row, datetime(2024, 1, 2, 3, 4, 5, 678)], strict=True))]
    rows.append({**dict.fromkeys(schema.names), "dt": "y"})
    catalog = CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("db", ignore_if_exists=True)
    options = {"bucket": "-1", "file.format": format_}
    made = Schema.from_pyarrow_schema(schema, partition_keys=["dt"], options=options)
    catalog.create_table("db.t", made, ignore_if_exists=False)
    builder = catalog.get_table("db.t").new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pa.Table.from_pylist(rows, schema))
    commit.commit(write.prepare_commit())
    store = LocalStore(str(tmp_path / "db.db" / "t"))
    mine = arrow_rows(store, planned(store))
    assert mine.schema.types == schema.types
    assert rows_of(mine) == rows_of(pa.Table.from_pylist(rows, schema))
