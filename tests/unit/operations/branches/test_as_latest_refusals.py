"""What `rollback --as-latest` refuses, before it changes anything."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lakesweep.errors import AccessDeniedError, StorageError
from tests.support.commit_scene import Failing
from tests.support.memory_store import MemoryStore
from tests.unit.operations.branches.as_latest_world import PREFIX, AsLatestWorld


@pytest.mark.parametrize(
    "symbol", ["A", "A.index", "B", "I", "S", "manifest", "manifest list", "index manifest", "schema"]
)
def test_any_file_of_the_target_is_gone(symbol: str) -> None:
    world = AsLatestWorld(is_empty=True)
    world.commit("+A", "+B", extra={"A": ["index"]}, index={"I": {"B": [1]}}, statistics="S")
    world.table.alter(types={"w": "INT"})
    world.commit("-A", "+C")
    model = world.table.model("snapshot/snapshot-1")
    paths = {
        "A.index": world.table.path("A", "index"),
        "S": f"statistics/{model.document.get('statistics')}",
        "manifest": f"manifest/{model.delta[0].name}",
        "manifest list": f"manifest/{model.document['deltaManifestList']}",
        "index manifest": f"manifest/{model.document['indexManifest']}",
        "schema": "schema/schema-0",
    }
    world.table.remove(paths.get(symbol, symbol))
    code, sentence = world.refused()
    assert code in ("target_lost_files", "corrupt_manifests", "unreadable_root"), (code, sentence)
    assert (paths[symbol] if symbol in paths else world.table.path(symbol)) in sentence


def test_a_file_outside_the_table_is_gone() -> None:
    outside = MemoryStore("memory://outside")
    world = AsLatestWorld(is_empty=True, externals={"memory://outside": outside})
    world.external_roots = ("memory://outside",)
    world.commit("+A", "+B", external={"A": "memory://outside/A"})
    world.commit("-A", "+C")
    assert world.back(execute=False).status == "planned"
    world.table.remove("A")
    assert world.refused()[0] == "target_lost_files"


def test_a_read_that_fails_says_nothing() -> None:
    """It is neither gone nor there."""
    world = AsLatestWorld()
    before = world.keys()
    for error in (AccessDeniedError("403"), StorageError("503", code="503")):
        for call in ("table list ", f"table read manifest/{world.table.model('snapshot/snapshot-1').delta[0].name}"):
            with pytest.raises(StorageError) as raised:
                world.back(switch=Failing(call, dict.fromkeys(range(1, 20), error)))
            assert raised.value is error
            assert world.ids() == [1, 2, 3]
            assert world.keys("tag/") == set()
    assert world.keys() == before


def test_a_version_that_only_a_changelog_has() -> None:
    world = AsLatestWorld()
    world.table.changelog_document(1)
    world.table.remove("snapshot/snapshot-1")
    assert world.refused()[0] == "no_such_version"


def test_an_expiry_that_has_begun_with_the_target() -> None:
    world = AsLatestWorld()
    world.now_ms += 7_200_000
    world.dies_before(lambda call: "table delete" in call)
    assert world.refused()[0] == "expiry_under_way"


def _options(**changed: str) -> Callable[[AsLatestWorld], object]:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in changed.items()}
    return lambda world: world.table.alter(options=named)


DIFFERENT: Mapping[str, Callable[[AsLatestWorld], object]] = {
    "partition keys": lambda world: world.table.alter(partition_keys=["v"]),
    "primary keys": lambda world: world.table.alter(primary_keys=["k"], types={"k": "INT"}),
    "bucket": _options(bucket="4"),
    "merge-engine": _options(merge_engine="first-row"),
    "sequence.field": _options(sequence__field="v"),
    "fields.v.aggregate-function": _options(fields__v__aggregate_function="sum"),
    "deletion-vectors.enabled": _options(deletion_vectors__enabled="true"),
    "deletion-vectors.bitmap64": _options(deletion_vectors__bitmap64="TRUE"),
    "partition.default-name": _options(partition__default_name="x"),
    "data-file.path-directory": _options(data_file__path_directory="data"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_schema_that_makes_something_else_of_the_files(what: str) -> None:
    world = AsLatestWorld()
    DIFFERENT[what](world)
    code, sentence = world.refused()
    assert (code, what in sentence) == ("schema_differs", True), sentence


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"types": {"w": "INT"}}, "columns that were added since are null in these rows: w"),
        ({"options": {"snapshot.num-retained.max": "5", "bucket-function.type": "DEFAULT"}}, "under schema 0"),
        ({"options": {"deletion-vectors.enabled": "false"}}, "continue with schema 1"),
    ],
)
def test_a_schema_that_changes_nothing_for_the_files(change: dict[str, Any], said: str) -> None:
    world = AsLatestWorld()
    world.table.alter(**change)
    report = world.back()
    assert report.status == "done"
    assert any(said in warning for warning in report.warnings), report.warnings
    assert world.newest().document["schemaId"] == 0


def test_rows_had_ids_in_between() -> None:
    world = AsLatestWorld()
    world.table.alter(options={"row-tracking.enabled": "true"})
    world.table.alter(options={"row-tracking.enabled": "false"})
    assert world.refused()[0] == "row_ids"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"metadata.iceberg.storage": "table-location"}, "needs_engine_callbacks"),
        ({"commit.callbacks": "a.B"}, "needs_engine_callbacks"),
        ({"manifest.format": "orc"}, "manifest_format"),
        ({"commit.strict-mode.last-safe-snapshot": "1"}, "strict_mode"),
        ({"commit.unheard-of": "1"}, "unknown_commit_option"),
        ({"scan.fallback-branch": "b"}, "fallback_branch"),
        ({"write.sequence-number-init-mode": "snapshot"}, "sequence_property"),
        ({"tag.automatic-creation": "batch", "tag.num-retained-max": "3"}, "tags_counted"),
    ],
)
def test_tables_that_do_not_allow_it(options: dict[str, str], code: str) -> None:
    world = AsLatestWorld(options=options)
    assert world.refused()[0] == code


def test_a_fallback_branch_may_be_accepted() -> None:
    world = AsLatestWorld(options={"scan.fallback-branch": "b"})
    assert world.back(fallback_reappears=True).status == "done"


@pytest.mark.parametrize(("catalog", "code"), [("rest", "rest_catalog"), (None, "catalog_not_declared")])
def test_catalogs_that_do_not_allow_it(catalog: str | None, code: str) -> None:
    world = AsLatestWorld()
    assert world.refused(catalog_type=catalog, catalog_lock=None)[0] == code


@pytest.mark.parametrize("snapshot", [1, 3])
def test_a_field_that_would_be_lost(snapshot: int) -> None:
    world = AsLatestWorld()
    path = f"snapshot/snapshot-{snapshot}"
    document = json.loads(world.store.read(path).data)
    world.store.put(path, json.dumps({**document, "promise": 1}).encode())
    assert world.refused()[0] == "unknown_snapshot_field"


def test_a_file_that_came_back_before_and_has_lost_its_tags() -> None:
    """Paimon's expiry would go by the first deletion, and delete it from under the newest snapshot."""
    world = AsLatestWorld()
    first = world.back(1)
    assert world.back(3).status == "done"
    for snapshot in (1, 4):
        world.run("delete-tag", tag=[f"{PREFIX}{snapshot}-{first.run_id}"], status="done")
    assert world.refused(4)[0] == "unsafe_lives", "the first life of A has no tag"
    assert world.refused(1)[0] == "unsafe_lives", "the second life of A has no tag"
    assert world.back(2).status == "done", "of C and D each life has one"


@pytest.mark.parametrize(
    ("second", "third", "producer", "is_refused"),
    [
        (["-A"], ["+A"], "none", True),
        (["-A@0", "+A@5"], ["+C"], "none", False),  # it only changed its level
        (["-A"], ["+A"], "input", False),  # such a changelog document deletes no data file
    ],
)
def test_a_changelog_that_will_delete_a_file_when_it_expires(
    second: list[str], third: list[str], producer: str, is_refused: bool
) -> None:
    """Its snapshot deleted the file, which came back before the target."""
    options = {"changelog-producer": producer}
    world = AsLatestWorld(is_empty=True, primary_keys=["k"], options=options)
    world.commit("+A", "+B")
    world.commit(*second)
    world.commit(*third, merge_base=True)
    world.commit("-A")
    for snapshot in (1, 2):
        world.table.changelog_document(snapshot)
        world.table.remove(f"snapshot/snapshot-{snapshot}")
    if is_refused:
        assert world.refused(3)[0] == "unsafe_lives"
    else:
        assert world.back(3).status == "done"


def test_two_versions_of_one_id() -> None:
    world = AsLatestWorld()
    world.table.tag("t", snapshot=3)
    world.table.remove("snapshot/snapshot-3")
    world.table.commit("+E", snapshot_id=3, time_ms=world.now_ms)
    assert world.refused()[0] == "id_reused"


def test_metadata_that_cannot_be_built_upon() -> None:
    world = AsLatestWorld(is_empty=True)
    world.commit("+A", "+B")
    world.commit("-A")
    world.commit("-A")
    code, sentence = world.refused()
    assert (code, "is deleted twice" in sentence) == ("corrupt_manifests", True)
    world = AsLatestWorld(is_empty=True)
    world.commit("+A")
    world.commit("-B@3")
    code, sentence = world.refused()
    assert (code, "no manifest adds it" in sentence) == ("corrupt_manifests", True)


@pytest.mark.parametrize(
    ("tagged", "is_refused"),
    [((), False), ((1,), False), ((2,), True), ((1, 2), True), ((3,), True)],
)
def test_another_branch_that_has_what_comes_back(tagged: tuple[int, ...], is_refused: bool) -> None:
    """Paimon's expiry of the branch asks the last tag of main from before the id at which the branch deletes it."""
    world = AsLatestWorld()
    world.table.tag("t", snapshot=1)
    world.table.branch("b", from_tag="t").commit("+X")
    for snapshot in tagged:
        world.table.tag(f"of-{snapshot}", snapshot=snapshot)
    if is_refused:
        code, sentence = world.refused()
        assert (code, "branch b has some of them: " in sentence) == ("shared_files", True)
        assert world.back(2).status == "done", "nothing comes back"
    else:
        assert world.back().status == "done"


def test_another_branch_whose_index_comes_back() -> None:
    world = AsLatestWorld(is_empty=True)
    world.commit("+A", index={"I": {"A": [1]}})
    world.table.tag("t", snapshot=1)
    world.table.branch("b", from_tag="t").commit("+X")
    world.commit(index={"J": {"A": [1, 2]}})
    world.table.tag("u", snapshot=2)
    assert world.refused()[0] == "shared_files"


def test_another_branch_without_what_comes_back() -> None:
    world = AsLatestWorld()
    world.table.tag("t", snapshot=3)
    world.table.branch("b", from_tag="t").commit("+X")
    assert world.back().status == "done"
