"""Documents that went do not return to a table that another engine has expired further meanwhile.

It has no lease, and may take files that the plan's snapshots share with those that it expired.
"""

from collections.abc import Iterator

import pytest

from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.others import SETTINGS, BusyWorld, play


def commits_and_expires(stage: BusyWorld) -> Iterator[None]:
    """Commits, the first of which deletes what earlier snapshots share, and an expiry elsewhere."""
    stage.newest = stage.table.commit("-E", "+N0", changelog=["+LN0"])
    for number in range(1, 4):
        stage.newest = stage.table.commit(f"+N{number}", changelog=[f"+LN{number}"])
    clock = MemoryStore("memory://elsewhere", clock=lambda: stage.now_ms)
    Maintainer(stage.store, stage.branch, control=clock, sleep=lambda seconds: None).maintain()
    yield


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_hollow_snapshot_returns(setting: str) -> None:
    """Everything happens at once, before each request of the second half of a run, in which documents go."""
    _, requests = play(setting, None, 0, 0)
    for at in range(requests // 3, requests + 1):
        stage, _ = play(setting, commits_and_expires, at, 0)
        try:
            stage.check()
        except AssertionError as error:
            raise AssertionError(f"before request {at} of {requests}: {error}") from error
