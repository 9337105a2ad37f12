"""The engines that a caller chooses: for orphan files, for stored plans, for rows. Reads the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lakesweep.api.in_job import is_job
from lakesweep.api.place import Place, given
from lakesweep.errors import UsageError
from lakesweep.execute.waves.driver import KEYS_PER_S, MAX_KEYS_PER_S, MIN_KEYS_PER_S
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.execution import LOCAL, PlanExecutor
from lakesweep.runs.session import ScanBackend, Table
from lakesweep.storage.open import StoreSettings

if TYPE_CHECKING:
    from lakesweep.operations.reading.read import ReadRows
    from lakesweep.operations.rows.engine import RowsEngine
    from lakesweep.operations.writing.engine import RewritingEngine
    from lakesweep.spark.scan import SparkScan

_ENGINES = ("local", "spark")
_PATIENCE_S = 3600.0
"""`auto` lets a scan on this machine take at most half of this time."""


def with_backends(table: Table, place: Place, settings: StoreSettings) -> Table:
    """Return a table with the scan backends that are available.

    Functions are available if a queue and a control location are known and the table is on S3. Spark is available if it
    is installed.

    Args:
        table: The opened table.
        place: The place as typed.
        settings: Settings of its stores.
    """
    from lakesweep.model.scans import Available, LocalFacts, SparkFacts

    engines: dict[str, ScanBackend] = {"spark": SparkOnDemand(settings, place.scan_id)}
    queue_url = scan_queue(place)
    if queue_url is not None:
        from lakesweep.aws.scans.remote import LambdaScan

        engines["lambda"] = LambdaScan(queue_url, place.region, place.scan_id)
    cores = os.cpu_count() or 1
    available = Available(
        local=LocalFacts(memory_mib=_memory_mib(), seconds=_PATIENCE_S),
        has_fan_out="lambda" in engines and table.area is not None and table.ref.location.startswith("s3://"),
        spark=(lambda objects: SparkFacts(cores=cores)) if find_spec("pyspark") is not None else None,
    )
    return replace(table, scan_backends=engines, available=available)


def scan_queue(place: Place) -> str | None:
    """Return the URL of the queue at which a deployment takes scans; `None` if none is stated."""
    if place.scan_queue is not None:
        return given(place.scan_queue, "--scan-queue")
    return os.environ.get("LAKESWEEP_SCAN_QUEUE") or None


def _memory_mib() -> int:
    """Return this machine's memory in MiB."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (ValueError, OSError):
        return 2048


def chosen_executor(place: Place, table: Table, engine: str | None, rate: str | None) -> PlanExecutor:
    """Return the plan executor that `--engine` names.

    Args:
        place: The place as typed.
        table: The opened table.
        engine: `local`, `spark`, or `None` for `local`.
        rate: Objects a second, as typed.

    Raises:
        UsageError: An unknown word, a rate out of bounds, or Spark is missing.
    """
    if not _is_spark(engine):
        if rate is not None:
            raise UsageError("--rate: expected only with --engine spark", code="bad_argument")
        return LOCAL
    keys_per_s = _rate(rate)
    from lakesweep.spark.session import open_session

    try:
        from lakesweep.spark.execute import spark_executor
    except ImportError as error:
        raise _no_spark(error) from error
    settings = StoreSettings(endpoint_url=place.endpoint_url, region=place.region)
    return spark_executor(open_session, settings, table.counter, keys_per_s)


def read_on_spark(
    place: Place,
    table: Table,
    chosen: Mapping[str, Any],
    *,
    to: str,
    limit: int | None,
    protects: bool,
) -> "ReadRows":
    """Write the rows of a version by the tasks of Spark.

    Args:
        place: The place as typed.
        table: The opened table.
        chosen: What is read: arguments of `open_reading`.
        to: See `write_rows` of Spark.
        limit: The most rows; `None` for all.
        protects: A tag protects the version until the rows are written.

    Raises:
        MaintenanceError: As `open_reading` and `write_rows` say.
    """
    from lakesweep.model.safety import PROTECTED_FOR_MS
    from lakesweep.spark.session import open_session

    session = open_session()
    try:
        from lakesweep.spark.reading.read import open_reading
        from lakesweep.spark.reading.write import write_rows
    except ImportError as error:
        raise _no_spark(error) from error
    settings = StoreSettings(endpoint_url=place.endpoint_url, region=place.region)
    lives_ms = PROTECTED_FOR_MS if protects else None
    with open_reading(session, table, protect_ms=lives_ms, settings=settings, **chosen) as reading:
        tag = reading.tag
        found = write_rows(session, reading, to, limit)
    for warning in reading.warnings:
        table.say(warning)
    return replace(found, protected_by=tag)


def check_hidden(where: str | None, *, keep: bool, may_keep: bool) -> None:
    """Refuse a condition on the command line of a job, unless its values may be seen.

    Args:
        where: The condition.
        keep: Its values may be seen.
        may_keep: The command has an option that says so.

    Raises:
        UsageError: It is there.
    """
    if where is not None and not keep and is_job():
        raise UsageError(
            "where: Spark's event log has the command line of a job; expected where_file"
            + (", or keep_condition" if may_keep else ""),
            code="condition_in_request",
        )


def rows_engine(place: Place, table: Table, engine: str | None) -> "RowsEngine | None":
    """Return the engine of rows that `--engine` names; `None` for this process.

    Args:
        place: The place as typed.
        table: The opened table.
        engine: `local`, `spark`, or `None` for `local`.

    Raises:
        UsageError: An unknown word, or Spark is missing.
    """
    found: RowsEngine | None = _on_spark("lakesweep.spark.rows.engine", "SparkEngine", place, table, engine)
    return found


def compaction_engine(place: Place, table: Table, engine: str | None) -> "RewritingEngine | None":
    """Return the engine of compactions that `--engine` names; see `rows_engine`."""
    found: RewritingEngine | None = _on_spark("lakesweep.spark.rows.rewriting", "SparkRewriting", place, table, engine)
    return found


def _on_spark(module: str, name: str, place: Place, table: Table, engine: str | None) -> Any:
    if not _is_spark(engine):
        return None
    from lakesweep.spark.session import open_session

    try:
        made = getattr(import_module(module), name)
    except ImportError as error:
        raise _no_spark(error) from error
    settings = StoreSettings(endpoint_url=place.endpoint_url, region=place.region)
    return made(open_session, table, settings)


def _is_spark(engine: str | None) -> bool:
    if engine not in (None, *_ENGINES):
        raise UsageError(f"--engine: expected {' or '.join(_ENGINES)}, found {engine!r}", code="bad_argument")
    return engine == "spark"


def _rate(text: str | None) -> float:
    if text is None:
        return KEYS_PER_S
    if not (text.isascii() and text.isdigit() and MIN_KEYS_PER_S <= int(text) <= MAX_KEYS_PER_S):
        raise UsageError(
            f"--rate: expected a number from {MIN_KEYS_PER_S} to {MAX_KEYS_PER_S}, found {text!r}", code="bad_argument"
        )
    return int(text)


def _no_spark(error: ImportError) -> UsageError:
    return UsageError(f"engine spark: {error}; expected `pip install 'lakesweep[spark]'`", code="no_spark")


@dataclass(slots=True)
class SparkOnDemand:
    """Opens a session only when a plan is requested."""

    settings: StoreSettings
    scan_id: str | None = None
    _opened: "SparkScan | None" = None

    def plan(self, table: Table, arguments: OrphanArguments) -> Plan:
        """Plan on Spark; see `SparkScan.plan`."""
        return self._scan().plan(table, arguments)

    def finished(self, table: Table, report: RunReport) -> None:
        """Store how the scan ended."""
        self._scan().finished(table, report)

    def _scan(self) -> "SparkScan":
        if self._opened is not None:
            return self._opened
        from lakesweep.spark.session import open_session

        session = open_session()
        try:
            from lakesweep.spark.scan import SparkScan
        except ImportError as error:
            raise _no_spark(error) from error
        self._opened = SparkScan(session, self.settings, self.scan_id)
        return self._opened
