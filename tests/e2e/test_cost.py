"""What docs/cost.md counts is what runs take, as a deployment makes them."""

import time
from collections.abc import Callable, Mapping

import pytest

from benchmarks import cost
from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance.maintain import MaintainArguments
from tests.e2e import live_table
from tests.e2e.live_table import KEEP_50, LiveTable
from tests.support.s3_server import moto_client

KEEP_10 = {
    **KEEP_50,
    "snapshot.num-retained.min": "10",
    "snapshot.num-retained.max": "10",
    "snapshot.expire.limit": "200",
}


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> LiveTable:
    """A table whose passes remember their time, as they do where a least interval between them is set."""
    arguments: Callable[..., MaintainArguments] = MaintainArguments

    def timed(**given: object) -> MaintainArguments:
        return arguments(**given, min_interval_ms=1)

    monkeypatch.setattr(live_table, "MaintainArguments", timed)
    table = LiveTable(KEEP_10)
    for _ in range(25):
        table.commit()
    table.upload()
    report, _, _ = table.maintain()
    assert report.status == "done"
    return table


def committed(live: LiveTable, commits: int) -> tuple[RunReport, dict[str, int]]:
    for _ in range(commits):
        live.commit()
    live.upload()
    time.sleep(0.002)  # the least interval
    report, requests, _ = live.maintain()
    assert report.status == "done", report.refusal
    return report, requests


def control_documents(live: LiveTable) -> dict[str, int]:
    found = moto_client().list_objects_v2(Bucket=live.control)["Contents"]
    return {entry["Key"]: entry["Size"] for entry in found}


def assert_counted(requests: Mapping[str, int], counted: Mapping[str, int], spare: int = 0) -> None:
    for kind, count in counted.items():
        assert requests[kind] <= count + (spare if kind == "get" else 0), (kind, requests)
    assert requests["head"] == 0


@pytest.mark.parametrize(("commits", "counted"), [(1, cost.PASS_OF_1), (60, cost.PASS_OF_60)])
def test_a_pass_takes_what_is_counted(live: LiveTable, commits: int, counted: Mapping[str, int]) -> None:
    """Requests, objects that go, and what the pass leaves in the control location."""
    before = control_documents(live)
    report, requests = committed(live, commits)
    print(f"requests: {requests}")
    assert_counted(requests, counted, spare=1)  # manifests are merged now and then
    assert sum(requests.values()) >= 0.8 * sum(counted.values()), "count again: it has become cheaper"
    deleted = report.to_json()["delete"]["count"]  # type: ignore[index]
    assert commits * (cost.DELETED_A_SNAPSHOT - 2) <= deleted <= commits * (cost.DELETED_A_SNAPSHOT + 1)
    after = control_documents(live)
    assert sum(size for key, size in after.items() if key not in before) <= 1000 * cost.LEFT_KB[commits]
    assert sum(size for key, size in after.items() if key in before and key.count("/") == 3) <= 1000 * cost.REPLACED_KB


def test_a_commit_writes_what_is_counted(live: LiveTable) -> None:
    """Beside LATEST, which the builder of this table leaves out."""
    before = len(list(live.memory.list("")))
    live.commit()
    assert len(list(live.memory.list(""))) - before in (cost.WRITTEN_A_COMMIT - 1, cost.WRITTEN_A_COMMIT)
