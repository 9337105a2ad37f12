"""What follows for a scan on Spark, once a job run has ended or before one starts. This module sends no request."""

import json
from collections.abc import Mapping
from dataclasses import replace

from lakesweep.aws.emr import SparkJob
from lakesweep.aws.jobs.documents import CANCELLED, EXECUTED, FAILED, HANDED_OVER, PLANNED, REFUSED, Ended, JobDocument
from lakesweep.aws.jobs.emr_serverless import JobRun
from lakesweep.aws.orphan_arguments import OF_THE_CHOICE
from lakesweep.aws.scans.result import DAMAGED, FINAL_EXIT_CODES, PlanResult, result_name
from lakesweep.aws.settings import Settings
from lakesweep.errors import FormatError, StalePlanError
from lakesweep.model.commits.erasure import REMAINS
from lakesweep.runs.parameters.parameter import EXTERNAL_ROOTS, OPTIONS, flag
from lakesweep.runs.parameters.signatures import SIGNATURES

MAX_ATTEMPTS = 3
MAX_HELD = 12
"""Additional attempts that may find another maintainer at work."""
MAX_ID = 40
SMALL_PLAN_ACTIONS = 100_000
"""A plan of at most this many actions needs no Spark: `execute_batch` ends before a job run would have started."""
LEASE_HELD = 5
"""This exit code says that another maintainer is at work, so there is no hurry."""
MAX_DETAILS = 1000
_OBSERVES = "this deployment only observes"
_WELL = ("planned", "done", "nothing_to_do")


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
    if document.kind == "run" and result is not None:
        return _ran(document, result)
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
        return replace(document, state=PLANNED, code="observed", why=_OBSERVES)
    if document.kind == "run" and document.execute and not settings.may_delete:
        return replace(document, state=REFUSED, code="observed", why=_OBSERVES)
    return None


def _ran(document: JobDocument, result: PlanResult) -> JobDocument:
    """Return the end of an operation whose job has stored its result."""
    if result.status in _WELL:
        why = "there is nothing to do" if result.status == "nothing_to_do" else None
        return replace(document, state=EXECUTED if document.execute else PLANNED, why=why)
    if result.code in REMAINS:  # the job has done what it can, and older versions still have erased rows
        return replace(document, state=EXECUTED, code=result.code, why=result.why)
    is_refused = result.status in ("refused", "stale")
    why = result.why or f"the run ended as {result.status}"
    return replace(document, state=REFUSED if is_refused else FAILED, code=result.code or result.status, why=why)


def _planned(document: JobDocument, result: PlanResult, may_delete: bool) -> JobDocument:
    document = replace(document, plan_id=result.plan_id, action_count=result.action_count)
    if result.plan_id is None or not result.action_count:
        return replace(document, state=PLANNED, why="there is nothing to do")
    if not document.execute:
        return replace(document, state=PLANNED)
    if not may_delete:
        return replace(document, state=PLANNED, code="observed", why=_OBSERVES)
    if result.needs_confirmation:
        why = f"plan {result.plan_id} deletes more than it keeps, so a person has to confirm it"
        return replace(document, state=PLANNED, code="confirmation_needed", why=why)
    if result.action_count <= SMALL_PLAN_ACTIONS or not document.manual:
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
        operation=document.operation,
        commits=document.kind == "run" and document.execute,
    )


def _options(document: JobDocument) -> list[str]:
    """Return the arguments as options of a command line."""
    if document.kind == "execute":
        return ["--confirm", str(document.plan_id)] if document.confirm else []
    if document.kind == "run":
        return _options_for_run(document)
    found: list[str] = []
    for name, value in sorted(document.arguments.items()):
        if name in OF_THE_CHOICE or value is None:
            continue
        for each in value if isinstance(value, list | tuple) else (value,):
            found += [_OPTIONS.get(name, f"--{name.replace('_', '-')}"), str(each)]
    return found


def _options_for_run(document: JobDocument) -> list[str]:
    signature, found = SIGNATURES[str(document.operation)], ["--branch", document.branch]
    call = signature.parse(document.arguments)
    for parameter in signature.parameters:
        if parameter == OPTIONS:
            found += [word for key, text in sorted(call[OPTIONS].items()) for word in ("--option", f"{key}={text}")]
        elif parameter.kind is flag:
            found += [str(parameter.typed)] if call[parameter] else []
        elif parameter.name != "engine":
            value = call[parameter]
            values = value if isinstance(value, tuple) else () if value is None else (value,)
            found += [word for each in values for word in (str(parameter.typed), _typed(each))]
    found += [word for root in call[EXTERNAL_ROOTS] for word in ("--external-root", root)]
    return [*found, *(["--execute"] if document.execute else [])]


def _typed(value: object) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


_OPTIONS = {"external_roots": "--external-root"}
"""Arguments that the command line calls otherwise."""
