"""The fan-out of a scan in this process: queues, workers and a clock, of which nothing can be relied on.

Messages are delivered in any order that a seed gives, and some of them twice, late, or never; a call may break, or its
process may end, at any request. What fails comes back after a while, as it does with SQS, and ends in a queue for dead
letters after some times. When nothing is due the clock jumps to what comes next.
"""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pkgutil import iter_modules
from random import Random
from typing import Any

import pytest

from lakesweep import errors
from lakesweep.errors import MaintenanceError
from lakesweep.model.plan import Plan
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans import fan_out
from lakesweep.operations.orphans.fan_out import begin as beginning
from lakesweep.operations.orphans.fan_out.scan import Ended, advance, begin
from lakesweep.operations.orphans.fan_out.worker import work
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.storage import store as store_module
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.remembering import MetadataCache
from tests.support.faulty_store import ProcessDeathError, Switch

SCAN_ID = "scan-1"
VISIBILITY_MS = 180_000
"""After so long a message comes again whose receiver failed."""
RECEIVED_MOST = 5
LATE_MS = 600_000
PAGE_KEYS = 8
"""Names in a page of a listing in memory or in folders, where limits are small."""
_MODULES = [importlib.import_module(f"{fan_out.__name__}.{found.name}") for found in iter_modules(fan_out.__path__)]
_SMALL = {
    "FIRST_PAGES": 2,
    "LIST_PAGES": 2,
    "DECODE_ENTRIES": 6,
    "DECODE_MANIFESTS": 3,
    "MATCH_ROWS": 12,
    "HERE_ENTRIES": 3,
}


def small_limits(patch: pytest.MonkeyPatch, *, small_pages: bool = True, **changed: int) -> None:
    """Make tasks so small that a small table takes many of each kind.

    Args:
        patch: Undoes it.
        small_pages: Listings in memory and in folders have small pages, too. `PagedStore` takes larger ones for whole.
        changed: Limits that are others than usual here.
    """
    for name, value in (_SMALL | changed).items():
        for module in _MODULES:
            if hasattr(module, name):
                patch.setattr(module, name, value)
    if small_pages:
        patch.setattr(store_module, "PAGE_KEYS", PAGE_KEYS)
        patch.setattr(beginning, "PAGE_KEYS", PAGE_KEYS)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What happens to messages; each is a chance, of each message."""

    lost: float = 0.0
    """It never arrives."""
    doubled: float = 0.0
    """It comes again, some time later."""
    late: float = 0.0
    """It comes minutes late."""


CALM = Trouble()
ANY = Trouble(lost=0.1, doubled=0.2, late=0.2)


@dataclass(slots=True)
class Message:
    """One message that waits."""

    due_ms: int
    body: str
    """A task as JSON, or the number of a turn."""
    received: int = 0

    @property
    def is_task(self) -> bool:
        """Tell what it is."""
        return self.body.startswith("{")


@dataclass(slots=True)
class Processes(Switch):
    """Breaks at one call of all processes together; who comes after a dead one lives."""

    def __init__(self, at: int | None = None, mode: str = "before") -> None:
        Switch.__init__(self, at, mode)

    def restart(self) -> None:
        """Begin another process."""
        self._dead = False


Wrap = Callable[[Store, str], Store]


@dataclass
class FanOut:
    """One scan, from its first message to its end."""

    table: Table
    arguments: OrphanArguments
    random: Random = field(default_factory=lambda: Random(0))
    trouble: Trouble = CALM
    jump: Callable[[int], None] = lambda by_ms: None
    """Called when the clock jumps."""
    wrap: Wrap | None = None
    """Makes what each call uses as store of the table and of the control location."""
    scan_id: str = SCAN_ID
    before: Callable[[str], None] = lambda body: None
    """Called before each delivery."""
    ended: Ended | None = None
    error: MaintenanceError | None = None
    """What a turn refused for."""
    waiting: list[Message] = field(default_factory=list)
    dead: list[Message] = field(default_factory=list)
    delivered: list[str] = field(default_factory=list)
    deliveries: int = 0
    turns: int = 0
    time_ms: int = 0
    failures: list[str] = field(default_factory=list)
    turn_under_way: int = 0

    def __post_init__(self) -> None:
        self._send("0", 0, is_first=True)

    def tasks(self, tasks: Sequence[Mapping[str, object]]) -> None:
        """Take tasks; see `Outbox`."""
        for task in tasks:
            self._send(json.dumps(dict(task)), 0)

    def advance(self, step: int, delay_s: int, *, progress: bool) -> None:
        """Take the next turn; see `Outbox`."""
        self._send(str(step), delay_s * 1000)

    def _send(self, body: str, delay_ms: int, *, is_first: bool = False) -> None:
        chance = self.random.random
        if not is_first and body.startswith("{") and chance() < self.trouble.lost:
            return
        copies = 2 if chance() < self.trouble.doubled else 1
        for number in range(copies):
            is_late = number or (chance() < self.trouble.late and not is_first)  # the first says what time it is
            late_ms = self.random.randrange(LATE_MS) if is_late else 0
            self.waiting.append(Message(self.time_ms + delay_ms + late_ms, body))

    def step(self) -> bool:
        """Deliver one message, and tell whether there was one."""
        if not self.waiting:
            return False
        next_ms = min(message.due_ms for message in self.waiting)
        if next_ms > self.time_ms:
            self.jump(next_ms - self.time_ms)
            self.time_ms = next_ms
        message = self.random.choice([each for each in self.waiting if each.due_ms <= self.time_ms])
        self.waiting.remove(message)
        message.received += 1
        self.deliveries += 1
        self.before(message.body)
        try:
            self._handle(message)
        except (MaintenanceError, ProcessDeathError) as error:
            self.failures.append(f"{message.body}: {error!r}")
            self._back(message)
        else:
            self.delivered.append(message.body)
        return True

    def run(self, most: int = 3000) -> Ended:
        """Deliver until the scan has ended, and then what still waits: it must change nothing."""
        while self.ended is None and self.error is None and self.step():
            assert self.deliveries < most, f"expected an end, found {self.deliveries} deliveries"
        ended = self.ended
        if self.error is not None:
            raise self.error
        assert ended is not None, f"the scan stalled: {self.failures[-3:]}"
        late = [message for message in self.waiting if message.is_task or self.random.random() < 0.5]
        self.waiting = []
        for message in late:
            try:
                self._handle(message)
            except (MaintenanceError, ProcessDeathError) as error:
                self.failures.append(f"late {message.body}: {error!r}")
        assert (self.ended.status, self.ended.result) == (ended.status, ended.result)
        return ended

    def _back(self, message: Message) -> None:
        if message.received < RECEIVED_MOST:
            message.due_ms = self.time_ms + VISIBILITY_MS
            self.waiting.append(message)
        else:
            self.dead.append(message)

    def _handle(self, message: Message) -> None:
        table = self._process()
        if message.is_task:
            work(table, self.scan_id, json.loads(message.body), self)
            return
        self.turns += 1
        try:
            if message.body == "0":
                begin(table, self.scan_id, self.arguments, self)
                return
            self.turn_under_way = int(message.body)
            ended = advance(table, self.scan_id, self.turn_under_way, self)
        except (errors.RefusedError, errors.UsageError, errors.AccessDeniedError, errors.FormatError) as error:
            self.error = error
            return
        finally:
            self.turn_under_way = 0
        self.ended = ended or self.ended

    def _process(self) -> Table:
        """Return the table as a process sees it that has just started."""
        area = require_area(self.table)
        wrap = self.wrap or (lambda store, name: store)
        return replace(
            self.table,
            store=wrap(self.table.store, "table"),
            area=replace(area, store=wrap(area.store, "control")),
            open_store=lambda location: wrap(self.table.open_store(location), "outside"),
            counter=RequestCounter(),
            memory=MetadataCache(),
        )


def fan_out_plan(table: Table, arguments: OrphanArguments, seed: int = 0, **more: Any) -> Plan:
    """Plan by a fan-out, or raise why there is no plan."""
    ended = FanOut(table, arguments, Random(seed), **more).run()
    if ended.plan is None:
        assert ended.refusal is not None
        kind = getattr(errors, ended.refusal.get("type", ""), errors.RefusedError)
        raise kind(ended.refusal["message"], code=ended.refusal["code"])
    return ended.plan
