"""One step of a scan for orphan files: begin it, or check which tasks have ended, and hand over the plan at the end.

The first step chooses the backend. It plans a small table itself. For a larger table, functions list and decode in
tasks (`operations/orphans/fan_out`). Every later step checks what is done, until the plan exists. Spark scans the
largest tables.

A step may come twice, late, or after an earlier attempt died. The result of a scan is in its `result.json`, which is
written once. A plan that is handed over twice is executed once.
"""

from collections.abc import Mapping
from dataclasses import replace

from lakesweep.aws.messages import OrphanScan, SparkScan, Work
from lakesweep.aws.orphan_arguments import OPERATION, call_of, of_the_scan
from lakesweep.aws.recording import record
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.engine import FUNCTIONS, HERE, Chosen, choose_here
from lakesweep.aws.scans.result import PlanResult, ScanResult, document_of, plan_result_of
from lakesweep.aws.scans.schedule import FAILED, note_end
from lakesweep.aws.scans.tasks import ScanOutbox
from lakesweep.errors import (
    AccessDeniedError,
    MaintenanceError,
    OutOfTimeError,
    RefusedError,
    StalePlanError,
    StorageError,
    UsageError,
)
from lakesweep.model.receipt import RunReceipt
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.costs import compare, happened_by, note_fan_out
from lakesweep.operations.orphans.fan_out import scan as fan_out
from lakesweep.operations.orphans.fan_out.scan import Ended
from lakesweep.operations.registered.orphans import orphan_arguments
from lakesweep.operations.registry import run_operation
from lakesweep.runs.execution import require_area
from lakesweep.runs.fleet import may_delete, watched_ruling, why_kept
from lakesweep.runs.receipts import call_receipt
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table

ON_SPARK = "on_spark"
"""Status of a scan that ended here because Spark continues it."""
_AGAIN_S = 60
_OF_OTHERS = "other_scan"
"""Code of a scan whose id belongs to another scan. It must not write the result of the other scan."""
_GONE = "no_such_scan"


def carry_on(runtime: Runtime, message: OrphanScan, context: Context, name: str) -> None:
    """Run the step that a message asks for.

    Args:
        runtime: The function's runtime.
        message: The message of the scan.
        context: The context of this invocation.
        name: Name of the message in log lines.

    Raises:
        MaintenanceError: It failed, and another attempt may succeed.
    """
    telemetry = runtime.telemetry
    if not runtime.is_ours(message.table, name):
        return
    try:
        table = runtime.open_table(message.table, message.branch, context)
        try:
            _Step(runtime, message, table, context).take()
        finally:
            telemetry.count_requests(table.counter.snapshot())
    except MaintenanceError as error:
        telemetry.count("RunsFailed")
        telemetry.warn(f"{name}: {error}", table=message.table, scan_id=message.scan_id, code=error.code)
        raise


class _Step:
    """One step of one scan."""

    def __init__(self, runtime: Runtime, message: OrphanScan, table: Table, context: Context) -> None:
        self._runtime = runtime
        self._message = message
        self._table = table
        self._context = context
        self._result = ScanResult(require_area(table), message.scan_id)
        self._outbox = ScanOutbox(runtime, message)

    def take(self) -> None:
        message = self._message
        try:
            if message.step == 0:
                self._begin()
            else:
                self._advance()
        except StalePlanError as error:
            self._again(message, str(error))
        except RefusedError as error:
            report = refused(self._table, OPERATION, error)
            if error.code == _OF_OTHERS:
                record(self._runtime.telemetry, report)
            else:
                self._end(report)
        except UsageError as error:  # a caller that waits for the scan reads the error in its result
            self._end(refused(self._table, OPERATION, RefusedError(str(error), code=error.code)))
        except OutOfTimeError as error:
            self._again(message, str(error))
        except AccessDeniedError:
            raise
        except StorageError as error:
            # Repeat it here: the queue would bring the message back later, as its timeout assumes that the worker died.
            self._runtime.telemetry.count("RunsFailed")
            self._again(message, str(error))
        if self._outbox.is_stuck:
            self._runtime.telemetry.count("HopLimitReached")
            self._give_up("its tasks reported nothing for too long; see their dead-letter queue and the workers' log")

    def _begin(self) -> None:
        message = self._message
        call = call_of(message.arguments)
        found = self._result.read()
        if found is not None:  # this message came again after the scan had ended
            self._close(found)
            return
        if not message.manual:
            watched_ruling(self._table)  # a table that was paused after the request needs no scan
        arguments = orphan_arguments(call)
        if fan_out.has_begun(self._table, message.scan_id):
            # The scan was silent for long, so it was requested again. The facts about the table have changed since.
            # They might lead to another backend, beside the tasks of this scan.
            self._begin_tasks(arguments, Chosen(FUNCTIONS, "it has begun"))
            return
        chosen = choose_here(self._runtime, self._table, message.arguments, arguments, self._context)
        self._runtime.telemetry.count("OrphanScansBegun")
        self._runtime.telemetry.tell(
            f"scan {message.scan_id}: {chosen.sentence}", table=message.table, execute=message.execute
        )
        if chosen.engine == HERE:
            self._plan_here(chosen)
        elif chosen.engine == FUNCTIONS:
            self._begin_tasks(arguments, chosen)
        else:
            objects = {"objects": chosen.facts.objects} if chosen.facts is not None else {}
            words = {**message.arguments, **objects}
            scan = SparkScan(
                message.table, message.scan_id, message.branch, words, message.execute, manual=message.manual
            )
            self._runtime.queues.ask_for_scan(scan)
            self._note_end(ON_SPARK)

    def _plan_here(self, chosen: Chosen) -> None:
        message = self._message
        arguments = {**of_the_scan(message.arguments), "engine": HERE}
        try:
            report = run_operation(self._table, OPERATION, arguments, execute=False)
        except OutOfTimeError as error:
            smaller = replace(message, arguments={**message.arguments, "engine": FUNCTIONS})
            self._again(smaller, f"too large for one function: {error}", delay_s=0)
            return
        if report.status == "stale":
            self._again(message, "the table changed while it was read")
            return
        self._compare(HERE, (report.engine or {}).get("happened"), chosen.basis.get("estimate"))
        self._end(report, chosen.basis)

    def _begin_tasks(self, arguments: OrphanArguments, chosen: Chosen) -> None:
        scan_id = self._message.scan_id
        try:
            fan_out.begin(self._table, scan_id, arguments, self._outbox, chosen.basis, chosen.facts)
        except MaintenanceError:
            ended = fan_out.find_end(self._table, scan_id)
            if ended is None:
                raise
            self._ended(ended)  # the error is lasting, so another attempt would end in the same way

    def _advance(self) -> None:
        message = self._message
        try:
            ended = fan_out.advance(self._table, message.scan_id, message.step, self._outbox)
        except MaintenanceError as error:
            if error.code != _GONE:
                raise
            self._runtime.telemetry.count("EventsIgnored")
            self._runtime.telemetry.tell(f"scan {message.scan_id}: its documents are gone", table=message.table)
            return
        if ended is not None:
            self._ended(ended)

    def _ended(self, ended: Ended) -> None:
        """Report how a scan by tasks ended."""
        message, telemetry, result = self._message, self._runtime.telemetry, dict(ended.result)
        for metric, key in (("OrphanObjectsListed", "objects"), ("OrphanEntriesDecoded", "entries_decoded")):
            if isinstance(value := result.get(key), int):
                telemetry.count(metric, value)
        if ended.status == FAILED:
            telemetry.count("OrphanScansFailed")
            telemetry.warn(f"scan {message.scan_id} failed", table=message.table, refusal=ended.refusal)
        else:
            refusal = None if ended.refusal is None else Refusal(ended.refusal["code"], ended.refusal["message"])
            self._record(
                RunReport(
                    operation=OPERATION,
                    table=message.table,
                    branch=message.branch,
                    status="refused" if refusal else _status_of(ended),
                    plan=ended.plan,
                    refusal=refusal,
                    receipt=RunReceipt().with_scan(happened_by(result)),
                )
            )
            self._compare(FUNCTIONS, happened_by(result), result.get("estimate"))
            note_fan_out(self._table, result, ended.plan)
        self._close(plan_result_of(result, self._result.path))

    def _end(self, report: RunReport, basis: Mapping[str, object] | None = None) -> None:
        """Report how a scan without tasks ended, and store the result for callers that wait for it."""
        self._record(call_receipt(self._table, report))
        self._close(self._result.leave(document_of(report, basis or {})))

    def _record(self, report: RunReport) -> None:
        telemetry, plan = self._runtime.telemetry, report.plan
        record(telemetry, replace(report, requests={}))  # the requests are already counted elsewhere
        if plan is not None and not plan.is_empty:
            telemetry.count("OrphansFound", plan.header.action_count)
            telemetry.count("OrphanBytesFound", plan.delete_bytes)

    def _compare(self, engine: str, what: object, estimate: object) -> None:
        if isinstance(what, Mapping) and isinstance(estimate, Mapping):
            sentence = f"scan {self._message.scan_id}: {engine}: {compare(estimate, what)}"
            self._runtime.telemetry.tell(sentence, table=self._message.table)

    def _give_up(self, why: str) -> None:
        """End a scan that makes no progress. The table is scanned again before the next interval is over."""
        self._ended(fan_out.give_up(self._table, self._message.scan_id, why))

    def _close(self, result: PlanResult) -> None:
        """Have a plan executed if this was requested and is allowed; note that the scan has ended."""
        message = self._message
        if message.execute and result.has_plan:
            why = self._why_not(result)
            if why is None:
                work = Work(message.table, message.branch, result.plan_id, manual=message.manual)
                self._runtime.queues.hand_over(work)
            else:
                self._runtime.telemetry.tell(
                    f"scan {message.scan_id}: plan {result.plan_id} is not executed: {why}", table=message.table
                )
        self._note_end(result.status)

    def _why_not(self, result: PlanResult) -> str | None:
        """Return why a plan is not executed. The rules may have changed since the request."""
        if result.needs_confirmation:
            return "it deletes more than it keeps, so a person has to confirm it"
        if not self._runtime.settings.may_delete:
            return "this deployment only observes"
        try:
            ruling = watched_ruling(self._table)
        except RefusedError as error:
            return str(error)
        return None if self._message.manual or ruling is None or may_delete(ruling) else why_kept(ruling)

    def _again(self, message: OrphanScan, why: str, delay_s: int = _AGAIN_S) -> None:
        telemetry = self._runtime.telemetry
        if self._runtime.queues.again(message, delay_s):
            telemetry.count("Continuations")
            telemetry.tell(f"scan {message.scan_id}: this step is repeated", table=message.table, why=why)
        else:
            telemetry.count("HopLimitReached")
            self._give_up(why)

    def _note_end(self, status: str) -> None:
        if not self._message.manual:
            area = require_area(self._table)
            note_end(area, self._message.scan_id, status, area.store.now_ms())


def _status_of(ended: Ended) -> Status:
    """Return the status of a scan that was not refused. Its plan tells whether the table is damaged."""
    return "nothing_to_do" if ended.plan is None or ended.plan.is_empty else "planned"
