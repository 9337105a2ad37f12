"""Somebody else acts on the table while many workers scan it, and while the plan is carried out.

The acts are those of `test_orphans_among_others`: commits, expiry, tags, branches, rollbacks, other runs. They begin
before any request of the scan, and go on a step at a time. At each deletion every root that exists is walked: nothing
goes that any of them refers to.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.scans import OrphanArguments
from tests.support import others as races
from tests.support.fan_out import CALM, FanOut, Trouble, small_limits
from tests.support.orphan_others import ACTS, DAY_MS, OrphanWorld
from tests.support.others import Act
from tests.support.paged_store import PagedStore
from tests.support.reader import assert_all_readable
from tests.support.sampling import seeds

KEYS = 4
"""Names in a page of a listing."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch, small_pages=False, MATCH_ROWS=40)


def play(
    setting: str, act: Act | None, at: int, pace: int, *, trouble: Trouble = CALM, seed: int = 0
) -> tuple[OrphanWorld, int, str]:
    """Scan and carry the plan out while an act goes on; return the stage, the requests, and how it ended."""
    played = OrphanWorld(setting)
    calls = 0

    one_at_a_time = threading.Lock()

    def before(name: str) -> None:
        nonlocal calls
        with one_at_a_time:  # a turn reads in threads
            calls += 1
            if act is not None and calls == at:
                played.steps = act(played)
            if act is not None and calls >= at and (calls - at) % max(pace, 1) == 0:
                for _ in played.steps:
                    if pace:
                        break

    def jump(by_ms: int) -> None:
        played.now_ms += by_ms

    maintainer = played.remover(before)
    # The clock of the queue turns much faster than those of the lease and its looks.
    scan = FanOut(maintainer.table, OrphanArguments(), Random(seed), trouble=trouble, jump=jump, scan_id="among-others")
    try:
        ended = scan.run()
        if ended.plan is None or ended.plan.is_empty:
            said = ended.refusal["code"] if ended.refusal else ended.status
        else:
            said = maintainer.execute(ended.plan.header.plan_id).status
    except MaintenanceError as error:
        said = error.code
    for _ in played.steps:
        pass
    return played, calls, said


@cache
def requests_of(setting: str) -> int:
    """Return how many requests there are when nobody else acts."""
    return play(setting, None, 0, 0)[1]


@pytest.mark.parametrize("setting", races.SETTINGS)
def test_alone_it_takes_every_orphan(setting: str) -> None:
    played, calls, said = play(setting, None, 0, 0)
    assert said == "done"
    assert played.left() == set()
    played.check()
    assert calls > 150


@pytest.mark.parametrize("setting", races.SETTINGS)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_whatever_others_do_nothing_that_a_root_needs_goes(
    act: Act, setting: str, record_property: Callable[[str, object], None]
) -> None:
    """Before one request in a hundred of the plain table, before one of all of the others."""
    requests = requests_of(setting)
    stride = 97 if setting == "plain" else requests
    ends: Counter[str] = Counter()
    for at in range(1 + Random(f"{setting} {act.__name__}").randrange(stride), requests + 1, stride):
        pace = (0, 1, 3, 20)[at % 4]
        where = f"{act.__name__} before request {at} of {requests}, pace {pace}"
        try:
            played, _, said = play(setting, act, at, pace)
            played.check()
            ends[said] += 1
            if at % 4 == 0:
                played.now_ms += 3 * DAY_MS
                _again(played)
        except (AssertionError, MaintenanceError) as error:
            raise AssertionError(f"{where}: {error!r}") from error
    record_property("ends", dict(ends))


@pytest.mark.parametrize("seed", range(3))
def test_whatever_others_do_and_whatever_becomes_of_messages(seed: int) -> None:
    random = Random(seed)
    for number in seeds(6, 2):
        setting, act = random.choice(races.SETTINGS), random.choice(ACTS)
        at, pace = random.randrange(1, 250), random.choice((1, 5, 20))
        played, _, _ = play(setting, act, at, pace, trouble=Trouble(0.1, 0.2, 0.2), seed=random.randrange(10**6))
        try:
            played.check()
        except AssertionError as error:
            raise AssertionError(f"{seed} {number}: {setting} {act.__name__} at {at}, pace {pace}: {error}") from error


def _again(played: OrphanWorld) -> None:
    """A later scan, alone, leaves no orphan."""
    for number in range(2):  # the first may only finish what was begun
        if played.branch != "main" and not played.newest:
            played.branch = "main"
        maintainer = played.remover(lambda name: None)
        table = replace(maintainer.table)
        ended = FanOut(table, OrphanArguments(), scan_id=f"again-{number}").run()
        if ended.plan is not None and not ended.plan.is_empty:
            assert maintainer.execute(ended.plan.header.plan_id).status == "done"
    assert played.left() == set()
    assert_all_readable(played.main)


def test_pages_are_small() -> None:
    """So that an act can come in the middle of a listing."""
    played = OrphanWorld("plain")
    store = PagedStore(played.store, lambda name: None, KEYS)
    assert len(list(store.list_range(""))) > 5
