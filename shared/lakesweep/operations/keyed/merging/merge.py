"""Merge the runs of one job into new data files, and mark the deeper rows that they replace.

Memory does not depend on the number of rows: each run has some rows in memory, and the writer has one file.

Source: Paimon `MergeTreeCompactRewriter`, `LookupMergeTreeCompactRewriter`, `LookupChangelogMergeFunctionWrapper`.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from lakesweep.commit.files import write_new
from lakesweep.format.entry_writer import NewDataFile
from lakesweep.format.manifest import COMPACT
from lakesweep.model.keyed import MergeJob
from lakesweep.operations.keyed.merging.merger import Merger
from lakesweep.operations.keyed.merging.work import MergedJob, MergeWork
from lakesweep.operations.writing.keyed import keyed_files
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores

_ROW_GROUP_BYTES = 64 << 20
"""The most values of a row group; the writer has two in memory."""


def merge_job(
    stores: TableStores,
    work: MergeWork,
    job: MergeJob,
    before_each: Callable[[], None] = lambda: None,
    *,
    batch_rows: int | None = None,
) -> MergedJob:
    """Merge the runs of a job.

    Args:
        stores: The table's store.
        work: What all jobs share.
        job: The job.
        before_each: Called before each file is written; may raise.
        batch_rows: The most rows of a run that are read at a time; by default as memory allows.

    Raises:
        RefusedError: A data file does not exist (`missing_data_file`), its rows are not as its entry states
            (`unsorted_file`), a vector contradicts it (`corrupt_vectors`), readers see two rows of a key
            (`duplicate_keys`), or a value has no place in the latest schema.
        UnsupportedFormatError: A Parquet file has values too large for the memory of a task.
        FormatError: A file is damaged.
        StorageError: A request failed. Some new files may exist; they are orphans.
    """
    if job.is_upgrade:
        with Merger(stores, work, job, batch_rows) as merger:
            if merger.stays():
                merger.check()
                marking = merger.marking
                return MergedJob((), marking.marks(), marking.count, merger.rows_read, 0, is_upgraded=True)
        job = replace(job, is_upgrade=False)
    fields, writing = [column.field for column in work.plan.columns], work.writing
    writing = replace(writing, row_group_bytes=min(writing.row_group_bytes, _ROW_GROUP_BYTES))
    folder = TablePaths(work.schema).bucket_dir(job.partition, job.bucket)
    made = list[NewDataFile]()
    with (
        Merger(stores, work, job, batch_rows) as merger,
        closing(merger.batches()) as batches,
        closing(keyed_files(batches, fields, work.rules, writing)) as files,
    ):
        for new in files:
            before_each()
            write_new(stores.table, f"{folder}/{new.name}", new.body)
            made.append(
                NewDataFile(
                    name=new.name,
                    size_bytes=len(new.body),
                    rows=new.rows,
                    stats=new.stats,
                    stats_cols=writing.stats_cols,
                    schema_id=work.schema.id,
                    min_sequence=new.min_sequence,
                    max_sequence=new.max_sequence,
                    creation_time_ms=work.creation_time_ms,
                    source=COMPACT,
                    level=job.level,
                    min_key=new.min_key,
                    max_key=new.max_key,
                    key_stats=new.key_stats,
                    delete_rows=new.delete_rows,
                )
            )
        merger.check()
        marking = merger.marking
        return MergedJob(tuple(made), marking.marks(), marking.count, merger.rows_read, sum(each.rows for each in made))
