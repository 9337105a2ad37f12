"""Break every storage call of plan and execute in turn: errors, throttling that does not end, latency.

The command line runs on stores in memory. Processes that really die are in `test_every_process_death.py`, requests that
S3 throttles for a while or answers into the void in `test_every_request.py`.
"""

import contextlib
import io
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from lakesweep.cli.main import main
from lakesweep.errors import MaintenanceError
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS, LONGEST_REQUEST_S
from lakesweep.runs import identifiers
from lakesweep.storage import open as opening
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store
from tests.support.every import EVERY
from tests.support.fault_places import Found, MemoryPlace
from tests.support.fault_story import Reruns, Story, Tally
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.maintenance import Maintainer
from tests.support.troubled_switch import SLOW_DOWN, ErrorSwitch, SlowSwitch

Record = Callable[[str, object], None]
FLOWS = ("pass", "pass, no changelog files", "stored plan")
STALE = 3
EXPIRE = ("expire-snapshots", "--retain-max", "2", "--retain-min", "1")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command line answered."""

    status: int
    output: str
    errors: str


class Flow:
    """Commands on a table in memory, as often as one likes."""

    def __init__(self, name: str) -> None:
        self.story = Story("none" if "no changelog" in name else "lookup")
        self.is_first = name == FLOWS[0]
        self._is_pass = name.startswith("pass")
        objects = dict(self.story.objects)
        if not self._is_pass:
            del objects["consumer/consumer-gone"]  # nothing in this flow forgets it, and it keeps most snapshots
        self.place = MemoryPlace(objects)
        switch = Switch()
        answer = self.run(switch)
        assert answer.status == 0, answer.errors
        self.calls = tuple(switch.calls)
        self.reruns = Reruns(self.story, self.place.found(), self.rerun)
        self.reruns.check_end(self.place.found())

    def run(self, switch: Switch) -> Answer:
        """Run on the table as it was at first."""
        self.place.reset()
        return self._run(switch)

    def _run(self, switch: Switch, *, again: bool = False) -> Answer:
        stores: dict[str, Store] = {
            "memory://bucket/t": FaultyStore(self.place.table, switch, "table"),
            "memory://control": FaultyStore(self.place.control, switch, "control"),
        }
        with pytest.MonkeyPatch.context() as patch:
            numbers = itertools.count(1)
            patch.setattr(identifiers.secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
            for location, store in stores.items():
                patch.setitem(opening.MEMORY_STORES, location, lambda store=store: store)
            return self._commands(again)

    def _commands(self, again: bool) -> Answer:
        table, *control = self.place.arguments
        if self._is_pass:
            return command("maintain", table, *control, "--execute")
        name, *bounds = EXPIRE
        if again:
            return command(name, table, *control, *bounds, "--execute")
        planned = command(name, table, *control, *bounds, "--json")
        if planned.status:
            return planned
        return command("execute", table, json.loads(planned.output)["plan_id"], *control)

    def rerun(self, *, may_be_stale: bool = False) -> Found:
        """Run until there is nothing left to do: what a break left of a plan is finished first, then comes the next.

        Args:
            may_be_stale: What is left is a plan that another run overtook: the first rerun says so and drops it.
        """
        self.place.now_ms += LEASE_MS + DELETE_MARGIN_MS
        for attempt in range(2):
            answer = self._run(Switch(), again=True)
            dropped = may_be_stale and attempt == 0 and answer.status == STALE
            assert answer.status == 0 or dropped, answer.errors
            if answer.status == 0 and self.place.found().table.keys() == self.reruns.end.table.keys():
                break
        return self.place.found()


def command(*arguments: str) -> Answer:
    """Run one command line in this process."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main(list(arguments))
    return Answer(status, output.getvalue(), errors.getvalue())


@pytest.fixture(scope="module", params=FLOWS)
def flow(request: pytest.FixtureRequest) -> Iterator[Flow]:
    """A flow, with its undisturbed end."""
    return Flow(request.param)


def test_the_undisturbed_run_is_worth_breaking(flow: Flow) -> None:
    """It takes documents, data files, index files and lists, and asks both stores for everything they can."""
    assert {call.split()[1] for call in flow.calls if call.startswith("table")} >= {"list", "read", "put", "delete"}
    assert {call.split()[1] for call in flow.calls if call.startswith("control")} >= {"read", "put"}
    folders = {path.split("/")[0] for path in flow.reruns.end.gone()}
    assert folders >= {"snapshot", "index", "manifest", "dt=d1"}


@pytest.mark.parametrize("mode", ["before", "after", "slow_down_for_ever"])
def test_any_call_may_fail(flow: Flow, mode: str, record_property: Record) -> None:
    """The command says what is wrong in a sentence, and the next one ends where an undisturbed one does."""
    numbers = range(1, len(flow.calls) + 1, 1 if flow.is_first else EVERY)
    tally = Tally(flow.calls[number - 1] for number in numbers)
    for number in numbers:
        call = flow.calls[number - 1]
        switch = ErrorSwitch(number, mode)
        answer = flow.run(switch)
        where = f"{mode} at call {number}, {call}"
        tally.add(switch.calls[number - 1])
        found = flow.place.found()
        assert_clear(answer, where)
        if answer.status == 0:
            assert found.table.keys() == flow.reruns.end.table.keys(), where
        elif mode == "slow_down_for_ever":
            assert SLOW_DOWN in answer.errors, f"{where}: {answer.errors}"
        flow.reruns.check(found, where)
    record_property("calls", tally.line())
    tally.assert_complete()


def assert_clear(answer: Answer, where: str) -> None:
    """Fail unless a command that did not succeed says why, in our words and for its user."""
    assert answer.status in (0, 1, 3, 4, 5), f"{where}: exit code {answer.status}"
    assert "bug" not in answer.errors, f"{where}: {answer.errors}"
    assert "Traceback" not in answer.errors, f"{where}: {answer.errors}"
    if answer.status:
        assert answer.errors.startswith("lakesweep: "), f"{where}: {answer.errors}"


class Duel:
    """A slow maintainer, and one that comes while it stands still at one call."""

    def __init__(self, flow: Flow, at: int, **slowness: object) -> None:
        self.deletes: list[str] = []
        self._flow = flow
        self._place = flow.place
        self._place.reset()
        self.switch = SlowSwitch(at, self._advance, meanwhile=self._rival, **slowness)  # type: ignore[arg-type]

    def run(self) -> str | None:
        """Return how the slow one's pass ended: its status, nothing when it raised."""
        table = FaultyStore(_Noting(self._place.table, "slow", self.deletes), self.switch, "table")
        return self._maintain(table, FaultyStore(self._place.control, self.switch, "control"))

    def _rival(self) -> None:
        self._maintain(_Noting(self._place.table, "rival", self.deletes), self._place.control)

    def _maintain(self, table: Store, control: Store) -> str | None:
        try:
            return Maintainer(table, control=control).maintain().status
        except MaintenanceError:
            return None

    def _advance(self, by_ms: int) -> None:
        self._place.now_ms += by_ms


class _Noting:
    """A store that notes who deleted something that was there."""

    reads_wait = False

    def __init__(self, store: Store, who: str, deletes: list[str]) -> None:
        self._store, self._who, self._deletes = store, who, deletes

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete, and note it."""
        results = self._store.delete(requests)
        if any(result.code == "deleted" for result in results):
            self._deletes.append(self._who)
        return results


SLOW_MS = LONGEST_REQUEST_S * 1000


def test_a_run_whose_calls_all_take_their_longest_keeps_its_lease() -> None:
    """Hours instead of seconds, and the same end."""
    flow = Flow("pass")
    duel = Duel(flow, 0, each_ms=SLOW_MS)
    assert duel.run() == "done"
    assert len(duel.switch.calls) * SLOW_MS > 3 * LEASE_MS
    flow.reruns.check_end(flow.place.found())


@pytest.mark.parametrize("effect_first", [False, True])
def test_a_slow_call_lets_nobody_in_between(effect_first: bool, record_property: Record) -> None:
    """Every call takes its longest; whoever comes while the lease is held leaves empty-handed.

    One who comes before the lease, or between two steps of the pass, does all that is left to do.
    """
    flow = Flow("pass")
    alone = Duel(flow, 0, each_ms=SLOW_MS)
    alone.run()
    calls = alone.switch.calls  # more than those of a quick run: it renews its lease
    numbers = range(1 + effect_first, len(calls) + 1, EVERY)
    tally = Tally(calls[number - 1] for number in numbers)
    for number in numbers:
        duel = Duel(flow, number, each_ms=SLOW_MS, effect_first=effect_first)
        status = duel.run()
        where = f"slow at call {number}, {calls[number - 1]}: {duel.deletes}"
        tally.add(duel.switch.calls[number - 1])
        if "rival" in duel.deletes:
            assert "slow" not in duel.deletes[duel.deletes.index("rival") :], where
        else:
            assert status == "done", f"{where}: {status}"
        flow.story.check_roots(flow.place.found())
        flow.reruns.check_end(flow.rerun(may_be_stale=True))
    record_property("calls", tally.line())
    tally.assert_complete()


@pytest.mark.parametrize("effect_first", [False, True])
@pytest.mark.parametrize("still_ms", [0, LEASE_MS + 2 * DELETE_MARGIN_MS], ids=["at once", "beyond its lease"])
def test_a_run_that_is_overtaken_stops(still_ms: int, effect_first: bool, record_property: Record) -> None:
    """Another one comes at a call and finishes: nothing is left for what the first may still send.

    It comes at once, where no lease is held, or when the first has stood still until its lease was over.
    """
    flow = Flow("pass")
    alone = Duel(flow, 0)
    alone.run()
    calls = alone.switch.calls  # those of the command also look for other control locations
    numbers = range(1 + effect_first, len(calls) + 1, EVERY)
    tally = Tally(calls[number - 1] for number in numbers)
    for number in numbers:
        call = calls[number - 1]
        duel = Duel(flow, number, still_ms=still_ms, effect_first=effect_first)
        duel.run()
        where = f"overtaken at call {number}, {call}: {duel.deletes}"
        tally.add(duel.switch.calls[number - 1])
        if "rival" in duel.deletes:
            assert "slow" not in duel.deletes[duel.deletes.index("rival") :], where
        flow.story.check_roots(flow.place.found())
        flow.reruns.check_end(flow.rerun(may_be_stale=True))
    record_property("calls", tally.line())
    tally.assert_complete()
