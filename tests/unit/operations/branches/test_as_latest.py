"""`rollback --as-latest` on tables in memory, read back by an independent reader."""

import io
import json
from typing import Any

import fastavro
import pytest

from lakesweep.cli.text import report_lines
from lakesweep.control.lease import read_lease
from lakesweep.errors import LeaseHeldError, UsageError
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.storage.store import delete_all
from tests.support.commit_scene import Acting
from tests.support.reader import read_root
from tests.unit.operations.branches.as_latest_world import LOCKED, PREFIX, AsLatestWorld, facts


def test_a_dry_run_says_what_comes_back_and_what_goes() -> None:
    world = AsLatestWorld()
    before = world.bodies()
    report = world.back(execute=False)
    assert (report.status, report.executed, report.warnings) == ("planned", False, ())
    said = facts(report)
    assert (said.snapshot, said.tag, said.made, said.kept_by) == (1, None, (), ())
    assert (said.back.files, said.back.rows) == (1, 10)
    assert (said.gone.files, said.gone.rows) == (2, 20)
    assert world.bodies() == before


def test_the_target_is_the_newest_and_nothing_is_withdrawn() -> None:
    world = AsLatestWorld()
    world.table.tag("later", snapshot=3)
    before = world.keys()
    report = world.back()
    assert (report.status, report.refusal) == ("done", None)
    assert world.live() == {"A", "B"}
    assert world.keys() >= before
    assert world.ids() == [1, 2, 3, 4]
    assert world.store.read("snapshot/LATEST").data == b"4"
    (made,) = facts(report).made
    assert (made.snapshot_id, made.files, made.rows, made.attempts) == (4, 2, 20, 1)


def test_the_snapshot_says_what_the_target_said() -> None:
    world = AsLatestWorld(is_empty=True)
    sequence = "sequence.generation.max-sequence-number"
    world.commit("+A", document={"watermark": 7, "properties": {"a": "1", sequence: "5"}, "nextRowId": 3})
    world.table.alter(types={"later": "STRING"})
    world.commit("-A", "+B", document={"watermark": 9, "properties": {"b": "2", sequence: "8"}, "nextRowId": 12})
    world.back()
    document = world.newest().document
    assert document["properties"] == {"a": "1", sequence: "8"}
    wanted = {"schemaId": 0, "watermark": 7, "nextRowId": 12, "commitKind": "OVERWRITE", "totalRecordCount": 10}
    assert {key: document[key] for key in wanted} == wanted
    assert document["deltaRecordCount"] == 0
    assert document["commitUser"].startswith("lakesweep-")
    assert "operation" not in document and "changelogManifestList" not in document


def test_no_manifest_of_the_base_deletes_anything() -> None:
    """Readers drop every ADD that some DELETE names, wherever it stands."""
    world = AsLatestWorld()
    world.back()
    document = world.newest().document
    base, delta = (_kinds(world, document[name]) for name in ("baseManifestList", "deltaManifestList"))
    assert (set(base), delta) == ({0}, [1, 1, 0])


def _kinds(world: AsLatestWorld, name: str) -> list[int]:
    """Return whether each entry of a list adds (0) or deletes (1), in order."""
    manifests = _records(world, name)
    return [entry["_KIND"] for manifest in manifests for entry in _records(world, manifest["_FILE_NAME"])]


def _records(world: AsLatestWorld, name: str) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(world.store.read(f"manifest/{name}").data)))  # type: ignore[arg-type]


def test_a_file_that_changed_its_level_is_not_deleted() -> None:
    """A compaction will move it again, and readers drop an ADD that an older DELETE names."""
    world = AsLatestWorld(is_empty=True, primary_keys=["k"])
    world.commit("+A@0", "+B@0")
    world.commit("-A@0", "+A@5")
    report = world.back()
    said = facts(report)
    assert (said.back.files, said.gone.files, said.kept_by) == (0, 0, ())
    document = world.newest().document
    assert (_kinds(world, document["baseManifestList"]), _kinds(world, document["deltaManifestList"])) == ([0, 0], [])
    assert {level for _, level in _levels(world, document["baseManifestList"])} == {0}
    assert (document["deltaRecordCount"], world.live()) == (0, {"A", "B"})
    world.now_ms += 7_200_000
    assert world.run("expire-snapshots", retain_max=1, retain_min=1).status == "done"
    assert world.live() == {"A", "B"}


def _levels(world: AsLatestWorld, name: str) -> list[tuple[str, int]]:
    entries = (entry for manifest in _records(world, name) for entry in _records(world, manifest["_FILE_NAME"]))
    return [(entry["_FILE"]["_FILE_NAME"], entry["_FILE"]["_LEVEL"]) for entry in entries]


def test_index_files_and_statistics_come_back() -> None:
    world = AsLatestWorld(is_empty=True)
    world.commit("+A", index={"I": {"A": [1]}}, statistics="S")
    world.commit(index={"J": {"A": [1, 2]}}, statistics="U")
    report = world.back()
    assert facts(report).index
    first, third = (json.loads(world.store.read(f"snapshot/snapshot-{number}").data) for number in (1, 3))
    assert (third["indexManifest"], third["statistics"]) == (first["indexManifest"], first["statistics"])
    assert len(facts(report).kept_by) == 2
    world.now_ms += 7_200_000
    assert world.run("expire-snapshots", retain_max=1, retain_min=1).status == "done"
    assert world.live() == {"A"}


def test_two_tags_without_an_end_stay_where_a_file_came_back() -> None:
    """Paimon's expiry needs one in each life of the file."""
    world = AsLatestWorld(is_empty=True, options={"tag.default-time-retained": "1 h"})
    world.commit("+A")
    world.commit("-A")
    report = world.back()
    assert list(facts(report).kept_by) == world.tags() == [f"{PREFIX}{id}-{report.run_id}" for id in (1, 3)]
    for tag in world.tags():
        assert "tagTimeRetained" not in json.loads(world.store.read(f"tag/tag-{tag}").data)
    world.now_ms += 1_000 * ORPHAN_AGE_MS
    world.run("expire-tags", time_retained="1 d")
    assert len(world.tags()) == 2, "no rule of ours deletes them"


def test_no_tag_is_needed_where_nothing_comes_back() -> None:
    """All files of the target are live, so no expiry deletes them."""
    world = AsLatestWorld(is_empty=True)
    world.commit("+A")
    world.commit("+B")
    switch = Acting("table list tag/", lambda: None)
    report = world.back(switch=switch)
    assert (report.status, world.live(), world.tags(), facts(report).kept_by) == ("done", {"A"}, [], ())
    assert not [call for call in switch.calls if "put tag/" in call]


def test_the_newest_and_what_equals_it_is_nothing_to_do() -> None:
    world = AsLatestWorld()
    before = world.bodies()
    assert world.back(3).status == "nothing_to_do"
    assert world.bodies() == before
    world.back(1)
    before = world.bodies()
    assert world.back(1).status == world.back(4).status == "nothing_to_do"
    assert world.bodies() == before


def test_a_rollback_is_undone_by_another_one() -> None:
    world = AsLatestWorld()
    first = world.back(1)
    assert world.back(3).status == "done"
    assert world.live() == {"B", "C", "D"}
    assert world.back(1).status == "done"
    assert world.live() == {"A", "B"}
    assert first.run_id is not None
    refusal = world.maintainer().run("undo", run_id=first.run_id, execute=False).refusal
    assert refusal is not None and refusal.code == "not_undoable"
    assert "--as-latest --snapshot 3" in refusal.message


@pytest.mark.parametrize("words", [{"tag": "t"}, {"version": "t"}, {"version": "1"}, {"watermark": 7}])
def test_every_way_to_name_a_version(words: dict[str, object]) -> None:
    world = AsLatestWorld(is_empty=True)
    world.commit("+A", document={"watermark": 7})
    world.table.tag("t")
    world.commit("-A", "+B", document={"watermark": 9})
    report = world.back(None, **words)
    assert (report.status, world.live()) == ("done", {"A"})
    assert facts(report).tag == ("t" if "t" in words.values() else None)


def test_a_tag_whose_snapshot_has_expired() -> None:
    world = AsLatestWorld()
    world.table.tag("t", snapshot=1)
    world.now_ms += 7_200_000
    world.run("expire-snapshots", retain_max=1, retain_min=1)
    assert world.ids() == [3]
    report = world.back(1)
    assert (report.status, facts(report).tag) == ("done", "t")
    assert world.live() == {"A", "B"}


def test_on_a_branch_only_what_takes_nothing_back() -> None:
    world = AsLatestWorld(is_empty=True)
    world.commit("+A")
    world.table.tag("t")
    branch = world.table.branch("b", from_tag="t")
    branch.commit("+B", time_ms=world.now_ms + 1)
    world.now_ms += 60_000
    world.branch = "b"
    assert world.back(1).status == "done"
    branch.commit("-A", "+C", time_ms=world.now_ms, snapshot_id=4)
    code, sentence = world.refused(1)
    assert (code, "the tags of main only" in sentence) == ("only_main", True)


def test_rows_that_come_meanwhile_are_gone_as_well() -> None:
    """The version is the target's; the report counts them."""
    world = AsLatestWorld()
    act = Acting("table list schema/", lambda: world.table.commit("+E", "+F", time_ms=world.now_ms))
    report = world.back(switch=act)
    assert report.status == "done"
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.live() == {"A", "B"}
    said = facts(report)
    assert (said.newer_files, said.made[0].files, said.made[0].attempts) == (2, 4, 2)
    assert any("2 files written after the plan are gone as well" in line for line in report_lines(report.to_json()))


def test_another_writer_creates_the_snapshot_first() -> None:
    world = AsLatestWorld()
    act = Acting("table put snapshot/snapshot-4", lambda: world.table.commit("+E", time_ms=world.now_ms))
    report = world.back(switch=act)
    assert (report.status, world.ids(), world.live()) == ("done", [1, 2, 3, 4, 5], {"A", "B"})
    assert (facts(report).newer_files, facts(report).made[0].attempts) == (1, 2)
    assert len(world.tags()) == 2


def test_files_come_back_that_were_deleted_meanwhile() -> None:
    """Nothing was to come back, so no tag was made; now one is."""
    world = AsLatestWorld(is_empty=True)
    world.commit("+A")
    world.commit("+B")
    act = Acting("table list schema/", lambda: world.table.commit("-A", "+C", time_ms=world.now_ms))
    report = world.back(switch=act)
    assert (report.status, world.live()) == ("done", {"A"})
    assert len(world.tags()) == len(facts(report).kept_by) == 2


def test_a_tag_that_vanishes_ends_the_run() -> None:
    world = AsLatestWorld()

    def delete() -> None:
        for tag in world.tags():
            world.store.delete(delete_all([f"tag/tag-{tag}"]))

    report = world.back(switch=Acting("table list schema/", delete, number=3))
    assert (report.status, world.ids()) == ("stale", [1, 2, 3])
    assert report.refusal is not None and "is gone; expected it to stay" in report.refusal.message

    report = world.back(switch=Acting("table put snapshot/snapshot-4", delete))
    assert (report.status, world.ids()) == ("done", [1, 2, 3, 4])
    assert [f"create-tag TABLE {PREFIX}1-{report.run_id} --snapshot 1" in each for each in report.warnings].count(True)
    assert len(facts(report).kept_by) == 1


def test_a_tag_is_asked_for_once_more_under_the_lease() -> None:
    """Lakesweep deletes files of a tag under the lease alone, so nothing can go between this look and the commit."""
    world = AsLatestWorld()
    world.now_ms += 7_200_000

    def expire_and_delete() -> None:
        assert world.run("expire-snapshots", retain_max=1, retain_min=1).status == "done"
        assert world.run("delete-tag", tag=world.tags()).status == "done"

    act = Acting(f"control put {world.area.prefix}lease.json", expire_and_delete)
    report = world.back(switch=act)
    assert (report.status, world.ids(), world.live()) == ("stale", [3], {"B", "C", "D"})


def test_a_base_that_expires_meanwhile() -> None:
    world = AsLatestWorld()
    world.now_ms += 7_200_000

    def commit_and_expire() -> None:
        world.commit_the_same()
        assert world.run("expire-snapshots", retain_max=1, retain_min=1).status == "done"

    report = world.back(switch=Acting("table list schema/", commit_and_expire, number=3))
    assert (report.status, world.ids(), world.live()) == ("done", [4, 5], {"A", "B"})


def test_a_file_that_an_expiry_deletes_after_the_check_is_told_at_once() -> None:
    """An expiry of Paimon that began before the tag existed still deletes; the table is damaged then."""
    world = AsLatestWorld()
    act = Acting("table put snapshot/snapshot-4", lambda: world.table.remove("A"))
    report = world.back(switch=act)
    assert (report.status, report.told_status) == ("done", "damaged")
    said = facts(report)
    assert (list(said.lost), said.is_damaged) == ([world.table.path("A")], True)
    assert any("lakesweep rollback TABLE --as-latest --snapshot 3" in warning for warning in report.warnings)
    assert world.back(3).status == "done"
    assert world.table.symbols(read_root(world.store, "snapshot/snapshot-5").live) == {"B", "C", "D"}


def test_a_run_that_ends_while_another_holds_the_lease_says_what_it_left() -> None:
    world = AsLatestWorld()
    errors: list[str] = []

    def second() -> None:
        with pytest.raises(LeaseHeldError) as raised:
            world.back(1)
        errors.append(str(raised.value))

    report = world.back(switch=Acting("table put snapshot/snapshot-4", second))
    (left,) = [tag for tag in world.tags() if not tag.endswith(str(report.run_id))]
    assert f"; tag {left} is left, and holds its files until it is deleted" in errors[0]


def test_what_a_run_that_died_left_is_deleted_a_day_later() -> None:
    world = AsLatestWorld()
    tag = f"{PREFIX}1-20200101T000000Z-12345678"
    world.table.tag(tag, snapshot=1)
    young = f"{PREFIX}1-20270115T080000Z-12345678"
    world.table.tag(young, snapshot=1)
    of_paimon = f"{PREFIX}1-4d0ec9c2-6b43-4a9e-9d3b-0a0a0a0a0a0a"
    world.table.tag(of_paimon, snapshot=1)
    report = world.back()
    assert report.status == "done"
    assert not [warning for warning in report.warnings if "is deleted" in warning], "older snapshots may have expired"
    assert {tag, young, of_paimon} < set(world.tags())

    world = AsLatestWorld()
    run_id = _dead_run(world)
    report = world.back()
    assert f"{PREFIX}1-{run_id}" in world.tags(), "it may still be at work"
    world = AsLatestWorld()
    run_id = _dead_run(world)
    world.now_ms += 3 * ORPHAN_AGE_MS
    world.commit("+E")
    report = world.back()
    assert report.status == "done"
    assert f"{PREFIX}1-{run_id}" not in world.tags()
    assert [f"tag {PREFIX}1-{run_id} is deleted" in warning for warning in report.warnings].count(True) == 1
    world.now_ms += 3 * ORPHAN_AGE_MS
    assert world.back(2).status == "done"
    assert sum(str(report.run_id) in tag for tag in world.tags()) == 2, "its rollback has committed"


def _dead_run(world: AsLatestWorld) -> str:
    """Make the tag of a run that began a while after the first commits, and died."""
    from lakesweep.runs.identifiers import new_id

    world.now_ms += 2 * ORPHAN_AGE_MS
    run_id = new_id(world.now_ms)
    world.table.tag(f"{PREFIX}1-{run_id}", snapshot=1)
    return run_id


def test_the_lease_is_free_afterwards_and_says_what_was_committed() -> None:
    world = AsLatestWorld()
    report = world.back()
    lease = read_lease(world.area)
    assert (lease.intent, lease.commits["main"].id, lease.commits["main"].state) == (None, 4, "published")
    assert lease.commits["main"].run_id == report.run_id


@pytest.mark.parametrize(
    "words",
    [
        {"snapshot": 1, "catalog_type": "filesystem"},
        {"snapshot": 1, "as_latest": True, "lose_tag": ["t"]},
        {"as_latest": True},
        {"snapshot": 1, "tag": "t", "as_latest": True},
        {"snapshot": 1, "options": {"commit.max-retries": "1"}},
    ],
)
def test_words_that_do_not_go_together(words: dict[str, object]) -> None:
    world = AsLatestWorld()
    with pytest.raises(UsageError):
        world.maintainer().run("rollback", execute=False, **words)


def test_the_text_says_it_in_words() -> None:
    world = AsLatestWorld(partition_keys=["dt"], is_empty=True)
    world.commit("+A", partition=("1",))
    world.commit("-A", "+B", partition={"B": ("2",)})
    lines = "\n".join(report_lines(world.back(execute=False).to_json()))
    assert "target     snapshot 1 of 2027-01-15 08:01:00.000Z is committed again as the newest" in lines
    assert "back       1 file, 10 rows" in lines and "in dt=1" in lines
    assert "gone       1 file, 10 rows" in lines and "in dt=2" in lines
    assert "catalog    filesystem" in lines
    lines = "\n".join(report_lines(world.back().to_json()))
    assert "commit     snapshot 3" in lines
    assert "keep       tags rollback-to-as-latest-1-" in lines
    assert "while there are snapshots, changelogs or other tags from before this commit" in lines


def test_without_a_declared_catalog_it_is_planned_only() -> None:
    world = AsLatestWorld()
    report = world.back(execute=False, catalog_type=None, catalog_lock=None)
    assert report.status == "planned" and "this cannot be executed" in report.warnings[0]
    assert world.refused(catalog_type=None, catalog_lock=None)[0] == "catalog_not_declared"
    assert LOCKED["as_latest"]


HERE, THERE = "x=000000_0.parquet", "y=000000_0.parquet"
"""Files of one name in two partitions, as where Paimon took over a table of Hive."""


def _two_of_one_name() -> AsLatestWorld:
    world = AsLatestWorld(is_empty=True, partition_keys=["dt"])
    world.commit(f"+{HERE}", "+B", partition={HERE: ("1",), "B": ("1",)})
    world.commit(f"-{HERE}", f"+{THERE}", partition={THERE: ("2",)})
    return world


def test_files_of_one_name_in_two_partitions_are_two_files() -> None:
    world = _two_of_one_name()
    report = world.back()
    said = facts(report)
    assert (said.back.files, said.gone.files, len(said.kept_by)) == (1, 1, 2)
    document = world.newest().document
    assert _kinds(world, document["deltaManifestList"]) == [1, 0]
    assert world.live() == {HERE, "B"}


def test_each_file_of_one_name_has_its_own_lives() -> None:
    world = AsLatestWorld(is_empty=True, partition_keys=["dt"])
    world.commit(f"+{HERE}", f"+{THERE}", partition={HERE: ("1",), THERE: ("2",)})
    world.commit(f"-{THERE}")
    report = world.back(1)
    assert world.back(2).status == "done"
    for tag in facts(report).kept_by:
        world.run("delete-tag", tag=[tag], status="done")
    assert world.refused(1)[0] == "unsafe_lives", "the second life of one has no tag"
