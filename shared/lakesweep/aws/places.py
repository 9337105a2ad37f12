"""Where tables are: the folders below the configured places of a deployment, in the order of keys.

Table sweeps visit these folders (`runs/table_folders.py`). A table sweep that runs out of time stores the last folder,
and the next part continues after it.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from heapq import merge
from itertools import groupby, islice
from typing import TypeVar

from lakesweep.aws.settings import Settings
from lakesweep.errors import OutOfTimeError
from lakesweep.model.safety import BATCH_RESERVE_MS
from lakesweep.runs.table_folders import TableFolder, order_of, places_below
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.deadline import Deadline

T = TypeVar("T")

PARALLEL = 8
"""Tables that are visited at the same time."""


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
        merge(*walks, key=lambda place: order_of(place.location)), key=lambda place: place.location
    ):
        if location != last:
            last = location
            yield TableFolder(location, any(place.is_table for place in found))


def looks_like_table(store: Store) -> bool:
    """Tell whether a folder has the subfolders of every table with a commit.

    Raises:
        StorageError: The request failed.
    """
    names = set(store.folders(""))
    return "snapshot" in names and "schema" in names
