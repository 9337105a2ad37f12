"""The ranges of keys with which the listing of a table begins.

Keys are usually spread evenly over folders, which are partitions and buckets. If a table is thought to be large,
Lakesweep cuts it between folders. The cut makes enough tasks that each ends within its budget. The estimate may be
wrong: a task splits a range that turns out longer, and a shorter range only costs a task.
"""

from collections.abc import Iterator
from itertools import islice
from math import ceil

from lakesweep.model.paths.layout import METADATA_FOLDERS
from lakesweep.operations.orphans.fan_out.limits import FILL, FIRST_PAGES, LIST_PAGES, MOST_FOLDERS, MOST_LOOKS
from lakesweep.operations.orphans.fan_out.tasks import ListTask
from lakesweep.operations.orphans.listing import Shard
from lakesweep.storage.keys import is_key
from lakesweep.storage.store import PAGE_KEYS, Store


def first_tasks(store: Store, objects: int, places: int) -> list[ListTask]:
    """Return the tasks with which the listing begins.

    Args:
        store: The table's store.
        objects: About how many objects there are below the table; 0 if unknown.
        places: Number of places to list: the table and its external roots.

    Raises:
        StorageError: A request failed.
    """
    pages = ceil(objects / PAGE_KEYS)
    wanted = ceil(pages / (LIST_PAGES * FILL))
    cuts = _cuts(store, wanted) if wanted > 1 else []
    budget = LIST_PAGES if cuts or 0 < wanted <= 1 else FIRST_PAGES
    ends: list[str | None] = [*cuts, None]
    shards = [Shard(0, after, until) for after, until in zip(["", *cuts], ends, strict=True)]
    tasks = [ListTask(f"list-0-{number}" if cuts else "list-0", shard, budget) for number, shard in enumerate(shards)]
    return [*tasks, *(ListTask(f"list-{place}", Shard(place), FIRST_PAGES) for place in range(1, places))]


def _cuts(store: Store, wanted: int) -> list[str]:
    """Return the keys that cut the table into about equal parts: at most `wanted` of them."""
    folders = [folder for folder in _below(store, [""]) if folder.rstrip("/") not in METADATA_FOLDERS]
    looks = 1
    while folders and len(folders) < 2 * wanted and looks + len(folders) <= MOST_LOOKS:
        deeper = list(_below(store, folders))
        looks += len(folders)
        if len(deeper) <= len(folders):
            break
        folders = deeper
    parts = min(wanted, len(folders))
    return [folders[number * len(folders) // parts] for number in range(1, parts)]


def _below(store: Store, folders: list[str]) -> Iterator[str]:
    for folder in folders:
        for name in islice(store.folders(folder), MOST_FOLDERS):
            if is_key(f"{folder}{name}"):  # a local folder may have a name that is not a valid key
                yield f"{folder}{name}/"
