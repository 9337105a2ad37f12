"""The tables that a control location has documents of."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from lakesweep.control.area import MAX_JSON_BYTES, ControlArea, from_json_bytes, table_key
from lakesweep.errors import FormatError, ObjectNotFoundError, StorageError
from lakesweep.storage.pools import threads
from lakesweep.storage.store import Store

_PARALLEL = 16


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table that a control location has documents of."""

    key: str
    area: ControlArea | None
    """`None`: no document names the table, or one names a table that does not fit its folder."""


def is_control_location(store: Store) -> bool:
    """Tell whether a place is a control location rather than a table."""
    found = store.folders_among(("tables", "snapshot", "schema"))
    return "tables" in found and not found & {"snapshot", "schema"} and any(True for _ in store.folders("tables/"))


def known_tables(store: Store, after: str = "") -> Iterator[KnownTable]:
    """Yield the tables of a control location, by the names of their folders; only those after one, if it is named.

    A folder's name has a hash of the table's location; a report or a plan in the folder states the location.

    Raises:
        StorageError: A request failed.
    """
    for key in store.folders("tables/"):
        if after and f"{key}/" <= f"{after}/":
            continue
        yield _known(store, key)


def all_known_tables(store: Store) -> Iterator[KnownTable]:
    """Yield all of `known_tables`, for a caller that wants them all: many are looked up at a time.

    Raises:
        StorageError: A request failed.
    """
    with threads(_PARALLEL, "known-tables") as pool:
        yield from pool.map(partial(_known, store), store.folders("tables/"))


def _known(store: Store, key: str) -> KnownTable:
    location = _location(store, key)
    return KnownTable(key, None if location is None or table_key(location) != key else ControlArea(store, location))


def _location(store: Store, key: str) -> str | None:
    for folder in ("reports/", "plans/"):
        for page in store.list_range(f"tables/{key}/{folder}"):
            for entry in page:
                if entry.is_link or not entry.key.endswith(".json"):
                    continue
                try:
                    document = from_json_bytes(store.read(entry.key, MAX_JSON_BYTES).data, entry.key)
                except (FormatError, ObjectNotFoundError):
                    continue
                except StorageError as error:
                    if error.code != "too_large":
                        raise
                    continue
                inner = document.get("report") if folder == "reports/" else document
                table = inner.get("table") if isinstance(inner, dict) else None
                if isinstance(table, str):
                    return table
    return None
