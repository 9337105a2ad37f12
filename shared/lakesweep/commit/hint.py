"""The hint LATEST after a commit. It only makes readers quicker: a reader trusts it if no later snapshot exists.

Lakesweep never writes EARLIEST. Source: Paimon `HintFileUtils`.
"""

from contextlib import suppress

from lakesweep.errors import MaintenanceError, PreconditionFailedError
from lakesweep.format.documents import parse_hint
from lakesweep.model.roots import BranchListing, branch_dir
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, latest_hint_of

_TIMES = 3
"""How often the hint is written while other writers write it, too."""


def write_hint(store: Store, branch: str, listing: BranchListing, snapshot_id: int) -> tuple[str, ...]:
    """Let LATEST name a new snapshot if it names an older one, and return warnings.

    Args:
        store: The table's store.
        branch: Its name.
        listing: The branch before the snapshot.
        snapshot_id: Of the snapshot.
    """
    document = listing.hints.get("snapshot/LATEST")
    path = f"{branch_dir(branch)}snapshot/LATEST"
    try:
        named = latest_hint_of(store, listing)
        etag = None if document is None else document.etag
        for _ in range(_TIMES):
            if named is not None and named >= snapshot_id:
                break
            with suppress(PreconditionFailedError):  # another writer has just written it
                store.put(path, str(snapshot_id).encode(), if_absent=etag is None, if_match=etag)
                break
            body = store.read(path, max_bytes=MAX_DOCUMENT_BYTES)
            named, etag = parse_hint(body.data), body.etag
    except MaintenanceError as error:
        return (f"{path} could not be written, so readers list the snapshots: {error}",)
    return ()
