"""`files`: the data files of one version of a table. This changes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.errors import RefusedError
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.operations.inspect.vectors import ShownVector, positions_of, vectors_of
from lakesweep.runs.parameters.time_travel import Version, resolve
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.reach.live_files import LiveFile, files_and_entries

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
    vectors: Mapping[str, ShownVector] | None = None
    """Path of a file -> its deletion vector; `None`: the caller did not ask for them."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "table": self.table,
            "branch": self.branch,
            "snapshot_id": self.snapshot_id,
            "tag": self.tag,
            "files": [self._file(file) for file in self.files],
        }

    def _file(self, file: LiveFile) -> dict[str, object]:
        document = {**file._asdict(), "partition": dict(file.partition)}
        if self.vectors is not None:
            vector = self.vectors.get(file.path)
            document["deletion_vector"] = None if vector is None else vector.to_json()
        return document


def list_files(
    table: Table,
    version: Version,
    *,
    falls_back_to_tags: bool = False,
    with_vectors: bool = False,
    with_positions: bool = False,
) -> TableFiles:
    """Return the data files of a version.

    Args:
        table: One branch of a table.
        version: The version.
        falls_back_to_tags: See `time_travel.resolve`.
        with_vectors: Also return where the deletion vectors of the files lie. This reads the index manifest.
        with_positions: Also return the deleted rows. This reads the index files.

    Raises:
        UsageError: More than one version was asked for.
        RefusedError: This is no table, the version does not exist, or metadata cannot be read. Vectors contradict
            metadata, or delete too many rows to list.
        FormatError: An index file is damaged.
        StorageError: A request failed.
    """
    store = table.store
    listing = discover(store)
    own = listing.branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    schema = read_schema(store, own)
    root = resolve(table, own, version, falls_back_to_tags=falls_back_to_tags)
    found = () if root is None else files_and_entries(store, schema, root)
    vectors: Mapping[str, ShownVector] | None = None
    if with_vectors or with_positions:
        vectors = {} if root is None else vectors_of(store, schema, root, found)
    if vectors and with_positions:
        vectors = positions_of(table, listing, vectors, {file.path: file.rows for file, _ in found})
    return TableFiles(
        table=table.ref.location,
        branch=table.ref.branch,
        snapshot_id=None if root is None else root.snapshot.id,
        tag=root.ref.name if root is not None and root.ref.kind == "tag" else None,
        files=tuple(file for file, _ in found),
        vectors=vectors,
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
