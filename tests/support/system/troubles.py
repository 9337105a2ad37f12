"""Troubles: what goes wrong, where and when, as chance says it."""

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COMMITTER = "Committer"
FUNCTIONS = ("OnSnapshotWritten", "Expire", "ExecuteBatch", "Sweep", "OrphanScan", "OrphanWorker", COMMITTER)
QUEUES = ("CommitsQueue", "ExpireQueue", "ExecuteQueue", "SweepQueue", "ScanQueue", "OrphanQueue", "CommitterQueue")
EVENTS = "SnapshotWrittenRule"
MAINTAINERS = ("Expire", "ExecuteBatch")
"""They delete."""
SCANNERS = ("OrphanScan", "OrphanWorker")
DELETIONS = "deletions"
"""What is counted for troubles of the lease: moments in which a worker is about to delete files."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trouble."""

    places: Sequence[str]
    """Where it may happen: a function, a queue, the rule, or `DELETIONS`."""
    last: Mapping[str, int]
    """It happens at a number from 1 to this, by place."""
    weight: int = 1
    amounts: tuple[float, float] = (0.0, 0.0)
    """What else chance says: seconds, or how many requests."""


_OF_SCANS = {"OrphanScan": 120, "OrphanWorker": 80}
_REQUESTS = {"OnSnapshotWritten": 12, "Expire": 160, "ExecuteBatch": 90, "Sweep": 30, COMMITTER: 80, **_OF_SCANS}
_SCANNED = {"OrphanScan": 6, "OrphanWorker": 12}
_INVOCATIONS = {"OnSnapshotWritten": 4, "Expire": 12, "ExecuteBatch": 4, "Sweep": 2, COMMITTER: 5, **_SCANNED}
_OF_QUEUES = {"CommitsQueue": 4, "ExpireQueue": 12, "ExecuteQueue": 4, "SweepQueue": 2, "ScanQueue": 6}
_MESSAGES = {**_OF_QUEUES, "OrphanQueue": 12, "CommitterQueue": 5, EVENTS: 40}

KINDS: Mapping[str, Kind] = {
    "killed before a request": Kind(FUNCTIONS, _REQUESTS, weight=3),
    "killed after a request": Kind(FUNCTIONS, _REQUESTS, weight=3),
    "killed at a moment": Kind(FUNCTIONS, _INVOCATIONS, weight=2, amounts=(0.0, 0.25)),
    "short of time": Kind((*MAINTAINERS, *SCANNERS, COMMITTER), _INVOCATIONS, weight=2, amounts=(10.0, 10.3)),
    "no time to delete": Kind(MAINTAINERS, _INVOCATIONS, amounts=(15.0, 20.0)),
    "throttled": Kind(FUNCTIONS, _REQUESTS, amounts=(1.0, 2.9)),
    "internal error": Kind(FUNCTIONS, _REQUESTS, amounts=(1.0, 1.9)),
    "denied to send": Kind(FUNCTIONS, dict.fromkeys(FUNCTIONS, 3)),
    "doubled": Kind((*QUEUES, EVENTS), _MESSAGES, weight=3),
    "delayed": Kind((*QUEUES, EVENTS), _MESSAGES, weight=2, amounts=(1.0, 900.0)),
    "reordered": Kind(QUEUES, _MESSAGES, weight=2),
    "lost": Kind((*QUEUES, EVENTS), _MESSAGES, weight=3),
    "poisoned": Kind(QUEUES, dict.fromkeys(QUEUES, 3)),
    "beside another maintainer": Kind((*MAINTAINERS, COMMITTER), _REQUESTS, weight=2),
    "beside a writer": Kind((COMMITTER,), _REQUESTS, weight=3),
    "lease expired": Kind((DELETIONS,), {DELETIONS: 8}),
    "lease stolen": Kind((DELETIONS,), {DELETIONS: 8}, weight=2),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that goes wrong once."""

    kind: str
    where: str
    number: int
    """Of the request, invocation, message or moment there, counted from the beginning."""
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}: {self.where} {self.number}" + (f" ({self.amount:.2f})" if self.amount else "")


def draw(seed: int, count: int) -> tuple[Trouble, ...]:
    """Draw troubles, the same for the same seed; fewer of them are the first ones."""
    chance = random.Random(seed)
    names, weights = list(KINDS), [kind.weight for kind in KINDS.values()]
    found = []
    for _ in range(count):
        (name,) = chance.choices(names, weights)
        kind = KINDS[name]
        where = chance.choice(kind.places)
        number = chance.randint(1, kind.last[where])
        found.append(Trouble(name, where, number, round(chance.uniform(*kind.amounts), 3)))
    return tuple(found)


class Waiting:
    """Troubles that have not happened yet, and those that have."""

    def __init__(self, troubles: Sequence[Trouble]) -> None:
        self.drawn = tuple(troubles)
        self.happened: list[Trouble] = []
        self.is_over = False
        """Nothing happens any more."""
        self._left = list(troubles)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def next(self, where: str, kinds: Sequence[str], *, may: bool = True) -> Trouble | None:
        """Count one more of what these kinds are counted in, and return a trouble that is due there.

        Args:
            where: The place.
            kinds: That can happen now.
            may: Otherwise what is due has to wait for another one.
        """
        with self._lock:
            self._counts[where, kinds[0]] += 1
            if self.is_over or not may:
                return None
            number = self._counts[where, kinds[0]]
            for trouble in self._left:
                if trouble.where == where and trouble.kind in kinds and trouble.number <= number:
                    self._left.remove(trouble)
                    self.happened.append(trouble)
                    return trouble
        return None
