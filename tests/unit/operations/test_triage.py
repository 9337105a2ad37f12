"""Commits are sorted in a few reads; what is sorted out wrongly is found by the next tour."""

import pytest

from lakesweep.control.state import read_states
from lakesweep.operations.maintenance.triage import Lag, Triage, lag_of, triage
from tests.support.acting import Acting
from tests.support.world import World

MINUTE_MS = 60_000
OPTIONS = {"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "10", "snapshot.time-retained": "1 h"}


class CommittedWorld(World):
    """Five commits ten minutes apart, and a pass right after the last."""

    def __init__(self, **options: str) -> None:
        super().__init__(now_ms=300 * MINUTE_MS, options={**OPTIONS, **options})
        for _ in range(5):
            self.replace(10 * MINUTE_MS)

    def sort(self, committed_id: int, interval_ms: int = 0) -> tuple[Triage, int]:
        etag = self.store.read(f"snapshot/snapshot-{committed_id}").etag if self.has(committed_id) else "gone"
        found, requests = self.spent(triage, self.maintainer().table, committed_id, interval_ms, etag)
        return found, sum(requests.values())

    def has(self, snapshot_id: int) -> bool:
        return any(entry.key == f"snapshot/snapshot-{snapshot_id}" for entry in self.store.list("snapshot/"))

    def lag(self) -> Lag | None:
        return lag_of(self.maintainer().table, read_states(self.area).get("main"))


DUE, HANDLED = Triage(True), Triage(False)


def test_without_a_pass_all_is_due() -> None:
    scene = CommittedWorld()
    assert scene.sort(5) == (DUE, 1)
    assert scene.lag() == Lag(5, None)


def test_doubled_and_late_events() -> None:
    """One read for the same commit, two for an older one."""
    scene = CommittedWorld()
    scene.maintain(is_due=True)
    assert scene.sort(5) == (HANDLED, 1)
    assert scene.sort(3) == (HANDLED, 2)
    assert scene.lag() is None
    found, requests = scene.spent(triage, scene.maintainer().table, 5, 0)
    assert (found, sum(requests.values())) == (HANDLED, 2), "the event had no ETag, so the snapshot is asked"


@pytest.mark.parametrize("commits", [1, 3])
def test_ids_that_a_rollback_freed_are_noticed_when_new_commits_use_them(commits: int) -> None:
    """The newest id is the same again, or higher, but it is another snapshot."""
    scene = CommittedWorld()
    scene.maintain(is_due=True)
    assert scene.lag() is None
    scene.table.rollback(5 - min(commits, 2))
    for _ in range(commits):
        scene.replace(MINUTE_MS)
    for committed_id in range(6 - min(commits, 2), 6):
        assert scene.sort(committed_id)[0] == DUE
        assert triage(scene.maintainer().table, committed_id, 0) == DUE
    assert scene.lag() is not None, "the sweep finds it, too"
    scene.maintain(is_due=True)
    assert scene.sort(5)[0] == HANDLED
    assert scene.lag() is None


def test_a_commit_that_needs_nothing() -> None:
    scene = CommittedWorld()
    scene.maintain(is_due=True)
    scene.replace(MINUTE_MS)
    assert scene.sort(6) == (HANDLED, 4)
    assert scene.lag() is None


def test_a_commit_that_needs_a_pass() -> None:
    scene = CommittedWorld()
    scene.maintain(is_due=True)
    scene.replace(120 * MINUTE_MS)
    assert scene.sort(6)[0] == DUE
    scene.now_ms += 7 * MINUTE_MS
    assert scene.lag() == Lag(6, 7 * MINUTE_MS)


def test_age_alone_is_for_the_sweep() -> None:
    """No commit comes any more, and what stays grows old."""
    scene = CommittedWorld()
    scene.maintain(is_due=True)
    scene.now_ms += 600 * MINUTE_MS
    assert scene.sort(5)[0] == HANDLED
    found = scene.lag()
    assert found is not None
    assert found.lag_ms is not None
    assert 500 * MINUTE_MS < found.lag_ms < 600 * MINUTE_MS


@pytest.mark.parametrize("committed_id", [3, 6])
def test_a_rollback_is_no_late_event(committed_id: int) -> None:
    """LATEST is below what the last pass saw, so another history has begun."""
    scene = CommittedWorld()
    scene.maintain(is_due=True)
    scene.table.rollback(2)
    scene.replace(MINUTE_MS)
    assert scene.sort(3)[0] == DUE
    assert scene.lag() is not None


def test_passes_are_apart() -> None:
    scene = CommittedWorld()
    scene.maintain(is_due=True)
    scene.now_ms += 20_000
    scene.table.commit("+X", time_ms=scene.now_ms)
    assert scene.sort(6, MINUTE_MS) == (Triage(False, 40_000), 1)
    assert scene.sort(5, MINUTE_MS) == (HANDLED, 1)
    scene.now_ms += 40_000
    assert scene.sort(6, MINUTE_MS)[0].wait_ms == 0
    scene.now_ms -= 200_000
    assert scene.sort(6, MINUTE_MS)[0].wait_ms == 0, "a state from the future makes nobody wait"


def test_no_interval_and_a_clock_that_is_behind() -> None:
    """The state may be some seconds from the future; a commit is not lost for that."""
    scene = CommittedWorld()
    scene.maintain(is_due=True)
    scene.replace(120 * MINUTE_MS)
    scene.maintain(is_due=True)
    scene.now_ms -= 1_000
    scene.table.commit("+X", "+Y", time_ms=scene.now_ms)
    assert scene.sort(7, 0)[0] == DUE
    assert scene.sort(7, MINUTE_MS)[0].wait_ms == MINUTE_MS


@pytest.mark.parametrize(
    "options",
    [
        {"consumer.expiration-time": "1 d"},
        {"changelog.num-retained.max": "20", "changelog.num-retained.min": "15"},
    ],
)
def test_a_table_that_is_looked_at_anew_each_time(options: dict[str, str]) -> None:
    """Of such a pass only the time counts: the next may not follow too soon, and none is left out for ever."""
    scene = CommittedWorld(**options)
    scene.maintain(is_due=True)
    scene.replace()
    assert scene.sort(6, MINUTE_MS)[0].wait_ms == MINUTE_MS
    scene.now_ms += 2 * MINUTE_MS
    assert scene.sort(6, MINUTE_MS)[0] == DUE
    assert scene.lag() is not None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"consumer.expiration-time": "1 d"},
        {"changelog.num-retained.max": "5", "changelog.num-retained.min": "5"},
        {"tag.automatic-creation": "batch"},
    ],
    ids=["snapshots", "consumers", "changelogs", "tags"],
)
def test_a_commit_during_a_pass_is_not_forgotten(options: dict[str, str]) -> None:
    """It comes before any request of the pass, and so between two steps: its event leads to what the pass left."""
    came = left = 0
    while came == left:
        left += 1
        scene = CommittedWorld(**{"snapshot.num-retained.max": "3", **options})
        act = Acting(left, scene.replace)
        scene.maintain(act, is_due=True)
        came += act.has_acted
        scene.now_ms += MINUTE_MS
        if act.has_acted and scene.sort(6)[0] == HANDLED:
            assert scene.maintain(is_due=True).status == "nothing_to_do", f"before call {left}, {act.calls[left - 1]}"
    assert came > 10


def test_the_interval_holds_for_every_table() -> None:
    """Also where the state says nothing else: the next pass within the interval is not made."""
    scene = CommittedWorld(**{"consumer.expiration-time": "1 d"})
    assert scene.maintain(min_interval_ms=MINUTE_MS).steps
    scene.now_ms += MINUTE_MS // 2
    assert scene.maintain(min_interval_ms=MINUTE_MS).steps == ()
    scene.now_ms += MINUTE_MS
    assert scene.maintain(min_interval_ms=MINUTE_MS).steps


def test_an_observed_table_is_not_planned_for_at_every_commit() -> None:
    scene = CommittedWorld()
    scene.now_ms += 600 * MINUTE_MS
    assert scene.maintain(is_due=True, execute=False).status == "planned"
    assert scene.sort(5) == (HANDLED, 1)
    scene.replace()
    assert scene.sort(6, MINUTE_MS)[0].wait_ms == MINUTE_MS
    scene.now_ms += 2 * MINUTE_MS
    assert scene.sort(6, MINUTE_MS)[0] == DUE
    assert scene.maintain(is_due=True).status == "done", "and once it may, it does"
