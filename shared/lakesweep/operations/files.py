"""`files`: the data files of one version of a table. Reads, changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.operations.context import Table
from lakesweep.operations.times import say_time
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.live_files import LiveFile, live_files

_CHUNKS = (1, 8, 64)
"""How many snapshot documents are read at a time while the one of a time is sought; the last repeats."""


@dataclass(frozen=True, slots=True)
class Version:
    """Which version of a table: at most one of these, none for the latest snapshot."""

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp_ms: int | None = None
    """The greatest snapshot that was committed at this time or before, in epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The data files of one version."""

    table: str
    branch: str
    snapshot_id: int | None
    """`None`: the branch has no snapshot, so no files."""
    files: tuple[LiveFile, ...]
    """Ascending by path."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "table": self.table,
            "branch": self.branch,
            "snapshot_id": self.snapshot_id,
            "files": [{**file._asdict(), "partition": dict(file.partition)} for file in self.files],
        }


def list_files(table: Table, version: Version) -> TableFiles:
    """Return the data files of a version.

    Raises:
        UsageError: More than one version was asked for.
        RefusedError: Not a table, no such version, or metadata that cannot be read.
        StorageError: A request failed.
    """
    if sum(value is not None for value in (version.snapshot_id, version.tag, version.timestamp_ms)) > 1:
        raise UsageError("expected at most one of --snapshot, --tag and --timestamp, found several")
    store = table.store
    listing = discover(store)
    own = listing.branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    schema = read_schema(store, own)
    root = _root_of(table, own, version)
    return TableFiles(
        table=table.ref.location,
        branch=table.ref.branch,
        snapshot_id=None if root is None else root.snapshot.id,
        files=() if root is None else live_files(store, schema, root),
    )


def _root_of(table: Table, own: BranchListing, version: Version) -> Root | None:
    if version.tag is not None:
        return _read(table, _one(table, [ref for ref in own.tags if ref.name == version.tag], f"tag {version.tag!r}"))
    if version.snapshot_id is not None:
        what = f"snapshot {version.snapshot_id}"
        return _read(table, _one(table, [ref for ref in own.snapshots if ref.id == version.snapshot_id], what))
    if version.timestamp_ms is not None:
        return _at(table, own, version.timestamp_ms)
    return _read(table, own.snapshots[-1]) if own.snapshots else None


def _one(table: Table, refs: Sequence[RootRef], what: str) -> RootRef:
    if not refs:
        raise RefusedError(
            f"table {table.ref}: expected {what}, found none; `lakesweep show` lists what there is",
            code="no_such_version",
        )
    return refs[0]


def _read(table: Table, ref: RootRef) -> Root:
    return read_all(table.store, [ref])[0]


def _at(table: Table, own: BranchListing, timestamp_ms: int) -> Root:
    for refs in newest_first(own.snapshots):
        for root in sorted(read_all(table.store, refs), key=lambda root: root.snapshot.id, reverse=True):
            if root.snapshot.time_ms <= timestamp_ms:
                return root
    raise RefusedError(
        f"table {table.ref}: expected a snapshot committed at {say_time(timestamp_ms)} or before, found none",
        code="no_such_version",
    )


def newest_first(refs: Sequence[RootRef]) -> Iterator[Sequence[RootRef]]:
    """Yield `refs`, which ascend, in chunks from the end, first small ones."""
    end, turn = len(refs), 0
    while end > 0:
        size = _CHUNKS[min(turn, len(_CHUNKS) - 1)]
        yield refs[max(0, end - size) : end]
        end, turn = end - size, turn + 1


def read_all(store: Store, refs: Sequence[RootRef]) -> tuple[Root, ...]:
    """Read root documents that must be there, in the order of `refs`.

    Raises:
        RefusedError: One vanished since it was listed, or is no valid root.
        StorageError: A read failed.
    """
    documents = read_roots(store, refs)
    for ref in documents.vanished:
        raise RefusedError(
            f"table {store.location}: {ref.path} vanished while it was read; expected it to stay, so try again",
            code="vanished",
        )
    return documents.roots
