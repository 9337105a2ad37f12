"""What lies at a location that is no table: a database, a warehouse, other files, or nothing because of a typo."""

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from lakesweep.errors import MaintenanceError
from lakesweep.runs.database import has_lost_schemas, is_table
from lakesweep.runs.session import Table
from lakesweep.storage.location import Location, parse_location
from lakesweep.storage.store import Store

SHOWN = 10
"""This many names are shown."""
LOOKED_AT = 50
"""Lakesweep looks into this many folders."""


def whereabouts(table: Table) -> str | None:
    """Return a clause about what lies where a table was expected, `None` if that cannot be found out.

    Args:
        table: The location that was opened as a table.
    """
    try:
        return _at(table.store) or _near(table)
    except MaintenanceError:
        return None


def _at(store: Store) -> str | None:
    if has_lost_schemas(store, ""):
        return (
            "it is a damaged table, whose snapshots or manifests are there and whose schemas are gone; restore the "
            "folder schema/ from the bucket's versions or a backup"
        )
    folders = list(islice(store.folders(""), LOOKED_AT))
    tables = [name for name in folders if is_table(store, f"{name}/")]
    if tables:
        return f"it is a database; its tables are {_named(tables)}"
    databases = [name for name in folders if any(is_table(store, f"{name}/{each}/") for each in _below(store, name))]
    if databases:
        return f"it is a warehouse; its databases are {_named(databases)}"
    if folders:
        return f"it is a folder without tables; in it are {_named(folders)}"
    if next(iter(store.list("")), None) is not None:
        return "it is a folder of files"
    return None


def _near(table: Table) -> str:
    """Say that a folder is empty, or that nothing is there; then show similar names in the lowest folder above."""
    place, missing = parse_location(table.ref.location), ""
    while place.path not in ("", "/"):
        head, _, missing = place.path.rpartition("/")
        place = Location(place.scheme, place.bucket, head or ("/" if place.scheme == "file" else ""))
        folders = list(islice(table.open_store(str(place)).folders(""), 10 * LOOKED_AT))
        if missing in folders:
            return "it is an empty folder"
        if folders:
            like = get_close_matches(missing, folders, n=3, cutoff=0.5)
            above = str(place).rstrip("/")
            near = f"; did you mean {' or '.join(f'{above}/{name}' for name in like)}?" if like else ""
            return f"there is no {missing} in {place}{near}"
    return "nothing is there"


def _below(store: Store, folder: str) -> Iterator[str]:
    return islice(store.folders(f"{folder}/"), SHOWN)


def _named(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
