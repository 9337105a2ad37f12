"""Where tables are: the folders below the configured places of a deployment, in the order of keys.

Lakesweep finds tables by their folders, in the layout of a warehouse (`name.db/table`) or in any other layout up to
some levels deep. Table sweeps visit these folders. A table sweep that runs out of time stores the last folder, and the
next part continues after it.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice
from typing import TypeVar

from lakesweep.aws.settings import Settings
from lakesweep.errors import OutOfTimeError
from lakesweep.model.safety import BATCH_RESERVE_MS
from lakesweep.runs.database import is_table as has_schemas
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.deadline import Deadline

T = TypeVar("T")

MAX_DEPTH = 4
"""Levels below a configured place in which Lakesweep looks for tables."""
PARALLEL = 8
"""Tables that are visited at the same time."""


@dataclass(frozen=True, slots=True)
class TableFolder:
    """A folder that a table sweep visits."""

    location: str
    is_table: bool


def visit(
    places: Iterator[TableFolder], deadline: Deadline, each: Callable[[TableFolder], T], take: Callable[[T], None]
) -> bool:
    """Visit folders until the deadline, and tell whether time sufficed for all of them.

    Args:
        places: The folders.
        deadline: When the caller's time is over.
        each: Visits a folder; several calls run at the same time.
        take: Gets the results in the order of the folders, without gaps even if time runs out.
    """
    with ThreadPoolExecutor(PARALLEL) as pool:
        while group := list(islice(places, 4 * PARALLEL)):
            try:
                for found in pool.map(each, group):
                    take(found)
                deadline.check("the table sweep", 2 * BATCH_RESERVE_MS)
            except OutOfTimeError:
                return False
    return True


def places_of(settings: Settings, cursor: str | None, counter: RequestCounter) -> Iterator[TableFolder]:
    """Yield the folders of a deployment after `cursor`. A folder below several configured places comes only once.

    Raises:
        StorageError: A folder could not be listed.
    """
    walks = (
        places_below(str(root), open_store(root, counter=counter), cursor or "", settings.control)
        for root in settings.tables
    )
    last = ""
    for location, found in groupby(
        merge(*walks, key=lambda place: _order(place.location)), key=lambda place: place.location
    ):
        if location != last:
            last = location
            yield TableFolder(location, any(place.is_table for place in found))


def places_below(
    root: str, store: Store, after: str = "", apart_from: str = "", *, prefix: str = "", depth: int = 0
) -> Iterator[TableFolder]:
    """Yield the folders below a place in the order of keys, and tell which of them are tables.

    Args:
        root: Location of the place.
        store: The store of the place.
        after: A location. It and all folders before it are left out and not listed.
        apart_from: A folder that holds no tables.
        prefix: Begin with this folder below the place.
        depth: How far below the place it is.

    Raises:
        StorageError: A folder could not be listed.
    """
    location = f"{root}/{prefix}".rstrip("/")
    is_new = _order(location) > _order(after)
    if location == apart_from or not (is_new or _order(after).startswith(_order(location))):
        return
    names = list(store.folders(prefix))
    is_database = prefix.rstrip("/").endswith(".db")
    is_table = "snapshot" in names and "schema" in names
    if is_table and is_database:  # it may have tables that are called so
        is_table = has_schemas(store, prefix)
    if is_new:
        yield TableFolder(location, is_table)
    if is_table:
        return
    for name in names:
        if name.startswith((".", "_")):
            continue
        if not is_database and depth < MAX_DEPTH:
            yield from places_below(root, store, after, apart_from, prefix=f"{prefix}{name}/", depth=depth + 1)
        elif is_database and _order(f"{location}/{name}") > _order(after):
            # The caller has to check whether it really is a table.
            yield TableFolder(f"{location}/{name}", is_table=True)


def looks_like_table(store: Store) -> bool:
    """Tell whether a folder has the subfolders of every table with a commit.

    Raises:
        StorageError: The request failed.
    """
    names = set(store.folders(""))
    return "snapshot" in names and "schema" in names


def _order(location: str) -> str:
    """Return the sort key of a location: the order in which S3 lists, with each folder before its content."""
    return f"{location}/"
