"""What is to be read of one version of a table: its columns, and its data files in splits.

A *split* is the work of one task: some data files with their deletion vectors. Everything here pickles, and a split
pickles small, since Spark sends one to each task. Tasks need the plan too, without its splits (`ReadPlan.shared`).
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lakesweep.format.row_entries import RowEntry
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.model.vectors import LocatedVector
from lakesweep.model.where.where import Where


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column of the result."""

    field: DataField
    """As the version's schema has it."""
    is_partition: bool
    """The value of each row is its partition's, whatever the data file holds."""

    @property
    def name(self) -> str:
        """Return the name of the column."""
        return self.field.name


class ReadFile(NamedTuple):
    """A data file to read."""

    path: str
    """Relative to the table root, an absolute URI when external."""
    size_bytes: int
    rows: int
    """With deleted ones."""
    format: str
    """`parquet`, `orc` or `avro`."""
    schema_id: int
    """The schema with which it was written."""
    level: int
    bucket: int
    partition: bytes
    """The values as one row; see `ReadPlan.partition_values`."""
    vector: LocatedVector | None
    """Positions in it count rows of the whole file, before rows are dropped for their kind."""
    write_cols: tuple[str, ...] | None = None
    """The columns in the file; `None`: those of its schema."""
    min_sequence: int = 0
    """The smallest sequence number of its rows."""
    created_ms: int | None = None
    """When it was written, as the writer's clock says without its zone; `None`: unknown."""

    @classmethod
    def of(cls, each: RowEntry, path: str, vector: LocatedVector | None = None) -> "ReadFile":
        """Return the data file of a manifest's entry.

        Args:
            each: The entry.
            path: The path of the file; see `TablePaths.data_file`.
            vector: Its vector.
        """
        entry = each.entry
        return cls(
            path=path,
            size_bytes=entry.file_size,
            rows=entry.row_count,
            format=entry.file_name[entry.file_name.rfind(".") + 1 :].lower(),
            schema_id=each.schema_id,
            level=entry.level,
            bucket=entry.bucket,
            partition=entry.partition,
            vector=vector,
            write_cols=each.write_cols,
            min_sequence=each.min_sequence,
            created_ms=each.created_ms,
        )

    @property
    def vector_key(self) -> tuple[bytes, int, str]:
        """Return the partition, bucket and name by which an index knows the file."""
        return self.partition, self.bucket, self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Split:
    """The data files of one task."""

    files: tuple[ReadFile, ...]

    @property
    def size_bytes(self) -> int:
        """Return the size of the data files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def rows(self) -> int:
        """Return the number of rows, with deleted ones."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """How much a plan reads, and how much it leaves out."""

    files: int = 0
    rows: int = 0
    """In these files, with deleted ones."""
    deleted_rows: int | None = 0
    """By the vectors of these files; `None`: the writer of a vector did not count."""
    pruned_files: int = 0
    """Files that have no row of the result, by their partition or statistics."""
    level_0_files: int = 0
    """Files that no reader sees until a compaction."""
    level_0_rows: int = 0
    of_partitions: Mapping[bytes, int] = field(default_factory=dict, hash=False, repr=False)
    """Partition -> its files, with those that are left out."""
    dangling: Set[tuple[bytes, int, str]] = field(default=frozenset(), hash=False, repr=False)
    """Partition, bucket and name of data files that have a deletion vector, and are gone."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is to be read of one version of a table."""

    table: str
    """Its location."""
    branch: str
    snapshot_id: int | None
    """`None`: the branch has no snapshot, so there are no rows."""
    tag: str | None
    """The tag that holds the version, `None` if the snapshot itself was read."""
    schema_id: int
    fields: tuple[DataField, ...]
    """All columns of the version's schema."""
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    columns: tuple[ReadColumn, ...]
    """Those of the result, in its order."""
    schemas: Mapping[int, tuple[DataField, ...]] = field(hash=False)
    """Id of a schema with which some data file was written -> its columns."""
    splits: tuple[Split, ...]
    counts: ReadCounts
    where: Where | None = None
    """Only rows of this condition; `None`: all."""
    external_roots: tuple[str, ...] = ()
    """Where data files and vectors outside the table may lie; see `TableStores`."""

    @property
    def shared(self) -> "ReadPlan":
        """Return the plan without its splits: what each task needs beside its own split."""
        return replace(self, splits=())

    @property
    def read_columns(self) -> tuple[ReadColumn, ...]:
        """Return the columns of the result, and after them those that only the condition looks at."""
        names = frozenset() if self.where is None else self.where.columns
        names -= {column.name for column in self.columns}
        more = (field for field in self.fields if field.name in names)
        return (*self.columns, *(ReadColumn(field, field.name in self.partition_keys) for field in more))

    @property
    def has_kinds(self) -> bool:
        """Tell whether data files have a column `_VALUE_KIND`: rows of other kinds than 0 and 2 are dropped."""
        return bool(self.primary_keys)

    def partition_values(self, partition: bytes) -> dict[str, object]:
        """Return partition key -> value of `ReadFile.partition`; see `decode_row`.

        Raises:
            FormatError: The bytes are not of these types.
        """
        types = {each.name: each.type for each in self.fields}
        key_types: list[DataType] = [types[key] for key in self.partition_keys]
        values = decode_row(partition, key_types, f"{self.table}, partition {partition[:32].hex()}")
        return dict(zip(self.partition_keys, values, strict=True))


def pack(files: Iterable[ReadFile], target_bytes: int, open_cost_bytes: int) -> tuple[Split, ...]:
    """Put files into splits, in their order.

    Args:
        files: The files.
        target_bytes: A split is closed before it gets larger; one file is never divided.
        open_cost_bytes: A smaller file counts this much.

    Source: Paimon `BinPacking.packForOrdered`.
    """
    splits: list[Split] = []
    part: list[ReadFile] = []
    weight = 0
    for file in files:
        size = file.size_bytes
        cost = size if size > open_cost_bytes else open_cost_bytes
        if part and weight + cost > target_bytes:
            splits.append(Split(tuple(part)))
            part, weight = [], 0
        part.append(file)
        weight += cost
    return (*splits, Split(tuple(part))) if part else tuple(splits)
