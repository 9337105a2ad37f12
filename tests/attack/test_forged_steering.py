"""Stored plans whose steering was changed, lost or written by another version: none of them is executed."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_header, load_plan, store_part, store_plan
from lakesweep.errors import FormatError
from lakesweep.model.plan import Plan, content_hash, joined_hash
from lakesweep.model.report import RunReport
from lakesweep.model.steering import Steering
from lakesweep.operations.undo.undo import undo
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import OrphanScene
from tests.support.table_builder import TableBuilder
from tests.support.waves import Team, planned, planted

Json = dict[str, Any]


@dataclass
class Scene:
    """A table with a branch, and a stored plan of one operation."""

    store: MemoryStore
    maintainer: Maintainer
    plan_id: str

    @property
    def area(self) -> ControlArea:
        return ControlArea(self.maintainer.control, self.store.location)

    @property
    def name(self) -> str:
        return f"plans/{self.plan_id}/header.json"

    def edit(self, change: Callable[[Json], object]) -> None:
        document = json.loads(self.area.read(self.name).data)
        change(document)
        self.area.put(self.name, json.dumps(document).encode())

    def begin(self) -> None:
        """Say in the lease that a run has begun the plan."""
        intent = {"plan_id": self.plan_id, "branch": "main", "runs": ["r"], "end_id": None}
        intent |= {"created_ms": 1, "grace_ms": 0}
        lease = {"run_id": "r", "token": 1, "expires_at_ms": 0, "intent": intent}
        self.area.put("lease.json", json.dumps(lease).encode())

    def execute(self) -> RunReport:
        return self.maintainer.execute(self.plan_id)

    def documents(self) -> dict[str, str]:
        return {entry.key: entry.etag for entry in self.store.list("")}


ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "rollback": {"snapshot": 4},
    "fast-forward": {"branch": "b"},
    "create-branch": {"branch": "n", "tag": "three"},
    "delete-branch": {"branch": "b"},
}
OPERATIONS = (*ARGUMENTS, "undo")


def stored(operation: str) -> Scene:
    """Return a table with a stored plan of the operation; `undo` reverts a rollback."""
    store = MemoryStore("memory://bucket/db.db/t")
    table = TableBuilder(store)
    for number in range(1, 7):
        table.commit(f"+F{number}")
    table.tag("three", snapshot=3)
    branch = table.branch("b", "three")
    branch.commit("+B4")
    maintainer = Maintainer(store)
    if operation == "undo":
        report = maintainer.run("rollback", snapshot=4)
        assert report.run_id is not None
        report = undo(maintainer.table, report.run_id, execute=False)
    else:
        report = maintainer.run(operation, execute=False, **ARGUMENTS[operation])
    assert report.status == "planned", report
    assert report.plan is not None
    return Scene(store, maintainer, report.plan.header.plan_id)


CHANGES: Mapping[str, tuple[Json, ...]] = {
    "rollback": (
        {"complete_roots": []},
        {"complete_roots": ["snapshot/snapshot-1"]},
        {"target": {"snapshot": 6, "tag": None, "time_ms": 1_800_000}},
        {"target": {"snapshot": 4, "tag": "three", "time_ms": 1_800_000}},
        {"target": {"snapshot": 4, "tag": None, "time_ms": 0}},
    ),
    "fast-forward": ({"complete_roots": []}, {"target": {"snapshot": 1, "tag": None, "time_ms": 0}}),
    "create-branch": ({"complete_roots": []},),
    "delete-branch": ({"complete_roots": ["snapshot/snapshot-1"]},),
    "undo": (
        {"complete_roots": []},
        {"undone": {"run_id": "other", "plan_id": "other", "operation": "rollback"}},
    ),
}


@pytest.mark.parametrize(
    ("operation", "change"), [(operation, each) for operation, changes in CHANGES.items() for each in changes], ids=str
)
def test_a_changed_fact_refuses_the_plan(operation: str, change: Json) -> None:
    scene = stored(operation)
    before = scene.documents()
    scene.edit(lambda document: document["steering"].update(change))
    with pytest.raises(FormatError, match="match the header's hash"):
        scene.execute()
    assert scene.documents() == before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_any_plan_that_says_that_the_table_is_damaged_has_another_hash(operation: str) -> None:
    scene = stored(operation)
    scene.edit(lambda document: document["steering"].update(is_damaged=True))
    with pytest.raises(FormatError, match="match the header's hash"):
        scene.execute()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("begun", [False, True])
def test_a_plan_of_the_old_form_is_refused_and_kept(operation: str, begun: bool) -> None:
    """It stated its rules among the findings, which no hash covers. The version that made it can still finish it."""
    scene = stored(operation)
    plan = load_plan(scene.area, scene.plan_id)

    def to_old_form(document: Json) -> None:
        facts = document.pop("steering")
        names = {"complete_roots": "whole"}
        document["findings"].update({names.get(name, name): fact for name, fact in facts.items()})
        document["content_hash"] = content_hash(plan.actions)

    scene.edit(to_old_form)
    before = scene.documents()
    if begun:
        scene.begin()
    report = scene.execute()
    assert (report.status, report.refusal and report.refusal.code) == ("refused", "unsupported_plan")
    if begun:
        report = scene.maintainer.expire()
        assert (report.status, report.refusal and report.refusal.code) == ("refused", "unsupported_plan")
        assert json.loads(scene.area.read("lease.json").data)["intent"]["plan_id"] == scene.plan_id
    assert scene.documents() == before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fact_of_a_later_version_refuses_the_plan_and_keeps_it(operation: str) -> None:
    scene = stored(operation)
    before = scene.documents()
    scene.edit(lambda document: document["steering"].update(keep_roots=["snapshot/snapshot-1"]))
    scene.begin()
    for report in (scene.execute(), scene.maintainer.expire()):
        assert (report.status, report.refusal and report.refusal.code) == ("refused", "unsupported_plan")
    assert json.loads(scene.area.read("lease.json").data)["intent"]["plan_id"] == scene.plan_id
    assert scene.documents() == before


def test_a_plan_states_only_what_its_operation_states() -> None:
    """A rollback whose forged steering names an undone plan would mark that plan as undone."""
    scene = stored("rollback")
    plan = load_plan(scene.area, scene.plan_id)
    undone = {"run_id": "r", "plan_id": "p", "operation": "rollback"}

    def forge(document: Json) -> None:
        document["steering"]["undone"] = undone
        document["content_hash"] = content_hash(plan.actions)

    scene.edit(forge)
    report = scene.execute()
    assert (report.status, report.refusal and report.refusal.code) == ("refused", "forbidden_action")


def test_a_plan_that_expires_snapshots_has_the_hash_of_its_actions() -> None:
    scene = stored("rollback")
    plan = scene.maintainer.plan().plan
    assert plan is not None
    assert plan.header.steering == Steering()
    assert plan.header.content_hash == content_hash(plan.actions)
    assert "steering" not in json.loads(scene.area.read(f"plans/{plan.header.plan_id}/header.json").data)


EXECUTORS: Mapping[str, Callable[[OrphanScene, str], RunReport]] = {
    "in_one_process": lambda scene, plan_id: scene.maintainer().execute(plan_id),
    "in_waves": lambda scene, plan_id: Team(scene).execute(plan_id),
}


def orphans() -> tuple[OrphanScene, Scene]:
    """Return a table with orphan files and a stored plan that deletes them."""
    scene = OrphanScene()
    planted(scene, 3)
    scene.table.commit("+B")
    scene.age()
    header = planned(scene)
    return scene, Scene(scene.store, scene.maintainer(), header.plan_id)


@pytest.mark.parametrize("execute", EXECUTORS)
@pytest.mark.parametrize(
    "change",
    [{"incomplete_roots": ["snapshot/snapshot-1"]}, {"is_damaged": True}],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_fact_refuses_a_plan_of_orphan_files(execute: str, change: Json) -> None:
    scene, attacked = orphans()
    attacked.edit(lambda document: document["steering"].update(change))
    before = scene.listed()
    with pytest.raises(FormatError, match="match the header's hash"):
        EXECUTORS[execute](scene, attacked.plan_id)
    assert scene.listed() == before


@pytest.mark.parametrize("execute", EXECUTORS)
def test_a_plan_of_orphan_files_in_the_old_form_knows_no_complete_root(execute: str) -> None:
    """It states nothing, so a recheck reads each root again. It deletes what it planned."""
    scene, attacked = orphans()
    plan = load_plan(attacked.area, attacked.plan_id)

    def to_old_form(document: Json) -> None:
        del document["steering"]
        document["content_hash"] = content_hash(plan.actions)

    attacked.edit(to_old_form)
    assert load_header(attacked.area, attacked.plan_id).steering.incomplete_roots is None
    before = scene.listed()
    assert EXECUTORS[execute](scene, attacked.plan_id).status == "done"
    assert before - scene.listed() == {delete.path for delete in plan.deletes}


@pytest.mark.parametrize("execute", EXECUTORS)
def test_the_hash_of_a_plan_in_parts_covers_its_steering(execute: str) -> None:
    scene, attacked = orphans()
    plan, plan_id = load_plan(attacked.area, attacked.plan_id), f"{attacked.plan_id}-parts"
    parts = [store_part(attacked.area, plan_id, f"{n}", [action]) for n, action in enumerate(plan.actions)]
    kinds = plan.delete_kinds
    assert joined_hash((part.hash for part in parts), plan.header.steering) == plan.header.content_hash
    store_plan(attacked.area, Plan(replace(plan.header, plan_id=plan_id, parts=tuple(parts), by_kind=kinds)))
    in_parts = replace(attacked, plan_id=plan_id)
    in_parts.edit(lambda document: document["steering"].update(incomplete_roots=["snapshot/snapshot-1"]))
    before = scene.listed()
    with pytest.raises(FormatError, match="match the header's hash"):
        EXECUTORS[execute](scene, plan_id)
    assert scene.listed() == before
    in_parts.edit(lambda document: document["steering"].update(incomplete_roots=[]))
    assert EXECUTORS[execute](scene, plan_id).status == "done"
