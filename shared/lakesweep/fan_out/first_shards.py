"""The ranges of keys with which the listing of a table begins.

Folders are where keys go on evenly, as a rule: partitions and buckets. A table that is thought to be large is cut
between its folders, so that about as many tasks list at once as it takes, and each ends within its budget. What is
thought may be wrong: a range that turns out longer is split by the task that lists it, and one that is shorter costs a
task.
"""

from collections.abc import Iterator
from itertools import islice
from math import ceil

from lakesweep.fan_out.limits import FILL, FIRST_PAGES, LIST_PAGES, MOST_FOLDERS, MOST_LOOKS
from lakesweep.fan_out.tasks import ListTask
from lakesweep.model.layout import METADATA_FOLDERS
from lakesweep.operations.orphan_listing import Shard
from lakesweep.storage.keys import is_key
from lakesweep.storage.store import PAGE_KEYS, Store


def first_tasks(store: Store, objects: int, places: int) -> list[ListTask]:
    """Return the tasks with which the listing begins.

    Args:
        store: The table's.
        objects: About how many there are below the table; 0 where nobody knows.
        places: The table, and its external roots.

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
    """Return where to cut keys so that there is about the same between cuts: for `wanted` ranges, or fewer."""
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
            if is_key(f"{folder}{name}"):  # a local folder may have a name that is none
                yield f"{folder}{name}/"
