"""Find tables by their folders: in the layout of a warehouse (`name.db/table`), or in another, some levels deep."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lakesweep.errors import StorageError
from lakesweep.runs.database import is_table as has_schemas
from lakesweep.storage.store import Store

MAX_DEPTH = 4
"""Levels below a place in which Lakesweep looks for tables."""


@dataclass(frozen=True, slots=True)
class TableFolder:
    """A folder on the way to tables, or of a table."""

    location: str
    is_table: bool


def _raise(location: str, error: StorageError) -> None:
    raise error


def places_below(
    root: str,
    store: Store,
    after: str = "",
    apart_from: str = "",
    *,
    prefix: str = "",
    depth: int = 0,
    failed: Callable[[str, StorageError], None] = _raise,
) -> Iterator[TableFolder]:
    """Yield the folders below a place in the order of keys, and tell which of them are tables.

    Args:
        root: Location of the place.
        store: The store of the place.
        after: A location. It and all folders before it are left out and not listed.
        apart_from: A folder that holds no tables.
        prefix: Begin with this folder below the place.
        depth: How far below the place it is.
        failed: Called with a folder that could not be listed. What is below it is not yielded.

    Raises:
        StorageError: A folder could not be listed, and `failed` is not given.
    """
    location = f"{root}/{prefix}".rstrip("/")
    is_new = order_of(location) > order_of(after)
    if location == apart_from or not (is_new or order_of(after).startswith(order_of(location))):
        return
    is_database = prefix.rstrip("/").endswith(".db")
    try:
        names = list(store.folders(prefix))
        is_table = "snapshot" in names and "schema" in names
        if is_table and is_database:  # it may have tables that are called so
            is_table = has_schemas(store, prefix)
    except StorageError as error:
        failed(location, error)
        return
    if is_new:
        yield TableFolder(location, is_table)
    if is_table:
        return
    for name in names:
        if name.startswith((".", "_")):
            continue
        if not is_database and depth < MAX_DEPTH:
            below, deeper = f"{prefix}{name}/", depth + 1
            yield from places_below(root, store, after, apart_from, prefix=below, depth=deeper, failed=failed)
        elif is_database and order_of(f"{location}/{name}") > order_of(after):
            # The caller has to check whether it really is a table.
            yield TableFolder(f"{location}/{name}", is_table=True)


def order_of(location: str) -> str:
    """Return the sort key of a location: the order in which S3 lists, with each folder before its content."""
    return f"{location}/"
