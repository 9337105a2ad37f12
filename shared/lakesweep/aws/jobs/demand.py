"""Ask for a job on Spark: a scan, the execution of a stored plan, or an operation that functions cannot carry out.

Functions lack what reads rows. A request is stored, as a message and as a document. So it names an object with the
condition on rows, and has no value of it.
"""

from collections.abc import Mapping

from lakesweep.aws.jobs.documents import job_name
from lakesweep.aws.messages import SparkRun, SparkScan
from lakesweep.aws.queues import Queues
from lakesweep.aws.scans.result import ScanResult
from lakesweep.errors import UsageError
from lakesweep.operations.rows.condition import check_stated
from lakesweep.runs.execution import require_area
from lakesweep.runs.fleet import watched_ruling
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.parameters.erasure import ERASE, FINISH
from lakesweep.runs.parameters.parameter import Call
from lakesweep.runs.parameters.rows import DELETE_ROWS, KEEP_CONDITION, SHOW_ROWS, WHERE, WHERE_FILE
from lakesweep.runs.parameters.signatures import SIGNATURES
from lakesweep.runs.session import Table

_SPARK = "spark"


def ask_for_scan(
    queues: Queues,
    table: Table,
    arguments: Mapping[str, object],
    plan_id: str | None,
    *,
    execute: bool,
    confirms: bool = False,
) -> dict[str, object]:
    """Request a scan, or the execution of a stored plan, and return where its state will be.

    Raises:
        StorageError: The request could not be sent.
    """
    area = require_area(table)
    scan = SparkScan(
        table.ref.location,
        new_id(area.store.now_ms()),
        table.ref.branch,
        arguments,
        execute,
        plan_id,
        confirm=confirms,
        manual=True,
    )
    queues.ask_for_scan(scan)
    return {"scan_id": scan.scan_id, "job": area.path(job_name(scan.scan_id)), "plan_id": scan.plan_id}


def ask_for_run(
    queues: Queues, table: Table, operation: str, arguments: Mapping[str, object], *, execute: bool
) -> dict[str, object]:
    """Request an operation, or its dry run, and return where its state, its result and its report will be.

    Raises:
        UsageError: An argument is not valid, or would be stored or printed with values of rows.
        RefusedError: The fleet policy pauses the table.
        StorageError: The request could not be sent.
    """
    _check(operation, arguments)
    if execute:
        watched_ruling(table)
    area = require_area(table)
    given = {name: value for name, value in arguments.items() if value is not None}
    job = SparkRun(operation, table.ref.location, new_id(area.store.now_ms()), table.ref.branch, given, execute)
    queues.ask_for_scan(job)
    return {
        "scan_id": job.scan_id,
        "job": area.path(job_name(job.scan_id)),
        "result": ScanResult(area, job.scan_id).path,
        "plan_id": None,
        **({"run_id": job.scan_id, "report": area.path(f"reports/{job.scan_id}.json")} if execute else {}),
    }


def _check(operation: str, arguments: Mapping[str, object]) -> None:
    call = SIGNATURES[operation].parse(arguments)
    engine = call.values.get("engine")
    if engine not in (None, _SPARK):
        raise UsageError(f"engine: expected {_SPARK}, found {engine!r}", code="bad_argument")
    if call[FINISH] is not None:
        raise UsageError(
            "finish: it deletes files, and such a job deletes none; expected `lakesweep erase --finish`, or that the "
            "passes expire what is due",
            code="bad_argument",
        )
    if operation in (DELETE_ROWS.name, ERASE.name):
        _check_rows(operation, call)


def _check_rows(operation: str, call: Call) -> None:
    if call[WHERE] is not None and not call[KEEP_CONDITION]:
        may_keep = KEEP_CONDITION.name in SIGNATURES[operation].arguments
        raise UsageError(
            "where: its values would be stored with the request; expected where_file, the location of an object with "
            f"the condition (s3://bucket/key){', or keep_condition to be true' if may_keep else ''}",
            code="condition_in_request",
        )
    if call[SHOW_ROWS]:
        raise UsageError("show_rows: rows would come into the job's log; expected no show_rows", code="bad_argument")
    check_stated(call[WHERE], call[WHERE_FILE])
