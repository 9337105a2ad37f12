"""What an attempt to commit builds on: the newest snapshot of a branch, and the newest schema.

Hints decide nothing here. A snapshot is known by its ETag and its bytes: after a rollback, another snapshot may have
its id.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakesweep.errors import StorageError
from lakesweep.format.schema import TableSchema
from lakesweep.model.roots import BranchListing, DocumentRef, Root, RootRef, branch_dir
from lakesweep.storage.store import Store, StoredObject
from lakesweep.storage.together import waits
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import read_roots, read_schema

_LOOKS = 5
"""A snapshot that was listed and is gone when it is read was rolled back or expired. So the listing is repeated."""


@dataclass(frozen=True, slots=True)
class Base:
    """What an attempt builds on."""

    root: Root
    """The newest snapshot of the branch, with its bytes."""
    schema: TableSchema
    """The newest schema of the branch."""
    schema_ref: DocumentRef
    since: tuple[Root, ...] = ()
    """On a later attempt: the snapshots after the former base, ascending, up to and including `root`."""
    first_schema_ms: int = 0
    """When the store wrote the first schema; see `model.commits.replaced.Around`."""
    is_restart: bool = False
    """The former base is gone or was changed, or the snapshots since are not all there. So nothing that was prepared
    may be used again."""

    @property
    def id(self) -> int:
        """Return the id of the snapshot."""
        return self.root.ref.id


def list_branch(store: Store, branch: str, folders: Sequence[str] = ("schema", "snapshot")) -> BranchListing:
    """List the snapshots and hints of a branch, and its schemas: a request for each folder and each 1 000 names.

    Raises:
        StorageError: A listing failed.
        RefusedError: There is a symbolic link among them.
    """

    def objects_in(folder: str) -> Sequence[StoredObject]:
        return list(store.list(f"{branch_dir(branch)}{folder}/"))

    if len(folders) > 1 and waits(store):
        # What one of them shows says nothing about the other, so their order does not matter.
        with ThreadPoolExecutor(len(folders), thread_name_prefix="branch") as pool:
            pages = list(pool.map(objects_in, folders))
    else:
        pages = list(map(objects_in, folders))
    listing = sort_listing(store.location, (entry for page in pages for entry in page))
    return listing.branches.get(branch, BranchListing(branch))


def read_base(store: Store, branch: str, former: Base | None = None) -> Base | None:
    """Return what a commit has to build on now, `None` if the branch has no snapshot.

    Args:
        store: The table's store, without a cache.
        branch: Its name.
        former: What an earlier attempt of this commit was built on.

    Raises:
        RefusedError: Lakesweep cannot parse the snapshot or the schema, or there is no table.
        StorageError: A request failed, or the snapshots changed during every look.
    """
    for _ in range(_LOOKS):
        listing = list_branch(store, branch)
        if not listing.snapshots:
            return None
        refs = _since(listing.snapshots, former)
        found = read_roots(store, refs or listing.snapshots[-1:])
        if found.vanished:
            continue
        if former is not None and listing.schemas and listing.schemas[-1] == former.schema_ref:
            schema = former.schema
        else:
            schema = read_schema(store, listing)
        return Base(
            root=found.roots[-1],
            schema=schema,
            schema_ref=listing.schemas[-1],
            since=found.roots if refs else (),
            first_schema_ms=listing.schemas[0].modified_ms,
            is_restart=former is not None and refs is None,
        )
    raise StorageError(
        f"table {store.location}: expected the newest snapshot of branch {branch} to remain, found it gone at each of "
        f"{_LOOKS} looks",
        code="changing",
    )


def _since(snapshots: Sequence[RootRef], former: Base | None) -> tuple[RootRef, ...] | None:
    """Return the snapshots after a former base; `None`: nothing that was prepared on it counts."""
    if former is None or former.root.ref not in snapshots:
        return None
    later = tuple(ref for ref in snapshots if ref.id > former.id)
    return later if all(ref.id == former.id + place for place, ref in enumerate(later, 1)) else None
