"""Find what a tag is made of: a snapshot, or a tag that still holds one that has expired.

As the engine does it. A snapshot is asked for by its id, or it is the first one of a time or of a watermark. A snapshot
whose document is gone lives on in its tags, so those are searched as well.

Source: Paimon `AbstractFileStoreTable#findSnapshot`, `CreateTagFromTimestampProcedure`,
`CreateTagFromWatermarkProcedure`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.format.snapshot import Snapshot
from lakesweep.format.tag import parse_tag
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.model.table_ref import branch_dir
from lakesweep.operations.context import Table
from lakesweep.operations.times import say_time
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_roots

NO_SNAPSHOT = "no_such_snapshot"
NO_TAG = "no_such_tag"


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of a branch, read."""

    whole: tuple[Root, ...]
    """Ascending by snapshot id, then by name."""
    unreadable: tuple[tuple[RootRef, str], ...] = ()
    """Those that do not parse, and what is wrong with them."""


def list_own(table: Table, *folders: str) -> BranchListing:
    """Return what lies in folders of the branch, each listed anew; the others are empty.

    Raises:
        StorageError: A listing failed.
        RefusedError: A symbolic link stands where roots live.
    """
    store, branch = table.store, table.ref.branch
    entries = [entry for folder in folders for entry in store.list(f"{branch_dir(branch)}{folder}/")]
    return sort_listing(store.location, entries).branches.get(branch) or BranchListing(branch)


def read_tags(store: Store, refs: Sequence[RootRef]) -> Tags:
    """Read tags. One that vanished meanwhile is none any more; one that does not parse is told apart.

    Raises:
        StorageError: A read failed.
    """
    whole: list[Root] = []
    unreadable: list[tuple[RootRef, str]] = []
    bodies = read_many(store, [ref.path for ref in refs], max_bytes=MAX_DOCUMENT_BYTES)
    for ref, (_, body) in zip(refs, bodies, strict=True):
        if isinstance(body, ObjectNotFoundError):
            continue
        if isinstance(body, StorageError):
            if body.code != "too_large":
                raise body
            unreadable.append((ref, str(body)))
            continue
        try:
            whole.append(Root(ref, parse_tag(body.data, ref.path).snapshot, body.data))
        except (FormatError, RefusedError) as error:
            unreadable.append((ref, str(error)))
    return Tags(tuple(sorted(whole, key=lambda root: (root.snapshot.id, root.ref.name))), tuple(unreadable))


def newest(table: Table, own: BranchListing) -> Root:
    """Return the newest snapshot of the branch.

    Raises:
        RefusedError: There is none, or it is no valid snapshot document.
    """
    if not own.snapshots:
        raise RefusedError(f"table {table.ref}: no snapshot to tag; expected one", code=NO_SNAPSHOT)
    return _read(table, own.snapshots[-1])


def of_id(table: Table, own: BranchListing, snapshot_id: int) -> Root:
    """Return a snapshot, or a tag that holds it.

    Raises:
        RefusedError: Neither is there, or it is no valid document.
    """
    for ref in own.snapshots:
        if ref.id == snapshot_id:
            return _read(table, ref)
    for root in read_tags(table.store, list_own(table, "tag").tags).whole:
        if root.snapshot.id == snapshot_id:
            return root
    there = f"{own.snapshots[0].id} to {own.snapshots[-1].id}" if own.snapshots else "none"
    raise RefusedError(
        f"table {table.ref}: no snapshot {snapshot_id}, and no tag of it, either; expected one of the snapshots that "
        f"are there ({there}) or that a tag holds",
        code=NO_SNAPSHOT,
    )


def of_tag(table: Table, name: str) -> Root:
    """Return a tag.

    Raises:
        RefusedError: It is not there, or does not parse.
    """
    for ref in list_own(table, "tag").tags:
        if ref.name == name:
            return _read(table, ref)
    raise RefusedError(f"table {table.ref}: no tag {name!r}; expected it there", code=NO_TAG)


def of_time(table: Table, own: BranchListing, timestamp_ms: int) -> Root:
    """Return the first snapshot that was committed at a time or later.

    A tag whose snapshot was committed then, and before the first one that is left, is what the caller means: that
    snapshot has expired.

    Raises:
        RefusedError: There is none, or one that had to be read is no valid document.
    """
    found = _first(table, own.snapshots, lambda snapshot: snapshot.time_ms, timestamp_ms)
    for root in read_tags(table.store, list_own(table, "tag").tags).whole:
        if root.snapshot.time_ms >= timestamp_ms:
            if found is None or root.snapshot.time_ms < found.snapshot.time_ms:
                found = root
            break
    if found is None:
        raise RefusedError(
            f"table {table.ref}: no snapshot was committed at {say_time(timestamp_ms)} or later; expected one",
            code=NO_SNAPSHOT,
        )
    return found


def of_watermark(table: Table, own: BranchListing, watermark: int) -> Root:
    """Return the first snapshot with a watermark or a higher one; else as `of_time`.

    Raises:
        RefusedError: There is none, or one that had to be read is no valid document.
    """
    found = _first(table, own.snapshots, lambda snapshot: snapshot.watermark, watermark)
    for root in read_tags(table.store, list_own(table, "tag").tags).whole:
        mark = root.snapshot.watermark
        if mark is not None and mark >= watermark:
            if found is None or mark < (found.snapshot.watermark or 0):
                found = root
            break
    if found is None:
        raise RefusedError(
            f"table {table.ref}: no snapshot has watermark {watermark} or a higher one; expected one", code=NO_SNAPSHOT
        )
    return found


def _first(
    table: Table, refs: Sequence[RootRef], value_of: Callable[[Snapshot], int | None], wanted: int
) -> Root | None:
    """Return the first snapshot whose value is at least `wanted`, by halving: values grow with ids.

    A snapshot without a value stands where the one before it does.
    """
    low, high, found = 0, len(refs), None
    while low < high:
        middle = at = (low + high) // 2
        root = _read(table, refs[at])
        while value_of(root.snapshot) is None and at > low:
            at -= 1
            root = _read(table, refs[at])
        value = value_of(root.snapshot)
        if value is not None and value >= wanted:
            found, high = root, at
        else:
            low = middle + 1
    return found


def _read(table: Table, ref: RootRef) -> Root:
    documents = read_roots(table.store, [ref])
    if documents.vanished:
        raise RefusedError(
            f"table {table.ref}: {ref.path} vanished while it was read; expected it to stay", code=NO_SNAPSHOT
        )
    return documents.roots[0]
