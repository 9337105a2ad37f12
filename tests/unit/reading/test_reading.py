"""Rows of a version, read as Arrow batches: append tables, primary-key tables, vectors, partitions, refusals."""

import pickle
from typing import Any

import pytest

from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.runs.parameters.time_travel import Version
from tests.support.memory_store import MemoryStore
from tests.support.rows_read import arrow_rows, planned, read_rows
from tests.support.table_builder import TableBuilder

ENABLED = {"deletion-vectors.enabled": "true"}


def table_of(**words: Any) -> TableBuilder:
    return TableBuilder(MemoryStore(), real_rows=True, **words)


def built(**words: Any) -> TableBuilder:
    """Three files of ten rows in two partitions, two of them with a vector."""
    table = table_of(partition_keys=("dt",), types={"n": "INT"}, options=ENABLED, **words)
    table.commit("+A", "+B", "+C", partition={"A": ("x",), "B": ("x",), "C": (None,)})
    table.commit(index={"I": {"A": [0, 7], "B": [9]}}, partition=("x",))
    return table


def numbers(rows: list[dict[str, Any]], dt: str | None) -> list[int]:
    return sorted(row["n"] for row in rows if row["dt"] == dt)


@pytest.mark.parametrize("bitmap64", [False, True])
def test_rows_that_vectors_delete_are_left_out(bitmap64: bool) -> None:
    """Of both widths; the snapshot before has them still."""
    table = table_of(partition_keys=("dt",), types={"n": "INT"}, options=ENABLED)
    table.commit("+A", "+C", partition={"A": ("x",), "C": (None,)})
    table.commit(index={"I": {"A": [0, 7]}}, partition=("x",))
    rows = read_rows(table.store)
    assert numbers(rows, "x") == [1, 2, 3, 4, 5, 6, 8, 9]
    assert numbers(rows, None) == list(range(10))
    assert numbers(read_rows(table.store, Version(snapshot_id=1)), "x") == list(range(10))


def test_columns_in_the_order_of_the_caller() -> None:
    """Also the partition alone, for which no column of a file is read."""
    table = built()
    assert read_rows(table.store, columns=["dt", "n"])[0] == {"dt": None, "n": 0}
    alone = read_rows(table.store, columns=["dt"])
    assert sorted(str(row["dt"]) for row in alone) == ["None"] * 10 + ["x"] * 17


def test_counts_of_a_plan() -> None:
    """Rows before vectors, deleted rows, files; everything pickles."""
    plan = planned(built().store)
    assert (plan.snapshot_id, plan.counts.files, plan.counts.rows, plan.counts.deleted_rows) == (2, 3, 30, 3)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert len(pickle.dumps(plan.splits[0])) < 3000


def test_splits_are_bounded() -> None:
    """A split is closed before it gets larger than the option says; small files count as 4 MB."""
    table = table_of(options={"source.split.target-size": "8 mb"})
    table.commit("+A", "+B", "+C", "+D", "+E")
    assert [len(split.files) for split in planned(table.store).splits] == [2, 2, 1]


def test_primary_keys_with_vectors() -> None:
    """Level 0 is left out and counted; rows come from levels above."""
    table = table_of(primary_keys=("id",), options=ENABLED)
    table.commit("+A@5", "+B")
    table.commit(index={"I": {"A": [3]}})
    plan = planned(table.store)
    assert (plan.counts.level_0_files, plan.counts.level_0_rows) == (1, 10)
    assert [row["id"] for row in arrow_rows(table.store, plan).to_pylist()] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(("files", "readable"), [(["+A@5"], True), (["+A"], False), (["+A@4", "+B@5"], False)])
def test_primary_keys_without_vectors(files: list[str], readable: bool) -> None:
    """Only a compacted bucket is read."""
    table = table_of(primary_keys=("id",))
    table.commit(*files)
    if readable:
        assert len(read_rows(table.store)) == 10
        return
    with pytest.raises(RefusedError, match="need a merge") as refused:
        planned(table.store)
    assert refused.value.code == "needs_merge"


def test_a_missing_data_file_is_named() -> None:
    """No partial result by itself."""
    table = built()
    table.remove("B")
    with pytest.raises(RefusedError, match=table.path("B")) as refused:
        read_rows(table.store)
    assert refused.value.code == "missing_data_file"


def test_a_damaged_data_file() -> None:
    """It is no empty file."""
    table = built()
    body = table.store.read(table.path("B")).data
    table.corrupt("B", b"\0" * len(body))
    with pytest.raises(FormatError, match=table.path("B")):
        read_rows(table.store)


def test_a_column_that_does_not_exist() -> None:
    """The message names those that do."""
    with pytest.raises(UsageError, match="expected one of the columns v, ") as wrong:
        planned(built().store, columns=["x"])
    assert wrong.value.code == "no_such_column"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"scan.fallback-branch": "rt"}, "several_branches"),
        ({"chain-table.enabled": "true"}, "several_branches"),
        ({"scan.snapshot-id": "1"}, "version_in_options"),
        ({"scan.mode": "from-timestamp"}, "version_in_options"),
        ({"source.split.target-size": "much"}, "bad_option"),
    ],
)
def test_options_that_change_what_readers_see(options: dict[str, str], code: str) -> None:
    """They are refused, not overlooked; a named version counts more than one in the options."""
    table = table_of(options=options)
    table.commit("+A")
    with pytest.raises(RefusedError) as refused:
        planned(table.store)
    assert refused.value.code == code
    if code == "version_in_options":
        assert len(read_rows(table.store, Version(snapshot_id=1))) == 10


def test_a_table_that_lost_its_primary_key() -> None:
    """Its older files have rows that delete others, which a reader of the new schema would not see."""
    table = table_of(primary_keys=("id",))
    table.commit("+A@5")
    table.alter(primary_keys=[])
    assert len(read_rows(table.store, Version(snapshot_id=1))) == 10
    with pytest.raises(RefusedError, match="without a primary key") as refused:
        planned(table.store)
    assert refused.value.code == "needs_merge"


def test_files_that_wait_for_their_bucket() -> None:
    """No reader sees them, so the result would lack rows."""
    table = table_of(primary_keys=("id",), options={"bucket": "-2"})
    table.commit("+A", bucket=-2)
    with pytest.raises(RefusedError) as refused:
        planned(table.store)
    assert refused.value.code == "postponed_files"


def test_an_empty_branch() -> None:
    """No snapshot, no rows."""
    table = table_of()
    plan = planned(table.store)
    assert (plan.snapshot_id, plan.splits) == (None, ())
    assert arrow_rows(table.store, plan).num_rows == 0
