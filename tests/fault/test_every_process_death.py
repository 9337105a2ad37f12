"""Kill the real command line with SIGKILL at every storage call: on local folders, and on S3 over HTTP.

On S3 what counts is every request on the wire, so that a call of the store that takes several is also cut in between.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.dying_cli import Zygote
from tests.support.every import EVERY
from tests.support.fault_places import LocalPlace, MotoPlace
from tests.support.fault_story import Story, Tally
from tests.support.killed_cli import Assignment


@pytest.fixture(scope="module", params=["local", "local, no changelog files", "s3"])
def lane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assignment]:
    """A lane on one kind of place. Both ways to die use it, since they mostly leave the same behind."""
    story = Story("none" if "no changelog" in request.param else "lookup")
    folder: Path = tmp_path_factory.mktemp("deaths")
    place = MotoPlace(story.objects) if request.param == "s3" else LocalPlace(folder / "place", story.objects)
    made = Assignment(story, place, Zygote(folder / "zygote", place.level), request.param)
    yield made
    made.zygote.close()


@pytest.mark.timeout(1200)  # hundreds of processes: seconds become minutes where many share a machine
@pytest.mark.parametrize("mode", ["kill", "kill_after"])
def test_the_process_may_die_at_any_call(
    lane: Assignment, mode: str, record_property: Callable[[str, object], None]
) -> None:
    """Before the call, or right after it took effect with its answer unseen. By default at all calls in one case."""
    every = (
        max(EVERY // 4, 1) if (lane.name, mode) == ("local", "kill") else EVERY if lane.name != "s3" else 2 * EVERY - 1
    )
    numbers = range(1 + (mode == "kill_after") % every, len(lane.calls) + 1, every)
    tally = Tally(lane.place.name_of(lane.calls[number - 1]) for number in numbers)
    for number in numbers:
        tally.add(lane.kill(mode, number))
    record_property("calls", tally.line())
    tally.assert_complete()
