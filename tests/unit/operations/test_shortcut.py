"""A commit that needs nothing costs four requests and writes nothing; one that needs something gets it."""

import pytest

from tests.support.maintenance import assert_roots_readable
from tests.support.world import World

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
OPTIONS = {"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "10", "snapshot.time-retained": "1 h"}


class CommittedWorld(World):
    """A table with five snapshots, ten minutes apart, the newest just committed."""

    def __init__(self) -> None:
        super().__init__(now_ms=5 * HOUR_MS, options=OPTIONS)
        for _ in range(5):
            self.replace(10 * MINUTE_MS)


@pytest.mark.parametrize("told", [False, True], ids=["by_hint", "by_event"])
def test_a_commit_that_needs_nothing_costs_four_requests_and_no_write(told: bool) -> None:
    scene = CommittedWorld()
    assert scene.maintain().status in ("done", "nothing_to_do")
    for number in (6, 7, 8):
        scene.replace(MINUTE_MS)
        report, requests = scene.spent(scene.maintain, committed_id=number if told else None)
        assert report.status == "nothing_to_do"
        assert sum(requests.values()) <= 4, requests
        assert requests["put"] == requests["delete"] == 0


def test_age_count_and_options_end_the_shortcut() -> None:
    scene = CommittedWorld()
    scene.maintain()
    for _ in range(6):
        scene.replace(MINUTE_MS)
        scene.maintain()
    assert scene.ids() == list(range(2, 12)), "ten stay by count"

    scene.now_ms += 2 * HOUR_MS
    report = scene.maintain()
    assert report.status == "done"
    assert scene.ids() == [9, 10, 11], "three stay by age"

    assert scene.maintain().status == "nothing_to_do"
    scene.table.alter(options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    assert scene.maintain().status == "done"
    assert scene.ids() == [11]
    assert_roots_readable(scene.table)


def test_a_rollback_ends_the_shortcut() -> None:
    scene = CommittedWorld()
    scene.maintain()
    scene.table.rollback(4)
    report, requests = scene.spent(scene.maintain)
    assert report.status == "nothing_to_do"
    assert requests["list"] > 0, "it looked anew"


@pytest.mark.parametrize("told", [False, True], ids=["by_hint", "by_event"])
def test_new_commits_with_the_ids_of_a_rollback_end_the_shortcut(told: bool) -> None:
    """The newest id is what it was, and the pass looks. Then the shortcut holds again."""
    scene = CommittedWorld()
    scene.maintain()
    scene.table.rollback(3)
    for _ in range(2):
        scene.replace(MINUTE_MS)
    assert scene.ids() == [1, 2, 3, 4, 5]
    for looks in (True, False):
        report, requests = scene.spent(scene.maintain, committed_id=5 if told else None)
        assert report.status == "nothing_to_do"
        assert (sum(requests.values()) > 4) is looks, requests
        assert requests["put"] == looks


def test_the_shortcut_holds_where_ids_get_another_digit() -> None:
    """Listings sort snapshot-10 before snapshot-9."""
    scene = CommittedWorld()
    scene.maintain()
    for _ in range(5):
        scene.replace(MINUTE_MS)
        assert scene.spent(scene.maintain)[1]["put"] == 0
    assert scene.ids()[-1] == 10


def test_the_interval_between_passes() -> None:
    scene = CommittedWorld()
    scene.maintain()
    scene.now_ms += 30_000
    report, requests = scene.spent(scene.maintain, min_interval_ms=60_000)
    assert (report.status, sum(requests.values())) == ("nothing_to_do", 1)
    scene.now_ms += 2 * HOUR_MS
    assert scene.maintain(min_interval_ms=60_000).status == "done"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"format_version": 1, "branches": {"main": {}}}', b"\xff"])
def test_a_state_that_means_nothing_is_no_obstacle(body: bytes) -> None:
    scene = CommittedWorld()
    scene.maintain()
    (state,) = [entry.key for entry in scene.control.list("") if entry.key.endswith("state.json")]
    scene.control.put(state, body)
    scene.now_ms += 2 * HOUR_MS
    assert scene.maintain().status == "done"
    assert scene.ids() == [3, 4, 5]
