"""A table is dropped and another one is made at its place: nothing that was remembered of the first is believed."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_plan
from lakesweep.control.state import read_states
from lakesweep.model.safety import STATE_LIFETIME_MS
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import Triage, lag_of, triage
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import delete_all
from tests.support.fan_out import FanOut, small_limits
from tests.support.faulty_store import FaultyStore, ProcessDeathError, Switch
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import DAY_MS, OrphanScene
from tests.support.table_builder import TableBuilder

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000
KEEP_TEN = {
    "snapshot.num-retained.min": "10",
    "snapshot.num-retained.max": "10",
    "snapshot.time-retained": "1 h",
}
KEEP_ONE = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "1 ms",
}


class Scene:
    """A table in memory, and a clock."""

    def __init__(self, **options: str) -> None:
        self.now_ms = START_MS
        self.counter = RequestCounter()
        self.store = MemoryStore("memory://bucket/db.db/t", self.counter, clock=lambda: self.now_ms)
        self.control = MemoryStore("memory://control", self.counter, clock=lambda: self.now_ms)
        self.commits = 0
        self.make(options or KEEP_TEN)

    def make(self, options: dict[str, str], *, label: str = "A") -> None:
        """Drop the table, if there is one, and make one at its place."""
        self.store.delete(delete_all([entry.key for entry in self.store.list("")]))
        self.table, self.label, self.commits = TableBuilder(self.store, options=options), label, 0

    def commit(self, times: int = 1, **more: Any) -> None:
        for _ in range(times):
            self.now_ms += MINUTE_MS
            self.commits += 1
            gone = [f"-{self.label}{self.commits - 1}"] if self.commits > 1 else []
            self.table.commit(f"+{self.label}{self.commits}", *gone, time_ms=self.now_ms, **more)
            self.table.hint("LATEST", self.commits)

    @property
    def maintainer(self) -> Maintainer:
        return Maintainer(self.store, control=self.control, counter=self.counter)

    def run(self, **arguments: Any) -> str:
        return maintain(self.maintainer.table, MaintainArguments(**arguments), execute=True).status

    def snapshots(self) -> list[int]:
        names = (entry.key.removeprefix("snapshot/snapshot-") for entry in self.store.list("snapshot/"))
        return sorted(int(name) for name in names if name.isdecimal())


@pytest.mark.parametrize("asked", ["by_hint", "by_event", "all_branches"])
def test_a_pass_over_the_new_table_goes_by_its_own_rules(asked: str) -> None:
    """Both have eight snapshots and one schema, and the old rules keep all of them."""
    scene = Scene()
    scene.commit(8)
    assert scene.run() == "nothing_to_do"
    assert scene.run() == "nothing_to_do", "by the state"
    scene.make(KEEP_ONE)
    scene.commit(8)

    if asked == "all_branches":
        assert scene.maintainer.run("maintain", all_branches=True).status == "done"
    else:
        assert scene.run(**({"committed_id": 8} if asked == "by_event" else {})) == "done"

    assert scene.snapshots() == [8]
    assert_roots_readable(scene.table)


def test_commits_and_sweeps_ask_for_a_pass_over_the_new_table() -> None:
    scene = Scene()
    scene.commit(8)
    scene.run(is_due=True)
    scene.make(KEEP_ONE)
    scene.commit(9)
    table = scene.maintainer.table
    assert table.area is not None
    assert triage(table, 9, 0) == Triage(True)
    assert lag_of(table, read_states(table.area).get("main")) is not None


def test_a_branch_that_is_made_anew_has_a_state_of_its_own() -> None:
    """Main of the new table is looked at first; what was known of the old branch goes with it."""
    scene = Scene()
    scene.commit(8)
    scene.table.branch("b")
    scene.maintainer.run("maintain", all_branches=True)
    scene.make(KEEP_ONE)
    scene.commit(8)
    scene.maintainer.run("maintain")
    assert set(read_states(ControlArea(scene.control, scene.store.location))) <= {"main"}


def test_what_a_pass_found_counts_for_a_day() -> None:
    """The pass after that looks anew, writes what it found, and answers the next ones."""
    scene = Scene()
    scene.commit(3)
    scene.make({**KEEP_TEN, "snapshot.time-retained": "1000 d"})
    scene.commit(3)
    assert scene.run() == "nothing_to_do"
    for age_ms, looks in (
        (STATE_LIFETIME_MS - 1, False),
        (1, True),
        (1, False),
        (STATE_LIFETIME_MS - 2, False),
        (1, True),
    ):
        scene.now_ms += age_ms
        before = scene.counter.snapshot()
        assert scene.run() == "nothing_to_do"
        after = scene.counter.snapshot()
        requests = sum(after.values()) - sum(before.values())
        assert (requests > 4, after["put"] > before["put"]) == (looks, looks), (age_ms, requests)
    assert lag_of(scene.maintainer.table, read_states(ControlArea(scene.control, scene.store.location))["main"]) is None


def test_tags_of_the_new_table_begin_with_its_own_commits() -> None:
    """The pointer of the old table is far beyond."""
    options = {
        **KEEP_TEN,
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "hourly",
        "sink.process-time-zone": "UTC",
        "tag.num-retained-max": "100",
    }
    scene = Scene(**options)
    for _ in range(5):
        scene.commit(1)
        scene.now_ms += 3_600_000
        scene.run()
    scene.make({**options, "marker": "new"})
    scene.commit(1)
    scene.now_ms += 3_600_000
    fresh = Maintainer(scene.store).run("maintain", execute=False)
    assert scene.maintainer.run("maintain", execute=False).to_json()["steps"] is not None
    wanted = [step.plan.actions for step in fresh.steps or () if step.plan and step.operation == "auto-tags"]
    found = scene.maintainer.run("maintain", execute=False)
    assert [s.plan.actions for s in found.steps or () if s.plan and s.operation == "auto-tags"] == wanted != []


def test_manifests_of_the_old_table_are_not_taken_for_those_of_the_new_one() -> None:
    """The names are the same, as where a copy was brought back and written to; the files in them are others."""
    scene = Scene(**KEEP_ONE)
    scene.commit(4)
    assert scene.maintainer.maintain(execute=False).status == "planned", "reads and remembers all of it"
    scene.make({**KEEP_ONE, "marker": "new"}, label="B")
    scene.commit(4)
    wanted = Maintainer(scene.store).maintain(execute=False)
    found = scene.maintainer.maintain(execute=False)
    assert found.plan is not None
    assert wanted.plan is not None
    assert {action.path for action in found.plan.actions} == {action.path for action in wanted.plan.actions}
    assert scene.run() == "done"
    assert_roots_readable(scene.table)


def test_names_that_a_scan_decoded_of_the_old_table_protect_nothing_of_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each live file of the new table would be an orphan by them."""
    small_limits(monkeypatch)
    scene = OrphanScene()

    def scan(scan_id: str) -> Any:
        table: Table = replace(scene.maintainer().table, sleep=lambda _: None)

        def jump(by_ms: int) -> None:
            scene.now_ms += by_ms

        return FanOut(table, OrphanArguments(), Random(0), jump=jump, scan_id=scan_id).run()

    for number in range(9):
        scene.table.commit(f"+A{number}")
    scene.orphan("x")
    scene.age()
    assert scan("scan-1").plan is not None
    scene.store.delete(delete_all([entry.key for entry in scene.store.list("")]))
    scene.table = TableBuilder(
        scene.store, partition_keys=("dt",), start_ms=scene.now_ms, options={"marker": "new table"}
    )
    for number in range(9):
        scene.table.commit(f"+B{number}")
    orphan = scene.orphan("x")
    scene.age()
    plan = scan("scan-2").plan
    assert plan is not None
    maintainer = replace(scene.maintainer().table, sleep=lambda _: None)
    assert maintainer.area is not None
    assert {action.path for action in load_plan(maintainer.area, plan.header.plan_id).actions} == {orphan}


@pytest.mark.parametrize("at", range(6, 40, 3))
def test_what_a_dead_run_left_takes_nothing_of_the_new_table(at: int) -> None:
    """Its plan names snapshots and files by paths that the new table has as well."""
    scene = Scene(**KEEP_ONE)
    scene.commit(6)
    scene.run(is_due=True)
    scene.commit(6)
    maintainer = scene.maintainer
    switch = Switch(at, "death")
    dying = Maintainer(FaultyStore(scene.store, switch, "table"), control=FaultyStore(scene.control, switch, "control"))
    try:
        dying.maintain()
    except ProcessDeathError:
        pass
    scene.make({**KEEP_TEN, "marker": "new"})
    scene.commit(9)
    scene.now_ms += 20 * MINUTE_MS
    before = {entry.key for entry in scene.store.list("")}
    for _ in range(3):
        maintainer.maintain()
        scene.now_ms += 20 * MINUTE_MS
    gone = before - {entry.key for entry in scene.store.list("")}
    assert not gone, gone
    assert_roots_readable(scene.table)


def test_a_plan_of_the_old_table_deletes_nothing_of_the_new_one() -> None:
    scene = Scene(**KEEP_ONE)
    scene.commit(6)
    planned = scene.maintainer.maintain(execute=False)
    step = next(step for step in planned.leaves() if step.plan is not None)
    assert step.plan is not None
    scene.make({**KEEP_TEN, "marker": "new"})
    scene.commit(6)
    before = {entry.key for entry in scene.store.list("")}
    report = scene.maintainer.execute(step.plan.header.plan_id)
    assert report.status in ("stale", "refused"), report.status
    assert before == {entry.key for entry in scene.store.list("")}


def test_an_orphan_of_the_old_table_is_none_that_is_known_in_the_new_one() -> None:
    """Quarantine asks for the same object: an object at the same place is another one."""
    scene = OrphanScene()
    scene.table.commit("+A")
    path = scene.orphan("x")
    scene.age()
    maintainer = scene.maintainer()
    assert maintainer.run("remove-orphan-files", quarantine="1 d").status == "nothing_to_do"
    scene.store.delete(delete_all([entry.key for entry in scene.store.list("")]))
    scene.table = TableBuilder(
        scene.store, partition_keys=("dt",), start_ms=scene.now_ms, options={"marker": "new table"}
    )
    scene.table.commit("+B")
    scene.orphan("x")
    scene.age(2 * DAY_MS)
    assert maintainer.run("remove-orphan-files", quarantine="1 d").status == "nothing_to_do"
    assert path in {entry.key for entry in scene.store.list("")}


def test_an_orphan_plan_of_the_old_table_keeps_what_the_new_one_has() -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    path = scene.orphan("x")
    scene.age()
    maintainer = scene.maintainer()
    planned = maintainer.run("remove-orphan-files", execute=False)
    assert planned.plan is not None
    scene.store.delete(delete_all([entry.key for entry in scene.store.list("")]))
    scene.table = TableBuilder(
        scene.store, partition_keys=("dt",), start_ms=scene.now_ms, options={"marker": "new table"}
    )
    scene.table.commit("+B")
    scene.orphan("x")
    scene.age(1)
    maintainer.execute(planned.plan.header.plan_id)
    assert path in {entry.key for entry in scene.store.list("")}


def test_a_state_of_before_this_rule_answers_nothing() -> None:
    scene = Scene()
    scene.commit(3)
    scene.run()
    area = ControlArea(scene.control, scene.store.location)
    document = json.loads(area.read("state.json").data)
    for branch in document["branches"].values():
        branch["identity"] = 0
    area.put("state.json", json.dumps(document).encode())
    before = scene.counter.snapshot()
    assert scene.run() == "nothing_to_do"
    assert sum(scene.counter.snapshot().values()) - sum(before.values()) > 4
