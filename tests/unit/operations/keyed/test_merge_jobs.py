"""Jobs of a merge one by one: ties, sequence columns, upgrades, what is read of deeper files, and what is refused."""

import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.model.keyed import MergeJob
from lakesweep.model.reading.plan import ReadColumn
from lakesweep.operations.keyed.merging.merge import merge_job
from lakesweep.operations.reading.object_file import ObjectFile
from lakesweep.operations.reading.parquet import parquet_batches
from lakesweep.storage.store import delete_all
from lakesweep.table.stores import TableStores
from tests.support.keyed_runs import Bucket, Row, marks

PLAIN = {"id": "BIGINT NOT NULL", "v": "STRING"}


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(PLAIN, ["id"])


def values(bucket: Bucket, merged: Any) -> list[Row]:
    return [row[: len(bucket.fields)] for row in bucket.rows(merged)]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("batch_rows", [1, 3, None])
def test_forty_runs(bucket: Bucket, batch_rows: int | None, waits: bool) -> None:
    """Of each key the row of the last writer stays; threads read ahead where requests wait."""
    bucket.store.reads_wait = waits
    runs = [[bucket.file([(each, f"{run}") for each in range(run % 7, 60, run % 5 + 1)])] for run in range(40)]
    last = {each: f"{run}" for run in range(40) for each in range(run % 7, 60, run % 5 + 1)}
    merged = bucket.merge(runs, batch_rows=batch_rows, has_vectors=False)
    assert values(bucket, merged) == sorted(last.items())
    assert merged.rows_read == sum(run[0].file.rows for run in runs)
    assert (merged.marks, merged.is_upgraded) == ({}, False)


def test_new_file(bucket: Bucket) -> None:
    """An entry gets level, keys, sequence numbers and rows that delete others, as the rows have them."""
    runs = [[bucket.file([(3, "a", 20, 3), (5, "b", 21, 0)])], [bucket.file([(1, "c", 7, 2), (4, "d", 8, 1)])]]
    (file,) = bucket.merge(runs, level=3, drops_deletes=False).files
    assert (file.level, file.rows, file.delete_rows, file.source) == (3, 4, 2, 1)
    assert (file.min_sequence, file.max_sequence) == (7, 21)
    types = [bucket.fields[0].type]
    assert (decode_row(file.min_key, types, "low"), decode_row(file.max_key, types, "high")) == ((1,), (5,))


def test_nothing_is_left(bucket: Bucket) -> None:
    runs = [[bucket.file([(1, "a", 5, 3), (2, "b", 6, 1)])], [bucket.file([(1, "c", 1, 0), (2, "d", 2, 0)])]]
    merged = bucket.merge(runs)
    assert (merged.files, merged.rows, merged.rows_read) == ((), 0, 4)


def test_runs_of_several_files(bucket: Bucket) -> None:
    run = [bucket.file([(1, "a"), (2, "b")], 1), bucket.file([(5, "c"), (6, "d")], 1)]
    merged = bucket.merge([[bucket.file([(2, "e"), (5, "f")])], run], batch_rows=1)
    assert values(bucket, merged) == [(1, "a"), (2, "e"), (5, "f"), (6, "d")]


def test_equal_sequence_numbers(bucket: Bucket) -> None:
    """The earlier run counts, and within one file the later row."""
    one = bucket.file([(1, "a", 7, 0), (1, "b", 7, 0), (2, "c", 7, 0), (2, "d", 3, 0)])
    other = bucket.file([(1, "e", 7, 0), (2, "f", 7, 0)])
    for batch_rows in (1, 2, 3, None):
        assert values(bucket, bucket.merge([[one], [other]], batch_rows=batch_rows)) == [(1, "b"), (2, "c")]
        assert values(bucket, bucket.merge([[other], [one]], batch_rows=batch_rows)) == [(1, "e"), (2, "f")]
        assert values(bucket, bucket.merge([[one]], batch_rows=batch_rows)) == [(1, "b"), (2, "c")]


@pytest.mark.parametrize(
    ("type_", "ascending"),
    [
        ("INT", [None, -5, 7]),
        ("STRING", [None, "", "a", "a\0", "b" * 20]),
        ("DECIMAL(30, 0)", [None, -1, 1 << 70]),
        ("BOOLEAN", [None, False, True]),
        ("STRING", [None]),
        ("DECIMAL(30, 0)", [None]),
    ],
)
@pytest.mark.parametrize("is_descending", [False, True])
def test_sequence_columns(type_: str, ascending: list[Any], is_descending: bool) -> None:
    """They count before the sequence number. Null loses against all others, in both orders."""
    bucket = Bucket({"id": "INT NOT NULL", "s": type_, "t": "INT"}, ["id"])
    order = [*ascending[:1], *reversed(ascending[1:])] if is_descending else ascending
    best = order[-1]
    files = [
        bucket.file([(1, each, 5, 100 - place, 0), (2, best, number, place, 0)])
        for place, each in enumerate(order)
        for number in (1, 2)
    ]
    merged = bucket.merge(
        [[file] for file in files], sequence=("s", "t"), is_descending=is_descending, has_vectors=False
    )
    assert [(row[0], row[1], row[3]) for row in bucket.rows(merged)] == [
        (1, best, 101 - len(order)),
        (2, best, len(order) - 1),
    ]
    assert bucket.rows(merged)[1][2] == (1 if is_descending else 2)


def test_ignored_deletes_mark_nothing(bucket: Bucket) -> None:
    deep = bucket.file([(1, "a"), (2, "b")], 5)
    new = bucket.file([(1, "c", 100, 3), (2, "d", 101, 0)])
    merged = bucket.merge([[new]], [[deep]], ignores_deletes=True)
    assert (values(bucket, merged), marks(merged)) == ([(2, "d")], {deep.name: [1]})


def test_rows_above_level_0_mark_nothing(bucket: Bucket) -> None:
    """What lies below such a row was marked when it went up."""
    deep = bucket.file([(1, "a"), (2, "b"), (3, "c")], 5)
    upper, new = bucket.file([(2, "d")], 1), bucket.file([(2, "e"), (3, "f")])
    assert marks(bucket.merge([[new], [upper]], [[deep]])) == {deep.name: [2]}
    bucket.store.delete(delete_all([deep.file.path]))
    assert bucket.merge([[upper]], [[deep]]).rows == 1


def test_dropped_deletes_mark(bucket: Bucket) -> None:
    deep = [bucket.file([(1, "a"), (2, "b")], 4), bucket.file([(3, "c"), (4, "d"), (9, "e")], 4)]
    merged = bucket.merge([[bucket.file([(2, "x", 50, 3), (4, "y", 51, 1), (7, "z", 52, 3)])]], [deep], batch_rows=1)
    assert (merged.files, marks(merged), merged.marked) == ((), {deep[0].name: [1], deep[1].name: [1]}, 2)


def test_bytes_of_deeper_files(bucket: Bucket) -> None:
    """Only footers, and the columns of the key in the row groups with keys of the job."""
    rows = [(each, f"{each * 7919 % 1000003} and a long text") for each in range(0, 400_000, 2)]
    deep = bucket.file(rows, 5, group_rows=20_000)
    new = bucket.file([(each, "new") for each in range(100_000, 140_000, 1000)])
    body = bucket.store.read(deep.file.path).data
    metadata = parquet.ParquetFile(io.BytesIO(body)).metadata
    names = {metadata.schema.column(number).name: number for number in range(metadata.num_columns)}
    wanted = [2, 3]  # keys from 80 000 on, and from 120 000 on
    size = sum(metadata.row_group(group).column(names["id"]).total_compressed_size for group in wanted)
    size += sum(metadata.row_group(group).column(names["_VALUE_KIND"]).total_compressed_size for group in wanted)
    read = _bytes_by_path(bucket)
    merged = bucket.merge([[new]], [[deep]])
    assert marks(merged) == {deep.name: list(range(50_000, 70_000, 500))}
    footer = 65_536  # pyarrow asks for as much
    assert read[deep.file.path] == size + footer


def _bytes_by_path(bucket: Bucket) -> dict[str, int]:
    found: dict[str, int] = {}
    plain = bucket.store.read_range

    def read_range(key: str, start: int, length: int) -> Any:
        found[key] = found.get(key, 0) + length
        return plain(key, start, length)

    bucket.store.read_range = read_range  # type: ignore[method-assign]
    return found


def test_deeper_files_outside_are_not_read(bucket: Bucket) -> None:
    deep = [bucket.file([(1, "a")], 5), bucket.file([(5, "b")], 5), bucket.file([(9, "c")], 5)]
    read = _bytes_by_path(bucket)
    assert marks(bucket.merge([[bucket.file([(4, "x"), (5, "y")])]], [deep])) == {deep[1].name: [0]}
    assert not read.keys() & {deep[0].file.path, deep[2].file.path}


def test_two_visible_rows_below(bucket: Bucket) -> None:
    """The table is damaged: nobody knows which row is the right one."""
    one, other = bucket.file([(1, "a"), (2, "b")], 4), bucket.file([(2, "c")], 5)
    new = bucket.file([(2, "d")])
    with pytest.raises(RefusedError, match=r"data-0.parquet and one in .*data-1.parquet") as caught:
        bucket.merge([[new]], [[one], [other]])
    assert caught.value.code == "duplicate_keys"
    hidden = one._replace(file=one.file._replace(vector=bucket.vector(one.name, [1])))
    assert marks(bucket.merge([[new]], [[hidden], [other]])) == {other.name: [0]}


# Upgrades.


def test_upgrade(bucket: Bucket) -> None:
    """The file stays, and only its keys and kinds are read."""
    deep = bucket.file([(1, "a"), (2, "b"), (3, "c")], 5)
    new = bucket.file([(2, "d"), (3, "e"), (8, "f")])
    merged = bucket.merge([[new]], [[deep]], is_upgrade=True, batch_rows=1)
    assert (merged.is_upgraded, merged.files, merged.rows_read) == (True, (), 3)
    assert marks(merged) == {deep.name: [1, 2]}


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ([(2, "d", 7, 0), (2, "e", 8, 0), (3, "f", 9, 0)], [(2, "e"), (3, "f")]),
        ([(2, "d", 7, 3), (3, "f", 9, 0)], [(3, "f")]),
        ([(2, "d", 7, 0), (3, "f", 9, 1)], [(2, "d")]),
        ([(2, "d", 7, 3), (3, "f", 9, 1)], []),
    ],
)
def test_upgrade_that_needs_a_merge(bucket: Bucket, rows: list[Row], left: list[Row]) -> None:
    """A key comes twice, or rows that delete others have to go."""
    deep = bucket.file([(2, "a"), (3, "b")], 5)
    merged = bucket.merge([[bucket.file(rows)]], [[deep]], is_upgrade=True, batch_rows=1)
    assert (merged.is_upgraded, values(bucket, merged)) == (False, left)
    assert marks(merged) == {deep.name: [0, 1]}


def test_upgrade_keeps_deletes(bucket: Bucket) -> None:
    """Deeper rows are still there, which readers merge."""
    merged = bucket.merge([[bucket.file([(2, "d", 7, 3)])]], is_upgrade=True, drops_deletes=False, has_vectors=False)
    assert merged.is_upgraded


# What is refused.


@pytest.mark.parametrize(
    ("rows", "stated", "said"),
    [
        ([(2, "a"), (1, "b")], {}, "rows that ascend"),
        ([(1, "a"), (2, "b")], {"low": (2,)}, "keys between"),
        ([(1, "a"), (2, "b")], {"high": (1,)}, "keys between"),
        ([(1, "a", 5, 0), (2, "b", 9, 0)], {"max_sequence": 8}, "sequence numbers from 5 to 8"),
        ([(1, "a"), (None, "b")], {"low": (1,), "high": (2,)}, "a value of the key column id"),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, None])
def test_files_that_are_not_as_stated(
    bucket: Bucket, rows: list[Row], stated: dict[str, Any], said: str, batch_rows: int | None
) -> None:
    """Nothing of them is used, and no file is written."""
    known = {"low": (0,), "high": (9,)} | stated
    file = bucket.file(rows, **known)
    other = bucket.file([(0, "x")])
    with pytest.raises(RefusedError, match=f"bucket-0/data-0.parquet: expected {said}") as caught:
        bucket.merge([[file], [other]], batch_rows=batch_rows)
    assert caught.value.code == "unsorted_file"
    assert len(list(bucket.store.list("bucket-0/"))) == 2


def test_smaller_sequence_numbers_than_stated(bucket: Bucket) -> None:
    file = bucket.file([(1, "a", 5, 0)])
    file = file._replace(file=file.file._replace(min_sequence=6))
    with pytest.raises(RefusedError, match="sequence numbers from 6 to 5"):
        bucket.merge([[file]])


def test_deeper_files_that_are_not_as_stated(bucket: Bucket) -> None:
    deep = bucket.file([(2, "a"), (1, "b")], 5)
    with pytest.raises(RefusedError) as caught:
        bucket.merge([[bucket.file([(1, "c"), (2, "d")])]], [[deep]])
    assert caught.value.code == "unsorted_file"


@pytest.mark.parametrize("kind", [-1, 4])
def test_unknown_kinds(bucket: Bucket, kind: int) -> None:
    with pytest.raises(FormatError, match="kinds of rows from 0 to 3"):
        bucket.merge([[bucket.file([(1, "a", 5, kind)])]])


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("is_deep", [False, True])
def test_missing_files(bucket: Bucket, is_deep: bool, waits: bool) -> None:
    bucket.store.reads_wait = waits
    new, deep = bucket.file([(1, "a"), (2, "b")]), bucket.file([(1, "c")], 5)
    bucket.store.delete(delete_all([(deep if is_deep else new).file.path]))
    with pytest.raises(RefusedError) as caught:
        bucket.merge([[new]], [[deep]])
    assert caught.value.code == "missing_data_file"


def test_a_guard_that_says_no(bucket: Bucket) -> None:
    """It is asked before each file."""

    def refuse() -> None:
        raise RefusedError("no")

    bucket.store.reads_wait = True
    with pytest.raises(RefusedError, match="no"):
        bucket.merge([[bucket.file([(1, "a")])], [bucket.file([(2, "b")])]], before_each=refuse)
    assert len(list(bucket.store.list("bucket-0/"))) == 2


def test_columns_of_older_schemas(bucket: Bucket) -> None:
    """A file has the columns of its own schema; rows get those of the latest one."""
    old = bucket.file([(1, "5"), (2, "6")])
    later = (bucket.fields[0], DataField(1, "w", parse_data_type("STRING", "a test")))
    later = (*later, DataField(7, "x", parse_data_type("INT", "a test")))
    work = bucket.work(has_vectors=False)
    columns = tuple(ReadColumn(field, False) for field in later)
    plan = replace(work.plan, fields=later, columns=columns, schemas={0: tuple(bucket.fields), 1: later})
    bucket.fields = list(later)
    new = bucket.file([(2, "n", 9)])
    new = new._replace(file=new.file._replace(schema_id=1))
    work = replace(bucket.work(has_vectors=False), plan=plan)
    merged = merge_job(TableStores(bucket.store), work, MergeJob(5, ((old,), (new,))))
    assert values(bucket, merged) == [(1, "5", None), (2, "n", 9)]


def test_thin_files(bucket: Bucket) -> None:
    deep, new = bucket.file([(1, "a"), (2, "b")], 5, is_thin=True), bucket.file([(2, "c")], is_thin=True)
    merged = bucket.merge([[new]], [[deep]], is_thin=True)
    assert (values(bucket, merged), marks(merged)) == ([(2, "c")], {deep.name: [1]})
    body = bucket.store.read(f"bucket-0/{merged.files[0].name}").data
    assert parquet.ParquetFile(pa.BufferReader(body)).schema_arrow.names[0] == "_SEQUENCE_NUMBER"


def test_large_rows_come_in_small_batches(bucket: Bucket) -> None:
    """So that the rows of all runs have room in memory, however well a file is packed."""
    file = bucket.file([(each, f"{each:04}" + "x" * 10_000) for each in range(100)], group_rows=40).file
    source = ObjectFile(bucket.store, file.path, file.size_bytes)
    batches = list(parquet_batches(source, file, bucket.fields, batch_rows=30, batch_bytes=50_000))
    assert [batch.num_rows for _, batch in batches] == [*[4] * 10, *[4] * 10, *[4] * 5]
    assert [first for first, _ in batches] == list(range(0, 100, 4))
    few = [
        batch.num_rows
        for _, batch in parquet_batches(source, file, bucket.fields[:1], batch_rows=30, batch_bytes=50_000)
    ]
    assert few == [30, 10, 30, 10, 20]
