"""`files`: the data files of one version of a table. This changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import RefusedError
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.runs.parameters.time_travel import Version, resolve
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.reach.live_files import LiveFile, live_files

_CHUNKS = (1, 8, 64)
"""This many snapshot documents are read at a time, in the search for a time; the last number repeats."""


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The data files of one version."""

    table: str
    branch: str
    snapshot_id: int | None
    """`None`: the branch has no snapshot, so it has no files."""
    tag: str | None
    """The tag that holds the version, `None` if the snapshot itself was read."""
    files: tuple[LiveFile, ...]
    """Ascending by path."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "table": self.table,
            "branch": self.branch,
            "snapshot_id": self.snapshot_id,
            "tag": self.tag,
            "files": [{**file._asdict(), "partition": dict(file.partition)} for file in self.files],
        }


def list_files(table: Table, version: Version, *, falls_back_to_tags: bool = False) -> TableFiles:
    """Return the data files of a version.

    Args:
        table: One branch of a table.
        version: The version.
        falls_back_to_tags: See `time_travel.resolve`.

    Raises:
        UsageError: More than one version was asked for.
        RefusedError: This is no table, the version does not exist, or metadata cannot be read.
        StorageError: A request failed.
    """
    store = table.store
    listing = discover(store)
    own = listing.branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    schema = read_schema(store, own)
    root = resolve(table, own, version, falls_back_to_tags=falls_back_to_tags)
    return TableFiles(
        table=table.ref.location,
        branch=table.ref.branch,
        snapshot_id=None if root is None else root.snapshot.id,
        tag=root.ref.name if root is not None and root.ref.kind == "tag" else None,
        files=() if root is None else live_files(store, schema, root),
    )


def newest_first(refs: Sequence[RootRef]) -> Iterator[Sequence[RootRef]]:
    """Yield `refs`, which ascend, in chunks from the end; the first chunks are small."""
    end, turn = len(refs), 0
    while end > 0:
        size = _CHUNKS[min(turn, len(_CHUNKS) - 1)]
        yield refs[max(0, end - size) : end]
        end, turn = end - size, turn + 1


def read_all(store: Store, refs: Sequence[RootRef]) -> tuple[Root, ...]:
    """Read root documents that must exist, in the order of `refs`.

    Raises:
        RefusedError: A document vanished since it was listed, or is no valid root.
        StorageError: A read failed.
    """
    documents = read_roots(store, refs)
    for ref in documents.vanished:
        raise RefusedError(
            f"table {store.location}: {ref.path} vanished while it was read; try again",
            code="vanished",
        )
    return documents.roots
