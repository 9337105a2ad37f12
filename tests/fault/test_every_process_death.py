"""Kill the real command line with SIGKILL at every storage call: on local folders, and on S3 over HTTP.

On S3 what counts is every request on the wire, so that a call of the store that takes several is also cut in between.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.dying_cli import DEATH, Ended, Trouble, Zygote
from tests.support.fault_places import NOW_MS, Found, LocalPlace, MotoPlace
from tests.support.fault_story import LATER_MS, Reruns, Story, Tally

LANES = 2
"""Deaths at a time: each lane has a table and a parent of processes of its own."""


class Lane:
    """The pass after a commit on one table, run as often as one likes."""

    def __init__(self, story: Story, place: LocalPlace | MotoPlace, zygote: Zygote) -> None:
        self.place = place
        self.zygote = zygote
        first = self.broken(Trouble())
        assert first.status == 0, first.errors
        self.calls = first.calls
        self.reruns = Reruns(story, place.found(), self._rerun)
        self.reruns.check_end(place.found())

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

    def kill(self, mode: str, numbers: Sequence[int]) -> list[str]:
        """Die at each of these calls in turn, and return their names."""
        names = []
        for number in numbers:
            ended = self.broken(Trouble(mode, number))
            where = f"{mode} at call {number}, {self.calls[number - 1]}"
            assert ended.status == DEATH, f"{where}: ended with {ended.status}: {ended.errors}"
            names.append(self.place.name_of(ended.calls[number - 1]))
            self.reruns.check(self.place.found(), where)
        return names


@pytest.fixture(scope="module", params=["local", "local, no changelog files", "s3"])
def lanes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Lane]]:
    """Lanes on one kind of place."""
    story = Story("none" if "no changelog" in request.param else "lookup")
    made = []
    for _ in range(LANES):
        folder: Path = tmp_path_factory.mktemp("deaths")
        place = MotoPlace(story.objects) if request.param == "s3" else LocalPlace(folder / "place", story.objects)
        made.append(Lane(story, place, Zygote(folder / "zygote", place.level)))
    assert len({len(lane.calls) for lane in made}) == 1
    yield made
    for lane in made:
        lane.zygote.close()


@pytest.mark.timeout(1200)  # hundreds of processes: seconds become minutes where many share a machine
@pytest.mark.parametrize("mode", ["kill", "kill_after"])
def test_the_process_may_die_at_any_call(
    lanes: list[Lane], mode: str, record_property: Callable[[str, object], None]
) -> None:
    """Before the call, or right after it took effect with its answer unseen."""
    first, numbers = lanes[0], range(1, len(lanes[0].calls) + 1)
    tally = Tally(first.place.name_of(call) for call in first.calls)
    with ThreadPoolExecutor(LANES) as pool:
        shares = [numbers[start::LANES] for start in range(LANES)]
        for names in pool.map(Lane.kill, lanes, [mode] * LANES, shares):
            for name in names:
                tally.add(name)
    record_property("calls", tally.line())
    tally.assert_complete()
