"""A worker that dies in the middle of a pass: how long until its table is in order again.

Nobody tells the system of the death. Its message comes back when its visibility timeout is over, and finds the lease
free by then. Time that only passes is skipped; what is measured is the system's own time.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from werkzeug.wrappers import Response

from tests.support.sampling import is_sampled
from tests.support.system.build import Build
from tests.support.system.deployed import System
from tests.support.system.embedded_aws import Request, refusal
from tests.support.system.exactness import assert_exact
from tests.support.system.maintainers import Maintainers
from tests.support.table_builder import TableBuilder

RECOVERED_WITHIN_S = 13 * 60
EXECUTOR_RECOVERED_WITHIN_S = 91 * 60
"""Its message stays hidden for six times the quarter of an hour that it may run."""
NEXT_PASS_WITHIN_S = 20 * 60
"""The lease of a dead worker has ended ten minutes after its last renewal. A commit's hint finds it held until then,
and waits for one, two, four and eight minutes in turn, so for at most as long again."""
OPTIONS = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}
COMMITS = 8
KEPT = (7, 8)


@dataclass
class Death:
    """Kills a process of a function at one of its requests."""

    system: System
    function: str
    number: int
    """The request, from 1 on, counted from when this is armed."""
    is_answered: bool
    """The request is carried out; only the answer is lost. Else it never comes to S3."""
    seen: list[Request] = field(default_factory=list)
    slow_s: float = 0.0
    """So long its planning takes, by the system's clock."""
    then: Callable[[], object] = lambda: None
    """What happens to the table right after."""
    killed_s: float | None = None

    def before(self, request: Request) -> Response | None:
        """Count a request, and kill who sent it."""
        if request.function != self.function or self.killed_s is not None:
            return None
        self.seen.append(request)
        if len(self.seen) == 1:
            self.system.clock.skip_to(self.system.clock.now() + self.slow_s)
        if len(self.seen) != self.number or self.is_answered:
            return None
        self._kill(request)
        return refusal(request, 500, "InternalError")  # to nobody

    def after(self, request: Request) -> None:
        """Kill who sent a request that has been carried out."""
        if self.is_answered and len(self.seen) >= self.number and self.seen[self.number - 1] is request:
            self._kill(request)

    def _kill(self, request: Request) -> None:
        assert self.system.functions[self.function].kill(request.caller)
        self.killed_s = self.system.clock.now()
        threading.Thread(target=self.then).start()  # whoever serves this request holds locks


def written(system: System, name: str) -> TableBuilder:
    """Write a table that a pass finds six snapshots too many in."""
    table = TableBuilder(system.backdoor(name), options=OPTIONS)
    for number in range(1, COMMITS + 1):
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))
    return table


def requests_of_a_pass(system: System) -> int:
    """Return how many requests `Expire` sends when nothing happens to it."""
    table = written(system, "sales.db/whole")
    system.settle()
    assert_exact(table, KEPT)
    return sum(request.function == "Expire" for request in system.aws.log)


def recovery_s(system: System, death: Death, function: str) -> float | None:
    """Let it happen, and return the time from the death to the end of the work that the dead one left.

    `None`: nobody died, since all was done in fewer requests. A pass whose hints come in one message sends some less
    than one whose hints come in two.
    """
    system.aws.before.append(death.before)
    system.aws.after.append(death.after)
    done = len(system.invocations)
    system.settle()
    system.aws.before.remove(death.before)
    system.aws.after.remove(death.after)
    if death.killed_s is None:
        assert len(death.seen) < death.number
        return None
    after = [it for it in system.invocations[done:] if it.function == function and it.at_s > death.killed_s]
    assert after and not after[-1].error, after
    return after[-1].at_s + after[-1].seconds - death.killed_s


@pytest.mark.slow
@pytest.mark.parametrize(
    "slow_s",
    [0, pytest.param(10, marks=pytest.mark.long), pytest.param(95, marks=pytest.mark.long)],
    ids=["at once", "slowly", "at the end of its time"],
)
def test_a_pass_whose_worker_is_killed_is_finished_in_thirteen_minutes(
    build: Build, slow_s: float, record_property: Callable[[str, object], None]
) -> None:
    times: dict[str, float] = {}
    with System(build) as system:
        maintainers = Maintainers(system.clock, system.bucket, system.control_bucket)
        maintainers.watch(system.aws)
        requests = requests_of_a_pass(system)
        # Some on the way to the plan, and every second one from there on, or every fourth.
        numbers = list(range(requests - 20, requests + 1, 4 if slow_s else 2))
        if not slow_s:
            numbers += range(2, requests - 20, 8)
        if is_sampled():
            numbers = numbers[::3]
        for place, number in enumerate(numbers):
            is_answered = place % 2 == 1
            table = written(system, f"sales.db/killed-{number}")
            where = f"{'after' if is_answered else 'before'} request {number} of {requests}"
            death = Death(system, "Expire", number, is_answered, slow_s=slow_s)
            if (seconds := recovery_s(system, death, "Expire")) is not None:
                times[where] = seconds
            assert_exact(table, KEPT)
            assert not system.backlog(), where
        assert len(times) >= 0.8 * len(numbers)
        assert not maintainers.problems
        assert maintainers.most_at_once == 1
    late = {where: round(seconds) for where, seconds in times.items() if seconds > RECOVERED_WITHIN_S}
    record_property(
        "system",
        f"expire killed, {slow_s} s after its start or later, at {len(times)} places of a pass: its table is in order "
        f"after {max(times.values()):.0f} s at most",
    )
    assert not late, late


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("has_commit", [False, True], ids=["nothing else happens", "another commit comes"])
def test_a_plan_whose_worker_is_killed_is_finished(
    build: Build, has_commit: bool, record_property: Callable[[str, object], None]
) -> None:
    times = []
    with System(build) as system:
        maintainers = Maintainers(system.clock, system.bucket, system.control_bucket)
        maintainers.watch(system.aws)
        events = system.mappings["OnSnapshotWritten"]
        for number in (8, 14, 16, 18, 20):
            events.pause()  # else a pass would do it before anybody asks
            table = written(system, f"sales.db/demanded-{number}")
            asked = {"operation": "expire-snapshots", "table": table.store.location, "arguments": {}, "execute": True}
            death = Death(system, "ExecuteBatch", number, is_answered=True)
            assert system.invoke("OnDemand", asked).value["status"] == "planned"
            if has_commit:
                death.then = lambda table=table: (table.commit("+F9", "-F8"), events.pause(False))
            seconds = recovery_s(system, death, "Expire" if has_commit else "ExecuteBatch")
            assert seconds is not None, f"nobody was killed at request {death.number}"
            times.append(seconds)
            events.pause(False)
            system.settle()
            assert_exact(table, (8, 9) if has_commit else KEPT)
            assert not system.backlog()
        assert not maintainers.problems
        assert maintainers.most_at_once == 1
    least_s, most_s = (0, NEXT_PASS_WITHIN_S) if has_commit else (5400 - 900, EXECUTOR_RECOVERED_WITHIN_S)
    what = "and a commit comes" if has_commit else "and nothing else happens"
    record_property("system", f"execute_batch killed at {len(times)} places, {what}: {max(times):.0f} s at most")
    assert all(least_s <= each <= most_s for each in times), times
