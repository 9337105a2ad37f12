"""Kill the real command line with SIGKILL at every storage call: on local folders, and on S3 over HTTP.

On S3 what counts is every request on the wire, so that a call of the store that takes several is also cut in between.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.dying_cli import DEATH, Ended, Trouble, Zygote
from tests.support.every import EVERY
from tests.support.fault_places import NOW_MS, Found, LocalPlace, MotoPlace
from tests.support.fault_story import LATER_MS, Reruns, Story, Tally


class Lane:
    """The pass after a commit on one table, run as often as one likes."""

    def __init__(self, story: Story, place: LocalPlace | MotoPlace, zygote: Zygote, name: str) -> None:
        self.name = name
        self.place = place
        self.zygote = zygote
        first = self.broken(Trouble())
        assert first.status == 0, first.errors
        self.calls = first.calls
        self.reruns = Reruns(story, place.found(), self._rerun)
        self.reruns.check_end(place.found())
        went = story.objects.keys() - self.reruns.end.table.keys()
        assert went
        assert went <= self.reruns.end.gone().keys(), "gone without a row in the ledger"

    def broken(self, trouble: Trouble) -> Ended:
        """Run on the table as it was at first."""
        self.place.reset()
        return self.zygote.run(["maintain", *self.place.arguments, "--execute"], NOW_MS, trouble)

    def _rerun(self) -> Found:
        """Run until there is nothing left to do: what a death left of a plan is finished first, then comes the next."""
        for _ in range(2):
            ended = self.zygote.run(["maintain", *self.place.arguments, "--execute"], LATER_MS)
            assert ended.status == 0, ended.errors
            found = self.place.found()
            if found.table.keys() == self.reruns.end.table.keys():
                break
        return found

    def kill(self, mode: str, number: int) -> str:
        """Die at a call, and return its name."""
        ended = self.broken(Trouble(mode, number))
        where = f"{mode} at call {number}, {self.calls[number - 1]}"
        assert ended.status == DEATH, f"{where}: ended with {ended.status}: {ended.errors}"
        self.reruns.check(self.place.found(), where)
        return self.place.name_of(ended.calls[number - 1])


@pytest.fixture(scope="module", params=["local", "local, no changelog files", "s3"])
def lane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    """A lane on one kind of place. Both ways to die use it, since they mostly leave the same behind."""
    story = Story("none" if "no changelog" in request.param else "lookup")
    folder: Path = tmp_path_factory.mktemp("deaths")
    place = MotoPlace(story.objects) if request.param == "s3" else LocalPlace(folder / "place", story.objects)
    made = Lane(story, place, Zygote(folder / "zygote", place.level), request.param)
    yield made
    made.zygote.close()


@pytest.mark.timeout(1200)  # hundreds of processes: seconds become minutes where many share a machine
@pytest.mark.parametrize("mode", ["kill", "kill_after"])
def test_the_process_may_die_at_any_call(lane: Lane, mode: str, record_property: Callable[[str, object], None]) -> None:
    """Before the call, or right after it took effect with its answer unseen. By default at all calls in one case."""
    every = 1 if (lane.name, mode) == ("local", "kill") else EVERY if lane.name != "s3" else 2 * EVERY - 1
    numbers = range(1 + (mode == "kill_after") % every, len(lane.calls) + 1, every)
    tally = Tally(lane.place.name_of(lane.calls[number - 1]) for number in numbers)
    for number in numbers:
        tally.add(lane.kill(mode, number))
    record_property("calls", tally.line())
    tally.assert_complete()
