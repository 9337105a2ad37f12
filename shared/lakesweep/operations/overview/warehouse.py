"""The overview of many tables: find them, recall what still holds, measure the others, and add up.

What was measured is remembered (`control/overviews.py`) while the overview works. So a call that is stopped or killed
loses little, and the next call continues.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakesweep.errors import RefusedError
from lakesweep.model.overview import Overview, TableOverview
from lakesweep.model.prices import PRICES_DATE, REGION
from lakesweep.model.progress import Progress, no_progress
from lakesweep.operations.inspect.explain.counting import REASONS
from lakesweep.operations.overview import processes
from lakesweep.operations.overview.here import looks_here
from lakesweep.operations.overview.looking import Look, Task, recall
from lakesweep.operations.overview.measured import Measured
from lakesweep.operations.overview.memory import Memory
from lakesweep.operations.overview.opening import Opening
from lakesweep.operations.overview.rules.order import DEFAULT, in_order
from lakesweep.operations.overview.rules.totals import totals_of
from lakesweep.operations.overview.tables import Found, FoundTable, find_tables
from lakesweep.storage.clock import wall_ms
from lakesweep.storage.requests import RequestCounter

THREADS = 16
"""Tables that are asked for their mark at the same time."""
THREADS_HERE = 4
"""Tables that this process measures at the same time, if it starts no others."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the caller wants."""

    order: str = DEFAULT
    """One of `rules.order.ORDERS`."""
    is_fresh: bool = False
    """Measure every table, whatever is remembered."""
    versions: bool = True
    """Count versions that are not current."""
    processes: int | None = None
    """Most processes that measure; 1: this one. `None`: as many as there are cores, and at most four."""


def overview(
    opening: Opening,
    places: Sequence[str],
    choices: Choices = Choices(),
    *,
    title: str | None = None,
    counter: RequestCounter | None = None,
    progress: Progress = no_progress,
) -> Overview:
    """Measure all tables of some places.

    Args:
        opening: Opens tables and control locations.
        places: Locations of warehouses, databases and tables; at least one.
        choices: What the caller wants.
        title: What the places are called together; by default the places.
        counter: Counts the requests.
        progress: Told how many folders were searched, then how many tables are done.

    Raises:
        UsageError: The only place is no location.
        RefusedError: There is no table at or below the places.
        StorageError: The only place could not be listed.
    """
    counter = counter or RequestCounter()
    found = find_tables(opening, places, counter, progress)
    work = _Work(opening, found, choices, counter, progress)
    work.run()
    tables = [*work.tables, *work.unsearched()]
    if not tables:
        raise RefusedError(
            f"{', '.join(places)}: expected at least one table, found {work.skipped} folders that are none",
            code="not_a_table",
        )
    return Overview(
        place=title or ", ".join(places),
        measured_ms=work.now_ms,
        prices_date=PRICES_DATE,
        region=REGION,
        totals=totals_of(tables, REASONS),
        tables=in_order(tables, choices.order),
        skipped=work.skipped,
        requests=counter.snapshot(),
        warnings=tuple(work.warnings()),
    )


class _Work:
    """The measuring of many tables."""

    def __init__(
        self, opening: Opening, found: Found, choices: Choices, counter: RequestCounter, progress: Progress
    ) -> None:
        self.now_ms = wall_ms() if found.now_ms is None else found.now_ms
        self.tables: list[TableOverview] = []
        self.skipped = 0
        self._opening = opening
        self._found = found
        self._choices = choices
        self._counter = counter
        self._progress = progress
        self._memory = Memory(opening, found.tables, counter, self.now_ms)

    def run(self) -> None:
        """Recall or measure each table. Whatever ends this, what was measured is stored."""
        self._memory.read()
        tasks = []
        try:
            for number, (table, recalled) in enumerate(self._recalled()):
                if recalled is None:
                    tasks.append(Task(number, table, self.now_ms, self._choices.versions))
                else:
                    self._memory.hold(table, recalled)
                    self._add(recalled.overview)
            self._tell()
            for look in self._looks(tasks):
                self._take(look)
        finally:
            self._memory.save()

    def unsearched(self) -> Iterator[TableOverview]:
        """Yield a row for each folder that could not be searched."""
        for each in self._found.unsearched:
            yield TableOverview(
                each.location, each.name, self.now_ms, problem=str(each.error), problem_code=each.error.code
            )

    def warnings(self) -> Iterator[str]:
        """Yield what the caller should know."""
        yield from self._memory.warnings
        if self._found.tables and not self._memory.is_kept:
            yield "no control location is known, so the next overview measures all tables again"

    def _recalled(self) -> Iterator[tuple[FoundTable, Measured | None]]:
        """Yield each table with what is remembered of it, `None` if it has to be measured."""

        def recalled(table: FoundTable) -> Measured | None:
            earlier = None if self._choices.is_fresh else self._memory.of(table)
            if earlier is None:
                return None
            return recall(self._opening, table, earlier, self._counter, versions=self._choices.versions)

        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="recalled")
        try:
            yield from zip(self._found.tables, pool.map(recalled, self._found.tables), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)

    def _looks(self, tasks: Sequence[Task]) -> Iterator[Look]:
        most = min(processes.cores(), processes.MOST) if self._choices.processes is None else self._choices.processes
        if most > 1 and len(tasks) >= processes.WORTH and processes.can_travel(self._opening):
            return processes.looks_of(self._opening, tasks, most)
        return looks_here(self._opening, tasks, THREADS_HERE)

    def _take(self, look: Look) -> None:
        for kind, count in look.requests.items():
            self._counter.add(kind, count)
        self._counter.add_read_bytes(look.read_bytes)
        if look.overview is None:
            self.skipped += 1
            self._tell()
        else:
            self._add(look.overview)
        if look.measured is not None:
            self._memory.keep(self._found.tables[look.number], look.measured)

    def _add(self, table: TableOverview) -> None:
        self.tables.append(table)
        self._tell()

    def _tell(self) -> None:
        self._progress("tables", len(self.tables) + self.skipped, len(self._found.tables))
