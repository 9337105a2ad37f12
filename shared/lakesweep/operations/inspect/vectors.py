"""The deletion vectors of a version's files, for `files`. This changes nothing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.vector import Width
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.roots import Root, TableListing
from lakesweep.model.vectors import LocatedVector
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.storage.together import waits
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.fence import FenceRules
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.live_files import LiveFile
from lakesweep.table.stores import TableStores, declared_roots
from lakesweep.table.vectors import CORRUPT_VECTORS, check_rows, locate, read_vectors, vector_entries

MOST_POSITIONS = 5_000_000
"""More deleted rows are not listed: each takes some 50 bytes of memory."""
_AT_ONCE = 8

Found = Sequence[tuple[LiveFile, ManifestEntry]]
"""The data files of a version."""


@dataclass(frozen=True, slots=True)
class ShownVector:
    """The deletion vector of a data file."""

    located: LocatedVector
    positions: tuple[int, ...] | None = None
    """The deleted rows, ascending; `None`: not asked for."""
    width: Width | None = None
    """32 or 64; `None`: only the bytes tell it."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        document: dict[str, object] = {
            "index_file": self.located.index_file,
            "offset": self.located.offset,
            "length": self.located.length,
            "width": self.width,
            "cardinality": self.located.cardinality,
        }
        return document if self.positions is None else {**document, "positions": list(self.positions)}


def vectors_of(store: Store, schema: TableSchema, root: Root, found: Found) -> Mapping[str, ShownVector]:
    """Return path of a data file -> its deletion vector.

    Raises:
        RefusedError: The index manifest cannot be read, or contradicts itself or the manifests.
        StorageError: The read failed.
    """
    entries = vector_entries(store, schema, root)
    located = locate(store, entries, TablePaths(schema))
    vectors = {}
    for file, entry in found:
        vector = located.get((entry.partition, entry.bucket, entry.file_name))
        if vector is not None:
            check_rows(store, vector, entry)
            vectors[file.path] = ShownVector(vector, width=vector.width)
    return vectors


def positions_of(
    table: Table, listing: TableListing, vectors: Mapping[str, ShownVector], rows: Mapping[str, int]
) -> Mapping[str, ShownVector]:
    """Return the same vectors with their deleted rows.

    Args:
        table: The table.
        listing: Its branches.
        vectors: Path of a data file -> its vector.
        rows: Path of a data file -> the number of its rows.

    Raises:
        RefusedError: There are too many (`too_many_positions`), or a file has fewer rows (`corrupt_vectors`).
        FormatError: An index file is damaged.
        UnsupportedFormatError: pyroaring is missing.
        StorageError: A read failed.
    """
    where = f"table {table.store.location}"
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for path, shown in vectors.items():
        by_file[shown.located.index_file].append(path)
    stores = _stores(table, listing, by_file)
    left = MOST_POSITIONS

    def read(paths: Sequence[str]) -> list[tuple[str, ShownVector]]:
        nonlocal left
        located = [vectors[path].located for path in paths]
        read_here = []
        for path, at, vector in zip(paths, located, read_vectors(stores, located), strict=True):
            if vector.last >= rows[path]:
                raise RefusedError(
                    f"{where}, {at.index_file}: expected deleted rows below {rows[path]} of {path}, found row "
                    f"{vector.last}",
                    code=CORRUPT_VECTORS,
                )
            left -= vector.cardinality
            if left < 0:
                raise RefusedError(
                    f"{where}: expected at most {MOST_POSITIONS} deleted rows to list, found more",
                    code="too_many_positions",
                )
            read_here.append((path, ShownVector(at, tuple(vector.positions()), vector.width)))
        return read_here

    if not waits(table.store):
        return dict(pair for paths in by_file.values() for pair in read(paths))
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="vectors") as pool:
        return dict(pair for pairs in pool.map(read, by_file.values()) for pair in pairs)


def _stores(table: Table, listing: TableListing, paths: Iterable[str]) -> TableStores:
    if not any(map(is_external, paths)):
        return TableStores(table.store)
    rules = FenceRules(declared_roots(table.store.location, read_all_schemas(table.store, listing)))
    return TableStores(table.store, rules, table.open_store)
