"""A run that moves a branch dies, and others go on: what the next run makes of it."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from lakesweep.errors import AccessDeniedError, MaintenanceError, OutOfTimeError, StorageError
from lakesweep.model.report import RunReport
from lakesweep.runs.run import execute_stored
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest
from tests.support.acting import Acting, Plays
from tests.support.content_store import ContentStore
from tests.support.every import EVERY
from tests.support.faulty_store import FaultyStore, ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.moving import GOING, MOVES, MovingWorld, check_files, check_moment, undisturbed
from tests.support.reader import read_root
from tests.support.table_builder import TableBuilder


def changes_of(calls: tuple[str, ...]) -> list[int]:
    """Return the numbers of the calls that change the table."""
    return [number for number, call in enumerate(calls, 1) if call.startswith(("table put", "table delete"))]


def dies(world: MovingWorld, at: int, mode: str = "death_after") -> None:
    with suppress(ProcessDeathError):
        world.execute(Switch(at, mode))
    world.wait()


@pytest.mark.parametrize("operation", MOVES)
def test_two_runs_may_die_one_after_the_other(operation: str) -> None:
    """The second one while it finishes what the first one began."""
    calls, end = undisturbed(operation, ContentStore)
    for first in changes_of(calls)[::EVERY]:
        for second in range(1, 60, 3 * EVERY):
            world = MovingWorld(operation, ContentStore)
            dies(world, first)
            switch = Switch(second, "death_after")
            with suppress(ProcessDeathError):
                world.finish(switch)
            check_moment(world, GOING.get(operation))
            world.wait()
            world.finish()
            assert world.documents() == end, (first, second)
            if len(switch.calls) < second:
                break


@pytest.mark.parametrize("mode", ["death", "death_after", "before", "after"])
@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_taking_back_may_die_at_any_call(operation: str, mode: str) -> None:
    """Somebody has committed on what was the newest snapshot. Whoever comes next takes the rest back."""
    calls, _ = undisturbed(operation, ContentStore)
    changes = changes_of(calls)
    committed_at = changes[2 * len(changes) // 3]
    probe = MovingWorld(operation, ContentStore)
    switch = Acting(committed_at, lambda: probe.publish(8))
    assert probe.execute(switch).status == "stale"
    for number in range(committed_at + 1, len(switch.calls) + 1, EVERY):
        world = MovingWorld(operation, ContentStore)
        acting = Acting(committed_at, lambda world=world: world.publish(8))
        acting.at, acting.mode = number, mode
        with suppress(ProcessDeathError, MaintenanceError):
            world.execute(acting)
        check_moment(world)
        world.wait()
        with suppress(MaintenanceError):
            world.finish()
        assert world.ids() == probe.ids(), (number, switch.calls[number - 1])
        assert world.latest() == 8
        hints = ("snapshot/LATEST", "snapshot/EARLIEST", "changelog/LATEST")
        assert without(world.documents(), *hints) == without(probe.documents(), *hints), number


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag"])
def test_the_table_has_gone_on_before_anything_was_done(operation: str) -> None:
    """A run died with its intent in the lease; the target has expired since. Nothing goes, nothing returns."""
    calls, _ = undisturbed(operation, ContentStore)
    world = MovingWorld(operation, ContentStore)
    dies(world, changes_of(calls)[0], "death")
    world.commits()
    world.commits()
    world.remove(*(f"snapshot/snapshot-{i}" for i in (4, 5, 6, 7)))
    before = world.documents()
    world.finish()
    assert world.documents() == before
    assert world.execute().status == "refused"  # it ended stale


def without(documents: dict[str, bytes], *paths: str) -> dict[str, bytes]:
    return {key: data for key, data in documents.items() if key not in paths and "commitIdentifier" not in str(data)}


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward", "fast-forward without a base"])
def test_the_table_has_long_gone_on(operation: str) -> None:
    """All was done when a run died; since then writers have committed, and the target has expired."""
    calls, _ = undisturbed(operation, ContentStore)
    for at in changes_of(calls)[-1:] + [len(calls) - 2]:
        world = MovingWorld(operation, ContentStore)
        dies(world, at)
        world.commits()
        world.commits()
        going = [i for i in world.ids() if i <= world.ids()[-1] - 2]
        world.remove(*(f"snapshot/snapshot-{i}" for i in going))
        world.store.put("snapshot/EARLIEST", str(world.ids()[0]).encode())
        before = world.documents()
        world.finish()
        assert world.documents() == before, at


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag"])
def test_a_tag_of_that_name_is_made_anew(operation: str) -> None:
    """A run died, and a writer makes a tag that has the name of one that went: it stays."""
    calls, _ = undisturbed(operation, ContentStore)
    world = MovingWorld(operation, ContentStore)
    dies(world, changes_of(calls)[-1])
    world.commits()
    newest = world.store.read(world.committed[0]).data
    world.store.put("tag/tag-t7", newest)
    before = world.documents()
    world.finish()
    assert world.documents() == before
    assert world.execute().status == "nothing_to_do"


def test_a_run_dies_after_it_wrote_latest_over_that_of_another_rollback() -> None:
    """The engine's went further down, so LATEST would name a snapshot that is gone."""
    calls, _ = undisturbed("rollback", ContentStore)
    point = next(number for number, call in enumerate(calls, 1) if call == "table put snapshot/LATEST")
    world = MovingWorld("rollback", ContentStore)
    acting = Acting(point, lambda: world.roll_back(4))
    acting.at, acting.mode = point, "death_after"
    with suppress(ProcessDeathError):
        world.execute(acting)
    world.wait()
    world.finish()
    assert (world.ids(), world.latest()) == ([4], 4)


def test_a_branch_of_that_name_is_made_anew() -> None:
    """A run deleted a branch and died before it could say so; an engine has made one from the same tag since."""
    operation = "branch that goes"
    calls, _ = undisturbed(operation, ContentStore)
    world = MovingWorld(operation, ContentStore)
    dies(world, changes_of(calls)[-1])
    folder = "branch/branch-b/"
    for path in ("snapshot/snapshot-3", "tag/tag-t3", "schema/schema-0"):
        world.store.put(f"{folder}{path}", world.before[f"{folder}{path}"])
    before = world.documents()
    world.finish()
    assert world.documents() == before


class Denying(Switch):
    """Refuses every request to change the table that has some words in it, but for the first ones."""

    def __init__(self, *words: str, granted: int = 0) -> None:
        super().__init__()
        self._words = words
        self._granted = granted

    def _run(self, name: str, call: object) -> object:
        is_it = any(word in name for word in self._words)
        self._granted -= is_it
        if is_it and self._granted < 0:
            raise AccessDeniedError(f"{name}: not allowed")
        return super()._run(name, call)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [("table put", "table delete"), ("table delete",)])
@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_who_may_not_write_leaves_nothing_to_finish(operation: str, words: tuple[str, ...]) -> None:
    """The first request is refused, so nothing is begun: maintenance of the table goes on."""
    world = MovingWorld(operation, ContentStore)
    report = world.execute(Denying(*words))
    assert report.status == "stale" and report.refusal is not None and report.refusal.code == "access_denied"
    assert world.documents() == world.before
    assert world.maintainer().expire().status == "done"


def test_who_may_write_and_not_delete_leaves_a_plan_that_others_finish() -> None:
    """The message says what happened; whoever may delete goes on."""
    world = MovingWorld("rollback", ContentStore)
    report = world.execute(Denying("table delete", granted=2))
    assert report.status == "partial" and report.refusal is not None
    assert report.refusal.code == "access_denied"
    assert "the next run finishes plan" in report.refusal.message
    check_moment(world)
    world.wait()
    world.finish()
    assert world.documents() == undisturbed("rollback", ContentStore)[1]


@pytest.mark.parametrize("operation", MOVES)
def test_twice_is_harmless(operation: str) -> None:
    world = MovingWorld(operation)
    assert world.execute().status == "done"
    end = world.documents()
    assert world.execute().status == "nothing_to_do"
    assert world.documents() == end


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_our_tags_at_any_call(operation: str) -> None:
    """A tag of a snapshot that goes is made, or it is not; one that is made reads."""
    calls, _ = undisturbed(operation, ContentStore)
    for number in range(1, len(calls) + 1, EVERY):
        world = MovingWorld(operation, ContentStore)
        made: list[RunReport] = []

        def tag(world: MovingWorld = world, made: list[RunReport] = made) -> None:
            with suppress(MaintenanceError):
                made.append(world.maintainer().run("create-tag", tag="late", snapshot=7))

        report = world.execute(Acting(number, tag))
        assert report.status in ("done", "stale"), number
        check_moment(world)
        is_there = "tag/tag-late" in world.documents()
        assert is_there == bool(made and made[0].status == "done"), (number, calls[number - 1], made)
        world.wait()
        world.finish()
        check_moment(world)


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_an_engine_tags_and_branches_at_any_call(operation: str) -> None:
    """What it makes of a snapshot that goes stays and reads, and the run says so; the branch arrives all the same."""
    calls, end = undisturbed(operation, ContentStore)
    changes = changes_of(calls)
    for number in range(1, len(calls) + 1, EVERY):
        world = MovingWorld(operation, ContentStore)
        body = world.store.read("snapshot/snapshot-7").data

        def tag(world: MovingWorld = world, body: bytes = body) -> None:
            world.store.put("tag/tag-late", body)
            world.store.put("branch/branch-late/schema/schema-0", world.store.read("schema/schema-0").data)
            world.store.put("branch/branch-late/snapshot/snapshot-7", body)

        report = world.execute(Acting(number, tag))
        check_moment(world)
        assert "tag/tag-late" in world.documents()
        if number > changes[0]:
            assert report.status == "done", number
            assert end.items() <= world.documents().items(), number
            last_look = max(n for n, call in enumerate(calls, 1) if call == "table list tag/")
            assert any("tag late" in warning for warning in report.all_warnings()) or number > last_look, number


def test_a_file_that_cannot_be_looked_for_holds_the_end_up() -> None:
    """A failed read is no lost file: nothing is taken back, and the next run verifies."""
    calls, end = undisturbed("rollback", ContentStore)
    number = next(n for n, call in enumerate(calls, 1) if n > changes_of(calls)[-1] and "table read manifest" in call)
    world = MovingWorld("rollback", ContentStore)
    report = world.execute(Switch(number, "before"))
    assert report.status == "partial"
    assert world.ids() == [4, 5]
    world.finish()
    assert world.documents() == end


def test_a_target_that_is_lost_for_good_is_named() -> None:
    world = MovingWorld("rollback", ContentStore)
    path = "tag/tag-t3"
    world.store.delete([DeleteRequest(path)])
    report = world.execute()
    assert report.status == "stale" and report.refusal is not None and path in report.refusal.message
    with pytest.raises(StorageError):
        world.store.read(path)
    check_files(world)


def test_what_a_run_says() -> None:
    """One sentence: what it met, and what stands now."""
    calls, _ = undisturbed("rollback", ContentStore)
    first, last = changes_of(calls)[0], changes_of(calls)[-1]
    before, after = MovingWorld("rollback", ContentStore), MovingWorld("rollback", ContentStore)
    early = before.execute(Acting(first - 6, before.commits))
    late = after.execute(Acting(last, lambda: after.publish(8)))
    assert early.refusal is not None and early.refusal.message.endswith("; nothing was done")
    assert late.refusal is not None and late.refusal.message.endswith("; Lakesweep reverted what the plan had done")
    assert "snapshot/snapshot-8 was written by somebody else" in late.refusal.message
    assert (early.status, late.status, early.refusal.code, late.refusal.code) == ("stale", "stale", "stale", "stale")


def snapshots_go(calls: Sequence[str]) -> list[int]:
    """Return the numbers of the calls that delete when LATEST has been written: tags have gone before."""
    first = calls.index("table put snapshot/LATEST")
    return [number for number, call in enumerate(calls, 1) if number > first and call.startswith("table delete")]


def test_a_commit_in_the_middle_is_named_with_what_stays_gone() -> None:
    """It stands on snapshot 6, which was about to go; 7 was gone, and its id is taken."""
    world = MovingWorld("rollback", ContentStore)
    calls, _ = undisturbed("rollback", ContentStore)
    report = world.execute(Acting(snapshots_go(calls)[1], world.commits))
    assert report.status == "stale" and report.refusal is not None
    assert world.committed == ["snapshot/snapshot-7"] and world.ids() == [4, 5, 6, 7]
    assert "except where others have built on it" in report.refusal.message
    assert "deleted: snapshot/snapshot-7" in report.refusal.message
    assert read_root(world.store, "snapshot/snapshot-7").document["commitUser"] == "other"


def test_who_finishes_a_rollback_leaves_what_latest_says_of_commits_since() -> None:
    """All that went has its ids taken again, so nothing is left that tells of the run but where the branch is."""
    world = MovingWorld("rollback", ContentStore)
    calls, _ = undisturbed("rollback", ContentStore)
    dies(world, snapshots_go(calls)[1])
    assert world.ids() == [4, 5]
    world.commits()
    world.commits()
    world.wait()
    world.finish()
    assert world.ids() == [4, 5, 6, 7]
    assert world.store.read("snapshot/LATEST").data == b"7"


def test_two_commits_in_the_middle_cannot_both_have_what_they_stand_on() -> None:
    """One came before the first deletion, has not written LATEST yet and was not seen, the other one after the last."""
    world = MovingWorld("rollback", ContentStore)
    calls, _ = undisturbed("rollback", ContentStore)
    deletes, newer = snapshots_go(calls), json.dumps(json.loads(world.former_newest) | {"id": 8}).encode()
    acts = {deletes[0]: partial(world.store.put, "snapshot/snapshot-8", newer), deletes[1] + 1: world.commits}
    report = world.execute(Plays(acts))
    assert world.committed == ["snapshot/snapshot-6"]
    assert world.latest() == 6
    assert report.status == "stale" and report.refusal is not None
    assert (
        "snapshot/snapshot-8 was committed on a snapshot that is gone. Readers find it once" in report.refusal.message
    )
    world.commits()
    assert world.committed[1:] == ["snapshot/snapshot-7"] and world.latest() == 8
    world.wait()
    assert world.maintainer().run("rollback", snapshot=6, lose_tag=["t7"]).status == "done"
    assert world.latest() == world.ids()[-1] == 6


def test_a_document_that_no_listing_shows_returns_too() -> None:
    """All that went of a branch without snapshots is a writer's temporary object; then somebody commits to it."""
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store)
    table.commit("+A")
    table.branch("b")
    rest = "branch/branch-b/snapshot/.snapshot-1.5b0e.tmp"
    store.put(rest, b"{}")
    maintainer, acting = Maintainer(store), Switch()
    plan = maintainer.run("delete-branch", branch="b", execute=False).plan
    assert plan is not None and plan.actions[0].path == rest

    def commit_after(name: str, call: Callable[[], object]) -> object:
        result = Switch._run(acting, name, call)
        if name.startswith("table delete"):
            store.put("branch/branch-b/snapshot/snapshot-1", store.read("snapshot/snapshot-1").data)
        return result

    acting._run = commit_after  # type: ignore[method-assign]
    watched = Maintainer(FaultyStore(store, acting, "table"), control=maintainer.control)
    report = watched.execute(plan.header.plan_id)
    assert report.status == "stale" and report.refusal is not None
    assert report.refusal.message.endswith("; Lakesweep reverted what the plan had done")
    assert store.read(rest).data == b"{}"


def long_history(count: int) -> tuple[MemoryStore, Maintainer, str]:
    """Return a table whose newest snapshots go, and the plan of that."""
    store = MemoryStore("memory://bucket/long")
    table = TableBuilder(store)
    table.commit("+A")
    table.commit("+B")
    body = json.loads(store.read("snapshot/snapshot-2").data)
    for number in range(3, count + 3):
        store.put(f"snapshot/snapshot-{number}", json.dumps(body | {"id": number}).encode())
    table.hint("LATEST", count + 2)
    maintainer = Maintainer(store)
    plan = maintainer.run("rollback", snapshot=2, execute=False).plan
    assert plan is not None
    return store, maintainer, plan.header.plan_id


def test_a_look_lies_between_a_hundred_deletions() -> None:
    store, maintainer, plan_id = long_history(250)
    switch = Switch()
    watched = Maintainer(FaultyStore(store, switch, "table"), control=maintainer.control)
    assert watched.execute(plan_id).status == "done"
    runs = [len(list(group)) for is_delete, group in groupby(switch.calls, lambda call: "delete" in call) if is_delete]
    assert runs == [100, 100, 50]
    assert [entry.key for entry in store.list("snapshot/")] == [
        "snapshot/EARLIEST", "snapshot/LATEST", "snapshot/snapshot-1", "snapshot/snapshot-2",
    ]  # fmt: skip


def test_time_that_runs_out_ends_a_run_between_two_requests() -> None:
    """The next one goes on; both say so."""
    store, maintainer, plan_id = long_history(20)
    asked: list[str] = []

    def check(what: str) -> None:
        asked.append(what)
        if len(asked) == 8:
            raise OutOfTimeError(f"no time is left for {what}")

    report = execute_stored(replace(maintainer.table, check_time=check), plan_id)
    assert report.status == "partial" and report.refusal is not None
    assert "the next run finishes plan" in report.refusal.message
    left = [entry.key for entry in store.list("snapshot/") if "snapshot-" in entry.key]
    assert 3 < len(left) < 22
    maintainer.run("delete-tag", tag="nothing")
    assert [entry.key for entry in store.list("snapshot/") if "snapshot-" in entry.key] == left[:2] or len(left) > 2
    assert len([entry for entry in store.list("snapshot/") if "snapshot-" in entry.key]) == 2


@pytest.mark.parametrize("at", [2, 5, 9, 14])
def test_a_local_folder_whose_etags_change_when_a_document_returns(tmp_path: Path, at: int) -> None:
    """Taking back dies as well; what is there is told by what it says."""
    folder = tmp_path / "t"
    store = LocalStore(str(folder))
    for key, (data, _, _) in MovingWorld("rollback to a tag").store._objects.items():
        store.put(key, data)
    control = MemoryStore("memory://control-of-folder")
    plan = Maintainer(store, control=control).run("rollback", tag="t1", lose_tag=["t3"], execute=False).plan
    assert plan is not None
    newest = json.loads(store.read("snapshot/snapshot-7").data)
    switch = Switch()

    def commit() -> None:
        store.put("snapshot/snapshot-8", json.dumps(newest | {"id": 8, "commitUser": "other"}).encode())

    def stored(switch: Switch) -> Maintainer:
        return Maintainer(FaultyStore(store, switch, "table"), control=control)

    dying = Switch(mode="death_after")
    calls = 0

    def count(name: str, call: object) -> object:
        nonlocal calls
        changes = name.startswith(("table put", "table delete"))
        calls += changes
        if changes and calls == 6:
            commit()
        if changes and calls == 6 + at:
            dying.at = len(dying.calls) + 1
        return Switch._run(dying, name, call)  # type: ignore[arg-type]

    dying._run = count  # type: ignore[method-assign]
    with suppress(ProcessDeathError):
        stored(dying).execute(plan.header.plan_id)
    maintainer = stored(switch)
    control.put(*free_lease(control))
    with suppress(MaintenanceError):
        maintainer.run("delete-tag", tag="nothing")
    ids = sorted(int(e.key.rpartition("-")[2]) for e in store.list("snapshot/") if "snapshot-" in e.key)
    assert ids == [4, 5, 6, 7, 8]
    before = MovingWorld("rollback to a tag").before
    for path in ("snapshot/snapshot-7", "snapshot/snapshot-4", "changelog/changelog-3", "tag/tag-t6"):
        assert store.read(path).data == before[path]


def free_lease(control: MemoryStore) -> tuple[str, bytes]:
    """Return the lease as if it had run out long ago."""
    (key,) = [entry.key for entry in control.list("") if entry.key.endswith("lease.json")]
    return key, json.dumps(json.loads(control.read(key).data) | {"expires_at_ms": 1}).encode()
