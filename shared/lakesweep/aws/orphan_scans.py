"""Take a turn of a scan for orphan files: begin it, or look how far its tasks are, and hand over the plan at its end.

The first turn chooses who does it. A small table is planned right here. For others, functions list and decode in tasks
(`lakesweep.fan_out`), and every later turn looks what has been done, until the plan is there. The largest go to Spark.

A turn may come twice, late, or after the death of the one before it. What a scan came to lies in its `result.json`,
which is written once, and a plan that is handed over twice is carried out once.
"""

from dataclasses import replace

from lakesweep.aws.messages import OrphanScan, SparkScan, Work
from lakesweep.aws.orphan_arguments import OPERATION, call_of, of_the_scan, orphan_arguments
from lakesweep.aws.orphan_outbox import ScanOutbox
from lakesweep.aws.orphan_schedule import FAILED, note_end
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scan_result import ScanResult, result_of
from lakesweep.aws.spark_jobs import PlanResult
from lakesweep.errors import MaintenanceError, OutOfTimeError, RefusedError
from lakesweep.fan_out import scan as fan_out
from lakesweep.fan_out.scan import Basis
from lakesweep.model.report import RunReport
from lakesweep.operations.context import Table
from lakesweep.operations.fleet import may_delete, watched_ruling
from lakesweep.operations.registry import run_operation
from lakesweep.operations.run import refused, require_area

ON_SPARK = "on_spark"
"""How a scan ended here that goes on there."""
_AGAIN_S = 60


def carry_on(runtime: Runtime, message: OrphanScan, context: Context, name: str) -> None:
    """Take the turn that a message asks for.

    Args:
        runtime: Of the function.
        message: Of the scan.
        context: Of this invocation.
        name: What log lines call the message.

    Raises:
        MaintenanceError: It failed in a way that another attempt may not.
    """
    telemetry = runtime.telemetry
    if not runtime.settings.allows(message.table):
        telemetry.count("EventsRejected")
        telemetry.warn(f"{name}: a table that is none of this deployment's", table=message.table[:200])
        return
    try:
        table = runtime.open_table(message.table, message.branch, context)
        try:
            _Turn(runtime, message, table).take()
        finally:
            telemetry.count_requests(table.counter.snapshot())
    except MaintenanceError as error:
        telemetry.count("RunsFailed")
        telemetry.warn(f"{name}: {error}", table=message.table, scan_id=message.scan_id, code=error.code)
        raise


class _Turn:
    """One turn of one scan."""

    def __init__(self, runtime: Runtime, message: OrphanScan, table: Table) -> None:
        self._runtime = runtime
        self._message = message
        self._table = table
        self._result = ScanResult(require_area(table), message.scan_id)
        self._outbox = ScanOutbox(runtime, message)

    def take(self) -> None:
        message = self._message
        try:
            if message.turn == 0:
                self._begin()
            else:
                self._fold()
        except RefusedError as error:
            self._end(refused(self._table, OPERATION, error))
        except OutOfTimeError as error:
            self._again(message, str(error))
        if self._outbox.is_stuck:
            self._runtime.telemetry.count("HopLimitReached")
            self._fail("its tasks came no further; their dead letters and the log of their function say why")

    def _begin(self) -> None:
        message, telemetry = self._message, self._runtime.telemetry
        call = call_of(message.arguments)
        found = self._result.read()
        if found is not None:  # this turn comes again, and the scan is over
            self._close(found)
            return
        if not message.by_hand:
            watched_ruling(self._table)  # a table that was paused since it was asked for needs no scan
        engine = self._engine()
        telemetry.count("OrphanScansBegun")
        telemetry.tell(f"scan {message.scan_id}: {engine}", table=message.table, execute=message.execute)
        if engine == "local":
            self._plan_here()
        elif engine == "spark":
            scan = SparkScan(message.table, message.scan_id, message.branch, message.arguments, message.execute)
            self._runtime.queues.ask_for_scan(scan)
            self._note_end(ON_SPARK)
        else:
            fan_out.begin(self._table, message.scan_id, orphan_arguments(call), self._outbox, Basis())

    def _engine(self) -> str:
        """Choose who does it."""
        message = self._message
        wanted = message.arguments.get("engine")
        if wanted == "spark" and not self._runtime.queues.has_spark:
            self._runtime.telemetry.warn(
                f"scan {message.scan_id}: this deployment has no Spark, so functions do it", table=message.table
            )
        elif wanted in ("local", "spark"):
            return str(wanted)
        return "lambda"

    def _plan_here(self) -> None:
        message = self._message
        try:
            report = run_operation(self._table, OPERATION, of_the_scan(message.arguments), execute=False)
        except OutOfTimeError as error:
            smaller = replace(message, arguments={**message.arguments, "engine": "lambda"})
            self._again(smaller, f"too large for one function: {error}", delay_s=0)
            return
        if report.status == "stale":
            self._again(message, "the table changed while it was read")
            return
        self._end(report)

    def _fold(self) -> None:
        message, telemetry = self._message, self._runtime.telemetry
        ended = fan_out.fold(self._table, message.scan_id, message.turn, self._outbox)
        if ended is None:
            return
        for metric, key in (("OrphanObjectsListed", "objects"), ("OrphanEntriesDecoded", "entries_decoded")):
            value = ended.result.get(key)
            if isinstance(value, int):
                telemetry.count(metric, value)
        if ended.status == "failed":
            self._fail(ended.refusal.message if ended.refusal is not None else "its result says why")
            return
        self._end(
            RunReport(
                operation=OPERATION,
                table=message.table,
                branch=message.branch,
                status=ended.status,
                plan=ended.plan,
                refusal=ended.refusal,
            )
        )

    def _end(self, report: RunReport) -> None:
        """Tell how the scan ended, leave that for whoever waits for it, and have its plan carried out."""
        telemetry, plan = self._runtime.telemetry, report.plan
        telemetry.record(replace(report, requests={}))  # which are counted where they are made
        if plan is not None and not plan.is_empty:
            telemetry.count("OrphansFound", plan.header.action_count)
            telemetry.count("OrphanBytesFound", plan.delete_bytes)
        self._close(self._result.leave(result_of(report)))

    def _fail(self, why: str) -> None:
        """End a scan that comes no further. Its table is scanned again before the next interval is over."""
        message, telemetry = self._message, self._runtime.telemetry
        telemetry.count("OrphanScansFailed")
        telemetry.warn(f"scan {message.scan_id} failed: {why}", table=message.table, scan_id=message.scan_id)
        self._close(self._result.leave(PlanResult(FAILED, code="scan_failed", why=why)))

    def _close(self, result: PlanResult) -> None:
        """Have a plan carried out, where that was asked for and may be, and note that the scan is over."""
        message = self._message
        if message.execute and result.status == "planned" and result.plan_id is not None:
            why = self._why_not(result)
            if why is None:
                work = Work(message.table, message.branch, result.plan_id, by_hand=message.by_hand)
                self._runtime.queues.hand_over(work)
            else:
                self._runtime.telemetry.tell(
                    f"scan {message.scan_id}: plan {result.plan_id} is not carried out: {why}", table=message.table
                )
        self._note_end(result.status)

    def _why_not(self, result: PlanResult) -> str | None:
        """Return why a plan is not carried out; since it was asked for, rules may have changed."""
        if result.needs_confirmation:
            return "it takes more than it leaves; whoever asks for it has to confirm it"
        if not self._runtime.settings.may_delete:
            return "this deployment observes"
        try:
            ruling = watched_ruling(self._table)
        except RefusedError as error:
            return str(error)
        return None if self._message.by_hand or may_delete(ruling) else "the fleet policy says to observe the table"

    def _again(self, message: OrphanScan, why: str, delay_s: int = _AGAIN_S) -> None:
        telemetry = self._runtime.telemetry
        if self._runtime.queues.again(message, delay_s):
            telemetry.count("Continuations")
            telemetry.tell(f"scan {message.scan_id}: this turn comes again", table=message.table, why=why)
        else:
            telemetry.count("HopLimitReached")
            self._fail(why)

    def _note_end(self, status: str) -> None:
        if not self._message.by_hand:
            area = require_area(self._table)
            note_end(area, self._message.scan_id, status, area.store.now_ms())
