"""The tags of runs that died: the second one is made, and nobody relies on one that goes."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.runs.identifiers import new_id
from lakesweep.storage.store import delete_all
from tests.support.commit_scene import Acting
from tests.support.faulty_store import DyingSwitch, ProcessDeathError
from tests.unit.operations.branches.as_latest_world import PREFIX, AsLatestWorld, facts


def dies_after_its_commit(world: AsLatestWorld, snapshot: int = 1) -> str:
    """Let a run die right before its second tag, and return its first one."""
    puts: list[str] = []

    def is_second(call: str) -> bool:
        puts.extend([call] if "put tag/" in call else [])
        return len(puts) == 2

    before = set(world.tags())
    with pytest.raises(ProcessDeathError):
        world.back(snapshot, switch=DyingSwitch(is_second))
    (tag,) = set(world.tags()) - before
    return tag


def second_of(tag: str, snapshot: int) -> str:
    return tag.replace(f"{PREFIX}1-", f"{PREFIX}{snapshot}-")


def test_the_same_call_makes_the_second_tag_of_a_dead_run() -> None:
    world = AsLatestWorld()
    tag = dies_after_its_commit(world)
    report = world.back(execute=False)
    assert (report.status, world.tags()) == ("nothing_to_do", [tag])
    assert [f"tag {second_of(tag, 4)} is missing" in warning for warning in report.warnings] == [True]
    report = world.back()
    assert (report.status, world.tags(), world.ids()) == ("nothing_to_do", [tag, second_of(tag, 4)], [1, 2, 3, 4])
    assert f"tag {second_of(tag, 4)} is made" in report.warnings[0]
    assert world.back().warnings == ()


def test_a_tag_that_is_made_as_advised_has_no_end() -> None:
    world = AsLatestWorld(options={"tag.default-time-retained": "1 h"})
    tag = dies_after_its_commit(world)
    world.run("create-tag", tag=second_of(tag, 4), snapshot=4, status="done")
    assert "tagTimeRetained" not in json.loads(world.store.read(f"tag/tag-{second_of(tag, 4)}").data)


def test_the_tag_of_a_run_whose_message_had_to_wait_is_young() -> None:
    world = AsLatestWorld()
    world.now_ms += 2 * ORPHAN_AGE_MS
    tag = f"{PREFIX}1-{new_id(world.now_ms)}"
    world.now_ms += 2 * ORPHAN_AGE_MS
    world.table.tag(tag, snapshot=1)
    assert world.back(2).status == "done" and tag in world.tags()
    world.now_ms += 2 * ORPHAN_AGE_MS
    assert world.back(3).status == "done" and tag not in world.tags()


def test_any_rollback_makes_it_before_it_counts_on_it() -> None:
    world = AsLatestWorld()
    tag = dies_after_its_commit(world)
    assert world.back(2, execute=False).status == "planned", "an execution makes it first"
    report = world.back(2)
    assert (report.status, world.ids()) == ("done", [1, 2, 3, 4, 5])
    assert second_of(tag, 4) in world.tags()


def test_it_is_made_of_what_is_left_of_the_commit() -> None:
    """The snapshot has expired, and another tag has it."""
    world = AsLatestWorld()
    tag = dies_after_its_commit(world)
    world.run("create-tag", tag="theirs", snapshot=4, status="done")
    world.run("create-tag", tag="before", snapshot=2, status="done")
    world.commit_the_same()
    world.now_ms += 7_200_000
    world.run("expire-snapshots", retain_max=1, retain_min=1)
    assert world.ids() == [5]
    assert world.back(4).status == "nothing_to_do"
    assert second_of(tag, 4) in world.tags()


def test_it_is_not_made_where_nothing_from_before_is_left() -> None:
    world = AsLatestWorld()
    tag = dies_after_its_commit(world)
    world.now_ms += 7_200_000
    world.run("expire-snapshots", retain_max=1, retain_min=1)
    assert world.ids() == [4]
    assert world.back(4).warnings == ()
    assert world.tags() == [tag]


def test_a_snapshot_that_somebody_replaced_gets_no_tag() -> None:
    world = AsLatestWorld()

    def replace() -> None:
        world.table.remove("snapshot/snapshot-4")
        world.table.commit("+E", snapshot_id=4, time_ms=world.now_ms)

    report = world.back(switch=Acting("table list tag/", replace, number=4))
    assert report.status == "done"
    assert world.tags() == [f"{PREFIX}1-{report.run_id}"] == list(facts(report).kept_by)
    assert any("has deleted or replaced snapshot 4 since" in warning for warning in report.warnings)


def test_a_writer_that_tested_before_the_put_is_noticed_also_under_a_lock() -> None:
    """Otherwise a tag of the lost snapshot would stay, and Paimon's expiry would go by its files."""
    world = AsLatestWorld()

    def replace() -> Iterator[None]:
        world.table.remove("snapshot/snapshot-4")
        world.table.commit("+E", snapshot_id=4, time_ms=world.now_ms)
        yield

    world.steps = replace()
    report = world.back()
    assert (report.status, world.ids(), world.live()) == ("done", [1, 2, 3, 4, 5], {"A", "B"})
    assert world.tags() == [f"{PREFIX}{each}-{report.run_id}" for each in (1, 5)]


def test_nobody_relies_on_the_tag_of_a_run_that_may_have_committed_nothing() -> None:
    """A later rollback would delete it, and then Paimon's expiry deletes the file that came back."""
    world = AsLatestWorld()
    first = world.back(1)
    world.store.delete(delete_all([f"tag/tag-{PREFIX}1-{first.run_id}"]))
    world.table.tag(f"{PREFIX}1-{new_id(world.now_ms)}", snapshot=1)
    assert world.refused(3)[0] == "unsafe_lives"


def test_nobody_relies_on_a_tag_with_an_end() -> None:
    world = AsLatestWorld()
    first = world.back(1)
    tag = f"{PREFIX}1-{first.run_id}"
    world.store.delete(delete_all([f"tag/tag-{tag}"]))
    world.table.tag(tag, snapshot=1, ttl=timedelta(days=400))
    assert world.refused(3)[0] == "unsafe_lives"


def test_a_clock_that_is_wrong_makes_no_run_one_that_committed_nothing() -> None:
    world = AsLatestWorld()
    world.now_ms += 2 * ORPHAN_AGE_MS
    tag = dies_after_its_commit(world)
    world.wait()
    world.now_ms += 2 * ORPHAN_AGE_MS
    world.commit_the_same(world.now_ms - 20 * ORPHAN_AGE_MS)
    assert world.back(2).status == "done"
    assert {tag, second_of(tag, 4)} < set(world.tags())


def test_a_branch_has_what_a_run_committed() -> None:
    """The snapshot was withdrawn from main, and its branch still needs what the first tag keeps."""
    world = AsLatestWorld()
    world.now_ms += 2 * ORPHAN_AGE_MS
    report = world.back()
    first, second = world.tags()
    world.run("create-branch", branch="b", tag=second, status="done")
    world.now_ms += 2 * ORPHAN_AGE_MS
    world.run("rollback", snapshot=3, lose_tag=[second], status="done")
    assert world.tags() == [first]
    world.forget_what_is_gone()
    assert world.back(2).status == "done"
    assert first in world.tags() and report.run_id in first


def test_a_run_of_which_nobody_knows_whether_it_has_committed() -> None:
    """Its snapshot has expired, and an older tag has what it took back."""
    world = AsLatestWorld()
    tag = dies_after_its_commit(world)
    world.run("create-tag", tag="before", snapshot=2, status="done")
    world.commit_the_same()
    world.now_ms += 7_200_000
    world.run("expire-snapshots", retain_max=1, retain_min=1)
    assert world.back().warnings == (), "it may still be at work"
    world.now_ms += 2 * ORPHAN_AGE_MS
    report = world.back(2)
    assert report.refusal is not None and report.refusal.code == "unsafe_lives"
    for said in (report, world.back(), world.back(execute=False)):
        (told,) = said.warnings
        assert f"lakesweep create-tag TABLE {second_of(tag, 5)} --snapshot 5 --execute" in told
    world.run("create-tag", tag=second_of(tag, 5), snapshot=5, status="done")
    assert world.back(2).status == "done"


def test_a_tag_alone_is_no_table() -> None:
    world = AsLatestWorld()
    world.now_ms += 2 * ORPHAN_AGE_MS
    tag = dies_after_its_commit(world)
    world.now_ms += 2 * ORPHAN_AGE_MS
    world.store.delete(delete_all([f"snapshot/snapshot-{each}" for each in world.ids()]))
    assert world.refused(None, tag=tag)[0] == "no_such_version"
