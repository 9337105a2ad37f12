"""Data files of one bucket of a table with a primary key, and what a merge makes of them.

    bucket = Bucket({"id": "BIGINT NOT NULL", "v": "STRING"}, ["id"])
    old = bucket.file([(1, "a"), (2, "b")], level=5)
    new = bucket.file([(2, "c")])
    merged = bucket.merge([[new]], deeper=[[old]])
    assert bucket.marks(merged) == {old.name: [1]}

Files are written by pyarrow alone, with the columns of Java's files.
"""

import io
import itertools
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.format.vectors.vector import collect, encode
from lakesweep.model.keyed import KeyedFile, MergeJob, MergeRules
from lakesweep.model.reading.plan import ReadColumn, ReadCounts, ReadFile, ReadPlan
from lakesweep.model.vectors import LocatedVector
from lakesweep.operations.keyed.merging.merge import merge_job
from lakesweep.operations.keyed.merging.work import MergedJob, MergeWork
from lakesweep.operations.reading.types import arrow_type
from lakesweep.operations.writing.options import writing_of
from lakesweep.table.stores import TableStores
from tests.support.binary_row import encode_row
from tests.support.memory_store import MemoryStore
from tests.support.vector_bytes import decode

Row = tuple[Any, ...]
"""Values, then the sequence number and the kind if they are given."""


class Bucket:
    """The files of one bucket."""

    def __init__(
        self, types: Mapping[str, str], keys: Sequence[str], *, options: Mapping[str, str] | None = None
    ) -> None:
        self.store = MemoryStore()
        self.fields = [
            DataField(number, name, parse_data_type(type_, "a test"))
            for number, (name, type_) in enumerate(types.items())
        ]
        self.keys = tuple(keys)
        self.places = [list(types).index(key) for key in keys]
        self.options = dict(options or {})
        self._names = (f"data-{number}.parquet" for number in itertools.count())
        self.sequence = itertools.count()
        self.schema = TableSchema(0, 99, tuple(self.fields), (), self.keys, self.options, 0, None)

    def key(self, row: Row) -> Row:
        """Return the key of a row as `KeyedFile` has it."""
        return tuple(_comparable(row[place], self.fields[place].type.root) for place in self.places)

    def file(
        self,
        rows: Sequence[Row],
        level: int = 0,
        *,
        deleted: Sequence[int] = (),
        group_rows: int | None = None,
        is_thin: bool = False,
        **stated: Any,
    ) -> KeyedFile:
        """Write a file.

        Args:
            rows: Its rows. A row without a sequence number gets the next one, and kind 0.
            level: Its level.
            deleted: Positions that its vector deletes.
            group_rows: The rows of a row group.
            is_thin: It has no columns `_KEY_`.
            stated: Fields of the file that shall be others.
        """
        width = len(self.fields)
        rows = [row if len(row) > width else (*row, next(self.sequence), 0) for row in rows]
        columns = {
            field.name: pa.array([row[place] for row in rows], arrow_type(field.type))
            for place, field in enumerate(self.fields)
        }
        system = {
            "_SEQUENCE_NUMBER": pa.array([row[width] for row in rows], pa.int64()),
            "_VALUE_KIND": pa.array([row[width + 1] for row in rows], pa.int8()),
        }
        own = {} if is_thin else {f"_KEY_{key}": columns[key] for key in self.keys}
        sink = io.BytesIO()
        parquet.write_table(pa.table(own | system | columns), sink, row_group_size=group_rows)
        name = next(self._names)
        path = f"bucket-0/{name}"
        self.store.put(path, sink.getvalue())
        read = ReadFile(
            path=path,
            size_bytes=len(sink.getvalue()),
            rows=len(rows),
            format="parquet",
            schema_id=0,
            level=level,
            bucket=0,
            partition=encode_row((), ()),
            vector=self.vector(name, deleted) if deleted else None,
            min_sequence=min(row[width] for row in rows),
        )
        keys = [key for key in map(self.key, rows) if None not in key]
        found = {
            "file": read,
            "low": min(keys),
            "high": max(keys),
            "max_sequence": max(row[width] for row in rows),
            "delete_rows": sum(row[width + 1] in (1, 3) for row in rows),
            "total_buckets": 1,
        }
        return KeyedFile(**found | stated)

    def vector(self, name: str, deleted: Sequence[int]) -> LocatedVector:
        """Write a vector, and return where it lies."""
        blob = encode(collect(deleted, 32), 32)
        path = f"index/index-{name}"
        self.store.put(path, b"\1" + blob)
        return LocatedVector(path, len(blob) + 1, name, 1, len(blob) - 8, 32, len(deleted))

    def work(self, **rules: Any) -> MergeWork:
        """Return what jobs share."""
        plan = ReadPlan(
            table="memory://x",
            branch="main",
            snapshot_id=1,
            tag=None,
            schema_id=0,
            fields=tuple(self.fields),
            partition_keys=(),
            primary_keys=self.keys,
            columns=tuple(ReadColumn(field, False) for field in self.fields),
            schemas={0: tuple(self.fields)},
            splits=(),
            counts=ReadCounts(),
        )
        found = MergeRules(**{"keys": self.keys, "has_vectors": True} | rules)
        return MergeWork(plan, self.schema, found, writing_of(self.schema, self.fields), 0)

    def merge(
        self,
        runs: Sequence[Sequence[KeyedFile]],
        deeper: Sequence[Sequence[KeyedFile]] = (),
        *,
        level: int = 4,
        drops_deletes: bool = True,
        is_upgrade: bool = False,
        batch_rows: int | None = None,
        before_each: Any = lambda: None,
        **rules: Any,
    ) -> MergedJob:
        """Merge runs; what goes to the worker and comes back is pickled."""
        job = MergeJob(level, tuple(map(tuple, runs)), tuple(map(tuple, deeper)), drops_deletes, is_upgrade)
        work, job = pickle.loads(pickle.dumps((self.work(**rules), job)))
        found = merge_job(TableStores(self.store), work, job, before_each, batch_rows=batch_rows)
        assert found == pickle.loads(pickle.dumps(found))
        return found

    def rows(self, merged: MergedJob) -> list[Row]:
        """Return the rows of new files, with sequence number and kind."""
        names = [*(field.name for field in self.fields), "_SEQUENCE_NUMBER", "_VALUE_KIND"]
        found: list[Row] = []
        for file in merged.files:
            table = parquet.read_table(pa.BufferReader(self.store.read(f"bucket-0/{file.name}").data))
            found += zip(*(table.column(name).to_pylist() for name in names), strict=True)
        assert len(found) == merged.rows
        return found


def marks(merged: MergedJob) -> dict[str, list[int]]:
    """Return name of a deeper file -> the positions that a merge marks."""
    return {name: decode(blob) for name, blob in merged.marks.items()}


def _comparable(value: Any, root: str) -> Any:
    match root:
        case "CHAR" | "VARCHAR":
            return value.encode()
        case "DATE":
            return value.toordinal() - 719163
        case "TIME":
            return (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            micros = pa.scalar(value, pa.timestamp("us", value.tzinfo and "UTC")).value
            return Timestamp(micros // 1000, micros % 1000 * 1000)
    return value
