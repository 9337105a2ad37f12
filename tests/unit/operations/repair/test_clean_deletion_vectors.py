"""Deletion vectors of files that are gone leave the index; nothing else of the table changes."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import fastavro
import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.commits.vectors import VectorsReport
from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import NOT_EXECUTABLE
from tests.support.acting import Acting
from tests.support.live_records import live_records
from tests.support.memory_store import MemoryStore
from tests.unit.operations.repair.repair_world import (
    FILES,
    RepairWorld,
    index_path,
    index_rows,
    refusal_of,
    same_but,
    vanish,
    vectors_of,
)

UNAWARE = {"bucket": "-1", "deletion-vectors.enabled": "true"}
BUCKETS = {"bucket": "2", "deletion-vectors.enabled": "true"}


def world_with(
    index: dict[str, Any], *, gone: str = "B", options: dict[str, str] | None = None, **table: Any
) -> RepairWorld:
    """Return a table with three files in one bucket and these index files, of which some files are gone."""
    world = RepairWorld(options=options or UNAWARE, **table)
    world.table.commit("+A", "+B", "+C", partition=("d",), bucket=0, index=index)
    if gone:
        world.table.commit(*(f"-{name}" for name in gone), kind="OVERWRITE")
    return world


def name(world: RepairWorld, symbol: str) -> str:
    return world.table.path(symbol).rpartition("/")[2]


def found(report: RunReport) -> VectorsReport:
    assert isinstance(report.commits, VectorsReport), report
    return report.commits


def cleaned(world: RepairWorld, gone: str = "B", **arguments: Any) -> VectorsReport:
    """Clean, and see that every live vector, row and other object is as before, and that a second call has no work."""
    base = world.ids()[-1]
    before, objects, former = vectors_of(world, base), world.everywhere(), world.newest().document
    live = live_records(world.store, base)
    planned = world.clean(execute=False)
    assert world.everywhere() == objects, "a plan changes nothing"
    report = world.clean(**arguments)
    assert (planned.status, report.status) == ("planned", "done"), report
    assert world.ids()[-1] == base + 1
    assert vectors_of(world) == {file: data for file, data in before.items() if file not in names(world, gone)}
    assert live_records(world.store, base + 1) == live
    document = world.newest().document
    same = ("schemaId", "totalRecordCount", "statistics", "watermark", "nextRowId", "properties")
    assert {key: document.get(key) for key in same} == {key: former.get(key) for key in same}
    assert (document["commitKind"], document["deltaRecordCount"]) == ("COMPACT", 0)
    assert world.records(document["deltaManifestList"]) == []
    lists = [world.records(former[key]) for key in ("baseManifestList", "deltaManifestList")]
    assert world.records(document["baseManifestList"]) == [*lists[0], *lists[1]]
    made = same_but(objects, world.everywhere())
    commits = found(report)
    assert len([path for path in made if "/index-" in path and "manifest" not in path]) == commits.written_files
    assert sum(len(world.store.read(path).data) for path in made if path.startswith("index/")) in (
        0,
        commits.written_bytes,
    )
    expected, shown = (found(each).to_json() for each in (planned, report))
    assert {**shown, "made": []} == expected, "the plan says what the execution does"
    assert shown["dangling_vectors"] == sum(file in names(world, gone) for file in before)
    again = world.clean()
    assert (again.status, found(again).index_files) == ("nothing_to_do", ())
    return commits


def names(world: RepairWorld, symbols: str) -> set[str]:
    return {name(world, symbol) for symbol in symbols}


@pytest.mark.parametrize("wide", [False, True], ids=["32 bit", "64 bit"])
@pytest.mark.parametrize("order", ["ABC", "BAC", "ACB"])
@pytest.mark.parametrize("kind", ["unaware", "bucket"])
def test_the_other_vectors_are_copied(kind: str, order: str, wide: bool) -> None:
    """Of one width, in their order, without gaps; the option may say another width by now."""
    keys = {"primary_keys": ["id", "dt"]} if kind == "bucket" else {}
    options = {**(BUCKETS if kind == "bucket" else UNAWARE), **({"deletion-vectors.bitmap64": "true"} if wide else {})}
    world = world_with({"I": {symbol: [ord(symbol) - 64, 9] for symbol in order}}, options=options, **keys)
    world.table.alter(options={"deletion-vectors.bitmap64": str(not wide).lower()})
    commits = cleaned(world)
    (row,) = index_rows(world)
    assert (row["_INDEX_TYPE"], row["_BUCKET"]) == ("DELETION_VECTORS", 0)
    assert [each["f0"] for each in row["_DELETIONS_VECTORS_RANGES"]] == [
        name(world, symbol) for symbol in order if symbol != "B"
    ]
    assert [each["_CARDINALITY"] for each in row["_DELETIONS_VECTORS_RANGES"]] == [2, 2]
    (file,) = commits.index_files
    assert (file.path, file.partition, file.bucket) == (world.table.path("I"), "dt=d", 0)
    assert (file.vectors, file.data_files) == (3, (name(world, "B"),))
    assert (commits.all_index_files, commits.written_files) == (1, 1)


def test_an_index_file_of_gone_files_alone_leaves_unread() -> None:
    """So it may be damaged, or gone itself."""
    world = world_with({"I": {"B": [1]}, "J": {"A": [2], "C": [3]}})
    vanish(world, world.table.path("I"))
    (_, kept) = index_rows(world)
    before = vectors_of_those_there(world)
    report = world.clean()
    assert report.status == "done"
    assert index_rows(world) == [kept] and vectors_of(world) == before
    assert (found(report).written_files, len(found(report).index_files)) == (0, 1)


def vectors_of_those_there(world: RepairWorld) -> dict[str, bytes]:
    keys = world.keys()
    return {
        each["f0"]: world.store.read(f"index/{row['_FILE_NAME']}").data[each["f1"] : each["f1"] + each["f2"] + 8]
        for row in index_rows(world)
        if f"index/{row['_FILE_NAME']}" in keys
        for each in row["_DELETIONS_VECTORS_RANGES"]
    }


@pytest.mark.parametrize("options", [UNAWARE, BUCKETS], ids=["unaware", "buckets"])
def test_all_vectors_gone_leave_an_index_manifest_without_rows(options: dict[str, str]) -> None:
    """As Paimon writes it: no index manifest at all would mean something else to some readers."""
    world = world_with({"I": {"A": [1], "B": [1]}}, gone="AB", options=options)
    cleaned(world, "AB")
    assert index_rows(world) == []


def test_vectors_that_are_large_get_several_index_files() -> None:
    world = world_with(
        {"I": {"A": [1], "B": [2], "C": [3]}}, options={**UNAWARE, "deletion-vector.index-file.target-size": "1 b"}
    )
    assert cleaned(world).written_files == 2


def test_an_index_beside_the_data_is_written_there() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}}, options={**UNAWARE, "index-file-in-data-file-dir": "true"})
    cleaned(world)
    (row,) = index_rows(world)
    assert index_path(world, row).startswith("dt=d/bucket-0/")


def test_other_indexes_are_copied_as_bytes() -> None:
    """Of keys, of a kind of later versions, and the file of a bucket without vectors."""
    world = world_with(
        {"I": {"A": [1], "B": [2]}, "H": b"\0\0\0\1", "E": {}}, options=BUCKETS, primary_keys=["id", "dt"]
    )
    edit_index(world, lambda row: {**row, "_INDEX_TYPE": "later"} if row["_INDEX_TYPE"] == "HASH" else row)
    others = [row for row in index_rows(world) if not row["_DELETIONS_VECTORS_RANGES"]]
    assert len(others) == 2
    with pytest.raises(MaintenanceError, match="one index file"):  # E lies in the same bucket
        raise_refusal(world.clean())
    edit_index(world, lambda row: {**row, "_BUCKET": 1} if row["_DELETIONS_VECTORS_RANGES"] == [] else row)
    others = [row for row in index_rows(world) if not row["_DELETIONS_VECTORS_RANGES"]]
    cleaned(world)
    assert [row for row in index_rows(world) if not row["_DELETIONS_VECTORS_RANGES"]] == others


def raise_refusal(report: RunReport) -> None:
    assert report.refusal is not None, report
    raise MaintenanceError(report.refusal.message, code=report.refusal.code)


def edit_index(world: RepairWorld, change: Callable[[dict[str, Any]], dict[str, Any]], *more: dict[str, Any]) -> None:
    """Change rows of the newest snapshot's index manifest, and add some."""
    path = f"manifest/{world.newest_document()['indexManifest']}"
    reader = fastavro.reader(io.BytesIO(world.store.read(path).data))
    target = io.BytesIO()
    rows = [change(dict(row)) for row in reader if isinstance(row, dict)]
    assert reader.writer_schema is not None
    fastavro.writer(target, reader.writer_schema, [*rows, *more], codec="zstandard")
    world.store.put(path, target.getvalue())


def test_a_file_at_another_level_is_live() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}}, gone="", options=BUCKETS, primary_keys=["id", "dt"])
    world.table.commit("-A@0", "+A@5", "-B@0", kind="COMPACT")
    cleaned(world)
    assert set(vectors_of(world)) == names(world, "A")


@pytest.mark.parametrize("place", ["partition", "bucket"])
def test_a_name_that_is_live_anywhere_is_live(place: str) -> None:
    """Names contain a UUID, so this is no other file, but a writer that states a place in other bytes."""
    world = world_with({"I": {"A": [1], "B": [2]}}, options=BUCKETS, primary_keys=["id", "dt"])
    other = (
        {"_BUCKET": 1} if place == "bucket" else {"_PARTITION": index_rows(world)[0]["_PARTITION"].replace(b"d", b"e")}
    )
    edit_index(world, lambda row: {**row, **other})
    report = world.clean()
    assert report.status == "done", report
    assert [file.data_files for file in found(report).index_files] == [(name(world, "B"),)]
    assert set(vectors_of(world)) == names(world, "A")


def test_a_count_that_nobody_recorded_is_counted() -> None:
    """Writers before 0.9 did not count the rows of a vector."""
    world = world_with({"I": {"A": [1, 5], "B": [2]}})
    (row,) = index_rows(world)
    row["_DELETIONS_VECTORS_RANGES"] = [{**each, "_CARDINALITY": None} for each in row["_DELETIONS_VECTORS_RANGES"]]
    edit_index(world, lambda _: row)
    cleaned(world)
    assert [each["_CARDINALITY"] for each in index_rows(world)[0]["_DELETIONS_VECTORS_RANGES"]] == [2]


def test_a_missing_data_file_is_live() -> None:
    """Manifests decide; a restore may bring the file back, and its deleted rows must not come with it."""
    world = world_with({"I": {"A": [1], "B": [2]}})
    before = vectors_of(world)
    vanish(world, world.table.path("A"))
    assert world.clean().status == "done"
    assert vectors_of(world) == {file: data for file, data in before.items() if file == name(world, "A")}


def test_each_manifest_is_read_whatever_statistics_say() -> None:
    """One that is passed over by wrong statistics could add the file."""
    world = world_with({"I": {"A": [1]}}, gone="")
    (record,) = world.records(world.newest_document()["deltaManifestList"])
    far = record["_PARTITION_STATS"]["_MIN_VALUES"].replace(b"d", b"z")
    rewrite_list(
        world,
        lambda row: {**row, "_PARTITION_STATS": {**row["_PARTITION_STATS"], "_MIN_VALUES": far, "_MAX_VALUES": far}},
    )
    assert world.clean().status == "nothing_to_do"


def rewrite_list(world: RepairWorld, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the records of the newest snapshot's delta list."""
    document = world.newest_document()
    path = f"manifest/{document['deltaManifestList']}"
    reader = fastavro.reader(io.BytesIO(world.store.read(path).data))
    target = io.BytesIO()
    assert reader.writer_schema is not None
    fastavro.writer(target, reader.writer_schema, [change(dict(row)) for row in reader if isinstance(row, dict)])
    world.store.put(path, target.getvalue())
    put_document(world, {**document, "deltaManifestListSize": len(target.getvalue())})


def put_document(world: RepairWorld, document: dict[str, Any]) -> None:
    world.store.put(f"snapshot/snapshot-{document['id']}", json.dumps(document).encode())


def test_nothing_to_do() -> None:
    """A table without snapshots, without an index, with live vectors alone, and with empty index files."""
    assert RepairWorld(options=UNAWARE).clean().status == "nothing_to_do"
    for index in ({}, {"I": {"A": [1], "B": [2]}}, {"I": {}}):
        world = world_with(index, gone="")
        for execute in (False, True):
            report = world.clean(execute=execute, catalog=Catalog())
            assert (report.status, report.warnings) == ("nothing_to_do", ())
        assert world.ids() == [1]


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "false"}])
def test_vectors_that_nobody_applies_stay(options: dict[str, str]) -> None:
    """No reader and no commit of Paimon looks at them, so none is in the way. A word says so."""
    world = world_with({"I": {"A": [1], "B": [2]}}, options={"bucket": "-1", **options})
    for execute in (False, True):
        report = world.clean(execute=execute)
        assert report.status == "nothing_to_do"
        assert ["deletion-vectors.enabled" in each and "2 deletion vectors" in each for each in report.warnings] == [
            True
        ]
    assert world.ids() == [1, 2]
    keys = RepairWorld(options={"bucket": "-1", **options}, primary_keys=["id", "dt"])
    keys.table.commit("+A", partition=("d",), index={"H": b"\0\0\0\1"})
    assert not keys.clean().warnings


def test_the_new_snapshot_keeps_what_the_former_states() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}})
    stated = {"statistics": "stat-0", "properties": {"key": "value"}, "watermark": 7}
    world.store.put("statistics/stat-0", b"{}")
    put_document(world, {**world.newest_document(), **stated})
    cleaned(world)


def test_a_tag_and_an_older_snapshot_keep_their_index() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}}, gone="")
    world.table.tag("t", 1)
    world.table.commit("-B", kind="OVERWRITE")
    cleaned(world)
    world.assert_reads()


# Refused.


@pytest.mark.parametrize(
    ("catalog", "code"),
    [(Catalog(), "catalog_not_declared"), (Catalog("rest"), "rest_catalog")],
)
def test_the_catalog_must_allow_it(catalog: Catalog, code: str) -> None:
    world = world_with({"I": {"A": [1], "B": [2]}})
    planned = world.clean(execute=False, catalog=catalog)
    assert planned.status == "planned" and NOT_EXECUTABLE in planned.warnings[0]
    refused(world, code, catalog=catalog)


def refused(world: RepairWorld, code: str, *says: str, **arguments: Any) -> None:
    """An execution is refused by name, and writes nothing."""
    before = world.everywhere()
    report = world.clean(**arguments)
    assert refusal_of(report) == code, report.refusal
    assert report.refusal is not None
    assert not [word for word in says if word not in report.refusal.message], report.refusal.message
    assert world.everywhere() == before


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"commit.callbacks": "com.example.Notify"}, "needs_engine_callbacks"),
        ({"metadata.iceberg.storage": "table-location"}, "needs_engine_callbacks"),
        ({"metastore.partitioned-table": "true"}, "metastore_partitions"),
        ({"commit.strict-mode.last-safe-snapshot": "1"}, "strict_mode"),
        ({"commit.later-rule": "1"}, "unknown_commit_option"),
        ({"data-evolution.enabled": "true"}, "data_evolution"),
        ({"manifest.format": "orc"}, "manifest_format"),
        ({"data-file.external-paths": "memory://outside/x"}, "external_paths"),
        ({"deletion-vector.index-file.target-size": "large"}, "bad_option"),
        ({"deletion-vectors.enabled": "perhaps"}, "bad_option"),
        ({"index-file-in-data-file-dir": "perhaps"}, "bad_option"),
    ],
)
def test_options_that_forbid_it(options: dict[str, str], code: str) -> None:
    refused(world_with({"I": {"A": [1], "B": [2]}}, options={**UNAWARE, **options}), code, next(iter(options)))


def test_external_paths_forbid_only_new_index_files() -> None:
    """An index file of gone files alone leaves without one."""
    world = world_with({"I": {"B": [2]}}, options={**UNAWARE, "data-file.external-paths": "memory://outside/x"})
    assert world.clean().status == "done"
    assert index_rows(world) == []


def test_an_index_file_outside_the_table() -> None:
    outside = MemoryStore("memory://outside/x")
    world = RepairWorld(options={**UNAWARE, "data-file.external-paths": ""}, externals={"memory://outside/x": outside})
    world.table.commit(
        "+A", "+B", partition=("d",), index={"I": {"A": [1], "B": [2]}}, external={"I": "memory://outside/x/index-1"}
    )
    world.table.commit("-B", kind="OVERWRITE")
    refused(world, "external_paths", "memory://outside/x/index-1")


@pytest.mark.parametrize("damage", ["cut", "longer", "checksum", "version", "magic", "missing"])
@pytest.mark.parametrize("execute", [False, True])
def test_a_damaged_index_file_with_live_vectors(damage: str, execute: bool) -> None:
    """A plan says it, too."""
    world = world_with({"I": {"A": [1], "B": [2]}})
    path = world.table.path("I")
    body = world.store.read(path).data
    vanish(world, path)
    made = {
        "cut": body[:-1],
        "longer": body + b"\0",
        "checksum": body[:12] + b"\xff" + body[13:],
        "version": b"\x02" + body[1:],
        "magic": body[:5] + b"\0\0\0\0" + body[9:],
    }
    if damage != "missing":
        world.store.put(path, made[damage])
    refused(world, "corrupt_vectors", path, execute=execute)


def test_damage_of_one_index_file_stops_all() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}, "J": {"C": [3]}}, gone="B")
    world.table.commit("+D", partition=("e",), index={"K": {"D": [1], "B": [1]}, "L": {"A": [1], "B": [1]}})
    path = world.table.path("K")
    world.store.put(path, world.store.read(path).data[:-1] + b"\0")
    assert refusal_of(world.clean()) == "corrupt_vectors"
    assert world.ids() == [1, 2, 3]


def test_a_vector_of_another_width_in_the_same_file() -> None:
    """The table's option was switched. Each vector that stays keeps its width."""
    world = world_with({"I": {"A": [1], "B": [2], "C": [3]}})
    wide = world_with({"I": {"A": [1], "C": [3]}}, options={**UNAWARE, "deletion-vectors.bitmap64": "true"}, gone="")
    body, other = (each.store.read(each.table.path("I")).data for each in (world, wide))
    (row,) = index_rows(wide)
    last = row["_DELETIONS_VECTORS_RANGES"][1]
    put_last(world, body, other[last["f1"] :], last["f2"])
    first, _, third = lengths(world)
    assert third == (name(world, "C"), last["f2"])
    assert world.clean().status == "done"
    assert lengths(world) == [first, third]


def lengths(world: RepairWorld) -> list[tuple[str, int]]:
    """Return the data files of the one index file, and how long their vectors are."""
    (row,) = index_rows(world)
    return [(each["f0"], each["f2"]) for each in row["_DELETIONS_VECTORS_RANGES"]]


def put_last(world: RepairWorld, body: bytes, vector: bytes, length: int) -> None:
    """Replace the last vector of the index file I."""
    (row,) = index_rows(world)
    last = row["_DELETIONS_VECTORS_RANGES"][-1]
    made = body[: last["f1"]] + vector
    world.store.put(world.table.path("I"), made)
    last["f2"] = length
    edit_index(world, lambda _: {**row, "_FILE_SIZE": len(made)})


@pytest.mark.parametrize("change", ["length", "cardinality", "offset", "beyond"])
def test_ranges_that_contradict_the_file(change: str) -> None:
    world = world_with({"I": {"A": [1], "B": [2]}})
    (row,) = index_rows(world)
    key, more = {
        "length": ("f2", 1),
        "cardinality": ("_CARDINALITY", 1),
        "offset": ("f1", 1),
        "beyond": ("f1", 10_000),
    }[change]
    row["_DELETIONS_VECTORS_RANGES"][0][key] += more
    edit_index(world, lambda _: row)
    refused(world, "corrupt_vectors")


def test_two_vectors_of_a_live_file() -> None:
    """Nobody knows which one is right, also where the index file stays as it is."""
    world = world_with({"I": {"A": [1]}, "J": {"A": [2]}, "K": {"B": [3]}})
    refused(world, "corrupt_vectors", name(world, "A"))


def test_two_vectors_of_a_gone_file_both_leave() -> None:
    """No rows depend on them."""
    world = world_with({"I": {"A": [1], "B": [1]}, "J": {"B": [2]}})
    report = world.clean()
    assert report.status == "done" and found(report).to_json()["dangling_vectors"] == 2
    assert set(vectors_of(world)) == names(world, "A")


@pytest.mark.parametrize("what", ["manifest", "list", "index"])
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_metadata_that_cannot_be_read(what: str, how: str) -> None:
    """A failed read is never an empty set."""
    world = world_with({"I": {"A": [1], "B": [2]}})
    document = world.newest_document()
    (meta,) = world.records(document["deltaManifestList"])
    lost = {
        "manifest": meta["_FILE_NAME"],
        "list": document["baseManifestList"],
        "index": document["indexManifest"],
    }[what]
    body = world.store.read(f"manifest/{lost}").data
    vanish(world, f"manifest/{lost}")
    if how == "damaged":
        world.store.put(f"manifest/{lost}", body[:-20] + b"\0" * 20)
    refused(world, "corrupt_manifests", lost)


@pytest.mark.parametrize(
    "change", [{"_NUM_ADDED_FILES": 5}, {"_NUM_DELETED_FILES": 0, "_NUM_ADDED_FILES": 1}, {"_FILE_SIZE": 10}]
)
def test_a_manifest_that_is_not_as_its_list_states(change: dict[str, int]) -> None:
    world = world_with({"I": {"A": [1], "B": [2]}})
    rewrite_list(world, lambda row: {**row, **change})
    refused(world, "corrupt_manifests")


def test_entries_that_contradict_each_other() -> None:
    """A DELETE without an ADD, an ADD twice, a DELETE twice: of files with vectors."""
    for entries, says in ((("-B", "-B"), "deleted twice"), (("+A",), "added twice")):
        world = world_with({"I": {"A": [1], "B": [2]}}, gone="")
        world.table.commit(*entries, kind="OVERWRITE")
        refused(world, "corrupt_manifests", says)
    world = world_with({"I": {"A": [1], "B": [2]}})
    first = json.loads(world.store.read("snapshot/snapshot-1").data)
    empty = {key: value for key, value in first.items() if key.startswith("baseManifestList")}
    put_document(world, {**world.newest_document(), **empty})
    refused(world, "corrupt_manifests", f"{name(world, 'B')} is deleted, and no manifest adds it")


def test_a_field_of_later_versions_is_copied_and_not_made() -> None:
    """A record of an own index file would lack it. Records that are only left out or copied need nothing."""
    for index, status in (({"I": {"B": [1]}, "J": {"A": [1]}}, "done"), ({"I": {"A": [1], "B": [1]}}, "refused")):
        world = world_with(index)
        add_field(world)
        rows, objects, planned = index_rows(world), world.everywhere(), world.clean(execute=False)
        report = world.clean()
        assert report.status == status
        if status == "refused":
            assert refusal_of(planned) == "unknown_manifest_field"
            assert not [path for path in same_but(objects, world.everywhere()) if path.startswith("index/")]
        if status == "done":
            assert index_rows(world) == rows[1:]
        else:
            assert refusal_of(report) == "unknown_manifest_field"


def add_field(world: RepairWorld) -> None:
    path = f"manifest/{world.newest_document()['indexManifest']}"
    reader = fastavro.reader(io.BytesIO(world.store.read(path).data))
    schema: Any = reader.writer_schema
    records = [{**row, "_LATER": 7} for row in reader if isinstance(row, dict)]
    target = io.BytesIO()
    fields = [*schema["fields"], {"name": "_LATER", "type": "int"}]
    fastavro.writer(target, {**schema, "fields": fields}, records)
    world.store.put(path, target.getvalue())


def test_a_function_has_no_time_for_many_entries() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}})
    assert world.clean(most=4, execute=False).status == "planned"
    refused(world, "too_large_for_function", "4 entries", "clean-deletion-vectors", most=3)


# Beside others.


def test_a_writer_changes_vectors_between_plan_and_commit() -> None:
    """What it commits is the base of the next attempt; a rewritten index file that still fits is used again."""
    world = world_with({"I": {"A": [1], "B": [2]}, "J": {"C": [3]}})

    def delete_more() -> None:
        new = {"I": None, "J2": {"C": [3, 4], "D": [5]}}
        world.table.commit("+D", partition=("d",), index=new, kind="OVERWRITE")

    report = world.clean(Acting("table put snapshot/snapshot-3".__eq__, delete_more))
    assert report.status == "done", report
    assert found(report).made[0].attempts == 2
    before = vectors_of(world, 3)
    assert vectors_of(world, 4) == {file: data for file, data in before.items() if file != name(world, "B")}
    assert set(before) == names(world, "ABCD") and world.newest().document["id"] == 4


@pytest.mark.parametrize("changes", [False, True])
def test_what_an_attempt_has_rewritten_is_used_again(changes: bool) -> None:
    """Not if the writer changed the same index file, or took another of its data files away."""
    world = world_with({"I": {"A": [1], "B": [2], "C": [3]}})

    def append() -> None:
        world.table.commit("+D", partition=("d",))

    def take() -> None:
        world.table.commit("-C", kind="OVERWRITE")

    report = world.clean(before_lease(take if changes else append))
    assert report.status == "done", report
    assert found(report).made[0].attempts == 2
    assert found(report).reused_attempt is not changes
    assert set(vectors_of(world)) == names(world, "A" if changes else "AC")
    assert len(world.keys("index/")) == (3 if changes else 2)


def test_nothing_is_used_again_after_a_rollback() -> None:
    """Whoever rolls back may also clean up."""
    world = world_with({"I": {"A": [1], "B": [2], "C": [3]}})

    def roll_back() -> None:
        world.table.rollback(1)
        world.table.commit("-B", kind="OVERWRITE", user="another")

    report = world.clean(before_lease(roll_back))
    assert (report.status, found(report).made[0].attempts, found(report).reused_attempt) == ("done", 2, False)
    assert set(vectors_of(world)) == names(world, "AC")


def before_lease(act: Callable[[], object]) -> Acting:
    """Let another writer act right before the run takes the lease: no snapshot was sent yet."""
    return Acting(lambda name: name.startswith("control put"), act)


def test_a_writer_brings_the_file_back() -> None:
    """A rollback as latest does: then its vector is that of a live file, and stays."""
    world = world_with({"I": {"A": [1], "B": [2]}}, gone="")
    world.table.commit("-B", kind="OVERWRITE")
    report = world.clean(Acting("table put snapshot/snapshot-3".__eq__, lambda: world.table.rollback_as_latest(1)))
    assert report.status == "nothing_to_do", report
    assert vectors_of(world) == vectors_of(world, 1)


def test_a_writer_cleans_first() -> None:
    """Two cleans at once: one commits, and the other has nothing left to do."""
    world = world_with({"I": {"A": [1], "B": [2]}})
    before = vectors_of(world)
    made: list[RunReport] = []

    def clean() -> None:
        made.append(world.clean())

    report = world.clean(before_lease(clean))
    assert (made[0].status, report.status) == ("done", "nothing_to_do")
    assert world.ids() == [1, 2, 3]
    assert vectors_of(world) == {file: data for file, data in before.items() if file == name(world, "A")}


def test_the_option_is_switched_off_meanwhile() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}})

    def alter() -> None:
        world.table.alter(options={"deletion-vectors.enabled": "false"})
        world.table.commit("+D", partition=("d",))

    report = world.clean(before_lease(alter))
    assert report.status == "nothing_to_do"
    assert world.ids() == [1, 2, 3]


def test_no_package_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions have no pyroaring; vectors are copied as bytes."""
    monkeypatch.setitem(sys.modules, "pyroaring", None)
    cleaned(world_with({"I": {"A": [1], "B": [2]}}))


def test_a_branch_is_cleaned_on_its_own() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}})
    world.table.tag("t", 2)
    world.table.branch("rt", "t")
    main = index_rows(world)
    world.branch = "rt"
    assert world.clean(catalog=FILES).status == "done"
    assert index_rows(world) == main
    assert world.newest().document["id"] == 3


def test_a_run_that_is_requested_twice_commits_once() -> None:
    world = world_with({"I": {"A": [1], "B": [2]}})
    for status in ("done", "nothing_to_do"):
        table = replace(world.maintainer().table, run_id="20260131T120000Z-1f2e3d4c")
        report = run_operation(table, "clean-deletion-vectors", {"catalog_type": "filesystem"}, execute=True)
        assert report.status == status
    assert "has committed" in report.warnings[0]
