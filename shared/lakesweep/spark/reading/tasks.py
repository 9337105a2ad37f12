"""What Python workers do for a read: read splits as Arrow, and vectors as bits.

Pieces of work come as rows with one pickled split each. Errors of Lakesweep end the job with their message.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.reading.plan import ReadFile, ReadPlan, Split
from lakesweep.operations.reading.arrow import file_vectors, read_split, stores_of
from lakesweep.operations.reading.values import partition_array
from lakesweep.spark.archives import forget_archives
from lakesweep.spark.reading.keys import file_key
from lakesweep.spark.reading.types import for_spark
from lakesweep.spark.tasks import Access, Task, check_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORD_BITS = 64


def pieces(session: "SparkSession", splits: Sequence[Split]) -> "DataFrame":
    """Return a row for each split, in a partition of its own."""
    rows = [(pickle.dumps(split),) for split in splits]
    return session.createDataFrame(session.sparkContext.parallelize(rows, max(1, len(rows))), "split binary")


@dataclass(frozen=True, slots=True)
class SplitReader:
    """Yields the rows of splits."""

    access: Access
    plan: ReadPlan
    """Without splits."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Read the splits of some batches."""
        import pyarrow as arrow

        task, splits = _begun(self.access, batches)
        for split in splits:
            for batch in read_split(stores_of(self.plan, task.store(self.plan.table), task.store), self.plan, split):
                arrays = [for_spark(column) for column in batch.columns]
                yield arrow.RecordBatch.from_arrays(arrays, names=batch.schema.names)


@dataclass(frozen=True, slots=True)
class MarkReader:
    """Yields a row for each file of splits: its key, the bits of its vector, the values of its partition.

    The bits are 64-bit words for all rows of the file, 1 for a deleted row. A file without vector has NULL.
    """

    access: Access
    plan: ReadPlan
    """Without splits."""
    partition_columns: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Read the vectors of some batches."""
        task, splits = _begun(self.access, batches)
        for split in splits:
            stores = stores_of(self.plan, task.store(self.plan.table), task.store)
            vectors = file_vectors(stores, self.plan, split)
            for file in split.files:
                vector = vectors.get(file.path)
                yield self._row(file, vector)

    def _row(self, file: ReadFile, vector: DeletionVector | None) -> Any:
        import pyarrow as arrow

        words = -(-file.rows // WORD_BITS)
        if vector is None:
            bits = arrow.nulls(1, arrow.list_(arrow.int64()))
        else:
            deleted = arrow.py_buffer(vector.deleted(0, words * WORD_BITS))
            numbers = arrow.Array.from_buffers(arrow.int64(), words, [None, deleted])
            bits = arrow.ListArray.from_arrays(arrow.array([0, words], arrow.int32()), numbers)
        columns = {"file": arrow.array([file_key(file.path.rpartition("/")[2])], arrow.int64()), "words": bits}
        values = self.plan.partition_values(file.partition)
        types = {column.name: column.field.type for column in self.plan.read_columns}
        for number, name in enumerate(self.partition_columns):
            columns[f"p{number}"] = for_spark(partition_array(values[name], types[name], 1))
        return arrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _begun(access: Access, batches: Iterable[Any]) -> tuple[Task, Iterator[Split]]:
    check_version(access)
    forget_archives()
    return Task(access), (pickle.loads(each) for batch in batches for each in batch.column(0).to_pylist())
