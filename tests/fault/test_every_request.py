"""Trouble on the wire: S3 throttles requests for a while or for ever, or answers them into the void.

botocore repeats such requests on its own; what is tested is the command line on top of it, over HTTP. Throttling that
does not end begins here at every request that changes something; that it may begin at any call is tested on the stores.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.dying_cli import Trouble, Zygote
from tests.support.fault_places import MotoPlace
from tests.support.fault_story import Story, Tally
from tests.support.killed_cli import Assignment
from tests.support.sampling import is_sampled

EVERY = 5
"""Requests broken in one run lie so far apart; so many runs break all. botocore has a quota of repetitions: a run of
which each request needs some gives up after a hundred or so, as one that is throttled for ever does."""


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assignment]:
    """A lane on S3."""
    story, folder = Story(), tmp_path_factory.mktemp("requests")
    place = MotoPlace(story.objects)
    made = Assignment(story, place, Zygote(Path(folder), place.level), "s3")
    yield made
    made.zygote.close()


@pytest.mark.parametrize("mode", ["slow_down", "lost_answer"])
def test_any_request_may_need_repetition(
    lane: Assignment, mode: str, record_property: Callable[[str, object], None]
) -> None:
    """Throttled twice and then served, or served and its answer lost once: the run ends as if nothing had been."""
    firsts = range(1, EVERY + 1, 2 if is_sampled() else 1)
    tally = Tally(lane.place.name_of(call) for first in firsts for call in lane.calls[first - 1 :: EVERY])
    for first in firsts:
        ended = lane.broken(Trouble(mode, first, EVERY))
        assert ended.status == 0, f"{mode} at every {EVERY}th request from {first}: {ended.errors}"
        # Whoever cannot know whether its conditional write succeeded asks once more: then later requests are more.
        for number in range(first, min(len(ended.calls), len(lane.calls)) + 1, EVERY):
            tally.add(lane.place.name_of(lane.calls[number - 1]))
        lane.reruns.check_end(lane.place.found())
    record_property("calls", tally.line())
    tally.assert_complete()


def test_throttling_that_does_not_end_is_a_clear_error(
    lane: Assignment, record_property: Callable[[str, object], None]
) -> None:
    """The error names the request and S3's word for it; what is left is what a death at this request leaves."""
    names = [lane.place.name_of(call) for call in lane.calls]
    changing = [number for number, name in enumerate(names, 1) if name.split()[1] not in ("GET", "LIST")]
    changing = changing[:: 6 if is_sampled() else 1]
    tally = Tally(names[number - 1] for number in changing)
    for number in changing:
        ended = lane.broken(Trouble("slow_down_for_ever", number))
        where = f"throttled from request {number}, {lane.calls[number - 1]}: {ended.errors}"
        assert ended.status in (0, 1, 4), where
        assert "bug" not in ended.errors, where
        if ended.status:
            assert ended.errors.startswith("lakesweep: "), where
            assert "(SlowDown)" in ended.errors, where
        else:
            assert lane.place.found().table.keys() == lane.reruns.end.table.keys(), where
        tally.add(names[number - 1])
        lane.reruns.story.check_roots(lane.place.found())
    record_property("calls", tally.line())
    tally.assert_complete()
