"""What happened, in the order of time: each pass with the commit that it answers, its event and what it deleted."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.system.deployed import PREFIX, System
from tests.support.system.embedded_aws import OUTSIDE, Request
from tests.support.system.function import Invocation

HEADER = f"{'table':<22}{'commit':>8}{'at':>9}{'event':>9}{'run':>9}{'deleted':>9}{'after':>9}  function"
_DELETIONS = ("DeleteObject", "DeleteObjects")
_MAINTAIN = ("Expire", "ExecuteBatch")


@dataclass(frozen=True, slots=True)
class Pass:
    """One invocation that worked on a table."""

    table: str
    """Its path below the warehouse."""
    commit: int
    """The newest snapshot that its event told of, 0 for none."""
    commit_s: float
    event_s: float
    """When the function that sorts commits began for the last time before."""
    begin_s: float
    end_s: float
    """Of the last deletion, or of the invocation if there was none."""
    objects: int
    function: str
    error: str

    def line(self, zero_s: float) -> str:
        """Return it as one line below `HEADER`, in seconds since then."""
        times = "".join(f"{at_s - zero_s:>9.1f}" for at_s in (self.commit_s, self.event_s, self.begin_s))
        after = f"{self.end_s - self.commit_s:>9.1f}" if self.objects else f"{'':>9}"
        what = self.function + (f" ({self.error})" if self.error else "")
        return f"{self.table:<22}{self.commit or '':>8}{times}{self.objects:>9}{after}  {what}"


class Timeline:
    """Watches a system from now on."""

    def __init__(self, system: System, on_pass: Callable[[Pass], None] = lambda _: None) -> None:
        """Begin to watch; `on_pass` is told of each pass when it ends."""
        self.passes: list[Pass] = []
        self.commits: dict[str, list[tuple[float, int]]] = {}
        """Table -> time and id of its commits."""
        self.requests: dict[str, int] = {}
        """Of the functions to S3, by operation."""
        self.deleted = 0
        self.zero_s = 0.0
        """Time of the first commit."""
        self._system = system
        self._on_pass = on_pass
        self._sorted_s: list[float] = []
        self._deleted_by: dict[str, tuple[int, float]] = {}
        system.aws.after.append(self._note)
        system.listeners.append(self._ended)

    def _ended(self, done: Invocation) -> None:
        if done.function == "OnSnapshotWritten":
            self._sorted_s.append(done.at_s)
        if done.function not in _MAINTAIN:
            return
        for line in done.lines:
            run = line.get("run")
            if isinstance(run, dict):
                self._passed(done, str(run["table"]))
                return
        if done.error:
            self._passed(done, "")

    def _passed(self, done: Invocation, location: str) -> None:
        table = location.partition(f"/{PREFIX}/")[2]
        event_s = max((at_s for at_s in self._sorted_s if at_s <= done.at_s), default=done.at_s)
        commits = [each for each in self.commits.get(table, ()) if each[0] <= event_s]
        commit_s, commit = commits[-1] if commits else (done.at_s, 0)
        objects, last_s = self._deleted_by.pop(done.caller, (0, self._system.clock.now()))
        found = Pass(table, commit, commit_s, event_s, done.at_s, last_s, objects, done.function, done.error)
        self.passes.append(found)
        self._on_pass(found)

    def _note(self, request: Request) -> None:
        if request.status >= 300:
            return
        if request.caller == OUTSIDE:
            table, slash, name = request.key.removeprefix(f"{PREFIX}/").rpartition("/snapshot/snapshot-")
            if slash and request.operation == "PutObject" and name.isdigit() and "/branch/" not in table:
                self.zero_s = self.zero_s or self._system.clock.now()
                self.commits.setdefault(table, []).append((self._system.clock.now(), int(name)))
            return
        self.requests[request.operation] = self.requests.get(request.operation, 0) + 1
        if request.operation in _DELETIONS and request.bucket == self._system.bucket:
            count = len(request.asked["Delete"]["Objects"]) if request.operation == "DeleteObjects" else 1
            before, _ = self._deleted_by.get(request.caller, (0, 0.0))
            self._deleted_by[request.caller] = before + count, self._system.clock.now()
            self.deleted += count


def as_json(each: Pass, zero_s: float) -> str:
    """Return a pass as a line of JSON, in seconds since then."""
    times = {name: round(getattr(each, name) - zero_s, 3) for name in ("commit_s", "event_s", "begin_s", "end_s")}
    own = {"table": each.table, "commit": each.commit, "objects": each.objects, "function": each.function}
    return json.dumps({**own, **times, "error": each.error})
