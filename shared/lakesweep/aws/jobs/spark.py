"""Look after scans on Spark: start the job that plans and, if requested, the job that executes the plan.

Three things trigger this code: a request, an event about a job run, and a check of all open scans every ten minutes.
The trigger itself is not trusted. In each case Lakesweep reads the scan's document and asks EMR about the current job
run. So events may be doubled, late or lost. An event about an attempt that has ended changes nothing.

Actions that a step takes before it stores its state can be repeated. EMR recognises the token of a job run. A plan that
is handed over twice is executed once.
"""

from dataclasses import dataclass, replace

from lakesweep.aws.emr import EmrSettings, SparkJob, parse_name, start_job_run
from lakesweep.aws.jobs.documents import (
    CANCELLED,
    EXECUTED,
    FAILED,
    HANDED_OVER,
    PLANNED,
    REFUSED,
    Ended,
    JobDocument,
    job_name,
    note_open,
    note_over,
    read_job,
    read_open,
    write_job,
)
from lakesweep.aws.jobs.emr_serverless import JobRefusedError, JobRun, Jobs
from lakesweep.aws.messages import SparkPoll, SparkScan, Work, is_ours, message_of
from lakesweep.aws.orphan_arguments import OF_THE_CHOICE
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.settings import Settings
from lakesweep.control.area import ControlArea, from_json_bytes, table_key
from lakesweep.control.lease import read_lease
from lakesweep.errors import (
    FormatError,
    LeaseHeldError,
    MaintenanceError,
    ObjectNotFoundError,
    OutOfTimeError,
    PreconditionFailedError,
    StalePlanError,
    UsageError,
)
from lakesweep.format.values.json_document import get_int, get_object, get_str, parse_object, require_str, wrong_type
from lakesweep.model.safety import BATCH_RESERVE_MS, JOB_HELD_MS
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.wrappers.deadline import Deadline

SCANS = "scans"
"""Folder with the documents of a table's scans, apart from lasting documents."""
STATE_CHANGE = "EMR Serverless Job Run State Change"
NOT_STARTED = "NOT_STARTED"
"""State of an attempt that EMR refused."""
MAX_ATTEMPTS = 3
MAX_HELD = 12
"""Additional attempts that may find another maintainer at work."""
MAX_ID = 40
SMALL_PLAN_ACTIONS = 100_000
"""A plan of at most this many actions needs no Spark: `execute_batch` ends before a job run would have started."""
FINAL_EXIT_CODES = frozenset({2, 3})
"""Exit codes of usage errors and refusals: the same call gets the same answer."""
DAMAGED = "damaged"
"""Status of a scan that found the table damaged. Its job ends with exit code 4, but the scan is complete."""
LEASE_HELD = 5
"""This exit code says that another maintainer is at work, so there is no hurry."""
MAX_DETAILS = 1000


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result that a planning job stores at its end: `scans/<table_key>/<scan_id>/result.json`."""

    status: str
    plan_id: str | None = None
    action_count: int = 0
    needs_confirmation: bool = False
    code: str | None = None
    why: str | None = None

    @property
    def has_plan(self) -> bool:
        """Tell whether there is a plan to execute. A scan of a damaged table may have found some orphans, too."""
        return self.plan_id is not None and (
            self.status == "planned" or (self.status == DAMAGED and self.action_count > 0)
        )


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
        if isinstance(message, SparkScan):
            self._begin(message, name)
        elif isinstance(message, SparkPoll):
            self.look_at_all()
        else:
            raise wrong_type(name, "kind", "spark or spark_poll", message.kind)

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

    def _begin(self, message: SparkScan, name: str) -> None:
        telemetry = self._runtime.telemetry
        if not self._runtime.is_ours(message.table, name):
            return
        area = self._area(message.table)
        note_open(self._control, message.scan_id, message.table)
        now_ms = self._control.now_ms()
        document = JobDocument(
            scan_id=message.scan_id,
            table=message.table,
            branch=message.branch,
            arguments=message.arguments,
            execute=message.execute or message.plan_id is not None,
            confirm=message.confirm,
            by_hand=message.by_hand,
            kind="plan" if message.plan_id is None else "execute",
            plan_id=message.plan_id,
            created_ms=now_ms,
            updated_ms=now_ms,
        )
        try:
            write_job(area, document, None)
        except PreconditionFailedError:
            telemetry.tell(f"scan {message.scan_id}: requested again", table=message.table)
        self._look(area, message.scan_id)

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
                work = Work(document.table, document.branch, document.plan_id, by_hand=document.by_hand)
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
        if document.kind != "plan":
            return None
        scans = replace(area, root=SCANS)
        name = result_name(document.state_id or document.scan_id)
        try:
            return plan_result_of(from_json_bytes(scans.read(name).data, scans.path(name)), scans.path(name))
        except ObjectNotFoundError:
            return None
        except FormatError as error:
            # Another attempt writes the result again. Until then it counts as absent, so no plan is executed.
            self._runtime.telemetry.warn(f"scan {document.scan_id}: {error}", table=document.table, code=error.code)
            return None

    def _tell(self, document: JobDocument) -> None:
        telemetry, facts = (
            self._runtime.telemetry,
            {
                "table": document.table,
                "state": document.state,
                "kind": document.kind,
                "attempt": document.attempt,
                "plan_id": document.plan_id,
                "action_count": document.action_count,
                "code": document.code,
                "why": document.why,
                "document": job_name(document.scan_id),
            },
        )
        sentence = f"scan {document.scan_id}: {document.state}"
        if document.state == FAILED:
            telemetry.count("SparkJobsFailed")
            telemetry.warn(sentence, **facts)
        elif document.state == REFUSED:
            telemetry.count("RunsRefused")
            telemetry.warn(sentence, **facts)
        else:
            telemetry.tell(sentence, **facts)

    def _area(self, table: str) -> ControlArea:
        return ControlArea(self._control, table)


def next_step(document: JobDocument, run: JobRun, result: PlanResult | None, may_delete: bool) -> JobDocument:
    """Return a scan's next state after its current job run has ended. Sends no request.

    Args:
        document: The current state.
        run: The job run of the attempt in the document.
        result: The planning job's result, if it stored one.
        may_delete: Whether this deployment executes plans.
    """
    ended = Ended(document.kind, document.attempt, run.job_run_id, run.state, run.details[:MAX_DETAILS])
    document = replace(document, job_run_id=None, ended=(*document.ended, ended))
    refused = run.exit_code in FINAL_EXIT_CODES or (result is not None and result.status == "refused")
    is_damaged = document.kind == "plan" and result is not None and result.code == FormatError.code
    is_stale = document.kind == "plan" and result is not None and result.code == StalePlanError.code
    if is_stale or is_damaged:
        refused = False  # an object vanished under the scan, or its state is damaged; the next attempt may succeed
    if run.state == "SUCCESS" and document.kind == "execute":
        return replace(document, state=EXECUTED)
    if document.kind == "plan" and result is not None and result.status == DAMAGED:
        planned = _planned(document, result, may_delete)
        return replace(planned, code=planned.code or DAMAGED, why=planned.why or "the table is damaged")
    if run.state == "SUCCESS" and result is not None and not refused:
        return _planned(document, result, may_delete)
    if refused:
        why = result.why if result is not None and result.why else run.details[:MAX_DETAILS]
        return replace(document, state=REFUSED, code=(result.code if result else None) or "refused", why=why)
    if run.state == "CANCELLED" and not run.is_out_of_time:
        return replace(document, state=CANCELLED, why="the job run was cancelled")
    held = sum(each.kind == document.kind and _exit_code(each) == LEASE_HELD for each in document.ended)
    if held <= MAX_HELD and document.attempt - held < MAX_ATTEMPTS:
        attempt = document.attempt + 1
        # The next attempt ignores everything that earlier attempts stored, including damaged parts.
        state_id = f"{document.scan_id[: MAX_ID - 3]}-{attempt}" if is_damaged else document.state_id
        return replace(document, attempt=attempt, state_id=state_id)
    why = run.details[:MAX_DETAILS] or f"the job run ended as {run.state}"
    if run.state == "SUCCESS":
        why = f"the job run succeeded, but stored no {result_name(document.scan_id)}"
    return replace(document, state=FAILED, why=why)


def _exit_code(ended: Ended) -> int | None:
    return JobRun(ended.job_run_id, ended.state, ended.details).exit_code


def held_back(document: JobDocument, settings: Settings) -> JobDocument | None:
    """Return the scan's end if no job may be started for it. The deployment may have changed since the request."""
    if not settings.allows(document.table):
        why = f"table {document.table[:200]} does not belong to this deployment"
        return replace(document, state=REFUSED, code="foreign_table", why=why)
    if document.kind == "execute" and not settings.may_delete:
        return replace(document, state=PLANNED, code="observed", why="this deployment only observes")
    return None


def _planned(document: JobDocument, result: PlanResult, may_delete: bool) -> JobDocument:
    document = replace(document, plan_id=result.plan_id, action_count=result.action_count)
    if result.plan_id is None or not result.action_count:
        return replace(document, state=PLANNED, why="there is nothing to do")
    if not document.execute:
        return replace(document, state=PLANNED)
    if not may_delete:
        return replace(document, state=PLANNED, code="observed", why="this deployment only observes")
    if result.needs_confirmation:
        why = f"plan {result.plan_id} deletes more than it keeps, so a person has to confirm it"
        return replace(document, state=PLANNED, code="confirmation_needed", why=why)
    if result.action_count <= SMALL_PLAN_ACTIONS or not document.by_hand:
        # A large plan that no person requested is handed over, too: a job on Spark does not ask the fleet policy.
        return replace(document, state=HANDED_OVER)
    return replace(document, kind="execute", attempt=1)


def job_of(document: JobDocument) -> SparkJob:
    """Return the next job of a scan."""
    objects = document.arguments.get("objects")
    return SparkJob(
        kind=document.kind,
        table=document.table,
        scan_id=document.scan_id,
        state_id=document.state_id,
        attempt=document.attempt,
        arguments=tuple(_options(document)),
        plan_id=document.plan_id if document.kind == "execute" else None,
        objects=objects if isinstance(objects, int) else None,
    )


def _options(document: JobDocument) -> list[str]:
    """Return the arguments as options of a command line."""
    if document.kind == "execute":
        return ["--confirm", str(document.plan_id)] if document.confirm else []
    found: list[str] = []
    for name, value in sorted(document.arguments.items()):
        if name in OF_THE_CHOICE or value is None:
            continue
        for each in value if isinstance(value, list | tuple) else (value,):
            found += [_OPTIONS.get(name, f"--{name.replace('_', '-')}"), str(each)]
    return found


_OPTIONS = {"external_roots": "--external-root"}
"""Arguments that the command line calls otherwise."""


def result_name(scan_id: str) -> str:
    """Return the name of a planning job's result in the area of its table's scans."""
    return f"{scan_id}/result.json"


def plan_result_of(document: dict[str, object], path: str) -> PlanResult:
    """Read the result of a planning job."""
    refusal = get_object(document, "refusal", path)
    return PlanResult(
        status=require_str(document, "status", path),
        plan_id=get_str(document, "plan_id", path),
        action_count=get_int(document, "action_count", path) or 0,
        needs_confirmation=document.get("needs_confirmation") is True,
        code=get_str(refusal, "code", path),
        why=get_str(refusal, "message", path),
    )
