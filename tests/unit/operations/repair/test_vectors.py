"""Deletion vectors of lost files: left out where Paimon would refuse later commits, and left alone elsewhere."""

from typing import Any

import pytest

from tests.support.memory_store import MemoryStore
from tests.unit.operations.repair.repair_world import (
    RepairWorld,
    index_rows,
    repair_of,
    same_but,
    vanish,
    vectors_of,
)

UNAWARE = {"bucket": "-1", "deletion-vectors.enabled": "true"}


def world_with(vectors: dict[str, dict[str, list[int]]], **table: Any) -> RepairWorld:
    """Return a table with three files in one bucket and these index files, and lose file B."""
    world = RepairWorld(**{"options": UNAWARE, **table})
    world.table.commit("+A", "+B", "+C", partition=("d",), index=vectors)
    world.lose(world.table.path("B"))
    return world


@pytest.mark.parametrize("wide", [False, True], ids=["32 bit", "64 bit"])
@pytest.mark.parametrize("order", ["ABC", "BAC", "ACB"])
def test_a_new_index_file_has_the_other_vectors(order: str, wide: bool) -> None:
    vectors = {"I": {name: [ord(name) - 64, 9] for name in order}}
    options = {**UNAWARE, **({"deletion-vectors.bitmap64": "true"} if wide else {})}
    world = world_with(vectors, options=options)
    old = world.table.model("snapshot/snapshot-1")
    before = world.everywhere()
    expected = {name: data for name, data in vectors_of(world, 1).items() if name != _name(world, "B")}
    report = world.files()
    assert report.status == "done" and not report.warnings
    assert repair_of(report).dangling_vectors == 1
    assert vectors_of(world) == expected
    (row,) = index_rows(world)
    assert row["_FILE_NAME"] != old.index[0].name and row["_INDEX_TYPE"] == "DELETION_VECTORS"
    assert [each["_CARDINALITY"] for each in row["_DELETIONS_VECTORS_RANGES"]] == [2, 2]
    made = same_but(before, world.everywhere())
    assert len([path for path in made if path.startswith("index/")]) == 1


def test_an_index_file_of_lost_files_alone_is_left_out_and_others_are_copied() -> None:
    world = world_with({"I": {"B": [1]}, "J": {"A": [2], "C": [3]}})
    (_, kept) = index_rows(world, 1)
    report = world.files()
    assert repair_of(report).dangling_vectors == 1
    assert index_rows(world) == [kept]


def test_all_vectors_gone_leaves_a_file_without_rows() -> None:
    """As Paimon writes it: no index manifest at all would mean something else to some readers."""
    world = world_with({"I": {"B": [1]}})
    assert world.files().status == "done"
    assert index_rows(world) == []


def test_a_table_with_buckets_keeps_its_index_manifest() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}}, options={**UNAWARE, "bucket": "1"}, primary_keys=["id", "dt"])
    before = world.table.document("snapshot/snapshot-1")["indexManifest"]
    report = world.files()
    assert repair_of(report).dangling_vectors == 1
    assert world.newest().document["indexManifest"] == before


def test_an_index_beside_the_data_is_written_there() -> None:
    options = {**UNAWARE, "index-file-in-data-file-dir": "true"}
    world = world_with({"I": {"A": [1], "B": [2]}}, options=options)
    before = world.everywhere()
    assert world.files().status == "done"
    made = same_but(before, world.everywhere())
    assert [path.rpartition("/")[0] for path in made if "/index-" in path and "manifest" not in path] == [
        "dt=d/bucket-0"
    ]
    world.newest()


@pytest.mark.parametrize("damage", ["cut", "checksum", "version", "missing", "outside"])
def test_an_index_file_that_cannot_be_copied_stays_with_a_warning(damage: str) -> None:
    """Readers pass over vectors of files that are not there, so the rest of the table still reads."""
    outside = MemoryStore("memory://outside/x")
    world = RepairWorld(options=UNAWARE, externals={"memory://outside/x": outside} if damage == "outside" else {})
    places = {"external": {"I": "memory://outside/x/index-1"}} if damage == "outside" else {}
    world.table.commit("+A", "+B", "+C", partition=("d",), index={"I": {"A": [1], "B": [2]}}, **places)
    path = world.table.path("I")
    if damage != "outside":
        body = world.store.read(path).data
        vanish(world, path)
    if damage in ("cut", "checksum", "version"):
        made = {"cut": body[:20], "checksum": body[:12] + b"\xff" + body[13:], "version": b"\x02" + body[1:]}
        world.store.put(path, made[damage])
    world.lose(world.table.path("B"))
    before = world.table.document("snapshot/snapshot-1")["indexManifest"]
    report = world.files()
    assert report.status == "done"
    assert any("vectors of lost files stay" in each for each in report.warnings)
    document = world.store.read("snapshot/snapshot-2").data
    assert before.encode() in document
    assert repair_of(report).index_files == ((path,) if damage == "missing" else ())


@pytest.mark.parametrize(
    "option",
    [
        {"data-file.external-paths": "memory://outside/x"},
        {"deletion-vector.index-file.target-size": "large"},
    ],
    ids=["outside", "size"],
)
def test_options_that_allow_no_new_index_file_do_not_stop_a_repair(option: dict[str, str]) -> None:
    world = world_with({"I": {"A": [1], "B": [2]}}, options={**UNAWARE, **option})
    before = world.table.document("snapshot/snapshot-1")["indexManifest"]
    report = world.files()
    assert report.status == "done"
    assert any("vectors of lost files stay" in each and next(iter(option)) in each for each in report.warnings)
    assert world.newest().document["indexManifest"] == before


def test_vectors_that_are_large_get_several_index_files() -> None:
    world = world_with(
        {"I": {"A": [1], "B": [2], "C": [3]}},
        options={**UNAWARE, "deletion-vector.index-file.target-size": "1 b"},
    )
    expected = {name: data for name, data in vectors_of(world, 1).items() if name != _name(world, "B")}
    assert world.files().status == "done"
    assert vectors_of(world) == expected
    assert len(index_rows(world)) == 2


def test_a_missing_index_file_is_not_done_without() -> None:
    """Without it, deleted rows would return."""
    world = RepairWorld(options=UNAWARE)
    world.table.commit("+A", "+B", partition=("d",), index={"I": {"A": [1]}})
    path = world.lose(world.table.path("I"))
    report = world.files()
    assert report.status == "nothing_to_do"
    assert any(path in each for each in report.warnings)
    assert repair_of(world.files(execute=False)).index_files == (path,)
    assert any(path in each for each in world.files(execute=False).warnings)
    assert world.ids() == [1]


def test_an_index_of_keys_stays() -> None:
    world = RepairWorld(primary_keys=["id", "dt"], options={"bucket": "-1"})
    world.table.commit("+A", "+B", partition=("d",), index={"H": b"\0\0\0\1"})
    before = world.table.document("snapshot/snapshot-1")["indexManifest"]
    world.lose(world.table.path("B"))
    assert world.files().status == "done"
    assert world.newest().document["indexManifest"] == before


def _name(world: RepairWorld, symbol: str) -> str:
    return world.table.path(symbol).rpartition("/")[2]
