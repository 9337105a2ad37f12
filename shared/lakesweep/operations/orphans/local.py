"""Delete orphan files, found by this process alone: files that no root of any branch names.

The table is listed while its roots are read; `scan.py` says why that is safe.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice

from lakesweep.control.quarantine import Quarantine, read_quarantine, write_quarantine
from lakesweep.errors import MaintenanceError
from lakesweep.format.schema import TableSchema
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.paths.file_class import FileClasses
from lakesweep.model.paths.layout import nested_folder
from lakesweep.model.plan import Plan
from lakesweep.model.roots import DATA_KINDS, BranchListing, TableListing
from lakesweep.model.scans import PARALLELISM, OrphanArguments
from lakesweep.operations.orphans.outside import Outside, refuse_table, told_of_outside
from lakesweep.operations.orphans.rules.orphans import Orphan, Rules, Sorting, deletions
from lakesweep.operations.orphans.scan import (
    OPERATION,
    Scanned,
    cutoff_of,
    inventory_of,
    orphan_plan,
    own_branch,
    places_of,
    prefix_in,
    retained,
    stores_of,
)
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.storage.listing import list_all
from lakesweep.storage.store import Page, StoredObject
from lakesweep.storage.together import waits
from lakesweep.table.inventory.manifest import Inventory
from lakesweep.table.inventory.reach import Reach, reach_of, refuse_partial, refuse_too_old, settled_cutoff
from lakesweep.table.inventory.rows import list_inventory
from lakesweep.table.outside import OutsideRoot, classify_outside
from lakesweep.table.reach.capture import Capture, capture
from lakesweep.table.reach.missing import Missing, find_missing
from lakesweep.table.revalidation import revalidate

__all__ = ["OPERATION", "PARALLELISM", "OrphanArguments", "plan_remove_orphan_files"]

AHEAD_PAGES = 24
"""So many pages of the listing, about 10 MB, may wait until all roots are read."""


def plan_remove_orphan_files(table: Table, arguments: OrphanArguments) -> Plan:
    """Plan the deletion of a table's orphan files.

    Args:
        table: All branches of it.
        arguments: The arguments of the call.

    Raises:
        UsageError: An argument is invalid.
        RefusedError: The cutoff is too recent, this is no table, it has no roots, or a root cannot be understood.
        StorageError: A request failed; nothing can be concluded.
    """
    now_ms = table.store.now_ms()  # read before the first root is read; the safety of the scan rests on this order
    cutoff_ms = cutoff_of(table, arguments, now_ms)
    earlier = None
    if arguments.quarantine_ms is not None:
        earlier = read_quarantine(require_area(table))
    inventory = inventory_of(table, arguments)
    if inventory is not None:
        cutoff_ms = settled_cutoff(inventory, cutoff_ms)
    pages: Generator[Page, None, None]
    if inventory is None:
        pages = list_all(table.store, "", parallel=arguments.parallelism, window_pages=AHEAD_PAGES)
    else:
        pages = list_inventory(inventory, table.open_store(inventory.root), prefix_in(inventory, table))
    first: list[Page] = []
    admitted: list[tuple[BranchListing, TableSchema]] = []

    def admit(listing: TableListing) -> None:
        # A table of an unsupported type has no roots either. The error about its type says more, so it comes first.
        admitted.append(own_branch(table, listing))
        if inventory is None and waits(table.store) and any(listing.roots()):
            first.extend(islice(pages, 1))  # further pages arrive while the roots are read, which takes CPU time

    with closing(pages):
        may_be_small = inventory is None and waits(table.store)  # a local page would walk all folders
        found = capture(table.store, table.sleep, admit, may_be_small=may_be_small)
        own, schema = own_branch(table, found.listing, admitted[0])
        live = found.live
        if inventory is not None:
            refuse_too_old(str(table.ref), inventory, retained(found))
        sorting = Sorting(Rules(cutoff_ms, bool(live.damaged), _known(earlier, arguments, now_ms)), live.has, live.saw)
        outside = _list(table, found, sorting, arguments, _whole(table, inventory, chain(first, pages)))
    if inventory is not None:
        _confirm(table, sorting, arguments.parallelism)
    orphans = sorting.quarantine()
    if earlier is not None:
        write_quarantine(require_area(table), earlier, [_identity(orphan) for orphan in orphans], now_ms)
    # An inventory does not list younger files, so it cannot show that a file is missing.
    missing = find_missing(table.store, found, lambda: stores_of(table, found)) if inventory is None else Missing()
    going = [orphan.size_bytes for orphan in sorting.orphans if orphan.kind in DATA_KINDS]
    scanned = Scanned(
        found, own, schema, now_ms, cutoff_ms, sorting.totals, outside, missing, len(going), sum(going), inventory
    )
    return orphan_plan(table, arguments, scanned, deletions(sorting.orphans, say_time))


def _known(
    earlier: Quarantine | None, arguments: OrphanArguments, now_ms: int
) -> Callable[[str, str, int], bool] | None:
    if earlier is None or arguments.quarantine_ms is None:
        return None
    before_ms = now_ms - arguments.quarantine_ms
    return lambda key, etag, modified_ms: earlier.is_known(key, etag, modified_ms, before_ms)


def _whole(table: Table, inventory: Inventory | None, pages: Iterable[Page]) -> Iterator[Page]:
    """Yield the pages. At the end, make sure that the pages of an inventory cover the whole table.

    Raises:
        RefusedError: The inventory leaves out a part of the table.
    """
    reach = Reach()
    for page in pages:
        if inventory is not None:
            reach += reach_of(page)
        yield page
    if inventory is not None:
        refuse_partial(str(table.ref), table.store, inventory, reach)


def _confirm(table: Table, sorting: Sorting, parallelism: int) -> None:
    """Keep objects that no longer exist exactly as the inventory lists them."""
    sorting.orphans = list(dict.fromkeys(sorting.orphans))  # an inventory may list an object twice
    inside = [orphan for orphan in sorting.orphans if not is_external(orphan.key)]
    sorting.confirm(revalidate(table.store, map(_candidate, inside), parallel=parallelism), is_external)


def _candidate(orphan: Orphan) -> StoredObject:
    return StoredObject(orphan.key, orphan.size_bytes, orphan.etag, orphan.modified_ms)


def _identity(orphan: Orphan) -> tuple[str, str, int]:
    return orphan.key, orphan.etag, orphan.modified_ms


def _list(
    table: Table, found: Capture, sorting: Sorting, arguments: OrphanArguments, pages: Iterable[Page]
) -> list[Outside]:
    """Sort all objects of the table, which are in `pages`, and all objects below its external roots."""
    classes, roots = places_of(table, found.listing, arguments)
    nested: set[str] = set()
    totals = sorting.totals
    for page in pages:
        sorting.add([(each.key, each, classes.classify(each.key)) for each in page])
        nested.update(folder for each in page if (folder := nested_folder(each.key)) is not None)
        table.progress("objects listed", totals.objects, None)
    sorting.spare(nested)
    return [_list_outside(table, root, sorting, classes, arguments.parallelism) for root in roots]


def _list_outside(table: Table, root: OutsideRoot, sorting: Sorting, classes: FileClasses, parallelism: int) -> Outside:
    """Sort the objects below an external root. If other tables may use the root, the objects are only counted.

    Raises:
        RefusedError: The caller declared the root as owned, but it holds another table.
    """
    chunked = sorting if root.is_owned else Sorting(sorting.rules, sorting.is_live, sorting.saw)
    others = [0, 0]
    try:
        for page in list_all(table.open_store(root.location), "", parallel=parallelism):
            if root.is_owned:
                for each in page:
                    refuse_table(str(table.ref), root.location, each.key)
            chunked.add((f"{root.location}/{each.key}", each, classify_outside(classes, each.key)) for each in page)
            if not root.is_owned:  # these include all files of other tables, so they are counted and dropped
                others[0] += len(chunked.orphans)
                others[1] += sum(orphan.size_bytes for orphan in chunked.orphans)
                chunked.orphans.clear()
            seen = sorting.totals.objects + chunked.totals.objects
            table.progress("objects listed", seen, None)
    except MaintenanceError as error:
        if root.is_owned:
            raise
        return told_of_outside(root.location, chunked.totals, others, is_owned=False, problem=str(error))
    return told_of_outside(root.location, chunked.totals, others, is_owned=root.is_owned)
