"""Trouble at every request of a commit: nothing is replaced, nothing is believed that did not happen."""

import json
from collections.abc import Callable

import pytest

from lakesweep.commit.environment import Committed
from lakesweep.control.lease import Lease, acquire
from lakesweep.errors import (
    AccessDeniedError,
    LeaseLostError,
    MaintenanceError,
    OutOfTimeError,
    PreconditionFailedError,
    RefusedError,
    StorageError,
)
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from tests.support.commit_scene import Acting, Failing, Scene
from tests.support.faulty_store import MODES, ProcessDeathError, Switch

PUT = "table put snapshot/snapshot-4"
GET = "table read snapshot/snapshot-4"


def requests_of_a_commit() -> list[str]:
    switch = Switch()
    Scene().commit(switch, has_lock=False)
    return switch.calls


def test_the_requests_are_many_enough() -> None:
    assert len(requests_of_a_commit()) > 18


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", range(1, len(requests_of_a_commit()) + 1))
def test_trouble_at_every_request(at: int, mode: str) -> None:
    """Whatever breaks, the next commit follows, and what was reported is what is there."""
    scene = Scene()
    before = {each: scene.table.read(scene.path(each)).data for each in scene.ids()}
    ended: Committed | None = None
    try:
        ended = scene.commit(Switch(at, mode), has_lock=False)
    except (MaintenanceError, ProcessDeathError):
        pass
    exists = scene.ids()[-1] == 4
    if ended is not None:
        assert ended.status == "committed"
        assert exists
        assert scene.snapshot(4).uuid == ended.uuid
    elif not mode.startswith("death"):
        assert not exists, "an error says that there is no snapshot"
    if exists:
        first = scene.snapshot(4)
        assert scene.table.read(f"manifest/{first.base_manifest_list}").data
        assert scene.table.read(f"manifest/{first.delta_manifest_list}").data
        record = scene.lease().commits["main"]
        assert (record.id, record.uuid) == (4, first.uuid)
    scene.later()
    again = scene.commit(run="r2")
    assert (again.status, again.snapshot_id, again.replaced, again.warnings) == ("committed", 4 + exists, 0, ())
    assert all(scene.table.read(scene.path(each)).data == body for each, body in before.items())
    assert scene.table.read("snapshot/LATEST").data == str(4 + exists).encode()


def lost_answer() -> StorageError:
    return StorageError("put: read timeout", code="ReadTimeoutError")


@pytest.mark.parametrize("number", [1, 3])
def test_a_snapshot_whose_answer_was_lost_is_ours(number: int) -> None:
    """Sent again and again until it takes effect, and then believed by its bytes."""
    scene = Scene()
    switch = Failing(PUT, dict.fromkeys(range(1, number), lost_answer()))
    applied = Failing(PUT, {1: lost_answer()}, takes_effect=True)
    ended = scene.commit(applied if number == 1 else switch)
    assert (ended.status, ended.snapshot_id, ended.attempts) == ("committed", 4, 1)
    assert (applied if number == 1 else switch).calls.count(PUT) == number
    assert scene.lease().commits["main"].state == "published"


@pytest.mark.parametrize(
    "error",
    [
        PreconditionFailedError("put: conflict (409)"),
        StorageError("put: slow down", code="SlowDown"),
        StorageError("put: internal error", code="InternalError"),
    ],
    ids=["409", "503", "500"],
)
@pytest.mark.parametrize("storm", [2, 5])
def test_storms_are_survived(error: StorageError, storm: int) -> None:
    scene = Scene()
    ended = scene.commit(Failing(PUT, dict.fromkeys(range(1, storm + 1), error)))
    assert (ended.status, ended.snapshot_id, ended.attempts, len(scene.slept)) == ("committed", 4, 1, storm)


def test_a_storm_of_conflicts_without_end_is_given_up() -> None:
    scene = Scene()
    error = PreconditionFailedError("put: conflict (409)")
    ended = scene.commit(Failing(PUT, dict.fromkeys(range(1, 1000), error)), options={"commit.max-retries": "1"})
    assert (ended.status, ended.code, ended.attempts) == ("gave_up", "commit_conflict", 2)
    assert scene.lease().commits == {}, "no put may still take effect"


def test_a_storm_of_failures_without_end_is_given_up_and_remembered() -> None:
    """A request without an answer may take effect later, so it is not prepared anew."""
    scene = Scene()
    ended = scene.commit(Failing(PUT, dict.fromkeys(range(1, 1000), lost_answer())))
    assert (ended.status, ended.code, ended.attempts, len(scene.prepared)) == ("gave_up", "commit_failed", 1, 1)
    record = scene.lease().commits["main"]
    assert (record.state, record.uuid, scene.lease().expires_ms) == ("publishing", ended.uuid, 0)


def test_an_unknown_outcome_is_called_unknown() -> None:
    scene = Scene()
    put = Failing(PUT, {1: lost_answer()}, takes_effect=True)
    blind = Failing(GET, dict.fromkeys(range(1, 1000), StorageError("no answer", code="broken")))
    run = blind._run
    blind._run = lambda name, call: put._run(name, call) if name == PUT else run(name, call)  # type: ignore[method-assign]
    ended = scene.commit(blind)
    assert (ended.status, ended.code, ended.snapshot_id, ended.attempts) == ("unknown", "commit_unknown", 4, 1)
    assert scene.lease().commits["main"].state == "publishing"
    after = scene.commit(run="r2")
    assert (after.status, after.snapshot_id, after.replaced, after.warnings) == ("committed", 5, 0, ())


def test_a_caller_without_time_is_not_told_that_nothing_happened() -> None:
    """The time is over after a put without an answer."""
    scene = Scene()
    switch = Failing(PUT, {1: lost_answer()})

    def check(what: str) -> None:
        if PUT in switch.calls:
            raise OutOfTimeError(what)

    ended = scene.commit(switch, check_time=check)
    assert (ended.status, ended.code) == ("unknown", "commit_unknown")


def test_a_put_that_takes_effect_late_is_found_by_the_next_commit() -> None:
    scene = Scene()
    ended = scene.commit(Failing(PUT, dict.fromkeys(range(1, 1000), lost_answer())))
    scene.foreign(4, uuid=ended.uuid)
    after = scene.commit(run="r2")
    assert (after.status, after.snapshot_id, after.replaced, after.warnings) == ("committed", 5, 0, ())


def test_a_late_put_that_another_writer_forestalled_is_mentioned() -> None:
    """Nobody knows whether ours ever existed, so it does not count as replaced."""
    scene = Scene()
    scene.commit(Failing(PUT, dict.fromkeys(range(1, 1000), lost_answer())))
    uuid = scene.foreign(4)
    after = scene.commit(run="r2")
    assert (after.status, after.replaced) == ("committed", 0)
    assert uuid in after.warnings[0]


def test_a_denied_put_raises() -> None:
    scene = Scene()
    with pytest.raises(AccessDeniedError):
        scene.commit(Failing(PUT, {1: AccessDeniedError("put: denied")}))
    assert scene.ids() == [1, 2, 3]
    assert (scene.lease().commits, scene.lease().expires_ms) == ({}, 0)


def test_a_denied_put_after_one_without_answer_is_in_doubt() -> None:
    scene = Scene()
    denied = dict.fromkeys(range(2, 1000), AccessDeniedError("put: denied"))
    ended = scene.commit(Failing(PUT, {1: lost_answer()} | denied))
    assert (ended.status, ended.code) == ("gave_up", "commit_failed")
    assert scene.lease().commits["main"].state == "publishing"


@pytest.mark.parametrize("code", ["not_implemented", "501", "400", "InvalidArgument"])
def test_a_store_without_the_condition_is_refused(code: str) -> None:
    scene = Scene()
    with pytest.raises(RefusedError) as caught:
        scene.commit(Failing(PUT, dict.fromkeys(range(1, 1000), StorageError("put: no", code=code))))
    assert caught.value.code == "no_conditional_put"
    assert (scene.ids(), scene.lease().commits) == ([1, 2, 3], {})


class Ignoring(Switch):
    """A store that ignores If-None-Match in the table."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene

    def _run(self, name: str, call: Callable[[], object]) -> object:
        try:
            return super()._run(name, call)
        except PreconditionFailedError:
            assert name.startswith("table put manifest/")
            return "etag"


def test_a_store_that_ignores_the_condition_is_refused() -> None:
    """Before the lease is taken, and before any snapshot is sent."""
    scene = Scene()
    switch = Ignoring(scene)
    with pytest.raises(RefusedError) as caught:
        scene.commit(switch)
    assert caught.value.code == "no_conditional_put"
    assert scene.ids() == [1, 2, 3]
    assert not [call for call in switch.calls if "put snapshot/" in call or "control put" in call]


def test_a_lease_that_another_run_took_stops_the_put() -> None:
    scene = Scene()

    def lose() -> None:
        scene.now_ms += LEASE_MS + DELETE_MARGIN_MS
        acquire(scene.area, "r2")

    switch = Acting("table read snapshot/snapshot-3", lose, number=2)
    with pytest.raises(LeaseLostError):
        scene.commit(switch)
    assert PUT not in switch.calls
    assert scene.ids() == [1, 2, 3]
    assert scene.lease().run_id == "r2"


def test_a_lease_that_runs_low_is_renewed_and_keeps_the_record() -> None:
    scene = Scene()

    def slow() -> None:
        scene.now_ms += LEASE_MS - 1000

    with pytest.raises(ProcessDeathError):
        act = Acting("table read snapshot/snapshot-3", slow, number=2)
        run = act._run

        def die(name: str, call: Callable[[], object]) -> object:
            if name == "table read snapshot/LATEST":
                raise ProcessDeathError(name)
            return run(name, call)

        act._run = die  # type: ignore[method-assign]
        scene.commit(act)
    record = json.loads(scene.control.read(scene.area.prefix + "lease.json").data)["commits"]["main"]
    assert record == {"id": 4, "uuid": scene.snapshot(4).uuid, "run_id": "r1", "state": "publishing"}


def test_a_hint_that_cannot_be_written_is_only_a_warning() -> None:
    scene = Scene()
    ended = scene.commit(Failing("table put snapshot/LATEST", {1: StorageError("put: no", code="broken")}))
    assert ended.status == "committed"
    assert "LATEST" in ended.warnings[0]
    assert scene.commit().snapshot_id == 5


def test_a_snapshot_that_cannot_be_read_back_is_committed_with_a_warning() -> None:
    scene = Scene()

    class Deaf(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if PUT in self.calls and name in ("table list snapshot/", GET):
                raise StorageError("no answer", code="broken")
            return super()._run(name, call)

    ended = scene.commit(Deaf())
    assert ended.status == "committed"
    assert ["base could not be checked" in ended.warnings[0], "be read back" in ended.warnings[1]] == [True, True]


@pytest.mark.parametrize(
    ("error", "status", "attempts"),
    [(PreconditionFailedError("put: conflict (409)"), "committed", 2), (lost_answer(), "gave_up", 1)],
    ids=["refused", "lost"],
)
def test_a_rollback_between_two_puts(error: StorageError, status: str, attempts: int) -> None:
    """Another snapshot is prepared only if the first put can no longer take effect."""
    scene = Scene()
    switch = Failing(PUT, {1: error})

    def sleep(seconds: float) -> None:
        scene.sleep(seconds)
        if scene.ids() == [1, 2, 3]:
            scene.remove(3)

    ended = scene.commit(switch, sleep=sleep)
    assert (ended.status, len(scene.prepared)) == (status, attempts)
    assert scene.ids() == ([1, 2, 3] if status == "committed" else [1, 2])
    assert scene.lease().commits["main"].state == ("published" if status == "committed" else "publishing")


def test_files_that_may_soon_be_orphans_are_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow attempt is made anew, with new files."""
    scene = Scene()
    monkeypatch.setattr("lakesweep.commit.loop.ORPHAN_AGE_MS", -10)
    ended = scene.commit(options={"commit.max-retries": "2"})
    assert (ended.status, ended.code, ended.attempts, scene.ids()) == ("gave_up", "commit_conflict", 3, [1, 2, 3])
    assert len({attempt.uuid for attempt in scene.prepared}) == 3


def test_no_put_is_sent_after_the_lease_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store asks right before each attempt; an earlier attempt may have been sent."""
    scene = Scene()

    def refuse(lease: Lease) -> None:
        raise LeaseLostError("the lease has ended")

    monkeypatch.setattr(Lease, "refuse_late", refuse)
    ended = scene.commit()
    assert (ended.status, ended.code, scene.ids()) == ("gave_up", "commit_failed", [1, 2, 3])


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_base_that_vanished_is_noticed_though_a_listing_fails(failures: int) -> None:
    """The listing behind the put is the only one that can show a rollback, so it is repeated."""
    scene = Scene()

    class Silent(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if name == PUT:
                scene.remove(3)
            if PUT in self.calls and name == "table list snapshot/" and self.calls.count(name) < 2 + failures:
                self.calls.append(name)
                raise StorageError("slow down", code="503")
            return super()._run(name, call)

    ended = scene.commit(Silent())
    assert (ended.status, ended.code, scene.ids()) == ("base_vanished", "base_vanished", [1, 2])


@pytest.mark.parametrize("name", [PUT, GET, "table list snapshot/"])
def test_a_table_with_long_waits_keeps_its_lease(name: str) -> None:
    """The table says how long to wait for other writers. What is sent again under the lease waits for nobody."""
    scene = Scene()

    class Weak(Switch):
        def _run(self, call_name: str, call: Callable[[], object]) -> object:
            is_late = PUT in self.calls or call_name == PUT
            if is_late and call_name in (PUT, name) and self.calls.count(call_name) < 3:
                self.calls.append(call_name)
                raise StorageError("slow down", code="503")
            return super()._run(call_name, call)

    ended = scene.commit(Weak(), options={"commit.min-retry-wait": "1 h", "commit.max-retry-wait": "2 h"})
    assert (ended.status, ended.attempts, ended.warnings) == ("committed", 1, ())
    assert sum(scene.slept) < 60
