"""A system at work with tables, troubles, and somebody who watches; in the end it has to be right."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

from tests.support.system.build import Build
from tests.support.system.deployed import System
from tests.support.system.healing import heal, problems_of
from tests.support.system.live_watch import LiveWatch
from tests.support.system.maintainers import Maintainers
from tests.support.system.troubled_messages import TroubledMessages
from tests.support.system.troubled_requests import TroubledRequests
from tests.support.system.troubles import Trouble, Waiting
from tests.support.system.visits import Visits
from tests.support.system.written_table import PLAIN, WrittenTable

DAYS_TO_COME = 365
"""In so many days the partition is over that is written beside a commit."""


class Scene:
    """A context manager: the system is at work inside the block.

    with Scene(build, [Trouble("killed after a request", "Expire", 40)]) as scene:
        scene.table("sales.db/orders").commit(8)
        assert scene.end() == []
    """

    def __init__(self, build: Build, troubles: Sequence[Trouble] = (), **words: Any) -> None:
        """Describe it.

        Args:
            build: What the functions are started from.
            troubles: Each happens once.
            words: For the system.
        """
        self.system = System(build, **words)
        self.waiting = Waiting(troubles)
        self.tables: list[WrittenTable] = []
        self.visits: list[Visits] = []
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Begin."""
        self._open.enter_context(self.system)
        self.maintainers = Maintainers(self.system.clock, self.system.bucket, self.system.control_bucket)
        self.maintainers.watch(self.system.aws)
        self.live = LiveWatch(self.system.aws, self.system.bucket)
        self.requests = TroubledRequests(self.system, self.waiting)
        self.messages = TroubledMessages(self.system, self.waiting)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._open.close()

    def table(self, name: str, options: Mapping[str, str] = PLAIN, **words: Any) -> WrittenTable:
        """Begin a table."""
        table = WrittenTable(self.system, name, options, **words)
        self.requests.know(table.location)
        self.tables.append(table)
        return table

    def visited(self, name: str, **options: str) -> Visits:
        """Begin a partitioned table. While the function that commits to it waits, somebody else may write to it."""
        table = Visits(self.system, name, **options)
        self.requests.know(table.location)
        self.requests.writers[table.location] = lambda: table.write(table.day(-DAYS_TO_COME))
        self.visits.append(table)
        return table

    def undone(self) -> list[str]:
        """Let no more troubles happen and everything be done that waits, without a sweep, and return what is left."""
        self.waiting.is_over = True
        self.system.settle()
        return [difference for table in self.tables for difference in table.differences()]

    def end(self) -> list[str]:
        """Let no more troubles happen and everything heal, and return what is wrong then."""
        self.waiting.is_over = True
        try:
            healed = heal(self.system, self.maintainers, self.tables)
        except TimeoutError as error:
            return [str(error)]
        return [
            *([] if healed else ["the sweep finds something to do again and again"]),
            *(f"beside the functions: {error!r}" for error in self.requests.errors),
            *self.live.problems,
            *problems_of(self.system, [*self.tables, *self.visits], self.maintainers, self.messages.poison),
        ]
