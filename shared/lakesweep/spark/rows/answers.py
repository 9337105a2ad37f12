"""The answers of tasks that work on rows, with their errors as sentences about rows."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakesweep.errors import MaintenanceError, ObjectNotFoundError
from lakesweep.runs.session import Table
from lakesweep.spark.tasks import Access, Row, Work, count_requests, run_tasks
from lakesweep.storage.open import StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GONE = ("missing_data_file", "missing_index_file")


def answers(
    session: "SparkSession", table: Table, settings: StoreSettings, work: Work, pieces: Sequence[Row]
) -> Iterator[Row]:
    """Carry out pieces of work, and yield the rows of their answers.

    Raises:
        MaintenanceError: A task failed, or Spark did. If a file is gone, that is the cause, as without Spark: the
            version may have expired meanwhile, and then the commit is prepared anew.
    """
    access = Access(table.ref.location, "", settings)
    try:
        yield from count_requests(table.counter, run_tasks(session, access, work, pieces))
    except MaintenanceError as error:
        if error.code in _GONE:
            raise error from ObjectNotFoundError(str(error))
        if error.code != "spark_failed":
            raise
        sentence = str(error).partition("; nothing was changed")[0]  # the rest of the message is about scans
        raise MaintenanceError(sentence, code=error.code) from error
