"""The rows of one job that count, and the marks of the deeper rows that they replace."""

from collections.abc import Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, Self

from lakesweep.errors import FormatError
from lakesweep.model.keyed import MergeJob
from lakesweep.model.reading.plan import Split
from lakesweep.operations.keyed.merging.codes import combined, joined, sequence_parts
from lakesweep.operations.keyed.merging.marking import Marking
from lakesweep.operations.keyed.merging.reading import Reader, is_delete, sizes_of
from lakesweep.operations.keyed.merging.rounds import rounds
from lakesweep.operations.keyed.merging.stream import Rows, Stream
from lakesweep.operations.keyed.merging.winners import Groups, groups_of, winners_of
from lakesweep.operations.keyed.merging.work import MergeWork
from lakesweep.operations.reading.arrow import file_vectors
from lakesweep.operations.reading.types import load_arrow, load_numpy
from lakesweep.storage.together import waits
from lakesweep.table.stores import TableStores

_THREADS = 8


class Merger:
    """Merges the runs of one job; of a file that only changes its level, it reads keys and kinds."""

    def __init__(self, stores: TableStores, work: MergeWork, job: MergeJob, batch_rows: int | None) -> None:
        """Prepare; see `merge_job`."""
        plan, rules = work.plan, work.rules
        deeper = job.deeper if any(file.level == 0 for file in job.files) else ()
        self._job = job = replace(job, deeper=deeper)
        self._rules = rules = replace(rules, ignores_deletes=False, sequence=()) if job.is_upgrade else rules
        self._columns = [column for column in plan.columns if not job.is_upgrade or column.name in rules.keys]
        files = (*job.files, *(file for run in deeper for file in run))
        vectors = file_vectors(stores, plan, Split(tuple(file.file for file in files)))
        sizes = sizes_of(job, self._columns)
        self._sizes = sizes = replace(sizes, batch_rows=batch_rows or sizes.batch_rows)
        self._reader = Reader(stores, plan, rules, vectors, sizes, self._columns, has_sequence=not job.is_upgrade)
        gone = [vectors[file.file.path].cardinality for file in job.files if file.file.path in vectors]
        self._expected = sum(file.file.rows for file in job.files) - sum(gone)
        self._in_threads = waits(stores.table)
        self._table = plan.table
        self._resources = ExitStack()
        self.marking = Marking(plan.table)

    def __enter__(self) -> Self:
        job, sizes, executor = self._job, self._sizes, None
        low, high = min(file.low for file in job.files), max(file.high for file in job.files)
        runs = [self._reader.merged(run) for run in job.runs]
        runs += [self._reader.deeper(run, low, high) for run in job.deeper]
        if self._in_threads:
            executor = ThreadPoolExecutor(min(_THREADS, len(runs)), thread_name_prefix="runs")
        streams = [
            self._resources.enter_context(closing(Stream(rows, sizes.batch_rows, sizes.batch_bytes, executor, place)))
            for place, rows in enumerate(runs)
        ]
        if executor is not None:
            self._resources.callback(_end, executor)  # before the streams are closed
        self._rounds = rounds(streams[: len(job.runs)], streams[len(job.runs) :])
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()

    @property
    def rows_read(self) -> int:
        """So many rows of the merged files, without those that a vector deletes."""
        return self._reader.rows_read

    def check(self) -> None:
        """Make sure that all rows were read.

        Raises:
            FormatError: They were not.
        """
        if self.rows_read != self._expected:
            raise FormatError(
                f"table {self._table}: expected {self._expected} rows of {len(self._job.files)} data files, found "
                f"{self.rows_read}"
            )

    def batches(self) -> Generator[Any, None, None]:
        """Yield the rows that count as record batches, ascending by key: the columns, sequence number and kind."""
        arrow = load_arrow()
        for above, below in self._rounds:
            rows = [each for _, each in above]
            if not below and len({place for place, _ in above}) == 1 and all(each.is_strict for each in rows):
                yield from (batch for each in rows if (batch := self._left(each.batch)).num_rows)
                continue
            batch = rows[0].batch if len(rows) == 1 else arrow.concat_batches([each.batch for each in rows])
            codes = combined(joined([each.keys for each in (*rows, *below)]))
            groups = groups_of(codes[: batch.num_rows])
            winners = winners_of(groups, self._ranks(above, batch))
            self._mark(groups, rows, below, codes)
            found = self._left(batch.take(arrow.array(winners)))
            if found.num_rows:
                yield found

    def stays(self) -> bool:
        """Tell whether the one file may stay as it is, and mark deeper rows."""
        for above, below in self._rounds:
            rows = [each for _, each in above]
            if not all(each.is_strict for each in rows):
                return False
            if self._job.drops_deletes and any(is_delete(each.batch).any() for each in rows):
                return False
            if below:
                codes = combined(joined([each.keys for each in (*rows, *below)]))
                groups = groups_of(codes[: sum(each.count for each in rows)])
                self._mark(groups, rows, below, codes)
        return True

    def _ranks(self, above: Sequence[tuple[int, Rows]], batch: Any) -> list[Any]:
        """Return what rows with the same key are compared by, one after another."""
        numpy, rules = load_numpy(), self._rules
        ranks = [
            batch.column(batch.num_columns - 2).to_numpy(),
            numpy.repeat([-place for place, _ in above], [rows.count for _, rows in above]),
        ]
        parts = []
        for name in rules.sequence:
            number = [column.name for column in self._columns].index(name)
            type_ = self._columns[number].field.type
            parts += sequence_parts(batch.column(number), type_, is_descending=rules.is_descending)
        return [combined(parts), *ranks] if parts else ranks

    def _mark(self, groups: Groups, rows: Sequence[Rows], below: Sequence[Rows], codes: Any) -> None:
        """Mark the deeper rows of each key whose merged rows all come from level 0."""
        if not below:
            return
        numpy = load_numpy()
        is_upper = numpy.repeat([each.file.level > 0 for each in rows], [each.count for each in rows])
        keys = codes[groups.order][groups.starts]
        wanted = keys[~numpy.maximum.reduceat(is_upper[groups.order], groups.starts)]
        self.marking.mark(wanted, below, codes[len(groups.order) :])

    def _left(self, batch: Any) -> Any:
        """Return a batch without the rows that are dropped."""
        if not self._job.drops_deletes or not (gone := is_delete(batch)).any():
            return batch
        return batch.filter(load_arrow().array(~gone))


def _end(executor: Executor) -> None:
    executor.shutdown(cancel_futures=True)
