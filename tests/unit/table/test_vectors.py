"""Deletion vectors of a table: found by the index manifest, read by one ranged request, written where they belong."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lakesweep.commit.index_files import put_vectors, target_size
from lakesweep.errors import FormatError, RefusedError, StorageError
from lakesweep.format.manifest import IndexEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.vector import vector_of
from lakesweep.model.vectors import LocatedVector
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_schema
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores
from lakesweep.table.vectors import locate, read_vectors
from tests.support.binary_row import encode_row
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.support.vector_bytes import decode_file

ROW = encode_row((), ())


def schema_of(**options: str) -> TableSchema:
    table = TableBuilder(MemoryStore(), options=options)
    return read_schema(table.store, discover(table.store).branches["main"])


def put(store: MemoryStore, schema: TableSchema, rows: Mapping[str, Sequence[int]]) -> tuple[IndexEntry, ...]:
    vectors = ((name, vector_of(positions, 32)) for name, positions in rows.items())
    return put_vectors(store, schema, ROW, 0, vectors, lambda: None)


ROWS = {f"data-{number}": [number, 70_000 + number] for number in range(5)}


@pytest.mark.parametrize(("beside", "folder"), [("false", "index/"), ("true", "bucket-0/")])
def test_both_places(beside: str, folder: str) -> None:
    """New index files lie in the table's `index/`, or in the bucket's folder; what was written is read again."""
    store = MemoryStore()
    schema = schema_of(**{"index-file-in-data-file-dir": beside, "deletion-vector.index-file.target-size": "60 b"})
    entries = put(store, schema, ROWS)
    keys = [each.key for each in store.list("")]
    assert keys == sorted(f"{folder}{entry.file_name}" for entry in entries)
    assert [(entry.index_type, entry.row_count, entry.bucket) for entry in entries] == [
        ("DELETION_VECTORS", 2, 0)
    ] * 2 + [("DELETION_VECTORS", 1, 0)]
    names = [entry.file_name.rpartition("-") for entry in entries]
    assert len({name[0] for name in names}) == 1
    assert [name[2] for name in names] == ["0", "1", "2"]
    paths = TablePaths(schema)
    found = {}
    for entry in entries:
        body = store.read(paths.index_file(entry)).data
        assert len(body) == entry.file_size
        found |= decode_file(body, entry.vectors)
    assert found == ROWS
    located = locate(store, entries, paths)
    for (_, _, name), vector in located.items():
        (read,) = read_vectors(TableStores(store), [vector])
        assert (read.positions().tolist(), read.width, vector.width) == (ROWS[name], 32, 32)


@pytest.mark.parametrize(
    ("primary_keys", "options", "expected"),
    [
        ((), {}, 2 << 20),
        ((), {"deletion-vector.index-file.target-size": "1 kb"}, 1024),
        ((), {"bucket": "3"}, None),
        (("id",), {"bucket": "-1"}, None),
        (("id",), {"bucket": "2"}, None),
    ],
)
def test_the_size_of_index_files(primary_keys: Sequence[str], options: Mapping[str, str], expected: int | None) -> None:
    """Only tables without buckets roll."""
    table = TableBuilder(MemoryStore(), primary_keys=primary_keys, options=options)
    assert target_size(read_schema(table.store, discover(table.store).branches["main"])) == expected


def test_a_bucket_has_one_file() -> None:
    """Also without vectors: then the file has one byte."""
    store = MemoryStore()
    (entry,) = put(store, schema_of(bucket="1"), {})
    assert store.read(f"index/{entry.file_name}").data == b"\1"
    assert (entry.file_size, entry.row_count, entry.vectors) == (1, 0, ())
    assert len(put(store, schema_of(bucket="1"), ROWS)) == 1
    assert put(store, schema_of(), {}) == ()


def test_places_where_nothing_is_written() -> None:
    store = MemoryStore()
    for options, code in (
        ({"data-file.external-paths": "s3://other/place"}, "external_paths"),
        ({"deletion-vector.index-file.target-size": "many"}, "bad_option"),
    ):
        with pytest.raises(RefusedError) as caught:
            put(store, schema_of(**options), ROWS)
        assert caught.value.code == code
    assert not list(store.list(""))


class Counting(MemoryStore):
    """Notes the ranges that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[str, int, int]] = []

    def read_range(self, key: str, start: int, length: int) -> Any:
        self.ranges.append((key, start, length))
        return super().read_range(key, start, length)


def test_one_request_for_the_bytes_of_the_vectors() -> None:
    """For one vector its own bytes, for several of a file those from the first to the last, in the order asked for."""
    store = Counting()
    schema = schema_of()
    (entry,) = put(store, schema, ROWS)
    located = list(locate(store, [entry], TablePaths(schema)).values())
    stores, size = TableStores(store), located[0].length + 8
    (last,) = read_vectors(stores, located[4:])
    assert last.positions().tolist() == ROWS["data-4"]
    third, second = read_vectors(stores, [located[2], located[1]])
    assert [each.positions().tolist() for each in (third, second)] == [ROWS["data-2"], ROWS["data-1"]]
    path = f"index/{entry.file_name}"
    assert store.ranges == [(path, 1 + 4 * size, size), (path, 1 + size, 2 * size)]


def test_wide_vectors_at_the_end_of_a_file() -> None:
    """The request for the last vector does not go beyond the file, whichever width it has."""
    store = Counting()
    schema = schema_of()
    (entry,) = put_vectors(store, schema, ROW, 0, [("A", vector_of([1], 64)), ("B", vector_of([2], 64))], lambda: None)
    first, last = locate(store, [entry], TablePaths(schema)).values()
    assert [next(read_vectors(TableStores(store), [each])).positions().tolist() for each in (first, last)] == [[1], [2]]
    assert (first.width, last.width) == (64, 64)
    assert [length for _, _, length in store.ranges] == [first.length + 8, last.length]


def test_files_that_are_not_as_stated() -> None:
    """Shorter than stated, missing, or with bytes of another file."""
    store, schema = MemoryStore(), schema_of()
    (entry,) = put(store, schema, ROWS)
    path = f"index/{entry.file_name}"
    body = store.read(path).data
    *_, last = locate(store, [entry], TablePaths(schema)).values()
    store.put(path, body[:-1])
    with pytest.raises(StorageError) as caught:
        list(read_vectors(TableStores(store), [last]))
    assert caught.value.code == "too_short"
    store.put(path, body[:1] + body[:0:-1])
    with pytest.raises(FormatError, match=rf"{path}, deletion vector of 'data-4'"):
        list(read_vectors(TableStores(store), [last]))


def test_ranges_too_large_to_load() -> None:
    """What an index manifest states is no reason to reserve memory."""
    vector = LocatedVector("index/x", 1 << 40, "A", 1, 1 << 39, None, None)
    with pytest.raises(RefusedError) as caught:
        list(read_vectors(TableStores(MemoryStore()), [vector]))
    assert caught.value.code == "too_large"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((("A", 1, 20, 1),), (("A", 1, 20, 1),), "one deletion vector for the data file A"),
        ((("A", 1, 20, 1), ("A", 30, 20, 1)), (), "one deletion vector for the data file A"),
        ((("A", 1, 100, 1),), (), "within 100 bytes, found 100 bytes from byte 1 on"),
        ((("A", 0, 20, 1),), (), "found 20 bytes from byte 0 on"),
    ],
)
def test_index_manifests_that_contradict_themselves(first: Any, second: Any, expected: str) -> None:
    entries = [
        IndexEntry(ROW, 0, "DELETION_VECTORS", f"index-{number}", 100, len(vectors), None, vectors)
        for number, vectors in enumerate((first, second))
    ]
    with pytest.raises(RefusedError, match=expected) as caught:
        locate(MemoryStore(), entries, TablePaths(schema_of()))
    assert caught.value.code == "corrupt_vectors"


def test_equal_names_in_other_buckets() -> None:
    """A data file is known by partition, bucket and name."""
    entries = [
        IndexEntry(ROW, bucket, "DELETION_VECTORS", "index-0", 100, 1, None, (("A", 1, 20, 1),)) for bucket in (0, 1)
    ]
    assert len(locate(MemoryStore(), entries, TablePaths(schema_of()))) == 2
