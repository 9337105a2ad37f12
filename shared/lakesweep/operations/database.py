"""A whole database in one call: its tables, one after the other."""

from collections.abc import Iterator

from lakesweep.storage.store import Store


def is_table(store: Store) -> bool:
    """Tell whether a store's root may be a table: it has schemas.

    Raises:
        StorageError: The request failed.
    """
    return bool(store.folders_among(("schema",)))


def tables_of(store: Store) -> Iterator[str]:
    """Yield the names of the folders of a database that may be tables, in ascending order.

    Raises:
        StorageError: A request failed.
    """
    for name in store.folders(""):
        if any(True for _ in store.list(f"{name}/schema/")):
            yield name
