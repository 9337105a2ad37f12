"""`remove-unexisting-files` on tables in memory: what is certainly gone is left out, and nothing else changes."""

import json
from collections.abc import Callable

import pytest

from lakesweep.errors import AccessDeniedError, MaintenanceError, StorageError
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.storage.store import delete_all
from tests.support.commit_scene import Acting
from tests.support.faulty_store import MODES, Interleaved, ProcessDeathError, Switch
from tests.support.memory_store import MemoryStore
from tests.support.reader import UnreadableRootError
from tests.unit.operations.repair.repair_world import (
    RepairWorld,
    calls_of_a_repair,
    lossy,
    refusal_of,
    repair_of,
    same_but,
    vanish,
)


def test_a_dry_run_names_what_is_lost_and_who_else_needs_it() -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    world.table.tag("t", snapshot=2)
    path = world.lose(world.table.path("B"))
    before = world.bodies()
    report = world.files(execute=False)
    assert report.status == "planned" and not report.executed
    found = repair_of(report)
    (lost,) = found.files
    assert (lost.path, lost.partition, lost.bucket, lost.level, lost.rows) == (path, "dt=dB", 0, 0, 10)
    assert (lost.bytes, lost.created_ms, lost.is_restorable) == (
        world.table.model("tag/tag-t").live[1].size,
        600_000,
        False,
    )
    assert lost.named_by == ("snapshots 2 to 3", "tag t")
    assert [(each.partition, each.rows, each.files) for each in found.partitions] == [("dt=dB", 10, 1)]
    assert (found.live_files, found.rows_left) == (3, 20)
    assert world.bodies() == before


def test_the_table_reads_again_and_nothing_else_changes() -> None:
    world = RepairWorld()
    world.table.commit("+A", "+B", "+C", partition={"A": ("a",), "B": ("b",), "C": ("c",)})
    world.fill("D", "E")
    world.lose(world.table.path("B"))
    with pytest.raises(UnreadableRootError):
        world.newest()
    before = world.everywhere()
    former = world.table.document("snapshot/snapshot-3")
    report = world.files()
    assert report.status == "done" and report.executed and report.run_id
    newest = world.newest()
    assert world.live() == {"A", "C", "D", "E"}
    document = newest.document
    assert (document["totalRecordCount"], document["deltaRecordCount"]) == (40, 0)
    assert (document["commitKind"], document["schemaId"]) == ("OVERWRITE", former["schemaId"])
    assert "operation" not in document and document["commitUser"].startswith("lakesweep-")
    assert world.records(document["deltaManifestList"]) == []
    made = same_but(before, world.everywhere())
    rewritten = {path for path in made if path.startswith("manifest/manifest-") and "list" not in path}
    assert len(made) == 4 and len(rewritten) == 1, "a manifest, two lists, a snapshot"
    base = world.records(document["baseManifestList"])
    theirs = [*world.records(former["baseManifestList"]), *world.records(former["deltaManifestList"])]
    assert base[1:] == theirs[1:], "each other record is as it was, in its place"
    assert f"manifest/{base[0]['_FILE_NAME']}" in rewritten
    kept = [each for each in world.records(theirs[0]["_FILE_NAME"]) if each["_PARTITION"].find(b"b") < 0]
    assert world.records(base[0]["_FILE_NAME"]) == kept
    assert (base[0]["_NUM_ADDED_FILES"], base[0]["_NUM_DELETED_FILES"]) == (2, 0)
    (commit,) = repair_of(report).made
    assert (commit.snapshot_id, commit.partitions, commit.rows, commit.files) == (4, 1, 10, 1)
    assert world.files().status == "nothing_to_do"
    assert world.ids() == [1, 2, 3, 4]


def test_a_manifest_without_other_entries_is_left_out() -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    world.lose(world.table.path("C"))
    world.lose(world.table.path("A"))
    assert world.files().status == "done"
    assert world.live() == {"B"}
    assert len(world.records(world.newest().document["baseManifestList"])) == 1


def test_a_file_that_the_table_has_deleted_is_not_missing() -> None:
    world = RepairWorld()
    world.fill("A", "B")
    world.table.commit("-A", kind="OVERWRITE")
    world.lose(world.table.path("A"))
    assert world.files(execute=False).status == "nothing_to_do"
    assert world.files().status == "nothing_to_do"


def test_a_file_that_moved_to_another_level_leaves_with_its_last_entry() -> None:
    """The entry that deletes it from level 0 stays with the entry that it deletes."""
    world = RepairWorld(partition_keys=[], primary_keys=["id"])
    world.table.commit("+A", "+B")
    world.table.commit("-A@0", "+A@5", kind="COMPACT")
    path = world.lose(world.table.path("A"))
    report = world.files()
    (lost,) = repair_of(report).files
    assert (lost.path, lost.level) == (path, 5)
    assert world.live() == {"B"}
    assert any("primary key" in each for each in report.warnings)
    assert world.newest().document["totalRecordCount"] == 10


@pytest.mark.parametrize("position", ["bucket", "external", "branch", "data folder", "postponed"])
def test_data_files_in_each_position(position: str) -> None:
    if position == "external":
        world = RepairWorld(externals={"memory://outside/x": MemoryStore("memory://outside/x")})
        places = {name: f"memory://outside/x/dt=d/bucket-0/{name}.parquet" for name in ("A.1", "B.1")}
        world.table.commit("+A.1", "+B.1", partition=("d",), external=places)
        lost, left = "A.1", {"B.1"}
    else:
        options = {"data-file.path-directory": "data"} if position == "data folder" else {}
        keys = {"primary_keys": ["id", "dt"]} if position in ("bucket", "postponed") else {}
        buckets = {"bucket": {"A": 3, "B": 1}} if position == "bucket" else {}
        if position == "postponed":
            options, buckets = {"bucket": "-2"}, {"bucket": -2}
        world = RepairWorld(options=options, **keys)
        world.table.commit("+A", "+B", partition=("d",), **buckets)
        lost, left = "A", {"B"}
    if position == "branch":
        world.table.tag("t")
        world.table.branch("b", from_tag="t")
        world.branch = "b"
    path = world.lose(world.table.path(lost))
    before = world.everywhere()
    report = world.files()
    assert [each.path for each in repair_of(report).files] == [path]
    assert world.live() == left
    made = same_but(before, world.everywhere())
    folder = "branch/branch-b/snapshot/" if position == "branch" else "snapshot/"
    assert {path for path in made if not path.startswith("manifest/")} <= {f"{folder}snapshot-2", f"{folder}LATEST"}


def test_an_external_root_that_shows_nothing_may_be_out_of_reach() -> None:
    outside = MemoryStore("memory://outside/x")
    world = RepairWorld(externals={"memory://outside/x": outside})
    world.table.commit("+A.1", "+B", partition=("d",), external={"A.1": "memory://outside/x/dt=d/bucket-0/A.1.parquet"})
    outside.delete(delete_all([each.key for each in outside.list("")]))
    report = world.files()
    assert refusal_of(report) == "existence_unknown"
    assert "memory://outside/x" in str(report.refusal)
    assert world.ids() == [1]


def test_a_file_of_the_name_elsewhere_is_not_lost() -> None:
    """Somebody moved the folder, or an option has changed where readers look."""
    world = RepairWorld()
    world.fill("A", "B")
    path = world.table.path("A")
    body = world.store.read(path).data
    world.lose(path)
    world.store.put(f"old/{path}", body)
    report = world.files()
    assert refusal_of(report) == "misplaced_files"
    assert report.refusal is not None and f"old/{path}" in report.refusal.message
    assert world.ids() == [1, 2]


def test_side_files_that_are_missing_alone_are_reported() -> None:
    world = RepairWorld()
    world.table.commit("+A", "+B", partition=("d",), extra={"A": ["index"], "B": ["index"]})
    path = world.lose(world.table.path("A", "index"))
    report = world.files(execute=False)
    assert report.status == "nothing_to_do"
    assert repair_of(report).extra_files == (path,)
    assert any(path in each for each in report.warnings)
    lost = world.lose(world.table.path("B"))
    vanish(world, world.table.path("B", "index"))
    report = world.files()
    assert [each.path for each in repair_of(report).files] == [lost]
    assert repair_of(report).extra_files == (path,), "the side file of a lost file is no loss of its own"


def test_changelog_files_are_no_part_of_the_state() -> None:
    world = RepairWorld(partition_keys=[], primary_keys=["id"], options={"changelog-producer": "input"})
    world.table.commit("+A", changelog=["+L"])
    world.lose(world.table.path("L"))
    assert world.files().status == "nothing_to_do"
    world.table.remove(f"manifest/{world.table.document('snapshot/snapshot-1')['changelogManifestList']}")
    assert world.files().status == "nothing_to_do"


def test_missing_statistics_are_left_out() -> None:
    """Paimon cannot commit while a snapshot names statistics that do not exist."""
    world = RepairWorld()
    world.fill("A", "B")
    world.table.commit(statistics="S", kind="ANALYZE")
    path = f"statistics/{world.newest().document['statistics']}"
    assert world.files().status == "nothing_to_do"
    vanish(world, path)
    report = world.files()
    assert (report.status, repair_of(report).statistics) == ("done", path)
    assert "statistics" not in world.newest().document
    assert world.live() == {"A", "B"}


def test_statistics_that_exist_are_carried_on() -> None:
    world = RepairWorld()
    world.fill("A", "B")
    world.table.commit(statistics="S", kind="ANALYZE")
    before = world.newest().document["statistics"]
    world.lose(world.table.path("A"))
    assert world.files().status == "done"
    assert world.newest().document["statistics"] == before


@pytest.mark.parametrize("what", ["base list", "delta list", "index manifest", "snapshot", "all snapshots"])
def test_what_no_repair_makes_up_for(what: str) -> None:
    world = RepairWorld()
    world.table.commit("+A", "+B", partition=("d",), index={"I": {"A": [1]}})
    world.fill("C")
    world.table.hint("LATEST", 2)
    world.lose(world.table.path("B"))
    document = world.table.document("snapshot/snapshot-2")
    keys = {"base list": "baseManifestList", "delta list": "deltaManifestList", "index manifest": "indexManifest"}
    if what in keys:
        vanish(world, f"manifest/{document[keys[what]]}")
        code = "not_repairable"
    else:
        vanish(world, *(f"snapshot/snapshot-{number}" for number in ((2,) if what == "snapshot" else (1, 2))))
        code = "lost_snapshots" if what == "snapshot" else "not_repairable"
    before = world.bodies()
    for execute in (False, True):
        assert refusal_of(world.files(execute=execute)) == code
        assert refusal_of(world.manifests(execute=execute)) == code
    assert world.bodies() == before


def test_a_missing_manifest_comes_first() -> None:
    world = RepairWorld()
    world.fill("A", "B")
    world.lose(world.table.path("A"))
    vanish(world, f"manifest/{world.table.model('snapshot/snapshot-2').delta[0].name}")
    report = world.files()
    assert refusal_of(report) == "corrupt_manifests"
    assert report.refusal is not None and "remove-unexisting-manifests" in report.refusal.message


@pytest.mark.parametrize("field", ["baseManifestList", "deltaManifestList", "indexManifest", "manifest"])
def test_damaged_metadata_refuses(field: str) -> None:
    world = RepairWorld()
    world.table.commit("+A", "+B", partition=("d",), index={"I": {"A": [1]}})
    world.fill("C")
    world.lose(world.table.path("B"))
    document, model = world.table.document("snapshot/snapshot-2"), world.table.model("snapshot/snapshot-2")
    name = model.delta[0].name if field == "manifest" else document[field]
    body = world.store.read(f"manifest/{name}").data
    world.table.corrupt(f"manifest/{name}", body[:-20] + bytes(20))
    before = world.bodies()
    for execute in (False, True):
        assert refusal_of(world.files(execute=execute)) == "corrupt_manifests"
        assert refusal_of(world.manifests(execute=execute)) == "corrupt_manifests"
    assert world.bodies() == before


class Answering(Switch):
    """Answers each request about some path with an error."""

    def __init__(self, path: str, error: StorageError, *, name: str = "read") -> None:
        super().__init__()
        self._path, self._answer, self._name = path, error, name
        self.answered = 0

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if name.startswith(f"table {self._name}") and self._path in name:
            self.answered += 1
            raise self._answer
        return super()._run(name, call)


ERRORS = {
    "403": AccessDeniedError("read: denied"),
    "503": StorageError("read: slow down", code="SlowDown"),
    "time-out": StorageError("read: no answer", code="ReadTimeoutError"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_a_file_that_is_merely_unreadable_is_not_given_up(error: str) -> None:
    """The listing does not show it, and the store does not say that it is gone."""
    world = RepairWorld()
    world.fill("A", "B", "C")
    path = world.lose(world.table.path("B"))
    before = world.bodies()
    for execute in (False, True):
        switch = Answering(path, ERRORS[error])
        report = world.files(switch, execute=execute)
        assert switch.answered
        assert (report.status, refusal_of(report)) == ("refused", "existence_unknown")
    assert world.bodies() == before
    assert world.files().status == "done"


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("what", ["read manifest/", "list page of "])
def test_no_answer_about_anything_else_refuses_as_well(what: str, error: str) -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    world.lose(world.table.path("B"))
    before = world.bodies()
    name, _, path = what.partition(" ")
    report = world.files(Answering(path, ERRORS[error], name=name))
    assert (report.status, refusal_of(report)) == ("refused", "existence_unknown")
    assert world.bodies() == before


def test_a_manifest_in_the_cache_of_earlier_runs_does_not_count() -> None:
    """It was read once, and is gone now."""
    world = RepairWorld()
    world.fill("A", "B", "C")
    assert world.run("expire-snapshots", execute=False, retain_max=1, retain_min=1).status == "planned"
    world.lose(world.table.path("B"))
    vanish(world, f"manifest/{world.table.model('snapshot/snapshot-3').base[0].name}")
    assert refusal_of(world.files(execute=False)) == "corrupt_manifests"
    assert [each.path for each in repair_of(world.manifests(execute=False)).manifests]


def test_a_file_that_comes_back_before_the_commit_stays() -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    path = world.table.path("B")
    body = world.store.read(path).data
    world.lose(path)
    switch = Acting("table list snapshot/", lambda: world.store.put(path, body), number=3)
    report = world.files(switch)
    assert (report.status, refusal_of(report)) == ("stale", "stale")
    assert world.live() == {"A", "B", "C"}
    assert world.ids() == [1, 2, 3]
    assert world.files().status == "nothing_to_do"


def test_a_file_that_nobody_can_tell_about_at_the_end_stays() -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    path = world.lose(world.table.path("B"))

    class Late(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if name == f"table read {path}" and name in self.calls:
                raise ERRORS["503"]
            return super()._run(name, call)

    report = world.files(Late())
    assert (report.status, refusal_of(report)) == ("refused", "existence_unknown")
    assert world.ids() == [1, 2, 3]


def test_a_commit_in_between_is_built_upon() -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    world.lose(world.table.path("B"))

    def commit() -> None:
        world.table.commit("+D", partition=("d",))

    report = world.files(Acting("table list snapshot/", commit, number=3))
    (made,) = repair_of(report).made
    assert (made.snapshot_id, made.attempts) == (5, 2)
    assert world.live() == {"A", "C", "D"}
    assert world.newest().document["totalRecordCount"] == 30


def test_a_commit_in_between_that_deletes_the_lost_file_leaves_nothing_to_do() -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    world.lose(world.table.path("B"))
    report = world.files(Acting("table list snapshot/", lambda: world.table.commit("-B", kind="OVERWRITE"), number=3))
    assert report.status == "nothing_to_do"
    assert world.ids() == [1, 2, 3, 4]
    assert world.live() == {"A", "C"}


def test_a_file_that_the_bucket_still_has_is_restored_instead() -> None:
    world = RepairWorld(versioned=True)
    world.fill("A", "B", "C")
    path = world.lose(world.table.path("B"))
    report = world.files(execute=False)
    assert [each.is_restorable for each in repair_of(report).files] == [True]
    assert any("cannot be executed" in each and path in each for each in report.warnings)
    assert refusal_of(world.files(accept_loss=None)) == "loss_not_accepted"
    assert world.ids() == [1, 2, 3]
    assert world.files().status == "done"
    assert world.live() == {"A", "C"}


def test_most_of_a_table_is_not_given_up_by_accident() -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    for name in "AB":
        world.lose(world.table.path(name))
    assert refusal_of(world.files(accept_loss=None)) == "loss_not_accepted"
    assert world.files().status == "done"
    assert world.live() == {"C"}


def test_the_only_file_of_a_table() -> None:
    world = RepairWorld()
    world.fill("A")
    world.lose(world.table.path("A"))
    assert refusal_of(world.files(accept_loss=None)) == "loss_not_accepted"
    assert world.files().status == "done"
    assert world.live() == set()
    assert world.newest().document["totalRecordCount"] == 0


@pytest.mark.parametrize(
    ("options", "catalog", "code"),
    [
        ({}, Catalog(), "catalog_not_declared"),
        ({}, Catalog("rest"), "rest_catalog"),
        ({"commit.strict-mode.last-safe-snapshot": "1"}, None, "strict_mode"),
        ({"manifest.format": "orc"}, None, "manifest_format"),
        ({"data-evolution.enabled": "true", "row-tracking.enabled": "true"}, None, "data_evolution"),
        ({"metadata.iceberg.storage": "table-location"}, None, "needs_engine_callbacks"),
        ({"metastore.partitioned-table": "true"}, None, "metastore_partitions"),
    ],
)
def test_a_table_that_allows_no_commit_is_only_planned(
    options: dict[str, str], catalog: Catalog | None, code: str
) -> None:
    world = RepairWorld(options=options)
    world.fill("A", "B")
    world.lose(world.table.path("A"))
    given = {} if catalog is None else {"catalog": catalog}
    planned = world.files(execute=False, **given)
    assert planned.status == "planned" and any("cannot be executed" in each for each in planned.warnings)
    before = world.bodies()
    assert refusal_of(world.files(**given)) == code
    assert world.bodies() == before


def test_properties_and_the_row_id_are_carried_on() -> None:
    world = RepairWorld()
    world.fill("A", "B")
    world.table.commit("+C", partition=("c",), document={"properties": {"k": "v"}, "nextRowId": 30, "watermark": 5})
    world.lose(world.table.path("A"))
    assert world.files().status == "done"
    document = world.newest().document
    assert (document["properties"], document["nextRowId"], document["watermark"]) == ({"k": "v"}, 30, 5)


def test_the_requests_are_many_enough() -> None:
    assert len(calls_of_a_repair()) > 30


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", range(1, len(calls_of_a_repair()) + 1))
def test_any_request_may_be_the_last(at: int, mode: str) -> None:
    """Whatever breaks, the newest snapshot is the damaged one or a repaired one, and the next call ends the work."""
    world = lossy()
    before = world.everywhere()
    try:
        world.files(Switch(at, mode))
    except (MaintenanceError, ProcessDeathError):
        pass
    ids = world.ids()
    assert ids in ([1, 2], [1, 2, 3])
    if ids == [1, 2, 3]:
        assert world.live() == {"A", "C", "D"}
    world.wait()
    report = world.files()
    assert report.status == ("done" if ids == [1, 2] else "nothing_to_do")
    assert world.live() == {"A", "C", "D"}
    assert world.newest().document["totalRecordCount"] == 30
    made = same_but(before, world.everywhere())
    assert {path for path in made if not path.startswith(("manifest/", "index/"))} <= {
        "snapshot/snapshot-3",
        "snapshot/LATEST",
    }


@pytest.mark.parametrize("at", range(1, len(calls_of_a_repair()) + 1))
def test_a_writer_may_commit_before_any_request(at: int) -> None:
    """Its file is live afterwards, and the lost one is not, whoever was first."""
    world = lossy()
    acted = []

    def commit(number: int) -> None:
        if number == at and world.ids() == [1, 2]:
            acted.append(world.table.commit("+E", partition=("e",)))

    assert world.files(Interleaved(commit)).status == "done"
    assert world.live() == {"A", "C", "D"} | ({"E"} if acted else set())
    assert world.newest().document["totalRecordCount"] == 10 * len(world.live())


@pytest.mark.parametrize("at", range(1, len(calls_of_a_repair()) + 1))
def test_a_file_may_come_back_before_any_request(at: int) -> None:
    """Up to the last look at it, right before the snapshot is written, it stays."""
    world = RepairWorld()
    world.fill("A", "B", "C")
    path = world.table.path("B")
    body = world.store.read(path).data
    world.lose(path)

    def restore(number: int) -> None:
        if number == at:
            world.store.put(path, body)

    switch = Interleaved(restore)
    world.files(switch)
    looks = [number for number, name in enumerate(switch.calls, 1) if name == f"table read {path}"]
    if at <= (looks or [len(switch.calls)])[-1]:
        assert world.live() == {"A", "B", "C"}
        assert world.ids() == [1, 2, 3]


def test_a_report_says_the_same_in_json() -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    path = world.lose(world.table.path("B"))
    document = json.loads(json.dumps(world.files(execute=False).to_json()))["commits"]
    assert document["lost"] == {
        "files": 1, "rows": 10, "bytes": document["lost_files"][0]["bytes"], "manifests": 0, "statistics": None
    }  # fmt: skip
    assert document["lost_files"][0]["path"] == path
    assert document["lost_files"][0]["named_by"] == ["snapshots 2 to 3"]


def test_a_double_entry_of_a_lost_file_leaves_twice() -> None:
    """A writer that commits a file again after its compaction leaves such entries."""
    world = RepairWorld()
    world.fill("A", "B")
    world.table.commit("+A", partition=("dA",))
    world.lose(world.table.path("A"))
    report = world.files()
    assert report.status == "done" and len(repair_of(report).files) == 1
    assert world.live() == {"B"}
    assert world.newest().document["totalRecordCount"] == 10
