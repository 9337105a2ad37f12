"""Deletion vectors in `files`, `show` and `explain`: from metadata alone, unless positions are asked for."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, RefusedError, StorageError
from lakesweep.model.roots import TableRef
from lakesweep.operations.inspect import vectors as inspected
from lakesweep.operations.inspect.explain.file import ExplainArguments, explain_file
from lakesweep.operations.inspect.files import list_files
from lakesweep.operations.inspect.show import summarise
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from tests.support.fixture_tables import TABLE_NAMES, expected_facts
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import call

ENABLED = {"deletion-vectors.enabled": "true"}
LATEST = Version()
NO_AREA: ControlArea | None = None


def table_at(store: Store, externals: Mapping[str, Store] | None = None, branch: str = "main") -> Table:
    return Table(TableRef(store.location, branch), store, NO_AREA, lambda location: (externals or {})[location])


def files_of(table: Table, version: Version = LATEST, *, positions: bool = False) -> dict[str, Any]:
    """Return path of a file -> its vector in the document."""
    found = list_files(table, version, with_vectors=True, with_positions=positions).to_json()
    assert json.loads(json.dumps(found)) == found
    files: Any = found["files"]
    return {file["path"]: file["deletion_vector"] for file in files}


def positions_in(table: TableBuilder, version: Version = LATEST) -> list[list[int]]:
    """Return the positions of each vector, by the path of its file."""
    files = files_of(table_at(table.store), version, positions=True)
    return [vector["positions"] for vector in files.values() if vector]


def built(store: Store | None = None, **words: Any) -> TableBuilder:
    """Two files with vectors in one index file, one without, in two partitions; ten rows each."""
    options = {**ENABLED, **words.pop("options", {})}
    table = TableBuilder(store or MemoryStore(), partition_keys=("dt",), options=options, **words)
    table.commit("+A", "+B", "+C", partition={"A": ("x",), "B": ("x",), "C": (None,)})
    table.commit(index={"I": {"A": [0, 7], "B": [3]}}, partition=("x",))
    return table


@pytest.mark.parametrize("bitmap64", [False, True])
def test_files_by_metadata_alone(bitmap64: bool) -> None:
    """Where each vector lies, its width too. The index files themselves are not read."""
    table = built(options={"deletion-vectors.bitmap64": str(bitmap64).lower()})
    table.remove("I")
    (first, second), width = table.model(table.root(2)).index[0].ranges, 64 if bitmap64 else 32
    assert files_of(table_at(table.store)) == {
        table.path("A"): {
            "index_file": table.path("I"),
            "offset": 1,
            "length": first[2],
            "width": width,
            "cardinality": 2,
        },
        table.path("B"): {
            "index_file": table.path("I"),
            "offset": second[1],
            "length": second[2],
            "width": width,
            "cardinality": 1,
        },
        table.path("C"): None,
    }
    with pytest.raises(StorageError, match=table.path("I")):
        files_of(table_at(table.store), positions=True)


def test_positions() -> None:
    """Of the version that is asked for, with vectors of both widths in one table."""
    table = built()
    table.alter(options={"deletion-vectors.bitmap64": "true"})
    table.commit("+D", index={"I": None, "J": {"D": [9]}}, partition=(None,))
    found = files_of(table_at(table.store), positions=True)
    assert {path: vector and (vector["width"], vector["positions"]) for path, vector in found.items()} == {
        table.path("A"): (32, [0, 7]),
        table.path("B"): (32, [3]),
        table.path("C"): None,
        table.path("D"): (64, [9]),
    }
    assert positions_in(table, Version(snapshot_id=2)) == [[0, 7], [3]]
    assert set(files_of(table_at(table.store), Version(snapshot_id=1)).values()) == {None}


def test_a_gap_hides_the_width() -> None:
    """Metadata do not tell it then, but the bytes do."""
    table = built()
    index = table.model(table.root(2)).index[0]
    table.corrupt("I", table.store.read(index.path).data + b"\0")
    edit_index(table, {"_FILE_SIZE": index.size + 1})
    assert [vector and vector["width"] for vector in files_of(table_at(table.store)).values()].count(None) == 2
    found = files_of(table_at(table.store), positions=True)
    assert [vector["width"] for vector in found.values() if vector] == [32, 32]


def edit_index(table: TableBuilder, *changes: dict[str, Any]) -> None:
    """Write the newest index manifest again, with records of its first file and other values."""
    from tests.support import metadata_files

    model = table.model(table.root(max(table.ids("snapshot"))))
    records = [{**model.index[0].record(), **change} for change in changes]
    body = metadata_files._avro(metadata_files._INDEX_MANIFEST, records)
    table.store.put(f"manifest/{model.document['indexManifest']}", body)


def state_cardinality(table: TableBuilder, cardinality: int | None) -> None:
    """Let the newest index manifest state another number of deleted rows for each vector."""
    (index,) = table.model(table.root(max(table.ids("snapshot")))).index
    edit_index(
        table,
        {
            "_DELETIONS_VECTORS_RANGES": [
                {"f0": name, "f1": at, "f2": length, "_CARDINALITY": cardinality}
                for name, at, length, _ in index.ranges
            ]
        },
    )


def test_vectors_that_readers_ignore() -> None:
    """An index manifest from before the option was turned off."""
    table = built()
    table.alter(options={"deletion-vectors.enabled": "false"})
    table.corrupt(f"manifest/{table.model(table.root(2)).document['indexManifest']}")
    assert set(files_of(table_at(table.store), positions=True).values()) == {None}
    assert summarise(table_at(table.store)).deletion_vectors is None


@pytest.mark.parametrize("where", ["beside", "outside"])
def test_other_places_of_index_files(where: str) -> None:
    """In the bucket's folder, and below a declared external root."""
    outside = MemoryStore("s3://elsewhere/root")
    externals: dict[str, Store] = {"s3://elsewhere/root": outside}
    table = TableBuilder(
        MemoryStore(), options={**ENABLED, "index-file-in-data-file-dir": str(where == "beside").lower()},
        externals=externals,
    )  # fmt: skip
    table.commit("+A")
    external = {"I": "s3://elsewhere/root/index-0"} if where == "outside" else None
    table.commit(index={"I": {"A": [4]}}, external=external)
    (vector,) = files_of(table_at(table.store, externals), positions=True).values()
    assert (vector["index_file"], vector["positions"]) == (table.path("I"), [4])
    assert vector["index_file"].startswith("bucket-0/" if where == "beside" else "s3://elsewhere/root/")


LIES: list[tuple[list[dict[str, Any]], str]] = [
    ([{}, {}], "one deletion vector for the data file"),
    ([{"_FILE_SIZE": 30}], "within 30 bytes"),
]


@pytest.mark.parametrize(("changes", "expected"), LIES)
def test_index_manifests_that_lie(changes: list[dict[str, Any]], expected: str) -> None:
    """One file in two index files, and lengths beyond the file: refused by metadata alone, also for `show`."""
    table = built()
    edit_index(table, *changes)
    for act in (
        lambda: files_of(table_at(table.store)),
        lambda: summarise(table_at(table.store)),
        lambda: summarise(table_at(table.store), by_partition=True),
    ):
        with pytest.raises(RefusedError, match=expected) as caught:
            act()
        assert caught.value.code == "corrupt_vectors"


@pytest.mark.parametrize(("rows", "stated", "expected"), [(10, 11, "at most 10"), (0, 1, "at most 0")])
def test_more_deleted_rows_than_a_file_has(rows: int, stated: int, expected: str) -> None:
    table = TableBuilder(MemoryStore(), options=ENABLED)
    table.commit("+A", rows={"A": rows})
    table.commit(index={"I": {"A": [0]}})
    state_cardinality(table, stated)
    for act in (lambda: files_of(table_at(table.store)), lambda: summarise(table_at(table.store), by_partition=True)):
        with pytest.raises(RefusedError, match=f"expected {expected} deleted rows of .* found {stated}") as caught:
            act()
        assert caught.value.code == "corrupt_vectors"


def test_a_negative_number_of_deleted_rows() -> None:
    table = built()
    state_cardinality(table, -1)
    for act in (
        lambda: files_of(table_at(table.store)),
        lambda: summarise(table_at(table.store)),
        lambda: summarise(table_at(table.store), by_partition=True),
    ):
        with pytest.raises(RefusedError, match=r"expected a number of deleted rows of data-.*, found -1") as caught:
            act()
        assert caught.value.code == "corrupt_vectors"


def test_two_vectors_in_the_same_bytes() -> None:
    table = built()
    (index,) = table.model(table.root(2)).index
    _, offset, length, _ = index.ranges[0]
    places = [{"f0": each[0], "f1": offset, "f2": length, "_CARDINALITY": 2} for each in index.ranges]
    edit_index(table, {"_DELETIONS_VECTORS_RANGES": places})
    for act in (lambda: files_of(table_at(table.store)), lambda: summarise(table_at(table.store))):
        with pytest.raises(RefusedError, match="expected deletion vectors apart from each other") as caught:
            act()
        assert caught.value.code == "corrupt_vectors"


def test_more_deleted_rows_than_rows(tmp_path: Path) -> None:
    """Vectors of files that are gone may count more than the live files have: no share is told then."""
    table = TableBuilder(LocalStore(str(tmp_path / "t")), options=ENABLED)
    table.commit("+A", index={"I": {"A": [0, 1, 2, 3, 4]}})
    table.commit("-A", "+B", rows={"B": 3})
    for by_partition, expected in ((False, (5, 3, None)), (True, (0, 3, 0.0))):
        found = summarise(table_at(table.store), by_partition=by_partition).deletion_vectors
        assert found is not None
        assert (found.deleted.deleted_rows, found.deleted.rows, found.deleted.share) == expected
    printed = call("show", tmp_path / "t").printed
    assert "5 of 3 rows, by 1 deletion vector, some of files that are gone (count them by --with-" in printed


def test_bytes_that_contradict_metadata() -> None:
    """A cardinality that the bytes do not have, and positions beyond the rows: found when positions are read."""
    table = TableBuilder(MemoryStore(), options=ENABLED)
    table.commit("+A", rows={"A": 10})
    table.commit(index={"I": {"A": [0, 9]}})
    assert positions_in(table) == [[0, 9]]
    state_cardinality(table, 3)
    assert files_of(table_at(table.store))[table.path("A")]["cardinality"] == 3
    with pytest.raises(FormatError, match="expected 3 deleted rows, found 2"):
        files_of(table_at(table.store), positions=True)

    table = TableBuilder(MemoryStore(), options=ENABLED)
    table.commit("+A", rows={"A": 10})
    table.commit(index={"I": {"A": [0, 10]}})
    with pytest.raises(RefusedError, match=r"expected deleted rows below 10 of .* found row 10") as caught:
        files_of(table_at(table.store), positions=True)
    assert caught.value.code == "corrupt_vectors"


def test_damage_and_absence() -> None:
    """An index manifest that is gone or damaged is no empty one; nor is an index file."""
    table = built()
    manifest = f"manifest/{table.model(table.root(2)).document['indexManifest']}"
    body = table.store.read(manifest).data
    for spoil in (lambda: table.store.put(manifest, body[:-3]), lambda: table.remove(manifest)):
        spoil()
        for act in (lambda: files_of(table_at(table.store)), lambda: summarise(table_at(table.store))):
            with pytest.raises(RefusedError, match=manifest) as caught:
                act()
            assert caught.value.code == "unreadable_root"
    table.store.put(manifest, body)
    table.corrupt("I", b"\1" + b"?" * (table.model(table.root(2)).index[0].size - 1))
    with pytest.raises(FormatError, match=table.path("I")):
        files_of(table_at(table.store), positions=True)


def test_too_many_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspected, "MOST_POSITIONS", 2)
    with pytest.raises(RefusedError, match="at most 2 deleted rows") as caught:
        files_of(table_at(built().store), positions=True)
    assert caught.value.code == "too_many_positions"


def test_the_deleted_share() -> None:
    """Of the table by the index manifest; by partition, and without vectors of files that are gone, by manifests."""
    table = built()
    shown = summarise(table_at(table.store)).to_json()["deletion_vectors"]
    whole = {"index_files": 1, "vectors": 2, "dangling": None, "deleted_rows": 3, "rows": 30, "share": 0.1}
    assert shown == {**whole, "partitions": None}
    parts = [{"partition": {"dt": "x"}, "files": 2, "deleted_rows": 3, "rows": 20, "share": 0.15}]
    shown = summarise(table_at(table.store), by_partition=True).to_json()["deletion_vectors"]
    assert shown == {**whole, "dangling": 0, "partitions": parts}

    table.commit("-B", "+D", rows={"D": 20}, partition=(None,), index={"I": None, "J": {"D": list(range(15))}})
    shown = summarise(table_at(table.store), by_partition=True).to_json()["deletion_vectors"]
    assert shown == {
        "index_files": 2, "vectors": 3, "dangling": 1, "deleted_rows": 17, "rows": 40, "share": 0.425,
        "partitions": [
            {"partition": {"dt": None}, "files": 1, "deleted_rows": 15, "rows": 30, "share": 0.5},
            {"partition": {"dt": "x"}, "files": 1, "deleted_rows": 2, "rows": 10, "share": 0.2},
        ],
    }  # fmt: skip
    older = summarise(table_at(table.store), Version(snapshot_id=1), by_partition=True).deletion_vectors
    assert older is not None
    assert (older.vectors, older.deleted.share, older.partitions) == (0, 0.0, ())


def test_vectors_without_counts() -> None:
    """Older writers recorded no cardinality: unknown is not zero."""
    table = built()
    state_cardinality(table, None)
    shown = summarise(table_at(table.store), by_partition=True).deletion_vectors
    assert shown is not None
    assert (shown.deleted.deleted_rows, shown.deleted.share) == (None, None)
    assert [vector["cardinality"] for vector in files_of(table_at(table.store)).values() if vector] == [None, None]
    assert positions_in(table) == [[0, 7], [3]]


def test_an_index_file_explained() -> None:
    """Which vectors an index file has, and which data files are gone; a hash index says its type."""
    table = built()
    table.commit("-B", "+D", partition=(None,), index={"I": None, "H": b"\0" * 8})
    explained = explain_file(table_at(table.store), table.path("I"), ExplainArguments())
    assert explained.index is not None
    assert (explained.index.type, explained.index.bucket) == ("DELETION_VECTORS", 0)
    assert explained.index.partition == {"dt": "x"}
    assert [(each.data_file, each.cardinality, each.width) for each in explained.index.vectors] == [
        (table.path("A").rpartition("/")[2], 2, 32),
        (table.path("B").rpartition("/")[2], 1, 32),
    ]
    hashed = explain_file(table_at(table.store), table.path("H"), ExplainArguments()).index
    assert hashed is not None
    assert (hashed.type, hashed.rows, hashed.vectors) == ("HASH", 2, ())
    assert explain_file(table_at(table.store), table.path("A"), ExplainArguments()).index is None


def test_dangling_vectors_explained() -> None:
    """No root names the data file any more."""
    table = built()
    table.commit("-B", index={"I": None})
    table.merge_manifests()
    for snapshot in (1, 2, 3):
        table.remove(table.root(snapshot))
    explained = explain_file(table_at(table.store), table.path("I"), ExplainArguments())
    assert explained.index is not None
    assert [each.is_dangling for each in explained.index.vectors] == [False, True]


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_real_tables(fixtures_dir: Path, name: str) -> None:
    """As many deleted rows as a full read found, in every snapshot of tables that engines wrote."""
    facts = expected_facts(fixtures_dir, name)
    store = LocalStore(str(fixtures_dir / "tables" / name))
    for branch, expected in facts["branches"].items():
        for snapshot in expected["snapshots"]:
            found = Outside(fixtures_dir, name)
            table = Table(TableRef(store.location, branch), store, NO_AREA, found)
            version = Version(snapshot_id=snapshot["id"])
            shown = summarise(table, version, by_partition=True).deletion_vectors
            files = files_of(table, version, positions=True)
            vectors = [vector for vector in files.values() if vector]
            assert sum(len(vector["positions"]) for vector in vectors) == snapshot["dv_deleted_rows"]
            assert shown is None or shown.vectors == sum(
                len(each["vectors"]) for each in snapshot["index_files"] if each["type"] == "DELETION_VECTORS"
            )
            assert all(vector["cardinality"] in (None, len(vector["positions"])) for vector in vectors)


class Outside:
    """Opens the external files of a fixture, wherever its tables lie now."""

    def __init__(self, fixtures: Path, name: str) -> None:
        self._folder = fixtures / "external" / name

    def __call__(self, location: str) -> Store:
        return LocalStore(str(self._folder))


def test_the_command_line(tmp_path: Path) -> None:
    """Text and JSON, of the three commands; what is wrong has an exit code and a code word."""
    table = built(LocalStore(str(tmp_path / "t")))
    printed = call("files", tmp_path / "t", "--positions").printed
    assert "DELETED" in printed
    assert f"{table.path('I')}, byte 1" in printed
    assert f"{table.path('A')}: 0, 7\n" in printed
    assert "DELETED" not in call("files", tmp_path / "t").printed
    found = call("files", tmp_path / "t", "--with-deletion-vectors", "--json").document["files"]
    assert [file["deletion_vector"] and file["deletion_vector"]["cardinality"] for file in found].count(None) == 1
    printed = call("show", tmp_path / "t", "--with-deletion-vectors").printed
    assert "3 of 30 rows (10.0%), by 2 deletion vectors in 1 index file" in printed
    assert "dt x: 3 of 20 rows (15.0%), in 2 files" in printed
    printed = call("explain", tmp_path / "t", table.path("I")).printed
    assert "2 deletion vectors, 3 deleted rows, bucket 0, dt x" in printed
    edit_index(table, {}, {})
    refused = call("files", tmp_path / "t", "--with-deletion-vectors", "--json")
    assert (refused.exit_code, refused.document["error"]["code"]) == (3, "corrupt_vectors")
