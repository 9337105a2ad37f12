"""What concerns many tables: which there are, what they cost, and what was done to them."""

from dataclasses import replace
from os import PathLike
from typing import TypedDict, Unpack

from lakesweep.api.arguments import located, required, typed
from lakesweep.api.calling import Caller, speaking
from lakesweep.api.results import Document
from lakesweep.api.table import Table
from lakesweep.api.warehouse import PlaceOpening, with_options
from lakesweep.errors import UsageError
from lakesweep.model.progress import Progress, no_progress
from lakesweep.operations.overview.rules.order import DEFAULT, ORDERS
from lakesweep.operations.overview.tables import find_tables
from lakesweep.operations.overview.warehouse import Choices
from lakesweep.operations.overview.warehouse import overview as measure
from lakesweep.storage.requests import RequestCounter


class PlaceArguments(TypedDict, total=False):
    """Arguments of `Table` that say how to reach tables and what is known about them."""

    control: str | PathLike[str] | None
    policy: str | PathLike[str] | None
    endpoint_url: str | None
    region: str | None
    local_control: bool


def tables(place: str | PathLike[str], **settings: Unpack[PlaceArguments]) -> tuple[Table, ...]:
    """Return the tables of a warehouse or a database, by location. It lists folders and reads no table.

    Args:
        place: A local path or `s3://bucket/prefix`.
        settings: See `Table`: `control`, `policy` and so on, for each table.

    Raises:
        UsageError: The place is no location, or an argument is wrong.
        RefusedError: There is no table.
        StorageError: A folder could not be listed.
    """
    at = Table(place, **settings)
    with at._caller.listening(), speaking():
        found = find_tables(PlaceOpening(at._place), [at.location], RequestCounter(), at._caller.progress)
        for each in found.unsearched:
            raise each.error
    return tuple(Table(each.location, **settings) for each in sorted(found.tables, key=lambda each: each.location))


def overview(
    *places: str | PathLike[str],
    sort: str = DEFAULT,
    fresh: bool = False,
    versions: bool = True,
    processes: int | None = None,
    progress: Progress = no_progress,
    **settings: Unpack[PlaceArguments],
) -> Document:
    """Show below `tables` what the tables of some places cost, why, and on which one to act first.

    The control location remembers what was measured, so the next call measures only tables that have changed.

    Args:
        places: Warehouses, databases or tables.
        sort: Order of the tables: `urgency`, `saving`, `cost`, `bytes`, `small-files`, `snapshots` or `name`.
        fresh: Measure every table again.
        versions: Count versions that are not current, in buckets that keep them. Takes more requests.
        processes: Measure in up to so many processes; by default one for each core, and up to 4.
        progress: See `Table`.
        settings: See `Table`: `control`, `policy` and so on.

    Raises:
        UsageError: There is no place, or an argument is wrong.
        RefusedError: There is no table.
    """
    stated = [located("places", place) or "" for place in places]
    if not stated:
        raise UsageError("overview: expected a warehouse, a database or a table, found none", code="bad_argument")
    if sort not in ORDERS:
        raise UsageError(f"sort: expected {', '.join(ORDERS)}, found {sort!r}", code="bad_argument")
    most = typed("processes", processes, int)
    if most is not None and most < 1:
        raise UsageError(f"processes: expected a number from 1, found {most}", code="bad_argument")
    place = replace(Table(stated[0], **settings)._place, table="")
    caller = Caller(progress)
    choices = Choices(sort, required("fresh", fresh, bool), required("versions", versions, bool), most)
    with caller.listening(), speaking():
        found = measure(
            PlaceOpening(place), list(dict.fromkeys(stated)), choices, counter=RequestCounter(), progress=progress
        )
    return Document(with_options(found, place).to_json())
