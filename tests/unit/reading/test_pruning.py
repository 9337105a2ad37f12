"""Positions under pruning: which rows a vector deletes does not depend on the row groups that are read."""

import io
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakesweep.errors import RefusedError
from lakesweep.format.values.data_type import parse_fields
from lakesweep.format.vectors.vector import vector_of
from lakesweep.model.reading.plan import ReadColumn, ReadCounts, ReadFile, ReadPlan, Split
from lakesweep.model.vectors import LocatedVector
from lakesweep.model.where.arrow import to_arrow
from lakesweep.model.where.where import parse_where
from lakesweep.operations.reading.arrow import read_split, stores_of
from lakesweep.storage.local.store import LocalStore
from tests.support.binary_row import encode_row
from tests.support.fixture_tables import TABLE_NAMES
from tests.support.memory_store import MemoryStore
from tests.support.rows_read import arrow_rows, planned, read_rows
from tests.support.table_builder import TableBuilder

GROUPS, ROWS = 50, 40
FIELDS = parse_fields(
    [
        {"id": 0, "name": "n", "type": "INT"},
        {"id": 1, "name": "g", "type": "INT"},
        {"id": 2, "name": "s", "type": "STRING"},
        {"id": 3, "name": "d", "type": "DECIMAL(9, 2)"},
        {"id": 4, "name": "t", "type": "TIMESTAMP(6)"},
    ],
    "a test",
)


class Reads(MemoryStore):
    """Counts the bytes that are read of the data file."""

    read_bytes = 0

    def read_range(self, key: str, start: int, length: int) -> Any:
        self.read_bytes += length if key == "f" else 0
        return super().read_range(key, start, length)


def stored(deleted: Sequence[int], width: Any) -> tuple[Reads, ReadFile]:
    """A file of 50 row groups of 40 rows in small pages: `g` is the number of the row group."""
    count = GROUPS * ROWS
    table = pa.table(
        {
            "n": pa.array(range(count), pa.int32()),
            "g": pa.array([number // ROWS for number in range(count)], pa.int32()),
            "s": [None if number % 7 == 0 else f"text {number // ROWS:03d} {number}" for number in range(count)],
            "d": pa.array([Decimal(number // ROWS) for number in range(count)], pa.decimal128(9, 2)),
            "t": pa.array([1_000_000 * (number // ROWS) for number in range(count)], pa.timestamp("us")),
        }
    )
    target = io.BytesIO()
    parquet.write_table(
        table, target, row_group_size=ROWS, data_page_size=64, write_batch_size=8, store_decimal_as_integer=True
    )
    store = Reads()
    store.put("f", target.getvalue())
    vector = vector_of(deleted, width)
    store.put("index/i", b"\1" + bytes(vector.blob))
    located = LocatedVector("index/i", 1 + len(vector.blob), "f", 1, vector.length, width, vector.cardinality)
    file = ReadFile(
        "f",
        len(target.getvalue()),
        count,
        "parquet",
        0,
        level=0,
        bucket=0,
        partition=encode_row((), ()),
        vector=located,
    )
    return store, file


def plan_of(file: ReadFile, where: str | None) -> ReadPlan:
    return ReadPlan(
        table="memory://t", branch="main", snapshot_id=1, tag=None, schema_id=0, fields=FIELDS, partition_keys=(),
        primary_keys=(), columns=(ReadColumn(FIELDS[0], is_partition=False),), schemas={0: FIELDS},
        splits=(Split((file,)),), counts=ReadCounts(), where=None if where is None else parse_where(where, FIELDS),
    )  # fmt: skip


def numbers(store: Reads, file: ReadFile, where: str | None) -> list[int]:
    plan = plan_of(file, where)
    batches = read_split(stores_of(plan, store, None), plan, plan.splits[0])
    return [number for batch in batches for number in batch.column("n").to_pylist()]


def conditions(groups: Sequence[int]) -> list[str]:
    """Conditions that choose the rows of some row groups, by columns of several types."""
    listed = ", ".join(map(str, groups))
    return [
        f"g IN ({listed})",
        " OR ".join(f"d = {group}" for group in groups),
        " OR ".join(f"(s >= 'text {group:03d}' AND s < 'text {group + 1:03d}')" for group in groups),
        " OR ".join(f"t = TIMESTAMP '1970-01-01 00:00:{group:02d}'" for group in groups),
    ]


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("seed", range(2))
def test_each_set_of_row_groups(seed: int, width: int) -> None:
    """Any row groups are left out, and exactly the deleted rows are missing of the others."""
    random_ = random.Random(seed)
    count = GROUPS * ROWS
    deleted = sorted(random_.sample(range(count), random_.choice((1, 100, 900))))
    store, file = stored(deleted, width)
    gone = set(deleted)
    assert numbers(store, file, None) == [number for number in range(count) if number not in gone]
    whole = []
    for condition in conditions(range(GROUPS)):
        store.read_bytes = 0
        numbers(store, file, condition)
        whole.append(store.read_bytes)
    chosen = [(first,) for first in range(0, GROUPS, 17)]
    chosen += [tuple(sorted(random_.sample(range(GROUPS), random_.randint(2, 40)))) for _ in range(4)]
    for groups in chosen:
        for number, condition in enumerate(conditions(groups)):
            store.read_bytes = 0
            expected = [n for n in range(count) if n // ROWS in groups and n not in gone and (number != 2 or n % 7)]
            assert numbers(store, file, condition) == expected, condition
            assert len(groups) > 25 or store.read_bytes < whole[number]
    store.read_bytes = 0
    assert numbers(store, file, "g = 49 AND n < 0") == []
    assert store.read_bytes < whole[0]


@pytest.mark.parametrize("where", [None, "n >= 4"])
def test_rows_that_delete_others(where: str | None) -> None:
    """They are dropped after the vector, whose positions count them."""
    target = io.BytesIO()
    kinds = [0, 1, 2, 3] * 3
    columns = {"n": pa.array(range(12), pa.int32()), "_VALUE_KIND": pa.array(kinds, pa.int8())}
    parquet.write_table(pa.table(columns), target, row_group_size=4)
    store, file = stored([2, 3, 4, 9], 32)
    store.put("f", target.getvalue())
    file = file._replace(size_bytes=len(target.getvalue()), rows=12)
    plan = replace(plan_of(file, where), primary_keys=("n",))
    batches = read_split(stores_of(plan, store, None), plan, plan.splits[0])
    found = [number for batch in batches for number in batch.column("n").to_pylist()]
    assert found == [number for number in (0, 6, 8, 10) if where is None or number >= 4]


def table_of_partitions() -> TableBuilder:
    table = TableBuilder(MemoryStore(), real_rows=True, partition_keys=("dt",), types={"n": "INT"})
    table.commit("+A", "+B", "+C", partition={"A": ("x",), "B": ("y",), "C": (None,)})
    return table


@pytest.mark.parametrize(
    ("where", "rows", "pruned"),
    [
        ("dt = 'x'", 10, 2),
        ("dt IS NULL", 10, 2),
        ("dt <> 'x'", 10, 2),
        ("dt IN ('x', 'y') AND n >= 5", 10, 1),
        ("dt = 'z'", 0, 3),
        ("n = 3", 3, 0),
    ],
)
def test_partitions(where: str, rows: int, pruned: int) -> None:
    """Files of other partitions are not opened; columns of the condition need not be chosen."""
    table = table_of_partitions()
    plan = planned(table.store, where=where, columns=["v"])
    assert (plan.counts.pruned_files, plan.counts.files) == (pruned, 3 - pruned)
    found = read_rows(table.store, where=where, columns=["v"])
    assert len(found) == rows
    assert all(list(row) == ["v"] for row in found)


def test_another_partition_that_needs_a_merge() -> None:
    """It does not matter for rows of a compacted one."""
    table = TableBuilder(
        MemoryStore(), real_rows=True, partition_keys=("dt",), primary_keys=("dt", "id"), options={"bucket": "1"}
    )
    table.commit("+A@5", "+B", partition={"A": ("x",), "B": ("y",)})
    assert len(read_rows(table.store, where="dt = 'x'")) == 10


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_real_tables(fixtures_dir: Path, name: str) -> None:
    """What statistics of Avro and ORC manifests leave out has no row of the condition."""
    store = LocalStore(str(fixtures_dir / "tables" / name))
    try:
        whole = planned(store, open_store=LocalStore)
        found = arrow_rows(store, whole, LocalStore)
    except RefusedError:
        return
    for field in whole.fields:
        if field.type.root not in ("INT", "BIGINT", "VARCHAR", "DOUBLE"):
            continue
        values = {value for value in found[field.name].to_pylist() if value is not None}
        for value in sorted(values):
            literal = f"'{value}'" if isinstance(value, str) else value
            for order in ("=", "<", ">="):
                plan = planned(store, where=f"`{field.name}` {order} {literal}", open_store=LocalStore)
                assert plan.where is not None
                expected = found.filter(to_arrow(plan.where))
                assert arrow_rows(store, plan, LocalStore).to_pylist() == expected.to_pylist()
