"""A whole database in one call: its tables, one after another."""

import re
from collections.abc import Iterator

from lakesweep.format.names import schema_id_of
from lakesweep.storage.store import Store

_OF_TABLES = ("snapshot", "manifest")
_DOCUMENT = re.compile(r"(?:snapshot-|index-manifest-|manifest-)[^/]*|EARLIEST|LATEST")


def is_table(store: Store, folder: str = "") -> bool:
    """Tell whether a folder may be a table: it has schemas.

    A database may have a table called `schema`, whose files lie in folders below it. So this looks for schema
    documents, not for the folder. It costs one request.

    Args:
        store: The store of the folder, or of a folder above it.
        folder: Ends with a slash. The empty string means the store's root.

    Raises:
        StorageError: The request failed.
    """
    prefix = f"{folder}schema/"
    pages = store.list_range(prefix, f"{prefix}schema-", f"{prefix}schema-:")  # the character after the digits
    return any(schema_id_of(entry.key.removeprefix(prefix)) is not None for page in pages for entry in page)


def tables_of(store: Store) -> Iterator[str]:
    """Yield the names of the folders of a database that may be tables, in ascending order.

    A table that has lost its schemas is included, so that the operation on it reports the loss.

    Raises:
        StorageError: A request failed.
    """
    for name in store.folders(""):
        if is_table(store, f"{name}/") or has_lost_schemas(store, f"{name}/"):
            yield name


def has_lost_schemas(store: Store, folder: str) -> bool:
    """Tell whether a folder without a schema has documents that only tables have.

    Args:
        store: The store of the folder, or of a folder above it.
        folder: Ends with a slash. The empty string means the store's root.

    Raises:
        StorageError: A request failed.
    """
    for below in _OF_TABLES:
        prefix = f"{folder}{below}/"
        first = next(iter(store.list(prefix)), None)
        # A database may have a table called `snapshot`, whose files lie in folders below it.
        if first is not None and _DOCUMENT.fullmatch(first.key.removeprefix(prefix)):
            return True
    return False
