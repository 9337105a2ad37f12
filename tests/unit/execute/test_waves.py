"""A plan of files that many processes carry out, a wave at a time."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.control import plans
from lakesweep.control.area import ControlArea
from lakesweep.control.lease import read_lease
from lakesweep.control.ledger_rows import fates
from lakesweep.errors import LeaseLostError, MaintenanceError, StorageError
from lakesweep.execute.waves.driver import SHOWN_FAILURES
from lakesweep.execute.waves.slices import NOT_BEGUN, Assignment, Site, Slice, SliceResult, work
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.runs import local_executor
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from lakesweep.table.stores import TableStores
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import FOLDER, START_MS, OrphanScene, S3Scene, unique
from tests.support.reader import assert_all_readable
from tests.support.s3_server import seed_moto
from tests.support.waves import Team, comparable, ledger_rows, planned, planted, results_of

COUNT = 730


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of a few hundred actions have several parts."""
    monkeypatch.setattr(plans, "PART_ROWS", 120)


@pytest.fixture
def scene() -> OrphanScene:
    return OrphanScene()


class Answering(WrappingStore):
    """Answers some deletions otherwise than the store would, and notes what it was asked."""

    def __init__(self, store: Store, answer: Callable[[str], str | None]) -> None:
        super().__init__(store)
        self._answer = answer
        self.asked: list[str] = []

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        self.asked += [request.key for request in requests]
        said = {request.key: self._answer(request.key) for request in requests}
        passed = [request for request in requests if said[request.key] is None]
        answers = {answer.key: answer for answer in (super().delete(passed) if passed else ())}
        return [answers.get(r.key) or DeleteResult(r.key, str(said[r.key])) for r in requests]


@pytest.mark.parametrize("count", [3, COUNT])
def test_it_ends_as_in_one_process(count: int) -> None:
    """The same objects are left, the ledger says the same of each, and so does the report."""
    scenes = OrphanScene(), OrphanScene()
    headers = []
    for scene in scenes:
        keys = planted(scene, count)
        headers.append(planned(scene))
        scene.put(keys[1], b"rewritten")
        scene.drop(keys[2])
    alone = scenes[0].maintainer().execute(headers[0].plan_id)
    together = Team(scenes[1]).execute(headers[1].plan_id)
    assert together.outcome is not None
    assert (together.outcome.deleted, together.outcome.already_gone, together.outcome.kept_by_recheck) == (
        count - 2,
        1,
        1,
    )
    assert comparable(together) == comparable(alone)
    assert scenes[1].listed() == scenes[0].listed()
    rows = [ledger_rows(scene, report.run_id) for scene, report in zip(scenes, (alone, together), strict=True)]
    assert results_of(rows[1]) == results_of(rows[0])
    assert {frozenset(row) for row in rows[1]} <= {frozenset(row) for row in rows[0]}, "the same fields"
    intended = [{row["key"] for row in each if "result" not in row} for each in rows]
    assert intended[1] == intended[0]


def test_it_ends_as_in_one_process_on_s3() -> None:
    """So it does in buckets, where a slice is one request."""
    scene = S3Scene()
    scene.table.commit("+A")
    keys = [f"{FOLDER}data-{unique(str(number))}-0.parquet" for number in range(600)]
    seed_moto(scene.bucket, [f"db.db/t/{key}" for key in keys])
    scene.age()
    before = scene.listed()
    report = Team(scene, keys_per_s=10**6).execute(planned(scene).plan_id)
    assert report.status == "done"
    assert before - scene.listed() == set(keys)
    assert_all_readable(scene.table)


def test_a_wave_is_what_one_look_covers(scene: OrphanScene) -> None:
    """No wave has more keys than it may, and all of them together are the plan."""
    planted(scene, COUNT)
    team = Team(scene)
    team.execute(planned(scene).plan_id)
    sizes = [sum(each.count for assignment in wave for each in assignment.slices) for wave in team.waves]
    assert max(sizes) <= 200
    assert sum(sizes) == COUNT
    assert all(len(wave) <= 3 for wave in team.waves)


def test_again_is_harmless(scene: OrphanScene) -> None:
    """A plan that is done has nothing to do."""
    planted(scene, COUNT)
    plan_id = planned(scene).plan_id
    assert Team(scene).execute(plan_id).status == "done"
    assert Team(scene).execute(plan_id).status == "nothing_to_do"
    assert scene.maintainer().execute(plan_id).status == "nothing_to_do"


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "by its owner"])
def test_a_root_that_appears_between_waves_keeps_its_files(scene: OrphanScene, is_named: bool) -> None:
    """It is looked for before each wave. A file beside another one stays with that, whether or not a root names it."""
    scene.table.commit("+A")
    scene.table.commit("+d", **({"extra": {"d": ["index"]}} if is_named else {}))
    data = scene.table.path("d")
    if not is_named:
        scene.put(f"{data}.index")
    bodies = {key: scene.store.read(key).data for key in ("snapshot/snapshot-2", data, f"{data}.index")}
    scene.drop("snapshot/snapshot-2")
    planted_keys = [scene.orphan(str(number), folder="dt=v/bucket-0/") for number in range(COUNT)]
    scene.age()
    header = planned(scene)

    def appear(number: int) -> None:
        if number == 1:
            for key, body in bodies.items():
                if key.startswith("snapshot"):
                    scene.put(key, body)

    team = Team(scene, before_wave=appear)
    deletes = plans.load_plan(ControlArea(scene.control, scene.store.location), header.plan_id).deletes
    first = next(n for n, delete in enumerate(deletes) if delete.path == data)
    if first < 200:  # the first wave takes it; a wave of one slice leaves it for later
        team.wave_keys = team.slice_keys = first or 1
    report = team.execute(header.plan_id)
    assert report.status == "done"
    assert {data, f"{data}.index"} <= scene.listed()
    assert scene.listed().isdisjoint(planted_keys)
    assert report.outcome is not None
    assert report.outcome.kept_by_recheck >= 2
    assert_all_readable(scene.table)


def test_of_a_new_root_only_what_is_new_is_read(scene: OrphanScene) -> None:
    """A snapshot names all files of its table; manifests that were read before the first wave are not read again."""
    planted(scene, COUNT)
    scene.table.commit("+B")
    header = planned(scene)
    old = {key for key in scene.listed() if key.startswith("manifest/manifest-")}
    read: list[str] = []

    class Noting(WrappingStore):
        def read(self, key: str, max_bytes: int | None = None) -> Any:
            read.append(key)
            return super().read(key, max_bytes)

    def appear(number: int) -> None:
        if number == 1:
            read.clear()
            scene.table.commit("+C")

    manifests = lambda: {key for key in read if key.startswith("manifest/manifest-") and "-list-" not in key}  # noqa: E731
    team = Team(scene, before_wave=appear, wrap=Noting)
    assert team.execute(header.plan_id).status == "done"
    assert manifests()
    assert manifests().isdisjoint({key for key in old if "-list-" not in key})


def test_a_rollback_in_the_middle_ends_the_plan(scene: OrphanScene) -> None:
    """Nothing goes after the look that sees it, and the plan cannot be begun again."""
    planted(scene, COUNT)
    for number in range(3):
        scene.table.commit(f"+B{number}")
    header = planned(scene)

    def roll_back(number: int) -> None:
        if number == 2:
            scene.table.rollback(2)

    team = Team(scene, before_wave=roll_back)
    report = team.execute(header.plan_id)
    assert report.status == "stale"
    assert report.outcome is not None
    assert len(team.waves) == 2
    assert report.outcome.deleted == sum(
        each.count for wave in team.waves for assignment in wave for each in assignment.slices
    )
    assert report.refusal is not None
    assert "vanished" in report.refusal.message
    again = Team(scene).execute(header.plan_id)
    assert again.refusal is not None
    assert again.refusal.code == "plan_stale"


def test_a_lease_that_is_lost_in_the_middle_stops_it(scene: OrphanScene) -> None:
    """The run stood still for too long, and another one has the lease: it finishes the plan."""
    planted(scene, COUNT)
    header = planned(scene)
    others = []

    def stand_still(number: int) -> None:
        if number == 2:
            scene.age(LEASE_MS + DELETE_MARGIN_MS + 1)
            others.append(scene.maintainer().execute(header.plan_id))

    team = Team(scene, before_wave=stand_still)
    report = team.execute(header.plan_id)
    assert others[0].status == "done"
    assert report.status == "partial"
    assert report.refusal is not None
    assert report.refusal.code == LeaseLostError.code
    assert report.outcome is not None
    assert report.outcome.deleted == sum(each.count for assignment in team.waves[0] for each in assignment.slices)


def test_who_wakes_up_after_the_lease_deletes_nothing(scene: OrphanScene) -> None:
    """Not one key, however late."""
    planted(scene, COUNT)
    header = planned(scene)
    area = ControlArea(scene.control, scene.store.location)
    watched = Answering(scene.store, lambda key: None)
    site = Site(TableStores(watched), area, scene._sleep, lambda: scene.now_ms / 1000)
    slices = (Slice(0, 0, 0, 50), Slice(1, 0, 50, 100))
    assignment = Assignment(header.plan_id, "20270101T000000Z-late", scene.now_ms + DELETE_MARGIN_MS, 2000, 0, slices)
    assert [result.code for result in work(site, assignment)] == [NOT_BEGUN, NOT_BEGUN]
    assert watched.asked == []
    assert area.names("ledger/") == []  # nor does it claim that it would
    # With a little more than the margin, one request begins, and the next one is too late.
    assignment = Assignment(header.plan_id, assignment.run_id, scene.now_ms + DELETE_MARGIN_MS + 20, 2000, 0, slices)
    assert [result.code for result in work(site, assignment)] == ["", NOT_BEGUN]
    assert len(watched.asked) == 50


def test_who_stands_still_right_before_its_request_sends_none(scene: OrphanScene) -> None:
    """The intent is written, and then the lease is over."""
    planted(scene, COUNT)
    header = planned(scene)
    watched = Answering(scene.store, lambda key: None)

    class Slow(WrappingStore):
        def put(self, key: str, data: bytes, **conditions: Any) -> str:
            scene.age(LEASE_MS)
            return super().put(key, data, **conditions)

    area = ControlArea(Slow(scene.control), scene.store.location)
    site = Site(TableStores(watched), area, scene._sleep, lambda: scene.now_ms / 1000)
    assignment = Assignment(
        header.plan_id, "20270101T000000Z-late", scene.now_ms + LEASE_MS, 2000, 0, (Slice(0, 0, 0, 50),)
    )
    assert [result.code for result in work(site, assignment)] == [NOT_BEGUN]
    assert watched.asked == []


def _dying(after: str) -> Callable[[Site, Assignment], list[SliceResult]]:
    """Return work whose first lane is lost, before or after its first DELETE."""
    died: list[bool] = []

    class Dead(BaseException):
        pass

    class Fatal(WrappingStore):
        def put(self, key: str, data: bytes, **conditions: Any) -> str:
            if key.endswith(f"-{after}.ndjson.gz"):
                raise Dead
            return super().put(key, data, **conditions)

    def lose(site: Site, assignment: Assignment) -> list[SliceResult]:
        if died:
            return list(work(site, assignment))
        died.append(True)
        area = ControlArea(Fatal(site.area.store), site.area.table)
        found: list[SliceResult] = []
        try:
            found.extend(work(Site(site.stores, area, site.sleep, site.clock_s), assignment))
        except Dead:
            pass
        return []  # nobody hears of it

    return lose


def test_a_process_that_dies_after_its_delete(scene: OrphanScene) -> None:
    """Its slice is done again by another one. Nobody knows then which request deleted what it had sent."""
    keys = planted(scene, COUNT)
    header = planned(scene)
    report = Team(scene, work=_dying("result"), assignments=1).execute(header.plan_id)
    assert report.status == "done"
    assert scene.listed().isdisjoint(keys)
    assert report.outcome is not None
    assert (report.outcome.deleted, report.outcome.already_gone) == (COUNT - 50, 50)
    found = fates(ControlArea(scene.control, scene.store.location), header.plan_id, [str(report.run_id)])
    assert [fate.result for fate in found.values()].count("unknown") == 50
    assert [fate.result for fate in found.values()].count("deleted") == COUNT - 50


def test_a_process_that_may_still_live_keeps_the_lease_from_others(scene: OrphanScene) -> None:
    """It deletes as long as the lease that it knows of lasts; so nobody else has the table until then."""
    planted(scene, COUNT)
    report = Team(scene, work=_dying("result"), assignments=1).execute(planned(scene).plan_id)
    assert report.status == "done"
    lease = read_lease(ControlArea(scene.control, scene.store.location))
    assert lease.intent is None
    assert lease.expires_ms > scene.now_ms


def test_a_process_that_was_replaced_within_its_wave_may_still_live(scene: OrphanScene) -> None:
    """Another one answered for it; that it began shows in the ledger."""
    planted(scene, COUNT)
    lose = _dying("result")

    def repeated(site: Site, assignment: Assignment) -> list[SliceResult]:
        return lose(site, assignment) or list(work(site, assignment))

    report = Team(scene, work=repeated, assignments=1).execute(planned(scene).plan_id)
    assert report.outcome is not None
    assert (report.status, report.outcome.already_gone) == ("done", 50)
    assert read_lease(ControlArea(scene.control, scene.store.location)).expires_ms > scene.now_ms


def test_a_lease_is_given_back_when_all_answered(scene: OrphanScene) -> None:
    planted(scene, COUNT)
    Team(scene).execute(planned(scene).plan_id)
    assert read_lease(ControlArea(scene.control, scene.store.location)).expires_ms == 0


def test_a_process_that_dies_before_its_delete(scene: OrphanScene) -> None:
    """Its slice is done by another one, and everything is known."""
    planted(scene, COUNT)
    header = planned(scene)
    report = Team(scene, work=_dying("intent"), assignments=1).execute(header.plan_id)
    assert report.outcome is not None
    assert report.outcome.deleted == COUNT


def test_slices_that_are_worked_on_twice(scene: OrphanScene) -> None:
    """Every lane runs twice, one time after the other: the second finds what the first did, and says the same."""
    keys = planted(scene, COUNT)
    header = planned(scene)
    asked: list[Answering] = []

    def wrap(store: Store) -> Store:
        asked.append(Answering(store, lambda key: None))
        return asked[-1]

    def twice(site: Site, assignment: Assignment) -> list[SliceResult]:
        first, second = list(work(site, assignment)), list(work(site, assignment))
        assert second == first
        return second

    report = Team(scene, work=twice, wrap=wrap).execute(header.plan_id)
    assert report.outcome is not None
    assert (report.status, report.outcome.deleted) == ("done", COUNT)
    assert sorted(asked[0].asked) == keys
    assert len(results_of(ledger_rows(scene, report.run_id))) == COUNT


def test_slices_that_two_work_on_at_once(scene: OrphanScene) -> None:
    """A second process comes between a deletion and its result: each object goes once, and the ledger has both."""
    planted(scene, COUNT)
    header = planned(scene)
    nested: list[bool] = []

    def both(site: Site, assignment: Assignment) -> Iterator[SliceResult]:
        class Interrupting(WrappingStore):
            def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
                answers = super().delete(requests)
                if not nested:
                    nested.append(True)
                    list(work(site, assignment))
                return answers

        return work(Site(TableStores(Interrupting(site.stores.table)), site.area, site.sleep, site.clock_s), assignment)

    report = Team(scene, work=both, assignments=1).execute(header.plan_id)
    assert report.outcome is not None
    assert (report.status, report.outcome.deleted) == ("done", COUNT)
    found = fates(ControlArea(scene.control, scene.store.location), header.plan_id, [str(report.run_id)])
    assert {fate.result for fate in found.values()} == {"deleted"}


def test_keys_that_are_denied_stay_and_are_named(scene: OrphanScene) -> None:
    """They stop nothing else; a later run takes them, and only asks for them."""
    keys = planted(scene, COUNT)
    header = planned(scene)
    denied = set(keys[::100])
    team = Team(scene, wrap=lambda store: Answering(store, lambda key: "access_denied" if key in denied else None))
    report = team.execute(header.plan_id)
    assert report.status == "partial"
    assert report.outcome is not None
    assert {failed.path for failed in report.outcome.failed} == denied
    assert {failed.code for failed in report.outcome.failed} == {"access_denied"}
    assert scene.listed() & set(keys) == denied
    asked: list[Answering] = []

    def wrap(store: Store) -> Store:
        asked.append(Answering(store, lambda key: None))
        return asked[-1]

    again = Team(scene, wrap=wrap).execute(header.plan_id)
    assert again.status == "done"
    assert set(asked[0].asked) == denied


def test_a_report_names_some_of_many_failures(scene: OrphanScene) -> None:
    """The ledger names all of them."""
    keys = planted(scene, COUNT)
    header = planned(scene)
    report = Team(scene, wrap=lambda store: Answering(store, lambda key: "access_denied")).execute(header.plan_id)
    assert report.status == "partial"
    assert report.outcome is not None
    assert 0 < len(report.outcome.failed) < COUNT <= SHOWN_FAILURES
    assert any(f"{COUNT} objects could not be deleted" in warning for warning in report.all_warnings())
    denied = [row for row in ledger_rows(scene, report.run_id) if row.get("result") == "access_denied"]
    assert {row["key"] for row in denied} == set(keys)


def test_no_second_has_more_keys_than_the_rate(scene: OrphanScene) -> None:
    """Lanes that begin together, each with its own clock, send no more than the rate and one request in any second."""
    planted(scene, COUNT)
    header = planned(scene)
    sent: list[tuple[float, int]] = []
    began_s = [0.0]

    def clocked(site: Site, assignment: Assignment) -> list[SliceResult]:
        now_s = [began_s[0]]

        class Noting(WrappingStore):
            def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
                sent.append((now_s[0], len(requests)))
                return super().delete(requests)

        def sleep(seconds: float) -> None:
            now_s[0] += seconds

        found = list(work(Site(TableStores(Noting(site.stores.table)), site.area, sleep, lambda: now_s[0]), assignment))
        ended_s.append(now_s[0])
        return found

    ended_s: list[float] = []

    def begin(number: int) -> None:
        began_s[0] = max(ended_s, default=0.0)

    team = Team(scene, work=clocked, before_wave=begin, keys_per_s=100, slice_keys=25, wave_keys=10**6, assignments=4)
    assert team.execute(header.plan_id).status == "done"
    assert sum(count for _, count in sent) == COUNT
    for seconds, requests in ((0.1, 2), (1, 1), (3, 1)):
        for start, _ in sent:
            assert sum(n for at, n in sent if start <= at < start + seconds) <= 100 * seconds + 25 * requests
    took_s = max(at for at, _ in sent)
    assert COUNT / 100 * 0.7 <= took_s <= COUNT / 100 * 1.6


def test_the_rate_holds_from_wave_to_wave(scene: OrphanScene) -> None:
    """A wave of a single request has nothing to wait for; the next one has."""
    planted(scene, COUNT)
    header = planned(scene)
    sent: list[tuple[int, int]] = []

    class Noting(WrappingStore):
        def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
            sent.append((scene.now_ms, len(requests)))
            return super().delete(requests)

    team = Team(scene, assignments=1, slice_keys=20, wave_keys=20, keys_per_s=10, wrap=Noting)
    assert team.execute(header.plan_id).status == "done"
    assert len(team.waves) > 30
    for start, _ in sent:
        assert sum(count for at, count in sent if start <= at < start + 10_000) <= 10 * 10 + 20


def test_the_lease_is_whole_when_a_wave_begins(scene: OrphanScene) -> None:
    """However long the waves before it took."""
    planted(scene, COUNT)
    left_ms: list[int] = []
    team = Team(scene, keys_per_s=100)

    def note(number: int) -> None:
        left_ms.append(team.waves[-1][0].until_ms - scene.now_ms)

    team.before_wave = note
    team.execute(planned(scene).plan_id)
    assert len(left_ms) > 3
    assert set(left_ms) == {LEASE_MS}


def test_a_store_that_throttles_is_asked_more_slowly(scene: OrphanScene) -> None:
    """Half as fast in the next wave, and a little faster after each that goes well. What it had no time for goes."""
    keys = planted(scene, COUNT)
    header = planned(scene)
    shed = set(keys[:30])

    def answer(key: str) -> str | None:
        if key not in shed:
            return None
        shed.discard(key)
        return "SlowDown"

    team = Team(scene, assignments=1, wrap=lambda store: Answering(store, answer))
    report = team.execute(header.plan_id)
    assert report.status == "done"
    assert report.outcome is not None
    assert (report.outcome.deleted, report.outcome.failed) == (COUNT, ())
    rates = [wave[0].keys_per_s for wave in team.waves]
    assert rates[:3] == [2000, 1000, 1200]
    assert scene.listed().isdisjoint(keys)


def test_a_store_that_throttles_and_then_serves(scene: OrphanScene) -> None:
    """The request is repeated by the store, and goes well. The next wave is slower all the same."""
    planted(scene, COUNT)
    header = planned(scene)
    counter = RequestCounter()

    def noticing(site: Site, assignment: Assignment) -> Iterator[SliceResult]:
        return work(replace(site, throttled=lambda: counter.throttled), assignment)

    def answer(key: str) -> str | None:
        if counter.throttled < 1:
            counter.add_throttled()
        return None

    team = Team(scene, assignments=1, work=noticing, wrap=lambda store: Answering(store, answer))
    report = team.execute(header.plan_id)
    assert report.outcome is not None
    assert (report.status, report.outcome.deleted) == ("done", COUNT)
    assert [wave[0].keys_per_s for wave in team.waves][:3] == [2000, 1000, 1200]


def test_a_store_that_throttles_for_ever(scene: OrphanScene) -> None:
    """After some attempts the objects count as failed, and the run ends."""
    keys = planted(scene, COUNT)
    header = planned(scene)
    report = Team(
        scene, wrap=lambda store: Answering(store, lambda key: "SlowDown" if key == keys[7] else None)
    ).execute(header.plan_id)
    assert report.status == "partial"
    assert report.outcome is not None
    assert [(failed.path, failed.code) for failed in report.outcome.failed] == [(keys[7], "SlowDown")]
    assert report.outcome.deleted == COUNT - 1


class Breaking(WrappingStore):
    """Fails from a certain deletion on."""

    def __init__(self, store: Store, after: int) -> None:
        super().__init__(store)
        self._left = after

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        self._left -= 1
        if self._left < 0:
            raise StorageError("delete: it broke off", code="broken")
        return super().delete(requests)


@pytest.mark.parametrize("engines", ["waves, waves", "waves, spine", "spine, waves"])
def test_what_one_run_began_another_finishes(scene: OrphanScene, engines: str) -> None:
    """Whichever way it is done, and nothing is sent twice that the ledger knows to be gone (but after the spine)."""
    keys = planted(scene, COUNT + 1000)
    header = planned(scene)
    first, second = engines.split(", ")
    if first == "waves":
        begun = Team(scene, assignments=1, wrap=lambda store: Breaking(store, 6)).execute(
            header.plan_id, confirm=header.plan_id
        )
    else:
        begun = scene.maintainer(Breaking(scene.store, 1)).execute(header.plan_id, confirm=header.plan_id)
    assert begun.status == "partial"
    assert begun.refusal is not None
    assert (begun.refusal.code, "finishes plan" in begun.refusal.message) == ("broken", True)
    gone = set(keys) - scene.listed()
    assert 0 < len(gone) < len(keys)
    assert read_lease(ControlArea(scene.control, scene.store.location)).intent is not None
    watched = Answering(scene.store, lambda key: None)
    if second == "waves":
        team = Team(scene, wrap=lambda store: watched)
        done = team.execute(header.plan_id)
    else:
        done = scene.maintainer(watched).execute(header.plan_id)
    assert done.status == "done"
    assert scene.listed().isdisjoint(keys)
    assert done.outcome is not None
    assert done.outcome.deleted == len(keys) - len(gone)
    if first == "waves":
        assert gone.isdisjoint(watched.asked)
    area = ControlArea(scene.control, scene.store.location)
    found = fates(area, header.plan_id, [str(begun.run_id), str(done.run_id)])
    assert {path for path, fate in found.items() if fate.result == "deleted"} == set(keys)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_large_plan_is_put_off(scene: OrphanScene, monkeypatch: pytest.MonkeyPatch, is_late: bool) -> None:
    """Its run died. Others go on with the table, and whoever can carry it out goes on with the plan, within its day."""
    keys = planted(scene, COUNT + 1000)
    header = planned(scene)
    team = Team(scene, assignments=1, wrap=lambda store: Breaking(store, 6))
    assert team.execute(header.plan_id, confirm=header.plan_id).status == "partial"
    left = scene.listed() & set(keys)
    assert left
    monkeypatch.setattr(local_executor, "LARGE_PLAN", 1000)
    assert scene.maintainer().expire().status == "nothing_to_do"
    assert read_lease(ControlArea(scene.control, scene.store.location)).intent is None
    assert scene.listed() & set(keys) == left
    scene.now_ms += 25 * 3_600_000 if is_late else 0
    done = Team(scene).execute(header.plan_id)
    if is_late:
        assert done.refusal is not None
        assert done.refusal.code == "plan_expired"
        assert scene.listed() & set(keys) == left
    else:
        assert (done.status, scene.listed() & set(keys)) == ("done", set())


def test_what_an_earlier_run_kept_stays(scene: OrphanScene) -> None:
    """As in one process: it was said once, and holds for the plan, whatever the store says now."""
    keys = planted(scene, COUNT)
    header = planned(scene)

    def other(key: str) -> str | None:
        return "precondition_failed" if key == keys[3] else None

    first = Team(scene, assignments=1, wrap=lambda store: Breaking(Answering(store, other), 6)).execute(header.plan_id)
    assert first.status == "partial"
    second = Team(scene).execute(header.plan_id)
    assert second.status == "done"
    assert second.outcome is not None
    assert second.outcome.kept_by_recheck == 1
    assert keys[3] in scene.listed()


def test_the_first_request_fails(scene: OrphanScene) -> None:
    """Nothing was deleted: it is an error, and the plan can be carried out later."""
    planted(scene, COUNT)
    header = planned(scene)
    with pytest.raises(MaintenanceError, match="broke off") as error:
        Team(scene, wrap=lambda store: Breaking(store, 0)).execute(header.plan_id)
    assert error.value.code == "broken"
    assert Team(scene).execute(header.plan_id).status == "done"


def test_nobody_begins_anything(scene: OrphanScene) -> None:
    """Processes that never start are waited for some waves, not for ever."""
    planted(scene, COUNT)
    header = planned(scene)
    with pytest.raises(MaintenanceError, match="no slice"):
        Team(scene, work=lambda site, assignment: []).execute(header.plan_id)


def test_the_lease_is_let_go_in_between(scene: OrphanScene) -> None:
    """Others get their turn once it has gone on for long."""
    planted(scene, COUNT)
    header = planned(scene)
    turns: list[bool] = []

    def on_sleep() -> None:
        lease = read_lease(ControlArea(scene.control, scene.store.location))
        turns.append(lease.expires_ms == 0 and lease.intent is None)

    scene.on_sleep = on_sleep
    # Ten keys a second: the whole takes more than a minute, and a wave of 200 keys 20 s.
    Team(scene, keys_per_s=10, before_wave=lambda number: scene.age(5 * 60_000)).execute(header.plan_id)
    assert any(turns)


def test_plans_with_documents_are_refused(scene: OrphanScene) -> None:
    """Files must not go before the documents that refer to them; the ordinary command keeps the order."""
    for number in range(4):
        scene.table.commit(f"+A{number} -A{number - 1}" if number else "+A0")
    plan = scene.maintainer().plan().plan
    assert plan is not None
    before = scene.listed()
    report = Team(scene).execute(plan.header.plan_id)
    assert report.status == "refused"
    assert report.refusal is not None
    assert report.refusal.code == "not_files_alone"
    assert f"lakesweep execute TABLE {plan.header.plan_id} --engine local" in report.refusal.message
    assert scene.listed() == before


@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_a_damaged_part_deletes_nothing(scene: OrphanScene, damage: str) -> None:
    """Each part is held against what the header says of it."""
    planted(scene, COUNT)
    header = planned(scene)
    area = ControlArea(scene.control, scene.store.location)
    names = [name for name in area.names(f"plans/{header.plan_id}/") if "actions-" in name]
    before = scene.listed()
    if damage == "gone":
        scene.control.delete([DeleteRequest(area.prefix + names[0])])
    else:
        area.put(names[0], area.read(names[0]).data[:-9] if damage == "cut" else area.read(names[1]).data)
    with pytest.raises(MaintenanceError) as error:
        Team(scene).execute(header.plan_id)
    assert error.value.code == "damaged"
    assert scene.listed() == before


def test_a_plan_that_expired_or_asks_for_confirmation(scene: OrphanScene) -> None:
    """The same rules as for any other execution."""
    planted(scene, 1200)
    header = planned(scene)
    assert header.needs_confirmation
    report = Team(scene).execute(header.plan_id)
    assert report.refusal is not None
    assert report.refusal.code == "confirmation_needed"
    assert Team(scene).execute(header.plan_id, confirm=header.plan_id).status == "done"


def versioned_scene() -> OrphanScene:
    """Return a scene in a store that keeps what is deleted."""
    scenes: list[OrphanScene] = []
    clock = lambda: scenes[0].now_ms if scenes else START_MS  # noqa: E731
    scenes.append(OrphanScene(store=MemoryStore("memory://bucket/db.db/t", clock=clock, versioned=True)))
    return scenes[0]


def test_all_of_it_comes_back() -> None:
    """The ledger of many processes names every marker, as that of one does."""
    scene = versioned_scene()
    planted(scene, COUNT)
    before = scene.listed()
    report = Team(scene).execute(planned(scene).plan_id)
    undone = scene.maintainer().run("undo", run_id=report.run_id)
    assert undone.status == "done", undone.refusal
    assert scene.listed() == before


class Losing(WrappingStore):
    """Loses the answer to its third deletion."""

    asked = 0

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        found = super().delete(requests)
        self.asked += 1
        if self.asked == 3:
            raise StorageError("delete: the answer is lost", code="broken")
        return found


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "plain"])
def test_the_run_that_finishes_a_plan_knows_what_the_earlier_one_deleted(versioned: bool) -> None:
    """The earlier run deleted a slice and could not write that down. It is booked, and all of it comes back."""
    scene = versioned_scene() if versioned else OrphanScene()
    keys = planted(scene, COUNT)
    before = scene.listed()
    header = planned(scene)
    begun = Team(scene, assignments=1, wrap=Losing).execute(header.plan_id)
    assert begun.status == "partial"
    scene.age(LEASE_MS + DELETE_MARGIN_MS)
    done = Team(scene).execute(header.plan_id)
    assert done.status == "done"
    area = ControlArea(scene.control, scene.store.location)
    found = fates(area, header.plan_id, [str(begun.run_id), str(done.run_id)])
    assert {path for path, fate in found.items() if fate.result == "deleted"} == set(keys)
    if versioned:
        undone = scene.maintainer().run("undo", run_id=done.run_id)
        assert undone.status == "done", undone.refusal
        assert scene.listed() == before


def test_what_nobody_knows_the_request_of_does_not_come_back() -> None:
    """A process died between its deletion and its result, so its markers are not known: nothing is undone."""
    scene = versioned_scene()
    planted(scene, COUNT)
    report = Team(scene, work=_dying("result"), assignments=1).execute(planned(scene).plan_id)
    scene.age(LEASE_MS + DELETE_MARGIN_MS)  # it may have lived as long
    undone = scene.maintainer().run("undo", run_id=report.run_id)
    assert undone.refusal is not None
    assert undone.refusal.code == "unknown_result"


def test_a_root_that_is_not_whole_keeps_all_but_temporary_files(scene: OrphanScene) -> None:
    """Nobody knows what it needs. Once it has gone, the rest may go as well."""
    keys = planted(scene, COUNT)
    scene.table.commit("+B")
    temp = {scene.put(f"snapshot/.snapshot-{number}.{unique(f'temp {number}')}.tmp") for number in range(60)}
    scene.age()
    header = planned(scene)
    scene.table.commit("+C")
    document = next(key for key in sorted(scene.listed()) if key.startswith("snapshot/snapshot-3"))
    names = json.loads(scene.store.read(document).data)
    delta = f"manifest/{names['deltaManifestList']}"
    body = scene.store.read(delta).data
    scene.drop(delta)
    report = Team(scene).execute(header.plan_id)
    assert report.status == "done"
    assert report.outcome is not None
    assert (report.outcome.deleted, report.outcome.kept_by_recheck) == (len(temp), COUNT)
    assert set(keys) <= scene.listed()
    assert scene.listed().isdisjoint(temp)
    scene.store.put(delta, body)
    assert_all_readable(scene.table)


def test_a_root_that_was_not_whole_and_comes_back_whole_keeps_its_files() -> None:
    """Somebody restores a tag before its files, sees that, and does it again the other way round.

    On S3, where equal bytes have equal ETags.
    """
    scene = S3Scene()
    scene.table.commit("+A")
    scene.table.commit("+d")
    scene.table.tag("t", 2)
    data, tag = scene.table.path("d"), "tag/tag-t"
    delta = f"manifest/{json.loads(scene.store.read(tag).data)['deltaManifestList']}"
    bodies = {key: scene.store.read(key).data for key in (delta, tag)}
    scene.drop("snapshot/snapshot-2", *bodies)
    for number in range(60):
        scene.orphan(str(number), folder="dt=a/bucket-0/")  # all go before the tag's
    scene.age()
    header = planned(scene)
    story = {1: lambda: scene.put(tag, bodies[tag]), 2: lambda: scene.drop(tag)}
    story[3] = lambda: [scene.put(key, body) for key, body in bodies.items()]

    team = Team(scene, slice_keys=10, wave_keys=10, before_wave=lambda number: story.get(number, list)())
    report = team.execute(header.plan_id)

    assert report.status == "done"
    assert data in scene.listed()
    assert_all_readable(scene.table)


def test_a_root_that_becomes_whole_keeps_its_files() -> None:
    """Somebody restores a snapshot far below the newest, first its document and then its list."""
    scene = S3Scene()
    for changes in ("+d", "-d", ""):
        scene.table.commit(*([changes] if changes else []))
    scene.table.merge_manifests()
    newest = scene.table.commit("+A")
    data, snapshot = scene.table.path("d"), "snapshot/snapshot-1"
    delta = f"manifest/{json.loads(scene.store.read(snapshot).data)['deltaManifestList']}"
    bodies = {key: scene.store.read(key).data for key in (delta, snapshot)}
    scene.drop(delta, *(f"snapshot/snapshot-{number}" for number in range(1, newest)))
    for number in range(60):
        scene.orphan(str(number), folder="dt=a/bucket-0/")  # all go before the snapshot's
    scene.age()
    header = planned(scene)
    story = {1: lambda: scene.put(snapshot, bodies[snapshot]), 3: lambda: scene.put(delta, bodies[delta])}

    team = Team(scene, slice_keys=10, wave_keys=10, before_wave=lambda number: story.get(number, list)())
    report = team.execute(header.plan_id)

    assert report.status == "done"
    assert data in scene.listed()
    assert_all_readable(scene.table)


@pytest.mark.parametrize("in_waves", [False, True])
def test_a_root_that_appears_and_is_not_whole_protects_everything(scene: OrphanScene, in_waves: bool) -> None:
    """Also where a snapshot that was there all along might be left of an expiry: far below the newest."""
    scene.table.commit("+d")
    scene.table.commit("-d")
    scene.table.merge_manifests()
    newest = scene.table.commit("+A")
    snapshot = "snapshot/snapshot-1"
    body = scene.store.read(snapshot).data
    scene.drop(f"manifest/{json.loads(body)['deltaManifestList']}")
    scene.drop(*(f"snapshot/snapshot-{number}" for number in range(1, newest)))
    scene.age()
    plan_id = planned(scene).plan_id
    scene.put(snapshot, body)

    report = Team(scene).execute(plan_id) if in_waves else scene.maintainer().execute(plan_id)

    assert report.status == "done"
    assert scene.table.path("d") in scene.listed()


def test_a_plan_of_one_slice(scene: OrphanScene) -> None:
    """Lanes are as many as there are slices."""
    keys = planted(scene, 7)
    report = Team(scene, assignments=16).execute(planned(scene).plan_id)
    assert report.outcome is not None
    assert (report.status, report.outcome.deleted) == ("done", 7)
    assert scene.listed().isdisjoint(keys)
