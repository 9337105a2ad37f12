"""Passes that make tags: broken at every call, two at a time, and with a writer in between.

A table keeps one snapshot and the tags of three hours, so each pass makes tags, drops tags with their files, and drops
the snapshots that tags were made of. Whatever happens, each hour has its tag once, of the right snapshot, and it reads.
"""

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.format.tag import parse_tag
from lakesweep.model.report import RunReport
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.process import Process
from tests.support.reader import assert_all_readable
from tests.support.world import World

HOUR_MS = 3_600_000
MODES = ("before", "after", "death", "death_after")
OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "1 ms",
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "hourly",
    "tag.num-retained-max": "3",
    "tag.create-success-file": "true",
    "tag.default-time-retained": "30 d",
    "sink.process-time-zone": "UTC",
}


def staged(hours: int = 5) -> World:
    """A table of some hours, with one commit in each, that no pass has seen."""
    stage = World(options=OPTIONS)
    stage.now_ms -= stage.now_ms % HOUR_MS
    for hour in range(1, hours + 1):
        commit(stage, hour)
    return stage


def commit(stage: World, number: int) -> None:
    stage.now_ms += HOUR_MS
    gone = [f"-F{number - 1}"] if number > 1 else []
    stage.table.commit(*gone, f"+F{number}", f"+K{number}", kind="OVERWRITE", time_ms=stage.now_ms)
    stage.table.hint("LATEST", number)


def tags(stage: World) -> dict[str, int]:
    found = {}
    for entry in stage.store.list("tag/"):
        if "_SUCCESS" not in entry.key:
            name = entry.key.removeprefix("tag/tag-")
            found[name] = parse_tag(stage.store.read(entry.key).data, entry.key).snapshot.id
    return found


def files(stage: World) -> set[str]:
    return {entry.key for entry in stage.store.list("") if not entry.key.endswith("_SUCCESS")}


def successes(stage: World) -> set[str]:
    """Return the tags that have a success file."""
    found = {entry.key.rpartition("/")[2] for entry in stage.store.list("tag/tag-success-file/")}
    return {name.removesuffix("_SUCCESS") for name in found}


def keep_house(maintainer: Maintainer) -> RunReport:
    return maintainer.maintain()


def settled(stage: World, number: int) -> World:
    """Make the next commit and its pass, as they would come in any case."""
    stage.switch = Switch()
    stage.wait()
    for _ in range(2):
        report = keep_house(stage.maintainer())
        assert report.status in ("done", "nothing_to_do"), report.refusal
        stage.now_ms -= stage.now_ms % HOUR_MS
        commit(stage, number)
        number += 1
    report = keep_house(stage.maintainer())
    assert report.status in ("done", "nothing_to_do"), report.refusal
    return stage


def check(stage: World, where: str, *, may_leave: bool = False) -> None:
    """Make sure that all is as it is when nothing happens.

    A process that dies between a tag and its success file leaves the tag without one, as the engine does.

    Args:
        stage: What was acted on.
        where: For messages.
        may_leave: Files may be left over. While one pass removes snapshots and keeps what a tag needs, another one
            removes the tag and leaves all its files to whoever removes the snapshot. A scan for orphans finds them. And
            a success file may come when its tag is gone again.
    """
    assert may_leave or successes(stage) <= tags(stage).keys(), where
    assert tags(stage) == tags(NORMAL), where
    assert stage.ids() == NORMAL.ids(), where
    left = files(stage) - files(NORMAL)
    assert files(stage) >= files(NORMAL), where
    assert may_leave or not left, (where, left)


def _normal() -> tuple[World, int]:
    stage = staged()
    assert keep_house(stage.maintainer()).status == "done"
    calls = len(stage.switch.calls)
    assert len(tags(stage)) == 3
    assert stage.ids() == [5]
    return settled(stage, 6), calls


NORMAL, CALLS = _normal()


@pytest.mark.parametrize("mode", MODES)
def test_any_call_may_break(mode: str) -> None:
    """Each call breaks in two of the ways."""
    for at in range(1 + MODES.index(mode) % 2, CALLS + 1, 2):
        stage = staged()
        stage.switch = Switch(at, mode)
        try:
            keep_house(stage.maintainer())
        except (MaintenanceError, ProcessDeathError):
            pass
        where = f"{mode} call {at}: {stage.switch.calls[at - 1]}"
        try:
            assert_all_readable(stage.table)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        check(settled(stage, 6), where)


@pytest.mark.long
def test_two_at_once() -> None:
    """One waits before each of its requests in turn, while the other makes its whole pass."""
    for at in range(CALLS + 1):
        stage = staged()
        first, second = Process(stage, keep_house), Process(stage, keep_house)
        first.go(at)
        second.go()
        assert_all_readable(stage.table)
        first.go()
        assert_all_readable(stage.table)
        made = tags(stage)
        assert made == {name: snapshot_id for name, snapshot_id in made.items() if name in ALL}, at
        assert all(ALL[name] == snapshot_id for name, snapshot_id in made.items()), at
        check(settled(stage, 6), f"after {at} requests", may_leave=True)


def test_two_request_by_request() -> None:
    """They take turns all the way, the second some requests behind."""
    for ahead in range(0, CALLS, 3):
        stage = staged()
        first, second = Process(stage, keep_house), Process(stage, keep_house)
        first.go(ahead)
        while second.go(1) + first.go(1):
            pass
        assert_all_readable(stage.table)
        check(settled(stage, 6), f"{ahead} ahead", may_leave=True)


@pytest.mark.long
def test_a_writer_commits_at_any_call() -> None:
    """The next hour begins while a pass works: its snapshot is the one of the hour before, and stays until it is."""
    for at in range(CALLS + 1):
        stage = staged()
        one = Process(stage, keep_house)
        one.go(at)
        commit(stage, 6)
        one.go()
        assert_all_readable(stage.table)
        assert 6 in stage.ids(), at
        assert keep_house(stage.maintainer()).status in ("done", "nothing_to_do"), at
        assert tags(stage)[sorted(tags(stage))[-1]] == 6, at
        commit(stage, 7)
        report = keep_house(stage.maintainer())
        assert report.status in ("done", "nothing_to_do"), (at, report.refusal)
        check(stage, f"after {at} requests")


def _all() -> dict[str, int]:
    stage = staged()
    report = stage.maintainer().run("tag-schedule", execute=False)
    (step, _) = report.steps or ()
    assert step.plan is not None
    return {
        action.path.removeprefix("tag/tag-"): parse_tag(str(action.body).encode(), action.path).snapshot.id
        for action in step.plan.actions
        if action.kind == "tag"
    }


ALL = _all()
"""Each tag that the five commits make, and its snapshot."""
