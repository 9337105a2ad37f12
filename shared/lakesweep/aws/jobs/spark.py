"""Look after scans on Spark: start the job that plans and, if requested, the job that executes the plan.

Three things trigger this code: a request, an event about a job run, and a check of all open scans every ten minutes.
The trigger itself is not trusted. In each case Lakesweep reads the scan's document and asks EMR about the current job
run. So events may be doubled, late or lost. An event about an attempt that has ended changes nothing.

Actions that a step takes before it stores its state can be repeated. EMR recognises the token of a job run. A plan that
is handed over twice is executed once.
"""

from contextlib import suppress
from dataclasses import replace

from lakesweep.aws.emr import EmrSettings, parse_name, start_job_run
from lakesweep.aws.jobs.documents import (
    FAILED,
    HANDED_OVER,
    REFUSED,
    JobDocument,
    job_name,
    note_open,
    note_over,
    read_job,
    read_open,
    write_job,
)
from lakesweep.aws.jobs.emr_serverless import JobRefusedError, JobRun, Jobs
from lakesweep.aws.jobs.steps import LEASE_HELD, held_back, job_of, next_step
from lakesweep.aws.messages import BY_POLICY_ALONE, SparkPoll, SparkRun, SparkScan, Work, is_ours, message_of
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.result import DAMAGED, PlanResult, ScanResult
from lakesweep.control.area import ControlArea, table_key
from lakesweep.control.lease import read_lease
from lakesweep.errors import (
    FormatError,
    LeaseHeldError,
    MaintenanceError,
    ObjectNotFoundError,
    OutOfTimeError,
    PreconditionFailedError,
    UsageError,
)
from lakesweep.format.values.json_document import get_object, get_str, parse_object, wrong_type
from lakesweep.model.safety import BATCH_RESERVE_MS, JOB_HELD_MS
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.wrappers.deadline import Deadline

STATE_CHANGE = "EMR Serverless Job Run State Change"
NOT_STARTED = "NOT_STARTED"
"""State of an attempt that EMR refused."""


class SparkJobs:
    """The scans of one deployment, in one invocation."""

    def __init__(self, runtime: Runtime, jobs: Jobs, context: Context) -> None:
        """Create it.

        Args:
            runtime: The function's runtime.
            jobs: The service that runs jobs.
            context: The context of this invocation.

        Raises:
            UsageError: The deployment has no Spark.
        """
        if runtime.settings.emr is None:
            raise UsageError("LAKESWEEP_SPARK_APPLICATION: expected an application, found none", code="bad_setting")
        self._runtime = runtime
        self._emr: EmrSettings = runtime.settings.emr
        self._jobs = jobs
        self._deadline = Deadline(context.get_remaining_time_in_millis)
        self._control = open_store(runtime.settings.control, counter=RequestCounter())

    def take(self, body: str, name: str) -> None:
        """Handle a message or an event.

        Raises:
            FormatError: It is neither.
            MaintenanceError: It failed, and another attempt may succeed.
        """
        document = parse_object(body.encode("utf-8", "surrogatepass"), name)
        if not is_ours(document):
            self._hear(document, name)
            return
        message = message_of(document, name)
        if isinstance(message, SparkScan | SparkRun):
            self._begin(message, name)
        elif isinstance(message, SparkPoll):
            self.look_at_all()
        else:
            raise wrong_type(name, "kind", "spark, spark_run or spark_poll", message.kind)

    def look_at_all(self) -> None:
        """Check every open scan. If one check fails, the others run all the same.

        Raises:
            StorageError: The list of open scans could not be read.
        """
        telemetry = self._runtime.telemetry
        for scan_id, table in read_open(self._control).items():
            try:
                self._deadline.check("the scans on Spark", BATCH_RESERVE_MS)
                self._look(self._area(table), scan_id)
            except OutOfTimeError:
                return  # the next check is ten minutes away
            except MaintenanceError as error:
                telemetry.count("RunsFailed")
                telemetry.warn(f"scan {scan_id}: {error}", table=table, code=error.code)

    def _begin(self, message: SparkScan | SparkRun, name: str) -> None:
        telemetry = self._runtime.telemetry
        if not self._runtime.is_ours(message.table, name):
            return
        area = self._area(message.table)
        if isinstance(message, SparkRun) and message.arguments == BY_POLICY_ALONE and self._is_asked_for(message):
            telemetry.tell(f"scan {message.scan_id}: another one does the same", table=message.table)
            return
        note_open(self._control, message.scan_id, message.table)
        now_ms = self._control.now_ms()
        document = JobDocument(
            scan_id=message.scan_id,
            table=message.table,
            branch=message.branch,
            arguments=message.arguments,
            execute=message.execute,
            created_ms=now_ms,
            updated_ms=now_ms,
        )
        if isinstance(message, SparkScan):
            document = replace(
                document,
                execute=message.execute or message.plan_id is not None,
                confirm=message.confirm,
                manual=message.manual,
                kind="plan" if message.plan_id is None else "execute",
                plan_id=message.plan_id,
            )
        else:
            document = replace(document, kind="run", operation=message.operation)
        try:
            write_job(area, document, None)
        except PreconditionFailedError:
            telemetry.tell(f"scan {message.scan_id}: requested again", table=message.table)
        self._look(area, message.scan_id)

    def _is_asked_for(self, message: SparkRun) -> bool:
        """Tell whether an open job does what a pass asks for. A pass asks again while a job takes long."""
        for scan_id, table in read_open(self._control).items():
            if table == message.table and scan_id != message.scan_id:
                with suppress(ObjectNotFoundError):
                    known, _ = read_job(self._area(table), scan_id)
                    if (known.operation, known.branch, known.arguments) == (
                        *(message.operation, message.branch),
                        message.arguments,
                    ):
                        return not known.is_over
        return False

    def _hear(self, event: dict[str, object], name: str) -> None:
        """Check the scan that an event is about."""
        telemetry = self._runtime.telemetry
        telemetry.count("EventsReceived")
        detail = get_object(event, "detail", name)
        if event.get("detail-type") != STATE_CHANGE:
            raise wrong_type(name, "detail-type", STATE_CHANGE, event.get("detail-type"))
        named = parse_name(get_str(detail, "jobRunName", name) or "")
        if named is None or get_str(detail, "applicationId", name) != self._emr.application_id:
            telemetry.count("EventsIgnored")
            return
        key, scan_id = named
        table = read_open(self._control).get(scan_id)
        if table is None or table_key(table) != key:
            telemetry.count("EventsIgnored")  # a late event: the scan has ended
            return
        self._look(self._area(table), scan_id)

    def _look(self, area: ControlArea, scan_id: str) -> None:
        try:
            document, etag = read_job(area, scan_id)
        except ObjectNotFoundError:
            # The function that listed the scan died before it wrote the document. The message of the request comes
            # again.
            self._runtime.telemetry.warn(f"scan {scan_id}: listed as open, but without a document", table=area.table)
            return
        try:
            self._advance(area, document, etag)
        except PreconditionFailedError:
            self._runtime.telemetry.tell(f"scan {scan_id}: another function continues it", table=area.table)

    def _advance(self, area: ControlArea, document: JobDocument, etag: str) -> None:
        """Take the steps that are possible now."""
        if not document.is_over and document.job_run_id is None:
            self._start(area, document, etag)
            return
        if not document.is_over and document.job_run_id is not None:
            run = self._jobs.look(self._emr.application_id, document.job_run_id)
            if not run.is_over:
                return
            result = self._result(area, document)
            document = next_step(document, run, result, self._runtime.settings.may_delete)
            if document.state == HANDED_OVER:
                work = Work(document.table, document.branch, document.plan_id, manual=document.manual)
                self._runtime.queues.hand_over(work)
            etag = self._write(area, document, etag)
            if result is not None and result.status == DAMAGED:
                self._runtime.telemetry.count("RunsDamaged")
                self._runtime.telemetry.warn(f"scan {document.scan_id}: the table is damaged", table=document.table)
            if not document.is_over and run.exit_code != LEASE_HELD:
                self._start(area, document, etag)
            return
        note_over(self._control, document.scan_id)

    def _write(self, area: ControlArea, document: JobDocument, etag: str) -> str:
        """Store the new state of a scan, and report it."""
        etag = write_job(area, replace(document, updated_ms=self._control.now_ms()), etag)
        self._tell(document)
        if document.is_over:
            note_over(self._control, document.scan_id)
        return etag

    def _start(self, area: ControlArea, document: JobDocument, etag: str) -> None:
        held = held_back(document, self._runtime.settings) or self._held_too_long(area, document)
        if held is not None:
            self._write(area, held, etag)
            return
        if self._is_held(area, document):
            return  # a job would find the lease held, too; the next check is ten minutes away
        arguments = start_job_run(job_of(document), self._emr)
        try:
            job_run_id = self._jobs.start(arguments)
        except JobRefusedError as error:
            # Count it as an attempt, so that this ends. The next check makes the next attempt: EMR may not know a new
            # role yet.
            run = JobRun("", NOT_STARTED, str(error))
            self._write(area, next_step(document, run, None, self._runtime.settings.may_delete), etag)
            return
        write_job(area, replace(document, job_run_id=job_run_id, updated_ms=self._control.now_ms()), etag)
        self._runtime.telemetry.count("SparkJobsStarted")
        self._runtime.telemetry.tell(
            f"scan {document.scan_id}: job run {job_run_id} started",
            table=document.table,
            kind=document.kind,
            attempt=document.attempt,
        )

    def _is_held(self, area: ControlArea, document: JobDocument) -> bool:
        return document.kind == "execute" and read_lease(area).expires_ms > self._control.now_ms()

    def _held_too_long(self, area: ControlArea, document: JobDocument) -> JobDocument | None:
        if self._control.now_ms() - document.updated_ms < JOB_HELD_MS or not self._is_held(area, document):
            return None
        why = f"other maintainers held the lease at every check for {JOB_HELD_MS // 3_600_000} hours"
        return replace(document, state=FAILED, code=LeaseHeldError.code, why=why)

    def _result(self, area: ControlArea, document: JobDocument) -> PlanResult | None:
        if document.kind == "execute":
            return None
        try:
            return ScanResult(area, document.state_id or document.scan_id).read()
        except FormatError as error:
            # Another attempt writes the result again. Until then it counts as absent, so no plan is executed.
            self._runtime.telemetry.warn(f"scan {document.scan_id}: {error}", table=document.table, code=error.code)
            return None

    def _tell(self, document: JobDocument) -> None:
        names = ("table", "state", "kind", "attempt", "plan_id", "action_count", "code", "why")
        facts = {name: getattr(document, name) for name in names} | {"document": job_name(document.scan_id)}
        telemetry = self._runtime.telemetry
        metric = {FAILED: "SparkJobsFailed", REFUSED: "RunsRefused"}.get(document.state)
        if metric is not None:
            telemetry.count(metric)
        (telemetry.tell if metric is None else telemetry.warn)(f"scan {document.scan_id}: {document.state}", **facts)

    def _area(self, table: str) -> ControlArea:
        return ControlArea(self._control, table)
