"""Which index files a deletion of rows writes anew, and what they get.

An index file has vectors of several data files. If one of them changes, the index file is left out of the index, and
new ones get all of its vectors: the changed ones, and copies of the others. Index files of one partition go into one
*group*, which one task writes. Source: Paimon `AppendDeleteFileMaintainer`.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.manifest import DELETION_VECTORS, IndexEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.options import parse_bool
from lakesweep.format.vectors.index_file import widths_of
from lakesweep.format.vectors.vector import Width
from lakesweep.model.reading.plan import ReadFile
from lakesweep.table.paths import TablePaths
from lakesweep.table.vectors import CORRUPT_VECTORS

_BITMAP64 = "deletion-vectors.bitmap64"
MOST_GROUP_BYTES = 32 << 20
"""A group is closed before its index files and new positions get larger; one index file is never divided."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of the vector of one data file."""

    file: ReadFile
    blob: bytes | None = field(repr=False)
    """Positions that it gets, or loses, as the bytes of a vector; `None`: the data file leaves the table."""


@dataclass(frozen=True, slots=True)
class Group:
    """The work of one task. It pickles."""

    partition: bytes
    bucket: int
    width: Width
    """Of vectors of data files that have none yet."""
    former: tuple[IndexEntry, ...]
    """The index files that are left out."""
    leaving: frozenset[str]
    """Names of data files that leave the table, or are gone already, and their vectors with them."""
    positions: Mapping[str, bytes] = field(repr=False)
    """Name of a data file -> positions, as the bytes of a vector."""
    takes_out: bool = False
    """The positions are taken out of vectors; otherwise they are added."""

    @property
    def writes(self) -> bool:
        """Tell whether something is left to write."""
        return bool(self.positions) or any(name not in self.leaving for name in self.vectors)

    @property
    def vectors(self) -> tuple[str, ...]:
        """The names of the data files whose vectors the former index files have."""
        return tuple(vector[0] for entry in self.former for vector in entry.vectors)


def groups_of(
    changes: Iterable[Change],
    index: RawIndex | None,
    schema: TableSchema,
    *,
    dangling: Set[tuple[bytes, int, str]] = frozenset(),
    takes_out: bool = False,
) -> tuple[Group, ...]:
    """Return the groups of some changes.

    Args:
        changes: For each data file at most one. They are of one snapshot.
        index: The index manifest of this snapshot; `None`: it has none.
        schema: The latest schema of the branch.
        dangling: Partition, bucket and name of data files that are gone. Their vectors are not copied: Paimon 1.4
            refuses commits about other data files whose vectors share an index file with them.
        takes_out: See `Group`.

    Raises:
        RefusedError: A data file's vector lies in an index file that the index does not name (`corrupt_vectors`), or an
            option does not parse (`bad_option`).
    """
    paths, width = TablePaths(schema), width_of(vector_files(index), schema)
    entries = {paths.index_file(entry): entry for entry in vector_files(index)}
    parts: dict[tuple[bytes, int], dict[str, list[Change]]] = {}
    for change in changes:
        file = change.file
        path = "" if file.vector is None else file.vector.index_file
        if path and path not in entries:
            raise RefusedError(f"{path}: expected it in the index, found it nowhere there", code=CORRUPT_VECTORS)
        if change.blob is not None or path:
            parts.setdefault((file.partition, file.bucket), {}).setdefault(path, []).append(change)
    groups = (
        group
        for (partition, bucket), by_path in sorted(parts.items())
        for group in _packed(partition, bucket, by_path, entries, width, takes_out)
    )
    return tuple(_without(group, dangling) for group in groups)


def _without(group: Group, dangling: Set[tuple[bytes, int, str]]) -> Group:
    gone = frozenset(name for name in group.vectors if (group.partition, group.bucket, name) in dangling)
    return replace(group, leaving=group.leaving | gone) if gone else group


def _packed(
    partition: bytes,
    bucket: int,
    by_path: Mapping[str, list[Change]],
    entries: Mapping[str, IndexEntry],
    width: Width,
    takes_out: bool,
) -> Iterable[Group]:
    former, changes, weight = list[IndexEntry](), list[Change](), 0

    def closed() -> Group:
        return Group(
            partition,
            bucket,
            width,
            tuple(former),
            frozenset(_name(each.file) for each in changes if each.blob is None),
            {_name(each.file): each.blob for each in changes if each.blob is not None},
            takes_out,
        )

    # First those with an index file, so that new vectors join the last of these.
    units: list[tuple[IndexEntry | None, list[Change]]] = []
    for path, found in sorted(by_path.items(), reverse=True):
        if path:
            units.append((entries[path], found))
        else:
            units += [(None, [change]) for change in found]
    for entry, found in units:
        size = sum(len(each.blob or b"") for each in found) + (0 if entry is None else entry.file_size)
        if changes and weight + size > MOST_GROUP_BYTES:
            yield closed()
            former, changes, weight = [], [], 0
        if entry is not None:
            former.append(entry)
        changes += found
        weight += size
    yield closed()


def vector_files(index: RawIndex | None) -> tuple[IndexEntry, ...]:
    """Return the index files with deletion vectors."""
    rows = () if index is None else index.rows
    return tuple(entry for _, entry in rows if entry.index_type == DELETION_VECTORS)


def width_of(entries: Iterable[IndexEntry], schema: TableSchema) -> Width:
    """Return the width of new vectors: that of the first one in some index files, else what the table's options say.

    Raises:
        RefusedError: The option does not parse (`bad_option`).
    """
    for entry in entries:
        for width in widths_of(entry).values():
            return width
    try:
        return 64 if parse_bool(schema.options.get(_BITMAP64, "false"), _BITMAP64) else 32
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def _name(file: ReadFile) -> str:
    return file.path.rpartition("/")[2]
