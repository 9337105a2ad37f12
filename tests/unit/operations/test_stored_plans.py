"""Stored plans that somebody edited, and documents that must not come back when a plan turns out stale."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_plan, store_plan
from lakesweep.errors import FormatError
from lakesweep.model.plan import PHASES, Action, Delete, Plan, Put, content_hash
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import DeleteRequest, DeleteResult
from tests.support.faulty_store import ProcessDeathError
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.support.world import HOUR_MS, World


class ActingStore(MemoryStore):
    """A store in which somebody acts right before or right after a request that deletes a certain object."""

    def __init__(self, location: str, counter: RequestCounter, clock: Callable[[], int]) -> None:
        super().__init__(location, counter, clock)
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        keys = [request.key for request in requests]
        for key in keys:
            self.before.pop(key, lambda: None)()
        results = super().delete(requests)
        for key in keys:
            self.after.pop(key, lambda: None)()
        return results


class PlannedWorld(World):
    """Six snapshots, each of which replaces the file of the one before, an hour later."""

    def __init__(self) -> None:
        super().__init__(store=ActingStore)
        self.table.commit("+F1", statistics="s1", changelog=["+L1"], index={"i1": {"F1": (1,)}})
        for number in range(2, 7):
            self.table.commit(f"-F{number - 1}", f"+F{number}", index={f"i{number}": {f"F{number}": (1,)}})
        self.table.hint("LATEST", 6)
        self.now_ms += HOUR_MS

    def roll_back(self, target: int) -> Iterator[None]:
        """LATEST first, then the documents, newest first."""
        self.table.hint("LATEST", target)
        yield
        for number in range(6, target, -1):
            self.store.delete([DeleteRequest(f"snapshot/snapshot-{number}")])
            yield


# A plan whose rows somebody put into another order.


def _files_first(actions: Sequence[Action]) -> list[Action]:
    heads = ("latest", "changelog_documents", "documents", "hints")
    return [a for a in actions if a.phase not in heads] + [a for a in actions if a.phase in heads]


def _hints_first(actions: Sequence[Action]) -> list[Action]:
    return sorted(actions, key=lambda action: action.phase != "hints")


def _one_file_first(actions: Sequence[Action]) -> list[Action]:
    first = next(action for action in actions if action.phase == "data")
    return [first, *(action for action in actions if action is not first)]


def _documents_downwards(actions: Sequence[Action]) -> list[Action]:
    documents = [action for action in actions if action.phase == "documents"]
    return [documents.pop() if action.phase == "documents" else action for action in actions]


def _manifests_before_data(actions: Sequence[Action]) -> list[Action]:
    return sorted(actions, key=lambda action: action.phase not in ("documents", "hints", "manifest"))


def _shuffled(actions: Sequence[Action]) -> list[Action]:
    mixed = list(actions)
    random.Random(7).shuffle(mixed)
    return mixed


REORDERED = [
    _files_first,
    _hints_first,
    _one_file_first,
    _documents_downwards,
    _manifests_before_data,
    _shuffled,
]


@pytest.mark.parametrize("reorder", REORDERED, ids=lambda reorder: reorder.__name__.strip("_"))
def test_a_plan_in_another_order_is_not_executed(reorder: Callable[[Sequence[Action]], list[Action]]) -> None:
    """The hash of a plan does not depend on the order of its actions, and the order is what makes it safe."""
    scene = PlannedWorld()
    area = ControlArea(scene.control, scene.store.location)
    planned = scene.maintainer().plan(retain_max=2, retain_min=2).plan
    assert planned is not None
    whole = load_plan(area, planned.header.plan_id)
    actions = tuple(reorder(whole.actions))
    assert actions != whole.actions
    assert content_hash(actions) == whole.header.content_hash
    plan_id = f"{planned.header.plan_id}-reordered"
    store_plan(area, Plan(replace(whole.header, plan_id=plan_id), actions))
    before = scene.etags()
    with pytest.raises(FormatError, match="order"):
        scene.maintainer().execute(plan_id)
    assert scene.etags() == before
    assert scene.maintainer().execute(planned.header.plan_id).status == "done"
    assert scene.ids() == [5, 6]
    assert_roots_readable(scene.table)


def test_a_plan_with_an_unknown_phase_is_not_executed() -> None:
    scene = PlannedWorld()
    area = ControlArea(scene.control, scene.store.location)
    planned = scene.maintainer().plan(retain_max=2, retain_min=2).plan
    assert planned is not None
    whole = load_plan(area, planned.header.plan_id)
    actions = tuple(replace(a, phase="soon") if a.phase == "data" else a for a in whole.actions)
    plan_id = f"{planned.header.plan_id}-x"
    header = replace(whole.header, plan_id=plan_id, content_hash=content_hash(actions))
    store_plan(area, Plan(header, actions))
    before = scene.etags()
    report = scene.maintainer().execute(plan_id)
    assert (report.status, report.refusal and report.refusal.code) == ("refused", "forbidden_action")
    assert scene.etags() == before


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("expire-snapshots", {"retain_max": 1}),
        ("expire-changelogs", {"retain_max": 3}),
        ("expire-changelogs", {"delete_all": True}),
        ("clear-consumers", {}),
        ("reset-consumer", {"consumer_id": "c", "next_snapshot_id": 11}),
    ],
)
def test_every_operation_orders_its_actions(operation: str, arguments: dict[str, object]) -> None:
    """What is planned can be loaded and executed, by whichever operation it was planned."""
    options = {
        "snapshot.num-retained.max": "3",
        "snapshot.num-retained.min": "1",
        "changelog.num-retained.max": "9",
        "changelog-producer": "input",
    }
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store, options=options)
    table.commit("+F1", changelog=["+L1"])
    for number in range(2, 12):
        table.commit(f"-F{number - 1}", f"+F{number}", changelog=[f"+L{number}"])
    maintainer = Maintainer(store)
    if operation != "expire-snapshots":
        maintainer.run("expire-snapshots")
    if "consumer" in operation:
        table.consumer("c", 11)
    planned = maintainer.run(operation, execute=False, **arguments)
    assert planned.status == "planned", planned.refusal
    assert planned.plan is not None
    assert maintainer.execute(planned.plan.header.plan_id).status == "done"
    assert_roots_readable(table)


# What does not come back.


def test_a_document_that_another_engine_took_does_not_return_for_a_rollback() -> None:
    """An engine is done with snapshot 1 before the documents go; then a rollback to snapshot 2 begins.

    The rollback needs snapshot 2, which this run removed. Snapshot 1 has lost its files to the engine.
    """
    scene = PlannedWorld()

    def engine_expires() -> None:
        elsewhere = MemoryStore("memory://elsewhere", clock=lambda: scene.now_ms)
        assert Maintainer(scene.store, control=elsewhere).expire(retain_max=5, retain_min=5).status == "done"
        scene.store.after["snapshot/snapshot-1"] = rollback_begins

    def rollback_begins() -> None:
        scene.steps = scene.roll_back(2)
        next(scene.steps)

    scene.store.before["snapshot/snapshot-1"] = engine_expires
    assert scene.maintainer().expire(retain_max=3, retain_min=3).status == "stale"
    for _ in scene.steps:
        pass
    assert scene.ids() == [2]
    assert_roots_readable(scene.table)


@pytest.mark.parametrize("last", ["F1", "list"])
def test_documents_whose_files_an_earlier_run_took_do_not_return_for_a_rollback(last: str) -> None:
    """A run dies among the files. Then LATEST is set back to a snapshot whose document and files are gone.

    Args:
        last: With which file it dies: one of the first, whose deletion nobody wrote down, or one after that.
    """
    scene = PlannedWorld()
    path = scene.table.path("F1")
    if last == "list":
        path = f"manifest/{scene.table.document('snapshot/snapshot-1')['deltaManifestList']}"

    def die() -> None:
        raise ProcessDeathError(path)

    scene.store.after[path] = die
    with pytest.raises(ProcessDeathError):
        scene.maintainer().expire(retain_max=3, retain_min=3)
    assert not scene.table.exists("F1")
    assert scene.ids() == [4, 5, 6]
    scene.wait()
    scene.steps = scene.roll_back(2)
    next(scene.steps)
    next(scene.steps)
    scene.maintainer().expire(retain_max=100, retain_min=50)
    assert_roots_readable(scene.table)
    assert not {1, 2, 3} & set(scene.ids())


def test_documents_return_for_a_rollback_although_a_run_died_right_after_them() -> None:
    """The ledger of the dead run speaks of documents alone, so all files are there."""
    scene = PlannedWorld()

    def die() -> None:
        raise ProcessDeathError("documents")

    scene.store.after["snapshot/snapshot-1"] = die
    with pytest.raises(ProcessDeathError):
        scene.maintainer().expire(retain_max=3, retain_min=3)
    assert scene.ids() == [4, 5, 6]
    scene.wait()
    scene.steps = scene.roll_back(2)
    next(scene.steps)
    next(scene.steps)
    assert scene.maintainer().expire(retain_max=100, retain_min=50).status in ("stale", "nothing_to_do")
    for _ in scene.steps:
        pass
    assert scene.ids() == [1, 2]
    assert_roots_readable(scene.table)


FORBIDDEN = (
    Delete("data", "data", "snapshot/snapshot-6", None, "x"),
    Delete("data", "data", "schema/schema-0", None, "x"),
    Delete("data", "data", "../other/bucket-0/data-1", None, "x"),
    Delete("data", "data", "bucket-0/", None, "x"),
    Delete("manifest", "manifest", "tag/tag-t", None, "x"),
    Delete("statistics", "schema", "schema/schema-0", None, "x"),
    Put("latest", "hint", "schema/schema-0", "{}", "x"),
    Put("latest", "snapshot", "snapshot/snapshot-6", "{}", "x"),
)


@pytest.mark.parametrize("action", FORBIDDEN, ids=lambda action: f"{action.kind} {action.path}")
def test_a_stored_plan_with_what_no_plan_may_do_is_refused_whole(action: Action) -> None:
    """Its hash is right; nothing of it is carried out."""
    scene = PlannedWorld()
    maintainer = scene.maintainer()
    plan = maintainer.plan().plan
    assert plan is not None
    actions = sorted((*plan.actions, action), key=lambda each: PHASES.index(each.phase))
    header = replace(plan.header, plan_id="forged", content_hash=content_hash(actions), action_count=len(actions))
    area = maintainer.table.area
    assert area is not None
    store_plan(area, Plan(header, tuple(actions)))
    before = {entry.key for entry in scene.store.list("")}
    report = maintainer.execute("forged")
    assert report.refusal is not None and report.refusal.code == "forbidden_action"
    assert {entry.key for entry in scene.store.list("")} == before
