"""Deleting tags: what goes, what stays, and what is said."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest

from lakesweep.control.intent import Intent
from lakesweep.errors import UsageError
from lakesweep.model.plan import Delete
from lakesweep.model.report import RunReport
from lakesweep.storage.store import Body, DeleteRequest, DeleteResult
from lakesweep.table.reach.freed import FreedFiles
from lakesweep.table.reach.freed_tags import find_freed_tags
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.reader import assert_all_readable
from tests.support.table_builder import TableBuilder
from tests.support.world import ReadWorld


class TaggedWorld(ReadWorld):
    def delete(self, *names: str, on: str = "main", status: str = "done", **arguments: Any) -> RunReport:
        return self.run("delete-tag", on=on, status=status, tag=list(names), **arguments)

    def tags(self) -> list[str]:
        return sorted(self.keys("tag/"))


@pytest.fixture
def scene() -> TaggedWorld:
    return TaggedWorld()


def _replacements(table: TableBuilder, symbols: Iterable[str]) -> None:
    """Commit each symbol in place of the one before."""
    before = ""
    for symbol in symbols:
        table.commit(f"+{symbol}", *([f"-{before}"] if before else []))
        before = symbol


def _f5(table: TableBuilder) -> None:
    table.commit("+A")
    table.commit("+B")
    table.commit("-A")
    table.commit("-B")
    table.commit("+C")
    for snapshot_id in (1, 2, 4):
        table.tag(f"t{snapshot_id}", snapshot=snapshot_id)


def test_the_middle_tag_takes_what_its_neighbours_have_not(scene: TaggedWorld) -> None:
    _f5(scene.table)
    scene.expire()
    before = scene.keys("manifest/")
    needs = scene.table.referenced("tag/tag-t2", with_changelog=False)
    report = scene.delete("t2")
    assert scene.table.present() == {"A", "C"}
    assert scene.tags() == ["tag/tag-t1", "tag/tag-t4"]
    gone = before - scene.keys("manifest/")
    assert gone
    assert gone <= needs
    assert report.plan is not None
    assert report.plan.actions[0].phase == "tags"
    assert report.plan.header.end_id is None


def test_all_tags_in_one_plan(scene: TaggedWorld) -> None:
    _f5(scene.table)
    scene.expire()
    scene.delete("t1", "t2", "t4")
    assert scene.table.present() == {"C"}
    newest = scene.table.referenced("snapshot/snapshot-5")
    assert scene.keys("manifest/") == {path for path in newest if path.startswith("manifest/")}


def test_one_after_the_other_or_together_leaves_the_same() -> None:
    left = []
    for groups in ([["t1", "t2", "t4"]], [["t1"], ["t2"], ["t4"]], [["t4"], ["t2", "t1"]], [["t2"], ["t4"], ["t1"]]):
        scene = TaggedWorld()
        _f5(scene.table)
        scene.expire()
        for group in groups:
            scene.delete(*group)
        left.append({entry.key for entry in scene.store.list("")})
    assert all(each == left[0] for each in left)


def test_an_external_file_and_its_extra_file_go() -> None:
    outside = MemoryStore("memory://other/p")
    store = MemoryStore("memory://bucket/db.db/t")
    table = TableBuilder(store, externals={outside.location: outside})
    name = "data-11111111-2222-3333-4444-555555555555-0.parquet"
    table.commit("+A", external={"A": f"{outside.location}/bucket-0/{name}"}, extra={"A": (f"{name}.index",)})
    table.commit("-A", "+B")
    table.tag("t", snapshot=1)
    maintainer = Maintainer(store, open_store=opener(outside), external_roots=(outside.location,))
    assert maintainer.expire().status == "done"
    assert len(list(outside.list(""))) == 2
    assert maintainer.run("delete-tag", tag=["t"]).status == "done"
    assert list(outside.list("")) == []


def test_a_tag_whose_snapshot_is_there_gives_up_its_document_alone(scene: TaggedWorld) -> None:
    _replacements(scene.table, "ABCD")
    path = scene.table.tag("t", snapshot=3)
    before = {entry.key for entry in scene.store.list("")}
    report = scene.delete("t")
    assert before - {entry.key for entry in scene.store.list("")} == {path}
    assert report.outcome is not None
    assert report.outcome.deleted == 1
    scene.expire()
    assert scene.table.present() == {"D"}


def test_another_tag_on_the_snapshot_keeps_all(scene: TaggedWorld) -> None:
    _replacements(scene.table, "AB")
    scene.table.tag("t", snapshot=1)
    scene.table.tag("u", snapshot=1)
    scene.expire()
    before = {entry.key for entry in scene.store.list("")}
    scene.delete("t")
    assert before - {entry.key for entry in scene.store.list("")} == {"tag/tag-t"}
    scene.delete("u")
    assert scene.table.present() == {"B"}


def test_both_tags_of_a_snapshot_go_at_once(scene: TaggedWorld) -> None:
    _replacements(scene.table, "AB")
    scene.table.tag("t", snapshot=1)
    scene.table.tag("u", snapshot=1)
    scene.expire()
    scene.delete("u", "t")
    assert scene.table.present() == {"B"}


def test_changelog_files_are_no_business_of_a_tag() -> None:
    scene = TaggedWorld(options={"changelog-producer": "input"})
    scene.table.commit("+A", changelog=["+L1"])
    scene.table.commit("-A", "+B", changelog=["+L2"])
    scene.table.tag("t", snapshot=1)
    scene.expire()
    assert scene.table.present() == {"A", "B", "L2"}
    scene.delete("t")
    assert scene.table.present() == {"B", "L2"}


def test_what_a_rollback_tag_still_needs_stays(scene: TaggedWorld) -> None:
    table = scene.table
    table.commit("+F")
    table.commit("+G")
    table.tag("rb", snapshot=2)
    table.commit("-F", "+H")
    table.commit("+I")
    table.tag("user", snapshot=4)
    table.rollback_as_latest("rb")
    table.commit("-F", "+K")
    table.commit("+L")
    scene.expire()
    scene.delete("user")
    assert table.present() == {"F", "G", "K", "L"}
    scene.delete("rb")
    assert table.present() == {"G", "K", "L"}


def test_what_came_back_outlives_the_tag_it_came_from(scene: TaggedWorld) -> None:
    table = scene.table
    table.commit("+F")
    table.commit("+G")
    table.tag("rb", snapshot=2)
    table.commit("-F", "+H")
    table.commit("+I")
    table.commit("+J")
    table.rollback_as_latest("rb")
    table.commit("+M")
    scene.expire(4)
    scene.delete("rb")
    assert table.present() == {"F", "G", "H", "I", "J", "M"}
    scene.expire()
    assert table.present() == {"F", "G", "M"}


def test_index_files_that_came_back_stay_for_their_tag(scene: TaggedWorld) -> None:
    table = scene.table
    table.commit("+A", index={"i1": {"A": (1,)}})
    table.commit(index={"i2": {"A": (2,)}})
    table.commit(index={"i3": {"A": (3,)}})
    table.tag("t1", snapshot=1)
    table.tag("t3", snapshot=3)
    table.rollback_as_latest("t1")
    table.commit(index={"i5": {"A": (5,)}})
    scene.expire()
    scene.delete("t3")
    assert table.present() == {"A", "i1", "i5"}
    scene.delete("t1")
    assert table.present() == {"A", "i5"}


def test_statistics_go_with_the_tag(scene: TaggedWorld) -> None:
    scene.table.commit("+A", statistics="s1")
    scene.table.commit("+B", statistics="s2")
    scene.table.tag("t", snapshot=1)
    scene.expire()
    scene.delete("t")
    assert scene.table.present() == {"A", "B", "s2"}


def test_extra_files_go_with_their_data_file(scene: TaggedWorld) -> None:
    scene.table.commit("+A", extra={"A": ("x.index", "y.index")})
    scene.table.commit("-A", "+B")
    scene.table.tag("t", snapshot=1)
    scene.expire()
    scene.delete("t")
    assert scene.table.present() == {"B"}


def test_a_file_that_moved_between_levels_stays(scene: TaggedWorld) -> None:
    scene.table.commit("+A@0")
    scene.table.tag("t", snapshot=1)
    scene.table.commit("-A@0", "+A@5")
    scene.expire()
    scene.delete("t")
    assert scene.table.present() == {"A"}


@pytest.mark.parametrize("deleted_on", ["main", "b"])
def test_roots_of_other_branches_protect(scene: TaggedWorld, deleted_on: str) -> None:
    table = scene.table
    table.commit("+A")
    table.tag("t", snapshot=1)
    branch = table.branch("b", from_tag="t")
    branch.commit("+X")
    branch.commit("-X")
    table.commit("-A", "+B")
    table.commit("+C")
    scene.expire()
    scene.expire(on="b")
    scene.delete("t", on=deleted_on)
    assert table.present() >= {"A", "B", "C"}, "A is live in the branch"
    if deleted_on == "b":
        assert table.exists("tag/tag-t")


def test_the_snapshot_of_another_branch_does_not_count_as_this_ones(scene: TaggedWorld) -> None:
    """The branch's own snapshot would keep the files by the engine's rule; the other's roots are asked as well."""
    table = scene.table
    table.commit("+A")
    table.tag("t", snapshot=1)
    table.branch("b", from_tag="t")
    table.commit("-A", "+B")
    scene.expire()
    before = table.present()
    scene.delete("t")
    assert table.present() == before
    assert not table.exists("tag/tag-t")


def test_a_changelog_document_keeps_its_files() -> None:
    scene = TaggedWorld(
        options={
            "changelog.num-retained.min": "1",
            "changelog.num-retained.max": "100",
            "changelog.time-retained": "9 d",
            "changelog-producer": "none",
        }
    )
    table = scene.table
    table.commit("+A")
    table.tag("t", snapshot=1)
    table.commit("-A", "+B", kind="APPEND")
    table.commit("-B", "+C", kind="APPEND")
    scene.expire()
    scene.delete("t")
    assert table.present() == {"A", "B", "C"}


# What cannot be read.


def test_a_tag_that_cannot_be_read_itself_frees_nothing(scene: TaggedWorld) -> None:
    _replacements(scene.table, "ABC")
    scene.table.tag("t", snapshot=1)
    scene.table.tag("u", snapshot=2)
    scene.expire()
    scene.control = scene.new_control()
    name = scene.table.document("tag/tag-t")["deltaManifestList"]
    scene.table.corrupt(f"manifest/{name}")
    before = scene.keys("manifest/")
    report = scene.maintainer().run("delete-tag", tag=["t"])
    assert report.status == "done"
    assert any("tag t is deleted and frees nothing" in warning for warning in report.all_warnings())
    assert scene.tags() == ["tag/tag-u"]
    assert scene.table.present() == {"A", "B", "C"}
    assert scene.keys("manifest/") == before


def test_one_unreadable_tag_does_not_hold_back_another(scene: TaggedWorld) -> None:
    _replacements(scene.table, "ABC")
    scene.table.tag("t", snapshot=1)
    scene.table.tag("u", snapshot=2)
    scene.expire()
    scene.control = scene.new_control()
    name = scene.table.document("tag/tag-t")["baseManifestList"]
    scene.table.remove(f"manifest/{name}")
    report = scene.maintainer().run("delete-tag", tag=["t", "u"])
    assert report.status == "done"
    assert scene.table.present() == {"A", "C"}


def test_a_tag_that_stays_and_cannot_be_read_keeps_all_it_may_need(scene: TaggedWorld) -> None:
    _replacements(scene.table, "ABC")
    scene.table.tag("t", snapshot=1)
    scene.table.tag("u", snapshot=2)
    scene.expire()
    scene.control = scene.new_control()
    name = scene.table.document("tag/tag-u")["deltaManifestList"]
    scene.table.corrupt(f"manifest/{name}")
    report = scene.maintainer().run("delete-tag", tag=["t"])
    assert report.status == "done"
    assert scene.table.present() == {"A", "B", "C"}
    assert report.plan is not None
    assert report.plan.header.kept["unreadable_root"] >= 1


def test_a_damaged_newest_snapshot_keeps_the_tags(scene: TaggedWorld) -> None:
    _replacements(scene.table, "AB")
    scene.table.tag("t", snapshot=1)
    scene.expire()
    name = scene.table.document("snapshot/snapshot-2")["deltaManifestList"]
    scene.table.corrupt(f"manifest/{name}")
    report = scene.maintainer().run("delete-tag", tag=["t"])
    assert (report.status, report.refusal and report.refusal.code) == ("refused", "unreadable_root")
    assert scene.tags() == ["tag/tag-t"]


def test_a_document_that_does_not_parse_stays_and_protects(scene: TaggedWorld) -> None:
    _replacements(scene.table, "ABC")
    scene.table.tag("t", snapshot=1)
    scene.table.tag("there", snapshot=3)
    scene.expire()
    scene.store.put("tag/tag-broken", b"{")
    report = scene.maintainer().run("delete-tag", tag=["broken"])
    assert report.status == "nothing_to_do"
    assert any("tag/tag-broken cannot be read, so it is kept" in warning for warning in report.all_warnings())
    report = scene.maintainer().run("delete-tag", tag=["t"])
    assert (report.status, report.refusal and report.refusal.code) == ("refused", "unreadable_root")
    assert scene.table.present() == {"A", "C"}
    report = scene.maintainer().run("delete-tag", tag=["there"])
    assert report.status == "done", "no file is at stake"
    assert scene.tags() == ["tag/tag-broken", "tag/tag-t"]


def test_without_any_snapshot_the_document_goes_alone(scene: TaggedWorld) -> None:
    _replacements(scene.table, "AB")
    scene.table.tag("t", snapshot=1)
    scene.expire()
    scene.table.remove("snapshot/snapshot-2")
    report = scene.maintainer().run("delete-tag", tag=["t"])
    assert report.status == "done"
    assert any("no snapshot is left" in warning for warning in report.all_warnings())
    assert scene.table.present() == {"A", "B"}
    assert scene.tags() == []


def test_two_states_by_one_id_free_nothing(scene: TaggedWorld) -> None:
    """After a rollback ids come again; the engine would take the files of one of the two."""
    table = scene.table
    _replacements(table, "AB")
    table.tag("t", snapshot=1)
    table.commit("-B", "+C")
    table.tag("old", snapshot=3)
    kept = scene.store.read("tag/tag-old").data
    table.rollback(2)
    scene.store.put("tag/tag-old", kept)
    table.commit("-B", "+D")
    table.tag("new", snapshot=3)
    table.commit("-D", "+E")
    scene.maintainer().expire()
    report = scene.maintainer().run("delete-tag", tag=["old", "new"])
    assert report.status == "done"
    assert any("differ about snapshot 3" in warning for warning in report.all_warnings())
    assert table.present() >= {"C", "D"}


# Calls.


def test_a_missing_tag_is_a_warning(scene: TaggedWorld) -> None:
    _replacements(scene.table, "AB")
    report = scene.delete("nope", status="nothing_to_do")
    assert report.all_warnings() == ("there is no tag 'nope' to delete",)
    scene.table.tag("t", snapshot=1)
    report = scene.delete("nope", "t")
    assert "there is no tag 'nope' to delete" in report.all_warnings()
    assert scene.tags() == []


@pytest.mark.parametrize("name", ["../snapshot/snapshot-1", "/", "tag-success-file", "x\0y", "*", "success-file"])
def test_names_of_no_tag_touch_nothing(scene: TaggedWorld, name: str) -> None:
    _replacements(scene.table, "AB")
    before = {entry.key for entry in scene.store.list("")}
    scene.delete(name, status="nothing_to_do")
    assert {entry.key for entry in scene.store.list("")} == before


def test_without_a_name(scene: TaggedWorld) -> None:
    _replacements(scene.table, "AB")
    with pytest.raises(UsageError, match="expected the name of a tag"):
        scene.maintainer().run("delete-tag")


def test_a_dry_run_deletes_nothing_and_its_plan_can_be_executed(scene: TaggedWorld) -> None:
    _replacements(scene.table, "AB")
    scene.table.tag("t", snapshot=1)
    scene.expire()
    before = {entry.key for entry in scene.store.list("")}
    planned = scene.maintainer().run("delete-tag", tag=["t"], execute=False)
    assert planned.status == "planned"
    assert {entry.key for entry in scene.store.list("")} == before
    assert planned.plan is not None
    done = scene.maintainer().execute(planned.plan.header.plan_id)
    assert done.status == "done"
    assert scene.table.present() == {"B"}
    assert scene.maintainer().execute(planned.plan.header.plan_id).status == "nothing_to_do"


def test_the_success_file_goes_with_its_tag() -> None:
    scene = TaggedWorld(options={"tag.create-success-file": "true"})
    _replacements(scene.table, "AB")
    for name in ("t", "u"):
        scene.table.tag(name, snapshot=1)
        scene.store.put(f"tag/tag-success-file/{name}_SUCCESS", b"{}")
    scene.delete("t")
    assert scene.tags() == ["tag/tag-success-file/u_SUCCESS", "tag/tag-u"]


@pytest.mark.parametrize(
    "option",
    [
        {"tag.callbacks": "com.example.X"},
        {"metastore.tag-to-partition": "dt"},
        {"metadata.iceberg.storage": "hadoop-catalog"},
    ],
)
def test_tables_whose_tags_others_know_are_refused(option: dict[str, str]) -> None:
    scene = TaggedWorld(options=option)
    _replacements(scene.table, "AB")
    scene.table.tag("t", snapshot=1)
    report = scene.delete("t", status="refused")
    assert report.refusal is not None
    assert report.refusal.code == "needs_engine_callbacks"
    assert next(iter(option)) in report.refusal.message


def test_many_files_are_confirmed(scene: TaggedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakesweep.operations.retention.release.CONFIRM_ABOVE_FILES", 1)
    scene.table.commit("+A", "+B", "+C")
    scene.table.commit("-A", "-B", "-C", "+D")
    scene.table.tag("t", snapshot=1)
    scene.expire()
    report = scene.delete("t", status="refused")
    assert report.refusal is not None
    assert report.refusal.code == "confirmation_needed"
    assert "half of the table" not in report.refusal.message
    assert scene.table.present() == {"A", "B", "C", "D"}
    assert report.plan is not None
    plan_id = report.plan.header.plan_id
    assert scene.maintainer().execute(plan_id, confirm=plan_id).status == "done"
    assert scene.table.present() == {"D"}


def test_each_action_says_why(scene: TaggedWorld) -> None:
    _f5(scene.table)
    scene.expire()
    report = scene.delete("t2")
    assert report.plan is not None
    reasons = {action.kind: action.reason for action in report.plan.actions if isinstance(action, Delete)}
    assert reasons["tag"] == "deleted manually"
    assert reasons["data"] == "held by tag t2, which is deleted"
    assert reasons["manifest_list"] == "named by tag t2, which is deleted"


def test_the_intent_names_the_snapshots_whose_files_go(scene: TaggedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Intent] = []
    original = Intent.to_json

    def noted(intent: Intent) -> dict[str, object]:
        seen.append(intent)
        return original(intent)

    monkeypatch.setattr(Intent, "to_json", noted)
    _f5(scene.table)
    scene.table.tag("there", snapshot=5)
    scene.expire()
    seen.clear()
    scene.delete("t1", "t2", "there")
    assert {intent.snapshot_ids for intent in seen} == {(1, 2)}
    seen.clear()
    scene.table.tag("there", snapshot=5)
    scene.delete("there")
    assert {intent.snapshot_ids for intent in seen} == {()}, "no file goes"


def test_each_object_is_read_once_and_files_go_a_thousand_at_a_time() -> None:
    reads: list[str] = []
    deletes: list[int] = []

    class Counting(MemoryStore):
        def read(self, key: str, max_bytes: int | None = None) -> Body:
            reads.append(key)
            return super().read(key, max_bytes)

        def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
            deletes.append(len(requests))
            return super().delete(requests)

    store = Counting("memory://bucket/t")
    table = TableBuilder(store)
    table.commit(*(f"+cold{number}" for number in range(50)))
    for day in range(1, 13):
        table.commit(*(f"+d{day}-{n}" for n in range(90)), *(f"-d{day - 1}-{n}" for n in range(90) if day > 1))
        table.tag(f"day-{day}")
    table.commit(*(f"-d12-{n}" for n in range(90)))
    assert Maintainer(store).expire().status == "done"
    reads.clear()
    maintainer = Maintainer(store)  # which remembers nothing
    planned = maintainer.run("delete-tag", tag=[f"day-{day}" for day in range(1, 13)], execute=False)
    assert max(Counter(reads).values()) == 1
    manifests = {path for path in reads if path.startswith("manifest/")}
    assert manifests <= {path for root in table.roots() if table.exists(root) for path in table.referenced(root)}
    assert planned.plan is not None
    files = [action for action in planned.plan.deletes if action.kind != "tag"]
    assert sum(action.kind == "data" for action in files) == 12 * 90
    reads.clear()
    deletes.clear()
    plan_id = planned.plan.header.plan_id
    assert maintainer.execute(plan_id, confirm=plan_id).status == "done"
    assert deletes[0] == 12, "the tags"
    assert deletes[1:] == [1000, len(files) - 1000]
    # A plan that another call made is not believed: each list and manifest is read once more, before the first delete.
    assert max(Counter(path for path in reads if path.startswith("manifest/")).values()) == 1
    assert table.present() == {f"cold{number}" for number in range(50)}
    assert_all_readable(table)


def test_what_the_nearest_relative_has_is_not_even_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag of a large table: memory grows with what it alone holds."""
    proposed: list[int] = []

    def noted(*arguments: Any) -> FreedFiles:
        found = find_freed_tags(*arguments)
        proposed.append(sum(freed.kind == "data" for freed in found.files))
        return found

    monkeypatch.setattr("lakesweep.operations.tags.delete.find_freed_tags", noted)
    scene = TaggedWorld()
    scene.table.commit(*(f"+cold{number}" for number in range(200)))
    scene.table.commit("+A", "-cold7")
    scene.table.tag("t")
    scene.table.commit("-A", "-cold3", "+B")
    scene.expire()
    scene.delete("t")
    assert proposed == [2], "A and cold3"
    assert "A" not in scene.table.present()
    assert "cold3" not in scene.table.present()


def test_files_by_the_rule_are_those_of_a_plain_difference() -> None:
    """What goes is what the tag has, and no root that stays; whichever relative is the nearest, and however merged."""
    for seed in range(40):
        random = Random(seed)
        scene = TaggedWorld()
        table = scene.table
        live: set[str] = set()
        for number in range(1, 12):
            gone = {name for name in sorted(live) if random.random() < 0.3}
            live = (live - gone) | {f"f{number}a", f"f{number}b"}
            table.commit(
                *(f"-{name}" for name in sorted(gone)),
                f"+f{number}a",
                f"+f{number}b",
                merge_base=random.random() < 0.3,
            )
            if random.random() < 0.6:
                table.tag(f"t{number}")
        scene.expire()
        tags = [root.removeprefix("tag/tag-") for root in scene.tags()]
        going = [name for name in tags if random.random() < 0.5 and name != "t11"]
        if not going:
            continue
        before = table.present()
        needed: set[str] = set()
        for root in table.roots():
            if root.removeprefix("tag/tag-") not in going:
                needed |= {file.symbol for file in table.model(root).live}
        held = {file.symbol for name in going for file in table.model(f"tag/tag-{name}").live}
        scene.maintainer().run("delete-tag", tag=going)
        assert table.present() == before - (held - needed), seed
        assert_all_readable(table)
