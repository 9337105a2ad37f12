"""What the record of an erasure says, and this call, put together for a report."""

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_

from lakesweep.model.commits.erasure import ErasureReport, remaining
from lakesweep.model.erasure.places import OLD_CACHES, ErasedFiles, Place
from lakesweep.model.erasure.record import Changed, Erasure, Looked, Searched
from lakesweep.operations.erasure.places.copies import came_back
from lakesweep.operations.erasure.places.look import look
from lakesweep.operations.erasure.recording import COMMITS
from lakesweep.operations.erasure.task import Task
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.view import TableView

BACK = (
    "a rollback may have brought the rows back since the search, so nothing expires; run --finish again with the "
    "condition, which searches and erases them"
)


def union_of(erasure: Erasure | None) -> ErasedFiles | None:
    """Return the files that all searches found; `None`: there was none."""
    found = [] if erasure is None else [each.erased for each in erasure.searches]
    return reduce(or_, found) if found else None


def keys_of(erasure: Erasure | None) -> tuple[str, ...]:
    """Return the partition keys that the condition names."""
    found = () if erasure is None else erasure.searches
    return tuple(dict.fromkeys(key for each in found for key in each.keys))


def erased_ms(erasure: Erasure | None) -> int | None:
    """Return when the rows left the newest version for good; `None`: they have not."""
    times = [
        entry.at_ms
        for entry in (() if erasure is None else erasure.entries)
        if isinstance(entry.fact, Changed) and entry.fact.operation in COMMITS and entry.fact.snapshots
    ]
    return max(times, default=None)


def erased_id(erasure: Erasure | None) -> int:
    """Return the snapshot with which they left it; 0: none."""
    changes = () if erasure is None else erasure.changes
    return max((number for each in changes if each.operation in COMMITS for number in each.snapshots), default=0)


def clean_ms(erasure: Erasure | None) -> int | None:
    """Return when a look first saw no place that may have the rows, but old versions of the cache; `None`: never.

    What was searched or committed later makes it unknown again.
    """
    found = None
    for entry in () if erasure is None else erasure.entries:
        if not isinstance(entry.fact, Looked):
            found = None if isinstance(entry.fact, Searched) or entry.fact.operation in COMMITS else found
        elif any(place.words != OLD_CACHES and remaining([place]) for place in entry.fact.places):
            found = None
        elif found is None:
            found = entry.at_ms
    return found


def looked(
    view: TableView, erasure: Erasure | None, erased: ErasedFiles | None, keys: Collection[str]
) -> tuple[Place, ...]:
    """Look at every place, by what the record says; see `look`."""
    return look(
        view,
        erased or ErasedFiles(0),
        erased_ms=erased_ms(erasure),
        erased_id=erased_id(erasure),
        clean_ms=clean_ms(erasure),
        keys=keys,
    )


def may_be_back(view: TableView, erasure: Erasure, erased: ErasedFiles | None) -> bool:
    """Tell whether nobody has searched files that may have the rows again. What expires then tells no more."""
    return erased is not None and came_back(view, erased, erased_ms(erasure), erased_id(erasure))


def shown(
    erasure: Erasure | None,
    task: Task | None,
    catalog: Catalog,
    *,
    rows: int,
    erased: ErasedFiles | None,
    places: Sequence[Place],
) -> ErasureReport:
    """Return what a report says.

    Args:
        erasure: The record, if there is one.
        task: The condition of this call, if it has one.
        catalog: What is declared about the catalog.
        rows: Rows that leave the newest version.
        erased: The files that have such rows.
        places: Where the rows can be.
    """
    searches = () if erasure is None else erasure.searches
    condition, zone = "", None
    if task is not None:
        condition, zone = str(task.where), task.where.zone if task.where.depends_on_zone else None
    elif searches:
        condition, zone = searches[0].condition, searches[0].zone
    return ErasureReport(
        erasure=erasure.run_id if erasure is not None and erasure.entries else None,
        condition=condition,
        zone=zone,
        rows=rows,
        erased=erased or ErasedFiles(0),
        places=tuple(places),
        catalog=catalog.type,
    )
