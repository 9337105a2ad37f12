"""Somebody else acts on the table at any request of a scan for orphans, and of the removal that follows it.

Acts are those of `test_races_of_every_kind`, and some more: branches that are made, dropped and become main, other
runs of the same kind. Listings take a request for every few names, so that an act may come in the middle of one. At
each deletion every root that exists is walked, independently: nothing goes that any of them refers to. When all is
over every root reads, and the next run, alone, leaves no orphan.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.execute import batches
from tests.support import others as races
from tests.support.every import EVERY
from tests.support.maintenance import Maintainer
from tests.support.orphan_others import (
    ACTS,
    DAY_MS,
    KEYS,
    NAME,
    OrphanWorld,
)
from tests.support.others import Act
from tests.support.paged_store import PagedStore
from tests.support.reader import assert_all_readable
from tests.support.sampling import is_sampled


def play(setting: str, act: Act | None, at: int, pace: int) -> tuple[OrphanWorld, int, str]:
    """Run while an act goes on; return the stage, how many requests the run made, and how it ended.

    Args:
        setting: One of `races.SETTINGS`.
        act: What others do, if anything.
        at: Before which request they begin.
        pace: How many requests lie between two of their steps; 0 for none.
    """
    stage = OrphanWorld(setting)
    calls = 0

    def before(name: str) -> None:
        nonlocal calls
        calls += 1
        if act is not None and calls == at:
            stage.steps = act(stage)
        if act is not None and calls >= at and (calls - at) % max(pace, 1) == 0:
            for _ in stage.steps:
                if pace:
                    break

    try:
        ended: str = stage.remover(before).run(NAME).status
    except MaintenanceError as error:
        ended = error.code
    for _ in stage.steps:
        pass
    return stage, calls, ended


@cache
def requests_of(setting: str) -> int:
    """Return how many requests there are when nobody else acts."""
    return play(setting, None, 0, 0)[1]


@pytest.mark.parametrize("setting", races.SETTINGS)
def test_alone_it_takes_every_orphan(setting: str) -> None:
    stage, calls, ended = play(setting, None, 0, 0)
    assert ended == "done"
    assert stage.left() == set()
    stage.check()
    assert calls > 80


@pytest.mark.parametrize("setting", races.SETTINGS)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_whatever_others_do_nothing_that_a_root_needs_goes(
    act: Act, setting: str, record_property: Callable[[str, object], None]
) -> None:
    """Before each so many-th request of the plain table and every thirteenth of the others; at once, or in steps."""
    requests = requests_of(setting)
    stride = EVERY if setting == "plain" else 13
    ends: Counter[str] = Counter()
    for at in range(1 + ACTS.index(act) % stride, requests + 1, stride):
        pace = (0, 1, 3)[at // stride % 3]
        where = f"{act.__name__} before request {at} of {requests}, pace {pace}"
        try:
            stage, _, ended = play(setting, act, at, pace)
            stage.check()
            ends[ended] += 1
            if at // stride % 4 == 0:
                stage.wait()
                stage.now_ms += 2 * DAY_MS
                _remove_rest(stage)
        except (AssertionError, MaintenanceError) as error:
            raise AssertionError(f"{where}: {error!r}") from error
    record_property("ends", dict(ends))


@pytest.mark.parametrize("slowness_ms", [0, 100_000], ids=["at once", "with rests"])
def test_what_comes_back_stays_as_far_as_it_is_there(slowness_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag is copied from the document of a snapshot that was rolled back, before each request of an execution.

    No engine does that. Even so no more of its files go than those whose batch has had its look. A sample takes each
    third request.
    """
    monkeypatch.setattr(batches, "BATCH_KEYS", 2)
    lost_most = kept_most = at = 0
    ended = False
    while not ended:
        at += 3 if is_sampled() else 1
        stage, calls, there = OrphanWorld("plain"), 0, set[str]()
        plan = stage.remover(lambda name: None).run(NAME, execute=False).plan
        assert plan is not None

        def before(name: str, stage: OrphanWorld = stage, at: int = at) -> None:
            nonlocal calls, there
            calls += 1
            stage.now_ms += slowness_ms
            if calls == at:
                there = stage.rolled_back_needs & {entry.key for entry in stage.store.list("")}
                stage.store.put("tag/tag-late", stage.rolled_back)

        # What is deleted is not watched: the last batch may go with a look that came too early.
        store = PagedStore(stage.store, before, KEYS)
        control = PagedStore(stage.control, before, 1000)
        report = Maintainer(store, control=control, sleep=stage.sleep).execute(plan.header.plan_id)
        assert report.status == "done", report
        lost = there - {entry.key for entry in stage.store.list("")}
        assert len(lost) <= batches.BATCH_KEYS, f"before request {at}: {sorted(lost)}"
        lost_most, kept_most = max(lost_most, len(lost)), max(kept_most, len(there) - len(lost))
        ended = calls < at
    assert lost_most > 0, "a look could come too early"
    assert kept_most == len(stage.rolled_back_needs)


def _remove_rest(stage: OrphanWorld) -> None:
    for _ in range(2):  # the first may only finish what was begun
        if stage.branch != "main" and not stage.newest:
            stage.branch = "main"
        report = stage.remover(lambda name: None).run(NAME)
        assert report.status in ("done", "nothing_to_do"), report
    assert stage.left() == set()
    assert_all_readable(stage.main)
