"""`read_table`: a version of a table as a DataFrame.

A DataFrame is lazy: Spark reads the table anew for each action, long after the call. Until then no expiry may delete
files of the version. So a tag protects it, in one of two ways:

- `read_table` leaves its tag in the table, which ends after a day. No block says when a DataFrame is no longer needed.
- `open_reading` deletes its tag when the block ends, and turns the errors of Spark into sentences.

Nothing is left out silently. If a file of the version is gone all the same, an action fails.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.safety import PROTECTED_FOR_MS
from lakesweep.operations.reading.arrow import MISSING
from lakesweep.operations.reading.plan import plan_read
from lakesweep.operations.reading.protection import protect, release
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.spark.opening import open_table
from lakesweep.spark.reading import arrow, jvm
from lakesweep.spark.reading.routes import choose, spark_root
from lakesweep.spark.reading.types import spark_schema
from lakesweep.spark.tasks import Access
from lakesweep.storage.open import DEFAULT_SETTINGS, StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GONE = re.compile(
    r"File (\S.*?) does not exist"  # Spark 3.5
    r"|reading file (\S.*?)\.\s+File does not exist"  # Spark 4.0
    r"|expected the (?:data|index) file (\S+), which"
)
"""What says that a file is gone, and which."""


@dataclass(slots=True)
class Reading:
    """A version of a table while it is read. As a context manager it deletes its tag at the end."""

    frame: "DataFrame"
    plan: ReadPlan
    """What is read: the snapshot, and what is left out (`plan.counts`)."""
    tag: str | None
    """The tag that protects the version; `None`: nothing does."""
    table: Table
    warnings: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        if isinstance(error, Exception) and not isinstance(error, MaintenanceError):
            raise_gone(self.plan, error)

    def close(self) -> None:
        """Delete the tag. If that fails, the tag stays until its time is over, and `warnings` says so."""
        tag, self.tag = self.tag, None
        if tag is not None and (warning := release(self.table, tag)) is not None:
            self.warnings.append(warning)


def read_table(
    session: "SparkSession",
    table: str,
    *,
    version: Version | str | int | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    zone: str | None = None,
    branch: str = "main",
    control: str | None = None,
    protect_ms: int | None = PROTECTED_FOR_MS,
    settings: StoreSettings = DEFAULT_SETTINGS,
) -> "DataFrame":
    """Return the rows of a version of a table, as Paimon's readers see them.

    Append tables are read, and primary-key tables that have deletion vectors or are compacted; others are refused. Rows
    of level 0 are left out if the table has deletion vectors, as by every reader. Values are converted by
    `lakesweep.spark.reading.types`; the time zone of the session does not change them.

    Args:
        session: The session.
        table: The location of the table.
        version: A snapshot's id as `int`; a tag, `watermark-<n>` or a snapshot's id as `str`; or a `Version` for times
            and watermarks. Default: the latest snapshot.
        columns: The wanted columns, in the order of the result. Default: all.
        where: A condition on rows in Spark's SQL (`lakesweep.model.where`). Files that certainly have no such row are
            not read. Spark shows the condition in its plans and event logs.
        zone: The time zone of times in the condition. Default: the session's.
        branch: The branch.
        control: The control location, which the protection of the version needs.
        protect_ms: How long a tag protects the version from being expired; see the module. `None`: nothing protects it,
            and no right to write is needed. If files are expired meanwhile, actions fail.
        settings: How driver and executors reach S3.

    Raises:
        UsageError: An argument is wrong, or there is no control location.
        RefusedError: The version does not exist, cannot be read as it is, or cannot be protected.
        StorageError: A request failed.
    """
    return open_reading(
        session,
        table,
        version=version,
        columns=columns,
        where=where,
        zone=zone,
        branch=branch,
        control=control,
        protect_ms=protect_ms,
        settings=settings,
    ).frame


def open_reading(
    session: "SparkSession",
    table: str | Table,
    *,
    version: Version | str | int | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    zone: str | None = None,
    branch: str = "main",
    control: str | None = None,
    protect_ms: int | None = PROTECTED_FOR_MS,
    settings: StoreSettings = DEFAULT_SETTINGS,
    falls_back_to_tags: bool = False,
) -> Reading:
    """Return a version to read; see `read_table`.

        with open_reading(spark, "s3://lake/sales.db/orders", control="s3://lake-control") as reading:
            reading.frame.groupBy("region").count().show()

    Args:
        session: The session.
        table: The location of the table, or the opened table (`branch` and `control` are in it then).
        version: See `read_table`, as all others.
        columns: The wanted columns.
        where: A condition on rows.
        zone: The time zone of times in it.
        branch: The branch.
        control: The control location.
        protect_ms: How long the tag lives if the block never ends, since the process dies.
        settings: How driver and executors reach S3.
        falls_back_to_tags: If the snapshot has expired, take a tag that still holds it.
    """
    opened = table if isinstance(table, Table) else open_table(table, branch, control, settings)
    plan = plan_read(
        opened,
        _version_of(version),
        columns=columns,
        where=where,
        zone=zone or str(session.conf.get("spark.sql.session.timeZone")),
        falls_back_to_tags=falls_back_to_tags,
    )
    tag = None if protect_ms is None else protect(opened, plan, protect_ms)
    try:
        frame = frame_of(session, plan, settings)
    except BaseException:
        if tag is not None:
            release(opened, tag)
        raise
    return Reading(frame, plan, tag, opened)


def frame_of(session: "SparkSession", plan: ReadPlan, settings: StoreSettings = DEFAULT_SETTINGS) -> "DataFrame":
    """Return the rows of a plan.

    Raises:
        RefusedError: A data file does not exist.
        FormatError: A data file has another size.
    """
    access = Access(plan.table, "", settings)
    root = spark_root(session, plan.table, has_endpoint=settings.endpoint_url is not None)
    routes = choose(plan, spark_sees_table=root is not None)
    frames = [] if root is None else list(jvm.frames(session, access, plan, routes, root))
    through_arrow = arrow.frame(session, access, plan, routes)
    if through_arrow is not None:
        frames.append(through_arrow)
    if not frames:
        return session.createDataFrame([], spark_schema(column.field for column in plan.columns))
    return reduce(lambda some, more: some.unionAll(more), frames)


def raise_gone(plan: ReadPlan, error: Exception) -> None:
    """Raise what an error of Spark means, if it says that a file of the version is gone.

    Raises:
        RefusedError: Some file is.
    """
    found = _GONE.search(str(error))
    if found is not None:
        version = f"snapshot {plan.snapshot_id}" if plan.tag is None else f"tag {plan.tag}"
        raise RefusedError(
            f"table {plan.table}: expected all files of {version} while it was read, but {found[found.lastindex or 0]} "
            "is gone; if the version has expired, read a later one, and protect it",
            code=MISSING,
        ) from error


def _version_of(version: Version | str | int | None) -> Version:
    if isinstance(version, Version):
        return version
    return Version(snapshot_id=version) if isinstance(version, int) else Version(version=version)
