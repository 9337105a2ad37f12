"""Keep a table's metadata from one run to the next, so that a run reads only new metadata."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakesweep.control.area import ControlArea
from lakesweep.control.cache import fetch_cache, unpack_cache, write_cache
from lakesweep.errors import MaintenanceError
from lakesweep.model.identity import table_identity
from lakesweep.model.roots import Root, TableListing
from lakesweep.runs.session import Table
from lakesweep.storage.together import both, waits
from lakesweep.storage.wrappers.remembering import IMMUTABLE_FOLDER, RememberingStore
from lakesweep.table.discover import discover


def listed(table: Table) -> tuple[TableListing, int, Table]:
    """List a table. Return the listing, the time right after it, and the table as `remembering` does.

    The cache is not waited for any longer. It may be read at the same time as the listing, since any cache may be older
    than a listing. Its documents hold only for the ETags of the listing, and the cache only for the identity of the
    table that was listed.
    """
    area = table.area
    if area is None or not area.remembers or table.memory.is_loaded or not waits(table.store):
        listing, now_ms = _list(table)
        return listing, now_ms, remembering(table, listing)
    (listing, now_ms), data = both(lambda: _list(table), lambda: fetch_cache(area))
    _load(table, area, table_identity(listing), data)
    return listing, now_ms, remembering(table, listing)


def _list(table: Table) -> tuple[TableListing, int]:
    """List a table, and return the time before the cache can take any."""
    return discover(table.store), table.store.now_ms()


def remembering(table: Table, listing: TableListing) -> Table:
    """Return the table with a store that knows the metadata that earlier runs have read.

    Without a control location, or with the cache switched off, nothing is kept.
    """
    if table.area is None:
        return table
    identity = table_identity(listing)
    if not table.memory.is_loaded or table.memory.identity != identity:
        is_asked = identity and table.area.remembers
        _load(table, table.area, identity, fetch_cache(table.area) if is_asked else None)
    etags = {ref.path: ref.etag for ref in listing.roots()}
    for branch in listing.branches.values():
        etags |= {document.path: document.etag for document in (*branch.schemas, *branch.consumers)}
    return replace(table, store=RememberingStore(table.store, table.memory, etags))


def remembering_manifests(table: Table) -> Table:
    """Return the table with a store that reads no manifest of moderate size twice in this run."""
    if isinstance(table.store, RememberingStore):
        return table
    return replace(table, store=RememberingStore(table.store, table.memory, {}))


def _load(table: Table, area: ControlArea, identity: str, data: bytes | None) -> None:
    known = unpack_cache(area, data, identity=identity) if identity else {}
    table.memory.load(known, identity)


def invalidate(table: Table, names: Iterable[str | None]) -> None:
    """Invalidate the newest snapshot's cached lists or manifests: it must be complete before older snapshots expire."""
    table.memory.forget(f"{IMMUTABLE_FOLDER}{name}" for name in names if name is not None)


def invalidate_changelogs(table: Table, roots: Iterable[Root], options: Mapping[str, str]) -> None:
    """Invalidate the lists of changelogs without a list of their own, if writers produce changelog files.

    In that case such lists are deleted with the snapshot. If they are gone, the changelog needs nothing
    (`RootFiles.is_bare`). Another program, or a run that finished a plan, may have deleted them since they were cached.
    """
    if options.get("changelog-producer", "none").lower() == "none":
        return
    for root in roots:
        if root.ref.kind == "changelog" and root.snapshot.changelog_manifest_list is None:
            invalidate(table, (root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list))


def is_kept(table: Table) -> bool:
    """Tell whether there is something to keep, and so a put."""
    is_asked = table.area is not None and table.area.remembers
    return is_asked and table.memory.has_changed and bool(table.memory.identity)


def keep(table: Table) -> None:
    """Keep what a run has read, if any of it is new. A failure to do so does not affect the run."""
    if table.area is None or not is_kept(table):
        return
    try:
        write_cache(table.area, table.memory.worth_keeping(), identity=table.memory.identity)
    except MaintenanceError:
        return
    table.memory.learned, table.memory.is_full = 0, False
