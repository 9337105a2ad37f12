"""A run that moves a branch dies, and files vanish of what it would still have written: no root referred to them.

Whoever comes next looks for them before it writes anything. So no root appears that lacks a file, not even until the
last check.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest

from lakesweep.model.report import RunReport
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.storage.store import DeleteRequest
from tests.support.every import EVERY
from tests.support.fast_forwards import documents
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.moving import MovingWorld, Watching
from tests.support.reader import UnreadableRootError, all_roots, read_all, read_root
from tests.support.undo_moves import MovedWorld

DAY_MS = 86_400_000
UNDONE = (
    "rollback",
    "rollback_to_expired",
    "rollback_branch",
    "delete",
    "forward_rebuilt_after_a_schema",
    "forward_rebuilt_shorter",
    "forward_diverged",
)
MOVED = ("rollback to a tag", "fast-forward", "fast-forward without a base", "new branch")


class Undoing:
    """A table in which a run moved a branch, and that run is to be undone."""

    def __init__(self, name: str) -> None:
        self._world = MovedWorld(name)
        self._run_id = self._world.move()
        self.store = self._world.store
        self.before = documents(self.store)

    def begin(self, switch: Switch) -> RunReport:
        return self._world.undo(self._run_id, switch=switch)

    def finish(self, switch: Switch) -> RunReport:
        return self._world.maintainer(switch).run("clear-consumers", including_consumers="nobody")

    def store_plan(self) -> Callable[[], RunReport]:
        plan = self._world.undo(self._run_id, execute=False).plan
        assert plan is not None
        return lambda: self._world.maintainer().execute(plan.header.plan_id)

    def wait(self, delay_ms: int = LEASE_MS + DELETE_MARGIN_MS) -> None:
        self._world.now_ms += delay_ms

    def lose(self, path: str) -> None:
        self.store.delete([DeleteRequest(path)])


class Moving:
    """A table with a plan that moves a branch."""

    def __init__(self, name: str) -> None:
        self._world = MovingWorld(name)
        self.store = self._world.store
        self.before = documents(self.store)

    def begin(self, switch: Switch) -> RunReport:
        return self._world.execute(switch)

    def finish(self, switch: Switch) -> RunReport:
        return self._world.finish(switch)

    def store_plan(self) -> Callable[[], RunReport]:
        return self._world.execute

    def wait(self, delay_ms: int = LEASE_MS + DELETE_MARGIN_MS) -> None:
        self._world.now_ms += delay_ms

    def lose(self, path: str) -> None:
        self._world.lose(path)


Scene = Undoing | Moving


def scene_of(name: str) -> Scene:
    return Moving(name) if name in MOVED else Undoing(name)


@cache
def undisturbed(name: str) -> tuple[tuple[int, ...], tuple[str, ...], dict[str, frozenset[str]]]:
    """Return the calls that change the table, all calls, and what each root needs that comes."""
    scene, switch = scene_of(name), Switch()
    assert scene.begin(switch).status == "done"
    changes = (n for n, call in enumerate(switch.calls, 1) if call.startswith(("table put", "table delete")))
    there = documents(scene.store)
    coming = [root for root in all_roots(scene.store) if scene.before.get(root) != there[root]]
    return tuple(changes), tuple(switch.calls), {root: read_root(scene.store, root).paths - {root} for root in coming}


def lost_of(name: str) -> list[str]:
    """Return files of which one is lost: each file that few of the roots that come need, and one that all need."""
    _, _, needs = undisturbed(name)
    count = {path: sum(path in each for each in needs.values()) for paths in needs.values() for path in paths}
    found = sorted(count, key=lambda path: (count[path], path))
    return [*found[: 2 * len(needs)], found[-1]]


def new_hollow(store: MemoryStore, before: dict[str, bytes]) -> list[str]:
    """Return the roots that lack something and were not there before."""
    there, found = documents(store), []
    for root in all_roots(store):
        if before.get(root) != there[root]:
            try:
                read_root(store, root)
            except UnreadableRootError as error:
                found.append(str(error))
    return found


def watch(scene: Scene) -> Switch:
    """Return a switch that fails at a request right after one that left a root without one of its files.

    What lay there before is excepted: to take a move back is to write that again, damaged or not.
    """
    began = documents(scene.store)
    return Watching(lambda: check_new(scene, began))


def check_new(scene: Scene, began: dict[str, bytes]) -> None:
    there = documents(scene.store)
    known = began | {path: body for path, body in scene.before.items() if there.get(path) == body}
    assert new_hollow(scene.store, known) == []


@pytest.mark.parametrize("name", [*MOVED, *UNDONE])
def test_nothing_appears_that_lacks_a_file(name: str) -> None:
    """The run dies after a change, at each in turn, and a file is lost. All is taken back, or nothing needs it."""
    changes, calls, _ = undisturbed(name)
    taken_back = 0
    for number in changes[:: max(1, EVERY - 1)]:
        for path in lost_of(name)[:: max(1, EVERY - 1)]:
            scene, where = scene_of(name), (number, calls[number - 1], path)
            with suppress(ProcessDeathError):
                scene.begin(Switch(number, "death_after"))
            scene.wait()
            scene.lose(path)
            began = documents(scene.store)
            report = scene.finish(watch(scene))
            check_new(scene, began)
            if "stale" in f"{report.status} {report.warnings}":
                assert documents(scene.store) == scene.before, where
                taken_back += 1
    assert taken_back > 0


@pytest.mark.parametrize("name", ["rollback", "rollback_to_expired", "delete"])
def test_an_orphan_scan_of_others_comes_between_two_runs(name: str) -> None:
    """It takes what is a day old and no root refers to. The run that goes on leaves all as it was before the undo."""
    changes, calls, _ = undisturbed(name)
    refused = 0
    for number in changes[::EVERY]:
        scene, where = scene_of(name), (number, calls[number - 1])
        with suppress(ProcessDeathError):
            scene.begin(Switch(number, "death_after"))
        scene.wait(2 * DAY_MS)
        scan = Maintainer(scene.store).run("remove-orphan-files", execute=False, no_history="half deleted").plan
        assert scan is not None
        for delete in scan.deletes:
            scene.lose(delete.path)
        began = documents(scene.store)
        report = scene.finish(watch(scene))
        check_new(scene, began)
        if "stale" in f"{report.status} {report.warnings}":
            assert documents(scene.store) == scene.before, where
            refused += 1
        read_all(scene.store)
    assert refused > 0


@pytest.mark.parametrize("name", [*MOVED, *UNDONE])
def test_a_stored_plan_is_not_begun_where_a_file_is_lost(name: str) -> None:
    """It was made a while ago. Nothing is done, and the answer names the file."""
    refused = 0
    for path in lost_of(name)[::EVERY]:
        scene = scene_of(name)
        execute = scene.store_plan()
        scene.lose(path)
        report = execute()
        if report.status == "done":  # of the changelog, which the state does without
            check_new(scene, {})
            continue
        assert report.refusal is not None and report.refusal.code == "target_lost_files", path
        assert report.status == "stale" and path in report.refusal.message, (path, report)
        assert report.refusal.message.endswith("; nothing was done")
        assert documents(scene.store) == scene.before, path
        refused += 1
    assert refused > 0


def test_what_an_orphan_scan_took_does_not_return_as_the_newest() -> None:
    """A rollback died half way. Others have expired its target since, and scanned for orphans: it is taken back."""
    world = MovedWorld("rollback")
    run = Switch()
    probe = MovedWorld("rollback")
    assert probe.maintainer(run).run("rollback", snapshot=5).status == "done"
    first = run.calls.index("table put snapshot/LATEST")  # tags have gone before
    deletes = [number for number, call in enumerate(run.calls, 1) if call.startswith("table delete") and number > first]
    with suppress(ProcessDeathError):
        world.maintainer(Switch(deletes[1], "death_after")).run("rollback", snapshot=5)
    world.now_ms += 2 * DAY_MS
    for tag in ("seven", "eight"):
        world.table.remove(f"tag/tag-{tag}")
    others = Maintainer(world.store)
    assert others.expire(retain_max=1, retain_min=1).status == "done"
    scan = others.run("remove-orphan-files", execute=False).plan
    assert scan is not None and scan.deletes
    for delete in scan.deletes:
        world.store.delete([DeleteRequest(delete.path)])
    report = world.maintainer().run("clear-consumers", including_consumers="nobody")
    assert "stale" in f"{report.status} {report.warnings}"
    read_all(world.store)
    assert [path for path in documents(world.store) if "snapshot/snapshot-" in path] == ["snapshot/snapshot-6"]
    assert world.store.read("snapshot/LATEST").data == b"6"


def test_a_call_that_plans_and_carries_out_asks_no_third_time() -> None:
    """It asks when it plans and at the end; only whoever carries out a plan of before asks in between."""
    switch = Switch()
    assert MovedWorld("rollback_to_expired").maintainer(switch).run("rollback", tag="three").status == "done"
    assert sum(call == "table list " for call in switch.calls) == 2
    world, stored = MovedWorld("rollback_to_expired"), Switch()
    plan = world.maintainer().run("rollback", tag="three", execute=False).plan
    assert plan is not None
    assert world.maintainer(stored).execute(plan.header.plan_id).status == "done"
    assert sum(call == "table list " for call in stored.calls) == 2
