"""Write the rows of a version into a folder of Parquet files, by the tasks of Spark."""

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from lakesweep.errors import MaintenanceError, RefusedError, UsageError
from lakesweep.operations.reading.read import ReadRows, check_rows
from lakesweep.operations.reading.targets import ENDINGS, STREAM, check_outside, checked_target, part_of
from lakesweep.spark.reading.read import Reading, raise_gone
from lakesweep.spark.reading.routes import spark_root
from lakesweep.storage.location import parse_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_rows(session: "SparkSession", reading: Reading, to: str, limit: int | None = None) -> ReadRows:
    """Write the rows of a version into a new folder.

    On this machine, the folder appears under its name once it is whole. In S3 it has a file `_SUCCESS` then.

    Args:
        session: The session.
        reading: What is read.
        to: A path on this machine, or a location in S3 that Spark can write.
        limit: The most rows; `None` for all.

    Raises:
        UsageError: The target is no folder.
        RefusedError: It exists (`target_exists`), or lies inside the table (`target_in_table`). A file of the version
            is gone (`missing_data_file`).
        FormatError: Data files have more or fewer rows than metadata state.
        MaintenanceError: A task failed.
    """
    if to == STREAM or to.lower().endswith(ENDINGS):
        raise UsageError(f"--to {to}: expected with --engine spark a new folder for Parquet files")
    frame = reading.frame if limit is None else reading.frame.limit(limit)
    if parse_location(to).scheme == "file":
        final = checked_target(to, reading.plan)
        part = part_of(final.absolute())
        try:
            rows = _write(reading, frame, f"file://{part}", to, limit)
            part.rename(final)
        finally:
            with suppress(OSError):
                shutil.rmtree(part)
        return rows
    check_outside(to, reading.plan)
    folder = spark_root(session, to, has_endpoint=False)
    if folder is None:
        raise UsageError(f"--to {to}: expected a folder that Spark can write, but this Spark does not know S3")
    return _write(reading, frame, folder, to, limit)


def _write(reading: Reading, frame: "DataFrame", folder: str, to: str, limit: int | None) -> ReadRows:
    from pyspark.sql import Observation, functions

    rows = Observation()
    counted = frame.observe(rows, functions.count(functions.lit(1)).alias("rows"))
    try:
        counted.write.parquet(folder)
    except Exception as error:
        raise_gone(reading.plan, error)
        raise _failed(to, str(error) or type(error).__name__) from error
    count = int(rows.get["rows"])
    if limit is None:
        check_rows(reading.plan, count)
    return ReadRows(reading.plan, to, count, ())


def _failed(to: str, text: str) -> MaintenanceError:
    if "PATH_ALREADY_EXISTS" in text:
        return RefusedError(f"--to {to}: expected a new folder, found one that exists", code="target_exists")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line.partition(": ")[2] for line in lines if line.startswith("lakesweep.errors.")]
    causes = [line.partition(": ")[2] for line in lines if line.startswith("Caused by: ")]
    found = own or causes or lines
    return MaintenanceError(f"Spark: {found[-1 if found is not lines else 0]}", code="spark_failed")
