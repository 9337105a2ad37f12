"""Replaced snapshots that are easily missed, and clean histories that look like a replacement."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.errors import AccessDeniedError
from lakesweep.operations.maintenance.all_branches import maintain_all_branches
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.storage.store import DeleteRequest, StoredObject
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.commit_scene import Acting
from tests.support.replacing import OPTIONS, ReplacingWorld
from tests.support.table_builder import TableBuilder


class Denying(WrappingStore):
    """A table that nobody may list."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        raise AccessDeniedError(f"{prefix}: denied")


def seen_world(commits: int = 5, *, apart_s: float = 10, **words: Any) -> ReplacingWorld:
    """Return a table whose commits a pass has seen."""
    world = ReplacingWorld(**words)
    for _ in range(commits):
        world.commit()
        world.later(apart_s)
    world.look()
    world.events.clear()
    return world


def ids(found: object) -> list[int]:
    return [each.now.id for each in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("replaced", [5, 3])
def test_a_pass_over_all_branches_notices(replaced: int) -> None:
    world = seen_world()
    world.replace_snapshot(replaced)
    report = maintain_all_branches(world.maintainer().table, MaintainArguments(), execute=True)
    assert ids(report.all_lost()) == [replaced]


@pytest.mark.parametrize("replaced", [5, 3])
def test_a_pass_of_the_command_notices(replaced: int) -> None:
    world = seen_world()
    world.replace_snapshot(replaced)
    assert ids(world.maintain().all_lost()) == [replaced]


@pytest.mark.parametrize("replaced", [5, 3])
def test_a_sweep_without_a_hint_notices(replaced: int) -> None:
    world = seen_world()
    world.replace_snapshot(replaced)
    world.store.delete([DeleteRequest("snapshot/LATEST")])
    assert ids(world.sweep()) == [replaced]


@pytest.mark.parametrize("skew_s", [-3600, -30, -10, 0, 10, 30, 3600])
@pytest.mark.parametrize("after_s", [1.2, 4, 15, 600])
def test_a_rollback_and_a_writer_whose_clock_is_wrong(skew_s: int, after_s: float) -> None:
    world = seen_world()
    world.roll_back()
    world.later(after_s)
    world.commit(skew_s=skew_s)
    world.deliver()
    world.sweep()
    assert world.told.lost == []


@pytest.mark.parametrize("skew_s", [-3600, -30, -10, 0, 10, 30, 3600])
@pytest.mark.parametrize("after_s", [0.2, 3, 20])
def test_a_race_and_a_writer_whose_clock_is_wrong(skew_s: int, after_s: float) -> None:
    world = seen_world()
    world.replace_snapshot(5, skew_s=skew_s, after_s=after_s)
    assert ids(world.deliver()) == [5]


def test_a_state_that_was_lost_over_night() -> None:
    world = seen_world()
    world.control.put(world.area.prefix + "state.json", b"{}")
    world.commit()
    world.replace_snapshot(6)
    assert ids(world.deliver()) == [6]
    assert world.sweep() == []


def test_on_a_branch() -> None:
    world = seen_world()
    world.table.tag("t", 3)
    branch = world.table.branch("b1", from_tag="t")
    world.commit(branch)
    world.deliver()
    world.later(3)
    world.replace_snapshot(4, branch="b1")
    assert ids(world.deliver()) == [4]
    world.later(3)
    world.commit(branch)
    world.look("b1")
    world.events.clear()
    world.replace_snapshot(5, branch="b1")
    world.events.clear()
    assert ids(world.sweep()) == [5]


def test_replaced_twice() -> None:
    world = seen_world()
    world.commit()
    world.replace_snapshot(6)
    world.replace_snapshot(6)
    world.deliver()
    world.sweep()
    assert ids(world.told.lost) == [6, 6]
    assert len({each.lost.number for each in world.told.lost}) == 2


def test_replaced_and_expired_before_the_events_come() -> None:
    world = seen_world()
    world.commit()
    world.replace_snapshot(6)
    late, world.events = world.events, []
    for _ in range(6):
        world.later(1)
        world.commit()
    world.run("expire-snapshots", retain_max=3, retain_min=1)
    world.forget_what_is_gone()
    world.events += late
    world.deliver()
    assert ids(world.told.lost) == [6]


def test_uploaded_again_in_parts() -> None:
    """The same bytes with the ETag of a multipart upload."""
    world = seen_world()
    world.store.upload_in_parts("snapshot/snapshot-5")
    world.announce("main", 5)
    world.deliver()
    world.sweep()
    assert (world.told.lost, world.told.doubts) == ([], [])
    world.store.put("snapshot/snapshot-5", world.store.read("snapshot/snapshot-5").data)
    world.announce("main", 5)
    world.deliver()
    world.sweep()
    assert (world.told.lost, world.told.doubts) == ([], [])


def test_a_table_whose_passes_are_refused() -> None:
    """It states no retention."""
    world = seen_world(options={})
    assert world.maintain(is_due=True).status == "refused"
    world.replace_snapshot(4)
    world.events.clear()
    assert ids(world.sweep()) == [4]
    assert world.sweep() == []


@pytest.mark.parametrize("are_events_lost", [False, True])
def test_a_table_that_is_paused(are_events_lost: bool) -> None:
    """Nothing changes it, and the next lost commit is noticed while the operator looks for the first."""
    world = seen_world()
    world.rule(pause=True)
    for _ in range(9):
        world.later(600)
        world.commit()
        world.deliver()
    before = world.etags()
    replaced = world.newest
    world.look()
    assert world.etags() == before
    world.replace_snapshot(replaced)
    if are_events_lost:
        world.events.clear()
    world.deliver()
    world.sweep()
    assert ids(world.told.lost) == [replaced]
    assert world.maintain(is_due=True).refusal.code == "paused"  # type: ignore[union-attr]


def test_a_paused_table_that_cannot_be_listed() -> None:
    """Nobody looked, and the report says so; the next look notices all the same."""
    world = seen_world()
    world.rule(pause=True)
    world.replace_snapshot(5)
    table = world.maintainer().table
    report = maintain(replace(table, store=Denying(table.store)), MaintainArguments(is_due=True), execute=True)
    assert report.refusal is not None and report.refusal.code == "paused"
    assert any("nobody looked for replaced snapshots" in each for each in report.warnings), report.warnings


@pytest.mark.parametrize("is_state_lost", [False, True])
def test_a_table_that_is_made_again_at_its_place(is_state_lost: bool) -> None:
    """It has snapshots with the ids of the former ones, also of one that Lakesweep committed."""
    declared = {"catalog_type": "filesystem", "catalog_lock": True}
    world = seen_world()
    assert world.run("compact-manifest", **declared).status == "done"
    world.announce("main", 6)
    late = list(world.events)
    world.deliver()
    world.look()
    world.later(90)
    world.store.delete(list(map(DeleteRequest, sorted(world.keys()))))
    world.table = TableBuilder(world.store, options=OPTIONS)
    if is_state_lost:
        world.control.delete([DeleteRequest(f"{world.area.prefix}state.json")])
    for _ in range(7):
        world.commit()
        world.later(1)
    world.events += late
    world.deliver()
    world.sweep()
    report = world.run("compact-manifest", **declared)
    assert report.status == "done" and report.commits is not None
    assert [commit.replaced for commit in report.commits.made] == [0]
    assert (world.told.lost, world.told.doubts) == ([], [])


def test_a_snapshot_that_is_replaced_while_a_pass_reads() -> None:
    """The next look compares with what was seen before both."""
    world = seen_world()
    world.replace_snapshot(5)
    world.events.clear()
    act = Acting("table read snapshot/snapshot-5", lambda: world.replace_snapshot(5, made_before_s=10.1))
    report = world.maintain(act, is_due=True)
    assert act._left <= 0
    found = [*report.all_lost(), *world.sweep(), *world.deliver(), *world.sweep()]
    assert 5 in ids(found) and set(ids(found)) == {5}


def test_the_same_length_and_the_same_commit_user() -> None:
    world = seen_world()
    world.commit(user="racer-9")
    world.look()
    before = world.store.read("snapshot/snapshot-6").data
    world.replace_snapshot(6, user="racer-9")
    world.events.clear()
    assert len(world.store.read("snapshot/snapshot-6").data) == len(before)
    assert ids(world.sweep()) == [6]


@pytest.mark.parametrize("by", ["java", "pypaimon", "lakesweep"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_fast_forward_over_a_commit_whose_event_is_late(by: str, is_deleted: bool) -> None:
    """What the branch has was made before. Of pypaimon nothing tells, once the branch is deleted (docs/commits.md)."""
    world = seen_world()
    world.table.tag("t", 5)
    branch = world.table.branch("b1", from_tag="t")
    world.commit(branch)
    world.later(0.3)
    world.commit()
    late = [event for event in world.events if event[0] == "main"]
    world.events.clear()
    world.later(2.5)
    if by == "lakesweep":
        assert world.fast_forward_by_ours("b1")
    else:
        world.fast_forward("b1", rewrites_schemas=by == "java")
    world.look()
    if is_deleted:
        world.run("delete-branch", branch="b1")
    world.events += late
    world.deliver()
    world.sweep()
    assert ids(world.told.lost) == ([6] if by == "pypaimon" and is_deleted else [])


@pytest.mark.parametrize("count", [1, 2])
def test_a_young_snapshot_that_expired_and_is_restored(count: int) -> None:
    """Within a minute, so its document is as young as one of a writer that stood still."""
    world = seen_world(7, apart_s=3)
    paths = [f"snapshot/snapshot-{snapshot_id}" for snapshot_id in range(1, count + 1)]
    bodies = [world.store.read(path).data for path in paths]
    world.run("expire-snapshots", retain_max=7 - count, retain_min=1)
    for path, body in zip(paths, bodies, strict=True):
        world.later(3)
        world.store.put(path, body)
        world.announce("main", int(path.rpartition("-")[2]))
    world.deliver()
    world.sweep()
    assert (world.told.lost, world.told.doubts) == ([], [])
