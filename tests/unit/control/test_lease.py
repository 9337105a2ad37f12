"""The lease: who may take it when, and what a run that lost it may still do."""

import json
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.commit_record import CommitRecord
from lakesweep.control.intent import Intent
from lakesweep.control.lease import Lease, acquire, read_lease
from lakesweep.errors import FormatError, LeaseHeldError, LeaseLostError
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.storage.clock import Clocks
from tests.support.memory_store import MemoryStore

START_MS = 1_800_000_000_000


class Place:
    """A table's control documents, with a clock."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.store = MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.area = ControlArea(self.store, "memory://bucket/t")


def intent(plan_id: str) -> Intent:
    return Intent(plan_id=plan_id, branch="main", end_id=3, runs=("r1",), created_ms=START_MS, grace_ms=0)


def test_a_successor_waits_for_deletions_under_way_beyond_the_expiry() -> None:
    place = Place()
    acquire(place.area, "r1")
    for late_ms in (0, LEASE_MS - 1, LEASE_MS, LEASE_MS + DELETE_MARGIN_MS - 1):
        place.now_ms = START_MS + late_ms
        with pytest.raises(LeaseHeldError):
            acquire(place.area, "r2")
    place.now_ms = START_MS + LEASE_MS + DELETE_MARGIN_MS
    acquire(place.area, "r2")


def test_a_lease_as_it_was_read_is_no_shortcut_past_one_that_holds() -> None:
    place = Place()
    acquire(place.area, "r1")
    with pytest.raises(LeaseHeldError):
        acquire(place.area, "r2", known=read_lease(place.area))


@pytest.mark.parametrize("is_over", [False, True], ids=["given back", "run out"])
def test_what_a_dead_run_began_is_finished_before_another_plan(is_over: bool) -> None:
    place = Place()
    lease = acquire(place.area, "r1", intent("p1"))
    if is_over:
        place.now_ms += LEASE_MS + DELETE_MARGIN_MS
    else:
        lease.release(ended=False)
    known = read_lease(place.area)
    for other in (None, intent("p2")):
        with pytest.raises(LeaseHeldError, match="p1"):
            acquire(place.area, "r2", other)
        with pytest.raises(LeaseHeldError, match="p1"):
            acquire(place.area, "r2", other, known)
    acquire(place.area, "r2", intent("p1")).release(ended=True)
    acquire(place.area, "r3", intent("p2"))


def test_no_batch_starts_under_a_lease_that_may_end_before_it() -> None:
    """At any moment after a check the lease outlasts the longest batch, or the check failed."""
    place = Place()
    lease = acquire(place.area, "r1")
    for _ in range(20):
        place.now_ms += LEASE_MS // 3
        lease.check()
        assert read_lease(place.area).expires_ms - place.now_ms > DELETE_MARGIN_MS


def test_a_run_that_lost_its_lease_neither_deletes_nor_gives_it_back() -> None:
    place = Place()
    first = acquire(place.area, "r1")
    place.now_ms += LEASE_MS + DELETE_MARGIN_MS
    acquire(place.area, "r2")
    with pytest.raises(LeaseLostError):
        first.check()
    first.release(ended=True)
    assert read_lease(place.area).run_id == "r2"
    assert read_lease(place.area).expires_ms > place.now_ms


def test_only_a_lease_that_nobody_had_since_is_as_known() -> None:
    place = Place()
    acquire(place.area, "r0").release(ended=True)
    known = read_lease(place.area)
    first = acquire(place.area, "r1", known=known)
    assert first.is_as_known
    first.release(ended=True)
    assert not acquire(place.area, "r2", known=known).is_as_known


class Clock:
    """Clocks of this machine, which a test turns."""

    def __init__(self) -> None:
        self.boot_s, self.wall_s = 10.0, START_MS / 1000

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.boot_s, lambda: self.wall_s)


def held(place: Place, clock: Clock) -> Lease:
    """Take a lease of which these clocks count the time."""
    lease = Lease(place.area, "r1", None, clock.clocks)
    lease.take(read_lease(place.area))
    return lease


@pytest.mark.parametrize("name", ["boot_s", "wall_s"])
def test_nothing_is_sent_after_the_end_by_either_clock(name: str) -> None:
    """The process stood still, and the store's clock, of which no answer has come since, knows nothing of it."""
    place, clock = Place(), Clock()
    lease = held(place, clock)
    begun = getattr(clock, name)
    setattr(clock, name, begun + LEASE_MS / 1000 - 1)
    lease.refuse_late()
    setattr(clock, name, begun + LEASE_MS / 1000)
    with pytest.raises(LeaseLostError, match="run r1 may change nothing after the end of its lease"):
        lease.refuse_late()


def test_a_lease_that_nobody_took_meanwhile_is_renewed_before_the_next_batch() -> None:
    """The clock of the machine says that it ended, and its document still is this run's."""
    place, clock = Place(), Clock()
    lease = held(place, clock)
    clock.boot_s += 3600
    with pytest.raises(LeaseLostError):
        lease.refuse_late()
    lease.check()
    lease.refuse_late()


def test_time_counts_from_before_the_lease_is_written() -> None:
    """The process stood still while the request that wrote the lease was under way: nothing of that is given."""
    place, clock = Place(), Clock()
    put = place.store.put

    def slow(*given: Any, **more: Any) -> str:
        etag = put(*given, **more)
        clock.boot_s += LEASE_MS / 1000
        return etag

    place.store.put = slow  # type: ignore[method-assign]
    lease = held(place, clock)
    with pytest.raises(LeaseLostError):
        lease.refuse_late()


def test_nothing_is_sent_under_a_lease_that_was_given_back() -> None:
    """Nor while others have their turn."""
    place, clock = Place(), Clock()
    lease = held(place, clock)
    lease.release(ended=True)
    with pytest.raises(LeaseLostError):
        lease.refuse_late()


def record(snapshot_id: int, state: str = "published") -> CommitRecord:
    return CommitRecord(snapshot_id, f"u{snapshot_id}", "r1", state)


def test_the_last_commits_are_carried_on_by_every_run() -> None:
    place = Place()
    lease = acquire(place.area, "r1", commits={"main": record(4, "publishing")})
    assert read_lease(place.area).commits == {"main": record(4, "publishing")}
    lease.commits["main"] = record(4)
    lease.release(ended=True)
    other = acquire(place.area, "r2", intent("p1"))
    place.now_ms += LEASE_MS - 1000
    other.check()
    other.rest(lambda seconds: None)
    other.release(ended=True)
    assert read_lease(place.area).commits == {"main": record(4)}
    third = acquire(place.area, "r3", commits={"b": record(2, "publishing")})
    assert read_lease(place.area).commits == {"main": record(4), "b": record(2, "publishing")}
    third.forget_commits()
    third.release(ended=True)
    assert read_lease(place.area).commits == {"main": record(4)}


def test_a_lease_without_commits_says_nothing_of_them() -> None:
    place = Place()
    acquire(place.area, "r1").release(ended=True)
    assert "commits" not in json.loads(place.area.read("lease.json").data)


def test_a_lease_that_was_released_can_be_taken_again_unread() -> None:
    place = Place()
    lease = acquire(place.area, "r1")
    lease.release(ended=True)
    known = lease.document()
    assert acquire(place.area, "r1", known=known).is_as_known


@pytest.mark.parametrize(
    "commits",
    [
        [],
        {"main": None},
        {"main": {"id": -1, "uuid": "u", "run_id": "r1", "state": "published"}},
        {"main": {"id": 1, "uuid": 5, "run_id": "r1", "state": "published"}},
        {"main": {"id": 1, "uuid": "u", "run_id": "", "state": "published"}},
        {"main": {"id": 1, "uuid": "u", "run_id": "r1", "state": "done"}},
        {"main": {"id": 1, "uuid": "u", "run_id": "r1", "state": "published", "marks": {}}},
        {"main": {"id": 1, "uuid": "u", "run_id": "r1", "state": "published", "marks": [[1, "u"], [2]]}},
        {"main": {"id": 1, "uuid": "u", "run_id": "r1", "state": "published", "marks": [[1, 5]]}},
    ],
)
def test_commits_that_do_not_parse_are_damage(commits: Any) -> None:
    place = Place()
    acquire(place.area, "r1").release(ended=True)
    document = json.loads(place.area.read("lease.json").data) | {"commits": commits}
    place.area.put("lease.json", json.dumps(document).encode())
    with pytest.raises(FormatError, match="commit"):
        read_lease(place.area)
