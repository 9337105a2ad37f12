"""The real command line, killed at any of its requests."""

from tests.support.dying_cli import DEATH, Ended, Trouble, Zygote
from tests.support.fault_places import NOW_MS, Found, LocalPlace, MotoPlace
from tests.support.fault_story import LATER_MS, Reruns, Story


class Assignment:
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
