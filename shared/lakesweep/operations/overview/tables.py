"""Find the tables of the places that somebody names: warehouses, databases, tables."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

from lakesweep.errors import MaintenanceError, OutOfTimeError, RefusedError
from lakesweep.model.progress import Progress, no_progress
from lakesweep.model.roots import check_whole
from lakesweep.operations.overview.opening import Opening
from lakesweep.runs.database import has_lost_schemas, is_table
from lakesweep.runs.table_folders import places_below
from lakesweep.storage.requests import RequestCounter

PARALLEL = 8
"""Places that are searched at the same time."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A folder that is a table, or that may be one since it lies in a database."""

    location: str
    name: str
    """As of `TableOverview`."""
    is_stated: bool = False
    """Somebody named this very table."""


@dataclass(frozen=True, slots=True)
class Unsearched:
    """A place or a folder that could not be searched, or a place without a table."""

    location: str
    name: str
    error: MaintenanceError


@dataclass(frozen=True, slots=True)
class Found:
    """What is at some places."""

    tables: tuple[FoundTable, ...]
    unsearched: tuple[Unsearched, ...]
    now_ms: int | None
    """The time by the clock of a place; `None`: no place could be searched."""


def find_tables(
    opening: Opening, places: Sequence[str], counter: RequestCounter, progress: Progress = no_progress
) -> Found:
    """Return the tables of some places. A table in several of them comes once.

    Args:
        opening: Opens the places.
        places: At least one.
        counter: Counts the requests.
        progress: Told how many folders were searched.

    Raises:
        MaintenanceError: There is only one place, and it could not be searched or has no table.
    """
    tables: dict[str, FoundTable] = {}
    unsearched: list[Unsearched] = []
    times_ms: list[int] = []
    folders = count(1)
    is_over = threading.Event()

    def each_folder() -> None:
        progress("folders searched", next(folders), None)
        if is_over.is_set():
            raise OutOfTimeError("the overview was stopped")

    def search(place: str) -> _Search | MaintenanceError:
        try:
            return _Search(opening, place, counter, each_folder)
        except MaintenanceError as error:
            return error

    pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="places")
    try:
        for place, found in zip(places, pool.map(search, places), strict=True):
            if isinstance(found, MaintenanceError):
                if len(places) == 1:
                    raise found
                unsearched.append(Unsearched(place, place, found))
                continue
            for table in found.tables:
                tables[table.location] = table if table.is_stated else tables.get(table.location, table)
            unsearched += found.unsearched
            times_ms.append(found.now_ms)
    finally:
        is_over.set()
        pool.shutdown(cancel_futures=True)
    return Found(tuple(tables.values()), tuple(unsearched), max(times_ms, default=None))


class _Search:
    """The tables at and below one place."""

    def __init__(self, opening: Opening, place: str, counter: RequestCounter, each_folder: Callable[[], None]) -> None:
        """Search.

        Args:
            opening: Opens the place.
            place: A warehouse, a database or a table.
            counter: Counts the requests.
            each_folder: Called after each folder that was listed.

        Raises:
            UsageError: This is no location, or the folder of a branch.
            RefusedError: There is no table.
            StorageError: The place itself could not be listed.
        """
        self.unsearched: list[Unsearched] = []
        store = opening.store(place, counter)
        self._root = store.location
        check_whole(self._root)
        is_single = is_table(store)
        self.now_ms = store.now_ms()
        if is_single:
            self.tables = [FoundTable(self._root, _stated_name(self._root), is_stated=True)]
            return
        control = opening.control(place) or ""

        def failed(location: str, error: MaintenanceError) -> None:
            if location == self._root:
                raise error
            self.unsearched.append(Unsearched(location, self._name(location), error))

        self.tables = []
        for folder in places_below(self._root, store, apart_from=control, failed=failed):
            each_folder()
            if folder.is_table and folder.location != self._root and not _is_of_branch(folder.location):
                self.tables.append(FoundTable(folder.location, self._name(folder.location)))
        if self.tables or self.unsearched:
            return
        if not has_lost_schemas(store, ""):
            raise RefusedError(
                f"{self._root}: expected a table, a database or a warehouse, found no table there or below",
                code="not_a_table",
            )
        self.tables = [FoundTable(self._root, _stated_name(self._root), is_stated=True)]

    def _name(self, location: str) -> str:
        below = location.removeprefix(f"{self._root}/")
        database = self._root.rpartition("/")[2]
        return f"{database}/{below}" if database.endswith(".db") else below


def _stated_name(location: str) -> str:
    *_, folder, name = f"/{location}".split("/")
    return f"{folder}/{name}" if folder.endswith(".db") else name


def _is_of_branch(location: str) -> bool:
    """Tell whether a folder belongs to a branch. A table without snapshots does not look like one, its branches do."""
    folder, _, name = location.rpartition("/")
    return folder.endswith("/branch") and name.startswith("branch-")


def folder_of(location: str) -> str:
    """Return the folder that a table lies in; of a table that is a whole bucket, the bucket."""
    folder = location.rpartition("/")[0]
    return location if folder.endswith(":/") else folder or "/"
