"""Data files of a table with a primary key: their keys as Python orders them, and keys that cannot be."""

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from lakesweep.errors import RefusedError
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.model.keyed import KeyedFile
from lakesweep.model.vectors import LocatedVector
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.reach.keyed_files import keyed_files
from lakesweep.table.vectors import VectorKey
from tests.support import table_files
from tests.support.binary_row import encode_row
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TableBuilder]:
    """Return a function that makes a table and one data file `A` with given keys: type -> smallest, largest."""

    def made(keys: Mapping[str, tuple[Any, Any]], **given: Any) -> TableBuilder:
        def sample(type_: str, row: int) -> Any:
            return keys[type_.removesuffix(" NOT NULL")][row > 0]

        monkeypatch.setattr(table_files.data_bytes, "sample", sample)
        types = {f"k{number}": type_ for number, type_ in enumerate(keys)}
        primary_keys = (*types, *given.get("partition_keys", ()))
        table = TableBuilder(MemoryStore(), primary_keys=primary_keys, types=types, **given)
        table.commit("+A")
        return table

    return made


def read(
    table: TableBuilder, located: Mapping[VectorKey, LocatedVector] | None = None, **given: Any
) -> tuple[KeyedFile, ...]:
    own = discover(table.store).branches["main"]
    (root,) = read_roots(table.store, own.snapshots[-1:]).roots
    return keyed_files(table.store, root, read_schema(table.store, own), located or {}, **given)


def test_a_file(write: Callable[..., TableBuilder]) -> None:
    table = write({"INT": (3, 9)}, options={"bucket": "4"})
    table.commit("-A", "+A@5", kind="COMPACT", file_source={"A": 1})
    (file,) = read(table)
    assert (file.low, file.high, file.level, file.max_sequence, file.total_buckets) == ((3,), (9,), 5, 9, 4)
    assert (file.delete_rows, file.file.path) == (0, table.path("A"))
    assert file.name == table.path("A").rpartition("/")[2]


def test_levels_on_which_a_file_was_before_a_rollback(write: Callable[..., TableBuilder]) -> None:
    """A DELETE stands there; those of upper levels do not matter, since files only move to deeper ones."""
    table = write({"INT": (3, 9)})
    table.commit("-A", "+A@4", kind="COMPACT")
    assert [(file.level, file.deleted_on) for file in read(table)] == [(4, frozenset())]
    table.commit("-A", "+A@0", kind="OVERWRITE", merge_base=True)
    assert [(file.level, file.deleted_on) for file in read(table)] == [(0, frozenset((4,)))]
    table.commit(merge_base=True)
    assert [(file.level, file.deleted_on) for file in read(table)] == [(0, frozenset())]


@pytest.mark.parametrize(
    ("type_", "low", "high", "as_key"),
    [
        ("STRING", "\uffff", "\U00010000", (b"\xef\xbf\xbf", b"\xf0\x90\x80\x80")),
        ("TIMESTAMP(3)", datetime(1970, 1, 1), datetime(1970, 1, 2), (Timestamp(0, 0), Timestamp(86_400_000, 0))),
        ("DECIMAL(30, 1)", Decimal("-2.5"), Decimal("10.0"), (Decimal("-2.5"), Decimal("10.0"))),
        ("BOOLEAN", False, True, (False, True)),
    ],
)
def test_keys_have_the_order_of_paimon(
    write: Callable[..., TableBuilder], type_: str, low: Any, high: Any, as_key: tuple[Any, Any]
) -> None:
    """Text by its UTF-8: by UTF-16, as Java's own strings are compared, the two would be the other way round."""
    (file,) = read(write({type_: (low, high)}))
    assert (file.low, file.high) == ((as_key[0],), (as_key[1],))
    assert file.low < file.high


def test_keys_come_in_the_order_of_the_primary_key_without_the_partition(write: Callable[..., TableBuilder]) -> None:
    table = write({"STRING": ("a", "b"), "INT": (7, 1)}, partition_keys=("dt",))
    table.commit("+B", partition=("x",))
    files = read(table)
    assert [(file.low, file.high) for file in files] == [((b"a", 7), (b"b", 1))] * 2
    chosen = files[1].file.partition
    assert read(table, chosen=lambda partition: partition == chosen) == files[1:]


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (9, 3, "expected keys up to _MAX_KEY, found a _MIN_KEY above it"),
        (None, 3, "_MIN_KEY: expected a value of the key column k0, found null"),
        (3, None, "_MAX_KEY: expected a value of the key column k0, found null"),
    ],
)
def test_keys_that_cannot_be(write: Callable[..., TableBuilder], low: Any, high: Any, says: str) -> None:
    table = write({"INT": (low, high)})
    with pytest.raises(RefusedError) as refused:
        read(table)
    assert refused.value.code == "corrupt_keys"
    assert str(refused.value).startswith(f"table {table.store.location}, {table.path('A')}")
    assert str(refused.value).endswith(says)


def test_one_key_is_a_range(write: Callable[..., TableBuilder]) -> None:
    (file,) = read(write({"INT": (3, 3)}))
    assert file.low == file.high == (3,)


def test_bytes_that_are_no_key(write: Callable[..., TableBuilder], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file that was written without a primary key has them."""
    monkeypatch.setattr(table_files, "encode_row", lambda types, values: encode_row((), ()))
    with pytest.raises(RefusedError, match="_MIN_KEY: expected a row of 1 fields, found 0") as refused:
        read(write({"INT": (3, 9)}))
    assert refused.value.code == "corrupt_keys"


def test_a_file_that_is_there_twice(write: Callable[..., TableBuilder]) -> None:
    table = write({"INT": (3, 9)})
    table.commit("+A@5")
    with pytest.raises(RefusedError, match="once, found it on level 0 and on level 5"):
        read(table)


def test_vectors(write: Callable[..., TableBuilder]) -> None:
    table = write({"INT": (3, 9)})
    (file,) = read(table)
    vector = LocatedVector("index/i", 100, file.name, 1, 10, 32, 10)
    (found,) = read(table, {file.file.vector_key: vector})
    assert found.file.vector is vector
    with pytest.raises(RefusedError, match="at most 10 deleted rows"):
        read(table, {file.file.vector_key: vector._replace(cardinality=11)})


def test_a_missing_manifest(write: Callable[..., TableBuilder]) -> None:
    table = write({"INT": (3, 9)})
    (name,) = {manifest.name for manifest in table.model(table.root(1)).delta}
    table.remove(f"manifest/{name}")
    with pytest.raises(RefusedError) as refused:
        read(table)
    assert refused.value.code == "unreadable_root"
