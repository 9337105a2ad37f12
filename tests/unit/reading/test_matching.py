"""Positions of rows in data files of several batches and row groups, and beside deletion vectors."""

import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakesweep.format.vectors.vector import read_vector
from lakesweep.operations.reading.arrow import stores_of
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.delete_rows import delete_rows
from lakesweep.operations.rows.match import match_split
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.spark.opening import open_table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.open import DEFAULT_SETTINGS
from tests.support import data_bytes
from tests.support.rows_read import planned
from tests.support.table_builder import TableBuilder

ROWS, GROUP_ROWS = 300_000, 140_000


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """One file: `n` counts to 999 again and again, `v` is its text."""
    numbers = [row % 1_000 for row in range(ROWS)]
    columns = {"v": pa.array(map(str, numbers)), "n": pa.array(numbers, pa.int32())}
    body = io.BytesIO()
    parquet.write_table(pa.table(columns), body, row_group_size=GROUP_ROWS)
    monkeypatch.setattr(data_bytes, "parquet", lambda *_: body.getvalue())
    options = {"deletion-vectors.enabled": "true"}
    built = TableBuilder(LocalStore(str(tmp_path / "t")), real_rows=True, types={"n": "INT"}, options=options)
    built.commit("+A", rows={"A": ROWS})
    return built


def positions(table: TableBuilder, where: str) -> list[int]:
    plan = planned(table.store, where=where, columns=["n"])
    stores = stores_of(plan, table.store, None)
    (found,) = [match for split in plan.splits for match in match_split(stores, plan.shared, split)]
    rows = [*read_vector(found.blob, None, "").positions()]
    assert len(rows) == found.count
    return rows


@pytest.mark.parametrize("where", ["n = 7 OR n = 998", "v = '7' OR v = '998'"])
def test_batches_of_either_size(table: TableBuilder, tmp_path: Path, where: str) -> None:
    """Numbers come in larger batches than texts. What a vector deletes is not found again."""
    expected = [row for row in range(ROWS) if row % 1_000 in (7, 998)]
    assert positions(table, where) == expected
    opened = open_table(table.store.location, "main", str(tmp_path / "control"), DEFAULT_SETTINGS)
    arguments = DeleteRowsArguments("n = 7", catalog=Catalog("filesystem", True))
    assert delete_rows(opened, arguments, execute=True).status == "done"
    assert positions(table, where) == [row for row in expected if row % 1_000 == 998]
