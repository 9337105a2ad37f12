"""Somebody else acts on the table at any request of a run, one step at a time: what others do beside commits.

Each *act* is a generator: a step, a `yield`, the next step. It begins right before one request of the run and goes on
every few requests, whenever the run waits, and after its end. An act promises what must hold when all is over by what
it saw (`BusyWorld.promises`). Besides, every root that exists reads completely, and the newest snapshot is the act's.
"""

import pytest

from lakesweep.errors import MaintenanceError
from tests.support.others import (
    ACTS,
    SETTINGS,
    Act,
    BusyWorld,
    play,
)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_whatever_others_do_every_root_reads(act: Act, setting: str) -> None:
    """Before every request of the plain pass, before every fifth of the others; at once, or a step at a time.

    Now and then the next passes are played as well: they end, and everything reads again.
    """
    _, requests = play(setting, None, 0, 0)
    skipped = 1 if setting == "plain" else 5
    for at in range(1 + ACTS.index(act) % skipped, requests + 1, skipped):
        pace = (0, 1, 3)[at % 3]
        stage, _ = play(setting, act, at, pace)
        where = f"{act.__name__} before request {at} of {requests}, pace {pace}"
        try:
            stage.check()
            for _ in range(2 if at % 4 == 0 else 0):
                stage.wait()
                stage.maintain()
                stage.check()
        except (AssertionError, MaintenanceError) as error:
            raise AssertionError(f"{where}: {error}") from error


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_whatever_happens_between_a_plan_and_its_execution(act: Act, setting: str) -> None:
    """A plan is stored, others act to the end or to their first step, and the plan is executed."""
    for begun_only in (False, True):
        stage = BusyWorld(setting)
        planned = stage.maintainer().run("expire-snapshots", execute=False).plan
        assert planned is not None
        stage.steps = act(stage)
        for _ in stage.steps:
            if begun_only:
                break
        if not begun_only:
            stage.now_ms += 3_600_000
        try:
            report = stage.maintainer().execute(planned.header.plan_id)
            assert report.status in ("done", "stale", "refused"), report
        except MaintenanceError:
            pass
        for _ in stage.steps:
            pass
        stage.check()
