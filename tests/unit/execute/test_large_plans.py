"""A large plan of files that one process carries out: part by part, by threads, in as many calls as it takes."""

import json
import multiprocessing
import resource
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control import plans
from lakesweep.control.area import ControlArea
from lakesweep.control.lease import Lease, LeaseDocument, acquire, read_lease
from lakesweep.control.plans import PART_ROWS, store_part, store_plan
from lakesweep.control.reports import PUT_OFF, plan_end
from lakesweep.errors import FormatError, LeaseHeldError, MaintenanceError, OutOfTimeError
from lakesweep.execute import batches
from lakesweep.execute.part_actions import PartActions
from lakesweep.execute.waves import threads
from lakesweep.model.plan import Delete, Plan, PlanHeader, joined_hash
from lakesweep.model.report import RunReport
from lakesweep.model.safety import DELETE_MARGIN_MS, EPOCH_MS, LEASE_MS
from lakesweep.runs import local_executor
from lakesweep.runs.execution import finish_begun
from lakesweep.runs.run import execute_stored
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, Store, delete_all
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.faulty_store import FaultyStore, ProcessDeathError, Switch
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import FOLDER, OrphanScene, unique
from tests.support.reader import assert_all_readable
from tests.support.waves import comparable, ledger_rows, planned, planted, results_of

COUNT = 430
MEMORY_COUNT = 300_000
MAX_GROWTH_BYTES = 80 << 20
"""Two parts at hand, the one that is read, and what four requests hold."""


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of a few hundred actions is large, and has several parts, waves and slices."""
    monkeypatch.setattr(local_executor, "LARGE_PLAN", 100)
    monkeypatch.setattr(plans, "PART_ROWS", 70)
    monkeypatch.setattr(plans, "_HEADER_ROWS", 100)
    monkeypatch.setattr(threads, "WAVE_KEYS", 100)
    monkeypatch.setattr(threads, "SLICE_KEYS", 20)


@pytest.fixture
def scene() -> OrphanScene:
    return OrphanScene()


class Counting(WrappingStore):
    """Notes what is asked to go, and says when a wave's look has been."""

    def __init__(self, store: Store, on_delete: Callable[[int], None] = lambda count: None) -> None:
        super().__init__(store)
        self.asked: list[str] = []
        self._on_delete = on_delete

    def delete(self, requests: Any) -> Any:
        self.asked += [request.key for request in requests]
        self._on_delete(len(self.asked))
        return super().delete(requests)


def area_of(scene: OrphanScene) -> ControlArea:
    return ControlArea(scene.control, scene.store.location)


def deleted(report: RunReport) -> int:
    assert report.outcome is not None
    return report.outcome.deleted


@pytest.mark.parametrize("made_here", [False, True])
def test_it_ends_as_action_by_action(monkeypatch: pytest.MonkeyPatch, made_here: bool) -> None:
    """The same objects are left, and ledger and report say the same. Also where the call made the plan itself."""
    found = []
    for large in (100, 10_000):
        monkeypatch.setattr(local_executor, "LARGE_PLAN", large)
        scene = OrphanScene()
        keys = planted(scene, COUNT)
        if made_here:
            report = scene.maintainer().run("remove-orphan-files")
        else:
            header = planned(scene)
            scene.put(keys[1], b"rewritten")
            scene.drop(keys[2])
            report = scene.maintainer().execute(header.plan_id)
        assert report.status == "done"
        found.append((scene, report))
        assert_all_readable(scene.table)
    (waves, in_waves), (alone, one_by_one) = found
    assert comparable(in_waves) == comparable(one_by_one)
    assert waves.listed() == alone.listed()
    rows = [ledger_rows(scene, report.run_id) for scene, report in found]
    assert results_of(rows[0]) == results_of(rows[1])
    assert any(entry.key.endswith("0000000-00-intent.ndjson.gz") for entry in waves.control.list(""))
    assert not any(entry.key.endswith("0000000-00-intent.ndjson.gz") for entry in alone.control.list(""))


def out_of_time(scene: OrphanScene, looks: int) -> tuple[Table, list[int]]:
    """Return a table whose caller's time is over after so many looks at the clock, and what counts them."""
    made = [0]

    def check(what: str) -> None:
        made[0] += 1
        if made[0] > looks:
            raise OutOfTimeError(f"{what}: expected 20 s for it, found 0 ms left")

    return replace(scene.maintainer().table, check_time=check), made


def test_time_may_run_out_at_any_look_at_the_clock() -> None:
    """What is left goes on in another call: every object goes once, nobody has to finish the plan first meanwhile."""
    looks, most = 1, 2
    while looks < most:
        scene = OrphanScene()
        keys = planted(scene, COUNT)
        header = planned(scene)
        table, made = out_of_time(scene, looks)
        try:
            report = execute_stored(table, header.plan_id, run_id=header.plan_id)
        except OutOfTimeError:
            assert set(keys) <= scene.listed()
            looks += 1
            most = looks + 1
            continue
        gone = set(keys) - scene.listed()
        if report.status == "done":
            most = made[0]
            break
        assert report.refusal is not None
        assert (report.status, report.refusal.code, deleted(report)) == ("partial", "out_of_time", len(gone))
        assert "continues where it stopped when it is executed again" in report.refusal.message
        end = plan_end(area_of(scene), header.plan_id)
        assert end is not None
        assert end.status == PUT_OFF
        lease = read_lease(area_of(scene))
        assert (lease.intent, lease.expires_ms) == (None, 0)
        assert scene.maintainer().expire().status == "nothing_to_do", "retention goes on"
        store = Counting(scene.store)
        rest = scene.maintainer(store).execute(header.plan_id)
        assert (rest.status, deleted(rest)) == ("done", COUNT - len(gone))
        assert gone.isdisjoint(store.asked)
        assert len(store.asked) == COUNT - len(gone)
        assert scene.maintainer().execute(header.plan_id).status == "nothing_to_do"
        looks, most = looks + 3, made[0] + 3
    assert looks > 20


def test_no_time_at_all(scene: OrphanScene) -> None:
    """The next attempt would come no further, so this is an error."""
    planted(scene, COUNT)
    header = planned(scene)
    table, _ = out_of_time(scene, 0)
    with pytest.raises(OutOfTimeError):
        execute_stored(table, header.plan_id)
    assert scene.maintainer().execute(header.plan_id).status == "done"


def test_time_that_runs_out_between_slices_ends_the_wave(scene: OrphanScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow wave does not outlast the caller's time: slices that were not begun go on in another call."""
    monkeypatch.setattr(threads, "WAVE_KEYS", 10_000)
    planted(scene, COUNT)
    header = planned(scene)
    is_over = False

    def check(what: str) -> None:
        if is_over:
            raise OutOfTimeError("it is over")

    def end(count: int) -> None:
        nonlocal is_over
        is_over = count >= 100

    table = replace(scene.maintainer(Counting(scene.store, end)).table, check_time=check)
    report = execute_stored(table, header.plan_id)
    assert report.status == "partial"
    assert 100 <= deleted(report) < 100 + threads.LANES * 20
    assert scene.maintainer().execute(header.plan_id).status == "done"


@pytest.mark.parametrize("mode", ["before", "after", "death", "death_after"])
def test_any_request_may_be_the_last(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every root reads after the break. Then retention goes on, and the plan where it stopped."""
    monkeypatch.setattr(threads, "LANES", 1)  # so that requests have an order
    monkeypatch.setattr(threads, "SLICE_KEYS", 50)

    def run(scene: OrphanScene, switch: Switch, plan_id: str) -> RunReport:
        store = FaultyStore(scene.store, switch, "table")
        return scene.maintainer(store, FaultyStore(scene.control, switch, "control")).execute(plan_id)

    def begin() -> tuple[OrphanScene, str]:
        scene = OrphanScene()
        planted(scene, 230)
        return scene, planned(scene).plan_id

    scene, plan_id = begin()
    normal = Switch()
    assert run(scene, normal, plan_id).status == "done"
    expected = scene.listed()
    for at in range(1, len(normal.calls) + 1):
        scene, plan_id = begin()
        switch = Switch(at, mode)
        try:
            run(scene, switch, plan_id)
        except (MaintenanceError, ProcessDeathError):
            pass
        where = f"{mode} request {at}: {switch.calls[at - 1]}"
        assert_all_readable(scene.table)
        scene.now_ms += LEASE_MS + DELETE_MARGIN_MS
        assert scene.maintainer().expire().status == "nothing_to_do", where
        assert read_lease(area_of(scene)).intent is None, where
        assert scene.maintainer().execute(plan_id).status in ("done", "nothing_to_do"), where
        assert scene.listed() == expected, where
        assert_all_readable(scene.table)


def test_a_live_run_is_not_put_off(scene: OrphanScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that comes while the plan is carried out finds the lease held, and writes nothing about the plan."""
    monkeypatch.setattr(threads, "LANES", 1)
    planted(scene, COUNT)
    header = planned(scene)
    met: list[object] = []

    def pass_comes(count: int) -> None:
        if not met:
            with pytest.raises(LeaseHeldError):
                scene.maintainer().expire()
            met.append(plan_end(area_of(scene), header.plan_id))

    report = scene.maintainer(Counting(scene.store, pass_comes)).execute(header.plan_id)
    assert (report.status, met) == ("done", [None])


def test_a_root_that_appears_between_waves_keeps_its_files(scene: OrphanScene) -> None:
    """Threads delete what the look before each wave leaves."""
    scene.table.commit("+A")
    scene.table.commit("+d")
    data = scene.table.path("d")
    body = scene.store.read("snapshot/snapshot-2").data
    scene.drop("snapshot/snapshot-2")
    keys = [scene.orphan(str(number), folder="dt=a/bucket-0/") for number in range(COUNT)]  # all go before
    scene.age()
    header = planned(scene)

    def appear(count: int) -> None:
        if count == 20:
            scene.put("snapshot/snapshot-2", body)

    report = scene.maintainer(Counting(scene.store, appear)).execute(header.plan_id)
    assert report.status == "done"
    assert report.outcome is not None
    assert report.outcome.kept_by_recheck >= 1
    assert data in scene.listed()
    assert scene.listed().isdisjoint(keys)
    assert_all_readable(scene.table)


POLICY = "memory://ops/policy.json"


@pytest.mark.parametrize("manual", [True, False])
@pytest.mark.parametrize("words", [{"mode": "delete", "pause": True}, {"mode": "observe"}], ids=["paused", "observed"])
def test_a_policy_that_changes_stops_the_plan_at_its_next_wave(
    scene: OrphanScene, words: Mapping[str, object], manual: bool
) -> None:
    """What is left is left until somebody executes it again. To observe is no word to who asked by hand."""
    keys = planted(scene, COUNT)
    header = planned(scene)
    policies = MemoryStore("memory://ops")

    def rule(**words: object) -> None:
        rules = [{"tables": "memory://bucket/", **words}]
        policies.put("policy.json", json.dumps({"version": 1, "rules": rules}).encode())

    def change(count: int) -> None:
        if count > 100:
            rule(**words)

    rule(mode="delete")
    opened: Callable[[str], Store] = lambda location: policies  # noqa: E731
    table = replace(scene.maintainer(Counting(scene.store, change)).table, policy=POLICY, open_store=opened)
    report = execute_stored(table, header.plan_id, manual=manual)
    if manual and "pause" not in words:
        assert report.status == "done"
        return
    assert report.refusal is not None
    left = scene.listed() & set(keys)
    assert (report.status, deleted(report)) == ("partial", COUNT - len(left))
    assert 100 < deleted(report) <= 200
    assert POLICY in report.refusal.message
    assert report.refusal.message.endswith("continues where it stopped when it is executed again")
    assert read_lease(area_of(scene)).intent is None
    again = execute_stored(table, header.plan_id, manual=manual)
    assert (again.status, scene.listed() & set(keys)) == ("refused", left)
    rule(mode="delete")
    assert execute_stored(replace(table, store=scene.store), header.plan_id, manual=manual).status == "done"
    assert scene.listed().isdisjoint(keys)


@pytest.mark.parametrize("body", [b"{", None], ids=["invalid", "absent"])
def test_a_policy_that_becomes_unreadable_stops_the_plan_at_its_next_wave(
    scene: OrphanScene, body: bytes | None
) -> None:
    """Nobody knows then whether the table is paused. The plan goes on when the policy can be read again."""
    keys = planted(scene, COUNT)
    header = planned(scene)
    policies = MemoryStore("memory://ops")
    rules = json.dumps({"version": 1, "rules": [{"tables": "memory://bucket/", "mode": "delete"}]}).encode()
    policies.put("policy.json", rules)

    def change(count: int) -> None:
        if count > 100 and body is None:
            policies.delete(delete_all(["policy.json"]))
        elif count > 100 and body is not None:
            policies.put("policy.json", body)

    opened: Callable[[str], Store] = lambda location: policies  # noqa: E731
    table = replace(scene.maintainer(Counting(scene.store, change)).table, policy=POLICY, open_store=opened)
    report = execute_stored(table, header.plan_id)
    left = scene.listed() & set(keys)
    assert report.refusal is not None
    assert (report.status, report.refusal.code, deleted(report)) == ("partial", "bad_policy", COUNT - len(left))
    assert 100 < deleted(report) <= 200
    policies.put("policy.json", rules)
    assert execute_stored(replace(table, store=scene.store), header.plan_id).status == "done"
    assert scene.listed().isdisjoint(keys)


def test_a_pause_stops_a_deletion_in_one_process_when_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is within ten minutes, as docs/operations.md says, and not at the batch after the pause."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 20)
    monkeypatch.setattr(local_executor, "LARGE_PLAN", 10_000)
    scene = OrphanScene()
    keys = planted(scene, COUNT)
    header = planned(scene)
    policies = MemoryStore("memory://ops")
    paused_ms: list[int] = []

    def rule(**words: object) -> None:
        rules = [{"tables": "memory://bucket/", "mode": "delete", **words}]
        policies.put("policy.json", json.dumps({"version": 1, "rules": rules}).encode())

    def pass_time(count: int) -> None:
        scene.age(60_000)
        if count > 60 and not paused_ms:
            rule(pause=True)
            paused_ms.append(scene.now_ms)

    rule()
    opened: Callable[[str], Store] = lambda location: policies  # noqa: E731
    table = replace(scene.maintainer(Counting(scene.store, pass_time)).table, policy=POLICY, open_store=opened)
    report = execute_stored(table, header.plan_id)
    assert report.refusal is not None
    left = scene.listed() & set(keys)
    assert (report.status, report.refusal.code, deleted(report)) == ("partial", "paused", COUNT - len(left))
    assert deleted(report) > 80
    assert scene.now_ms - paused_ms[0] <= EPOCH_MS + 60_000
    assert scene.maintainer().execute(header.plan_id).status == "done"
    assert scene.listed().isdisjoint(keys)


def test_a_plan_that_was_undone_does_not_go_on() -> None:
    """Somebody took back what it had done by then, and did not mean the rest to follow."""
    scenes: list[OrphanScene] = []
    clock = lambda: scenes[0].now_ms if scenes else 1_800_000_000_000  # noqa: E731
    scenes.append(OrphanScene(store=MemoryStore("memory://bucket/db.db/t", clock=clock, versioned=True)))
    (scene,) = scenes
    keys = planted(scene, COUNT)
    header = planned(scene)
    table, _ = out_of_time(scene, 15)
    report = execute_stored(table, header.plan_id)
    assert report.status == "partial"
    assert scene.maintainer().run("undo", run_id=report.run_id).status == "done"
    assert set(keys) <= scene.listed()
    again = scene.maintainer().execute(header.plan_id)
    assert again.refusal is not None
    assert again.refusal.code == "plan_undone"
    assert set(keys) <= scene.listed()


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("is_held", [False, True])
def test_time_may_run_out_while_others_have_the_table(
    scene: OrphanScene, monkeypatch: pytest.MonkeyPatch, is_held: bool, is_large: bool
) -> None:
    """What was done by then is on record since before, so it is not done again, whoever has the lease."""
    monkeypatch.setattr(threads, "LANES", 1)
    monkeypatch.setattr(batches, "BATCH_KEYS", 20)
    monkeypatch.setattr(local_executor, "LARGE_PLAN", 100 if is_large else 10_000)
    keys = planted(scene, COUNT)
    header = planned(scene)
    turns: list[Lease] = []

    def check(what: str) -> None:
        if turns:
            raise OutOfTimeError("it is over")

    def turn() -> None:
        lease = read_lease(area_of(scene))
        if not turns and lease.expires_ms == 0 and lease.intent is None:
            turns.append(acquire(area_of(scene), "another"))
            if not is_held:
                turns[0].release(ended=True)

    scene.on_sleep = turn
    store = Counting(scene.store, lambda count: scene.age(40_000))
    table = replace(scene.maintainer(store).table, check_time=check)
    report = execute_stored(table, header.plan_id, run_id=header.plan_id)
    assert report.refusal is not None
    assert (report.status, report.refusal.code, deleted(report)) == ("partial", "out_of_time", len(store.asked))
    assert 0 < len(store.asked) < COUNT
    turns[0].release(ended=True)
    scene.on_sleep = lambda: None
    assert scene.maintainer().expire().status == "nothing_to_do"
    watched = Counting(scene.store)
    again = scene.maintainer(watched).execute(header.plan_id)
    assert (again.status, deleted(again)) == ("done", COUNT - len(store.asked))
    assert set(watched.asked).isdisjoint(store.asked)
    assert scene.listed().isdisjoint(keys)


def test_who_rests_and_goes_on_ends_as_any_other(scene: OrphanScene) -> None:
    """That it was to go on is no news once it is done."""
    planted(scene, COUNT)
    header = planned(scene)
    store = Counting(scene.store, lambda count: scene.age(60_000))
    report = execute_stored(scene.maintainer(store).table, header.plan_id, run_id=header.plan_id)
    assert (report.status, max(scene.sleeps)) == ("done", 5)
    assert sum(each == 5 for each in scene.sleeps) >= 18
    end = plan_end(area_of(scene), header.plan_id)
    assert end is not None
    assert (end.status, end.runs) == ("done", (header.plan_id,))
    assert scene.maintainer().execute(header.plan_id).status == "nothing_to_do"


def resting(scene: OrphanScene, others: Callable[[], None]) -> Callable[[], None]:
    """Return what has others come once, when somebody sleeps who has let the lease go."""
    came: list[bool] = []

    def turn() -> None:
        lease = read_lease(area_of(scene))
        if not came and lease.token and lease.expires_ms == 0 and lease.intent is None:
            came.append(True)
            others()

    return turn


def versioned() -> OrphanScene:
    scenes: list[OrphanScene] = []
    clock = lambda: scenes[0].now_ms if scenes else 1_800_000_000_000  # noqa: E731
    scenes.append(OrphanScene(store=MemoryStore("memory://bucket/db.db/t", clock=clock, versioned=True)))
    return scenes[0]


@pytest.mark.parametrize("is_large", [True, False])
def test_a_plan_that_is_undone_while_it_rests_does_not_go_on(monkeypatch: pytest.MonkeyPatch, is_large: bool) -> None:
    """Somebody took back what it had done by then, and did not mean the rest to follow."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 20)
    monkeypatch.setattr(local_executor, "LARGE_PLAN", 100 if is_large else 10_000)
    scene = versioned()
    keys = planted(scene, COUNT)
    header = planned(scene)
    undone: list[RunReport] = []
    scene.on_sleep = resting(scene, lambda: undone.append(scene.maintainer().run("undo", run_id=header.plan_id)))
    store = Counting(scene.store, lambda count: scene.age(60_000))
    report = execute_stored(scene.maintainer(store).table, header.plan_id, run_id=header.plan_id)
    assert [each.status for each in undone] == ["done"]
    assert report.refusal is not None
    assert (report.status, report.refusal.code) == ("partial", "plan_undone")
    assert set(keys) <= scene.listed()
    lease = read_lease(area_of(scene))
    assert (lease.expires_ms, lease.intent) == (0, None)
    again = scene.maintainer().execute(header.plan_id)
    assert again.refusal is not None
    assert again.refusal.code == "plan_undone"


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_another_run_goes_on_with_a_plan_that_rests(
    monkeypatch: pytest.MonkeyPatch, ends: bool, is_large: bool
) -> None:
    """A message that came twice: the plan is that run's from then on, and every object goes once."""
    monkeypatch.setattr(threads, "LANES", 1)
    monkeypatch.setattr(batches, "BATCH_KEYS", 20)
    monkeypatch.setattr(local_executor, "LARGE_PLAN", 100 if is_large else 10_000)
    scene = versioned()
    keys = planted(scene, COUNT)
    header = planned(scene)
    second: list[RunReport] = []
    asked: list[str] = []

    def go_on() -> None:
        table, _ = out_of_time(scene, 10_000 if ends else 25 if is_large else 6)
        other = Counting(scene.store)
        second.append(execute_stored(replace(table, store=other), header.plan_id))
        asked.extend(other.asked)

    scene.on_sleep = resting(scene, go_on)
    store = Counting(scene.store, lambda count: scene.age(60_000))
    report = execute_stored(scene.maintainer(store).table, header.plan_id, run_id=header.plan_id)
    assert [each.status for each in second] == ["done" if ends else "partial"]
    assert report.refusal is not None
    assert (report.status, report.refusal.code) == ("partial", "lease_lost")
    scene.on_sleep = lambda: None
    last = Counting(scene.store)
    assert scene.maintainer(last).execute(header.plan_id).status == ("nothing_to_do" if ends else "done")
    assert sorted([*store.asked, *asked, *last.asked]) == sorted(keys)
    end = plan_end(area_of(scene), header.plan_id)
    assert end is not None
    assert (end.status, len(end.runs)) == ("done", 2 if ends else 3)
    assert scene.maintainer().run("undo", run_id=header.plan_id).status == "done"
    assert set(keys) <= scene.listed()


def test_a_run_that_ended_meanwhile_is_not_put_off(scene: OrphanScene) -> None:
    """Who found it at work, and comes to the lease when it is done, leaves its end as it is."""
    planted(scene, COUNT)
    header = planned(scene)
    found: list[LeaseDocument] = []

    def note(count: int) -> None:
        found[:] = [read_lease(area_of(scene))]

    maintainer = scene.maintainer(Counting(scene.store, note))
    assert maintainer.execute(header.plan_id).status == "done"
    assert found[0].intent is not None
    with pytest.raises(LeaseHeldError):
        finish_begun(scene.maintainer().table, found[0])
    end = plan_end(area_of(scene), header.plan_id)
    assert end is not None
    assert end.status == "done"


def test_who_deletes_was_slowed_down(scene: OrphanScene) -> None:
    """An answer that asks for fewer requests halves the rate, as it does for executors."""
    planted(scene, COUNT)
    header = planned(scene)
    maintainer = scene.maintainer()

    def slow(count: int) -> None:
        if count <= 20:
            maintainer.counter.add_throttled()

    maintainer.store = Counting(scene.store, slow)
    fast = sum(scene.sleeps)
    assert maintainer.execute(header.plan_id).status == "done"
    slowed = sum(scene.sleeps) - fast
    other = OrphanScene()
    planted(other, COUNT)
    assert other.maintainer().execute(planned(other).plan_id).status == "done"
    assert slowed > sum(other.sleeps)


def test_parts_are_read_once(scene: OrphanScene) -> None:
    """Also where new roots have the coordinator look into each part, and by however many threads."""
    planted(scene, COUNT)
    header = planned(scene)
    read: list[str] = []

    class Noting(WrappingStore):
        def read(self, key: str, max_bytes: int | None = None) -> Body:
            read.append(key)
            return super().read(key, max_bytes)

    def commit(count: int) -> None:
        if count == 20:
            scene.table.commit("+B")

    maintainer = scene.maintainer(Counting(scene.store, commit), Noting(scene.control))
    loaded = local_executor.load(area_of(scene), header.plan_id)
    assert loaded.is_chunked
    assert sum(loaded.delete_kinds.values()) == COUNT
    report = maintainer.execute(header.plan_id)
    assert report.status == "done"
    parts = [key for key in read if "/actions-" in key]
    # Counted, since the header of a plan that one process made does not say what kinds go; the first one checked; all
    # held against the roots that are there; then read to be deleted.
    assert len(parts) == 3 * len(set(parts)) + 1


def test_actions_at_hand_are_bounded(scene: OrphanScene) -> None:
    planted(scene, COUNT)
    header = planned(scene)
    held = PartActions(area_of(scene), header.plan_id, held=150)
    for part in (0, 1, 2, 1, 0, 5):
        assert len(held.of(part, 3, 13)) == 10
        assert sum(map(len, held._parts.values())) <= 150
        assert part in held._parts
    alone = PartActions(area_of(scene), header.plan_id)
    assert len(alone.of(0, 0, 70)) == 70
    assert len(alone.of(6, 0, 70)) == COUNT - 6 * 70
    assert list(alone._parts) == [6]


def counted(scene: OrphanScene) -> PlanHeader:
    """Store the plan as processes leave it that never had it whole: its header says what kinds go."""
    header = planned(scene)
    area = area_of(scene)
    header = replace(plans.load_header(area, header.plan_id), by_kind={"data": COUNT})
    scene.control.delete([DeleteRequest(f"{area.prefix}plans/{header.plan_id}/header.json")])
    store_plan(area, Plan(header))
    return header


def test_what_is_done_takes_no_time_again(scene: OrphanScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are done are not even read."""
    monkeypatch.setattr(threads, "LANES", 1)  # so that what is done is what comes first
    planted(scene, COUNT)
    header = counted(scene)
    table, _ = out_of_time(scene, 30)
    gone = deleted(execute_stored(table, header.plan_id))
    assert gone > 3 * 70
    read: list[str] = []

    class Noting(WrappingStore):
        def read(self, key: str, max_bytes: int | None = None) -> Body:
            read.append(key.rpartition("/")[2])
            return super().read(key, max_bytes)

    report = scene.maintainer(control=Noting(scene.control)).execute(header.plan_id)
    assert (report.status, deleted(report)) == ("done", COUNT - gone)
    first = header.parts[0].name
    assert (
        {name for name in read if name.startswith("actions-")}
        == {
            first,  # its kinds are looked at
            *(part.name for part in header.parts[gone // 70 :]),
        }
    )


def test_a_damaged_part_stops_it_there(scene: OrphanScene) -> None:
    """All parts are held against the header, and against the roots, before anything goes."""
    keys = planted(scene, COUNT)
    header = counted(scene)
    area = area_of(scene)
    name = f"plans/{header.plan_id}/{header.parts[3].name}"
    area.put(name, area.read(f"plans/{header.plan_id}/{header.parts[2].name}").data)
    with pytest.raises(FormatError, match="SHA-256"):
        scene.maintainer().execute(header.plan_id)
    assert set(keys) <= scene.listed()


class Endless(WrappingStore):
    """Says of everything that it is deleted now."""

    def delete(self, requests: Any) -> list[DeleteResult]:
        return [DeleteResult(request.key, "deleted") for request in requests]


def _written(area: ControlArea, header: PlanHeader) -> Iterator[Any]:
    for start in range(0, MEMORY_COUNT, PART_ROWS):
        yield store_part(
            area,
            header.plan_id,
            f"p{start:07d}",
            [
                Delete(
                    "data",
                    "data",
                    f"{FOLDER}data-{unique('x')}-{number:07d}.parquet",
                    1000,
                    "no root refers to it; written 2026-01-01T00:00:00Z",
                    f"{number:032x}",
                )
                for number in range(start, start + PART_ROWS)
            ],
        )


def _prepare(folder: str) -> str:
    scene = OrphanScene()
    planted(scene, 3)
    template = planned(scene)
    area = ControlArea(LocalStore(folder), scene.store.location)
    header = replace(template, plan_id=f"{template.plan_id}-large")
    parts = tuple(_written(area, header))
    store_plan(
        area,
        Plan(
            replace(
                header,
                parts=parts,
                action_count=MEMORY_COUNT,
                content_hash=joined_hash((part.hash for part in parts), header.steering),
                by_kind={"data": MEMORY_COUNT},
            )
        ),
    )
    return header.plan_id


def _execute_and_measure(folder: str, plan_id: str, answers: Any) -> None:
    scene = OrphanScene()
    planted(scene, 3)
    table = replace(
        scene.maintainer(Endless(scene.store)).table, area=ControlArea(LocalStore(folder), scene.store.location)
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = execute_stored(table, plan_id)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers.put((report.status, deleted(report), (after - before) * 1024))


@pytest.mark.long
def test_little_of_it_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of 300 000 objects takes some ten MiB more than a process has anyway."""
    monkeypatch.undo()
    plan_id = _prepare(str(tmp_path))
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_execute_and_measure, args=(str(tmp_path), plan_id, answers))
    process.start()
    status, gone, growth_bytes = answers.get(timeout=100)
    process.join()
    assert (status, gone) == ("done", MEMORY_COUNT)
    assert growth_bytes < MAX_GROWTH_BYTES, growth_bytes >> 20
