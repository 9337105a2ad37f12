"""Write the index files of one group: former vectors and the changes to them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.commit.index_files import put_vectors, refuse_external, target_size
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.manifest import IndexEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.combined import union, without
from lakesweep.format.vectors.index_file import read_index_file
from lakesweep.format.vectors.vector import DeletionVector, read_vector, vector_of
from lakesweep.operations.repair.vectors import path_within
from lakesweep.operations.rows.groups import Group
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MAX_METADATA_BYTES
from lakesweep.table.paths import TablePaths
from lakesweep.table.vectors import CORRUPT_VECTORS


@dataclass(frozen=True, slots=True)
class WrittenGroup:
    """The index files of one group. It pickles."""

    entries: tuple[IndexEntry, ...] = ()
    """For the index manifest."""
    changed_rows: int = 0
    """How many rows the vectors have more than before, or fewer if positions were taken out; of `Group.positions`."""


def write_group(
    store: Store, schema: TableSchema, group: Group, before_each: Callable[[], None] = lambda: None
) -> WrittenGroup:
    """Write the index files of a group.

    Args:
        store: The table's store.
        schema: The latest schema of the branch.
        group: The group.
        before_each: Called before each file; may raise.

    Raises:
        RefusedError: A former index file is missing or damaged (`corrupt_vectors`), or files lie outside the table
            (`external_paths`).
        UnsupportedFormatError: pyroaring is missing.
        StorageError: A request failed. Some new files may exist; they are orphans.
    """
    refuse_external(store, schema)
    try:
        vectors, changed = _changed(group, dict(_former(store, schema, group)))
        entries = [
            entry
            for each in _files(vectors, is_bucketed=target_size(schema) is None)
            for entry in put_vectors(store, schema, group.partition, group.bucket, each, before_each)
        ]
    except (FormatError, ValueError) as error:  # a position may be too large for a narrow vector
        raise _corrupt(store, str(error)) from error
    return WrittenGroup(tuple(entries), changed)


def _files(
    vectors: Mapping[str, DeletionVector], *, is_bucketed: bool
) -> Iterator[Sequence[tuple[str, DeletionVector]]]:
    """Yield what lies in index files of its own: vectors of one width, since other writers ignore the table's width.

    Vectors of a bucket lie in one file, whatever their widths. Of two, Paimon's next commit would keep one.
    """
    if is_bucketed:
        yield tuple(vectors.items())
        return
    for width in sorted({vector.width for vector in vectors.values()}):
        yield [(name, vector) for name, vector in vectors.items() if vector.width == width]


def _former(store: Store, schema: TableSchema, group: Group) -> Iterator[tuple[str, DeletionVector]]:
    paths = TablePaths(schema)
    for entry in group.former:
        path = path_within(entry, paths)
        try:
            body = store.read(path, MAX_METADATA_BYTES).data
        except ObjectNotFoundError as error:
            raise _corrupt(store, f"{path} does not exist") from error
        yield from zip((vector[0] for vector in entry.vectors), read_index_file(body, entry, path), strict=True)


def _changed(group: Group, former: dict[str, DeletionVector]) -> tuple[dict[str, DeletionVector], int]:
    """Return the vectors of the new index files, and by how many rows they changed."""
    vectors = {name: vector for name, vector in former.items() if name not in group.leaving}
    changed = 0
    for name, blob in group.positions.items():
        positions, old = read_vector(blob, None, "positions of rows"), vectors.pop(name, None)
        before = 0 if old is None else old.cardinality
        new: DeletionVector | None
        if group.takes_out:
            new = None if old is None else without(old, positions)
        else:
            new = union(old or vector_of((), group.width), positions)
        if new is not None:
            vectors[name] = new
        changed += abs((0 if new is None else new.cardinality) - before)
    return vectors, changed


def _corrupt(store: Store, problem: str) -> RefusedError:
    return RefusedError(
        f"table {store.location}: {problem}; nothing is committed, since deleted rows could return. lakesweep check "
        "TABLE says more",
        code=CORRUPT_VECTORS,
    )
