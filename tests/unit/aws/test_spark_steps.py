"""What follows when a job run is over: a table of documents and runs against documents."""

from dataclasses import replace

import pytest

from lakesweep.aws.jobs.documents import (
    CANCELLED,
    EXECUTED,
    FAILED,
    HANDED_OVER,
    PLANNED,
    REFUSED,
    RUNNING,
    Ended,
    JobDocument,
    read_job,
    write_job,
)
from lakesweep.aws.jobs.emr_serverless import JobRun
from lakesweep.aws.jobs.steps import MAX_ATTEMPTS, MAX_HELD, SMALL_PLAN_ACTIONS, job_of, next_step
from lakesweep.aws.scans.result import PlanResult
from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, PreconditionFailedError
from lakesweep.runs.parameters.signatures import REMOVE_ORPHAN_FILES
from tests.support.memory_store import MemoryStore
from tests.unit.cli.command_line import call

TABLE = "s3://lake/warehouse/sales.db/orders"
PLANNING = JobDocument("s1", TABLE, execute=True, job_run_id="r1")
ROWS = JobDocument(
    "s1",
    TABLE,
    "b",
    {"where_file": "s3://ops/forget.sql", "catalog_type": "glue", "catalog_lock": "true", "confirm": False},
    execute=True,
    kind="run",
    operation="delete-rows",
    job_run_id="r1",
)
EXECUTING = replace(PLANNING, kind="execute", plan_id="p1", action_count=10**6)
DONE = JobRun("r1", "SUCCESS")
LARGE = PlanResult("planned", "p1", SMALL_PLAN_ACTIONS + 1)

DAMAGED = PlanResult("refused", code="damaged", why="a part is cut off")
STALE = PlanResult("refused", code="stale", why="a schema vanished")


HELD = Ended("execute", 1, "r0", "FAILED", "Job failed. ExitCode: 5.")


def failed(code: int) -> JobRun:
    return JobRun("r1", "FAILED", f"Job failed. ExitCode: {code}.")


CASES = {
    "a large plan": (PLANNING, DONE, LARGE, RUNNING, "execute", 1, None),
    "a small plan": (PLANNING, DONE, replace(LARGE, action_count=SMALL_PLAN_ACTIONS), HANDED_OVER, "plan", 1, None),
    "a large plan of a schedule": (replace(PLANNING, manual=False), DONE, LARGE, HANDED_OVER, "plan", 1, None),
    "not asked": (replace(PLANNING, execute=False), DONE, LARGE, PLANNED, "plan", 1, None),
    "nothing to do": (PLANNING, DONE, PlanResult("nothing_to_do"), PLANNED, "plan", 1, None),
    "to be confirmed": (
        *(PLANNING, DONE, replace(LARGE, needs_confirmation=True), PLANNED, "plan", 1, "confirmation_needed"),
    ),
    "no result": (PLANNING, DONE, None, RUNNING, "plan", 2, None),
    "no result at last": (replace(PLANNING, attempt=MAX_ATTEMPTS), DONE, None, FAILED, "plan", MAX_ATTEMPTS, None),
    "an error": (PLANNING, failed(1), None, RUNNING, "plan", 2, None),
    "killed": (PLANNING, failed(137), None, RUNNING, "plan", 2, None),
    "no words": (PLANNING, JobRun("r1", "FAILED"), None, RUNNING, "plan", 2, None),
    "a third error": (replace(PLANNING, attempt=3), failed(1), None, FAILED, "plan", 3, None),
    "usage": (PLANNING, failed(2), None, REFUSED, "plan", 1, "refused"),
    "refused": (PLANNING, failed(3), None, REFUSED, "plan", 1, "refused"),
    "refused, with its code": (
        *(
            PLANNING,
            failed(1),
            PlanResult("refused", code="too_young", why="too young"),
            REFUSED,
            "plan",
            1,
            "too_young",
        ),
    ),
    "stale": (PLANNING, failed(3), STALE, RUNNING, "plan", 2, None),
    "stale at last": (*(replace(PLANNING, attempt=3), failed(3), STALE, FAILED, "plan", 3, None),),
    "cancelled": (PLANNING, JobRun("r1", "CANCELLED", "", 60, 120), None, CANCELLED, "plan", 1, None),
    "out of time": (PLANNING, JobRun("r1", "CANCELLED", "", 7200, 120), None, RUNNING, "plan", 2, None),
    "rows": (ROWS, DONE, PlanResult("done"), EXECUTED, "run", 1, None),
    "rows, as a dry run": (replace(ROWS, execute=False), DONE, PlanResult("planned"), PLANNED, "run", 1, None),
    "no rows": (ROWS, DONE, PlanResult("nothing_to_do"), EXECUTED, "run", 1, None),
    "rows of a refused table": (
        *(ROWS, failed(3), PlanResult("refused", code="clustering", why="levels"), REFUSED, "run", 1, "clustering"),
    ),
    "rows of a changed table": (
        *(ROWS, failed(3), PlanResult("stale", code="stale", why="columns"), REFUSED, "run", 1, "stale"),
    ),
    "rows, partly": (
        *(ROWS, failed(4), PlanResult("partial", code="gave_up", why="others"), FAILED, "run", 1, "gave_up"),
    ),
    "rows without a result": (ROWS, DONE, None, RUNNING, "run", 2, None),
    "rows, killed": (ROWS, failed(137), None, RUNNING, "run", 2, None),
    "rows, lease held": (ROWS, failed(5), None, RUNNING, "run", 2, None),
    "rows, usage": (ROWS, failed(2), None, REFUSED, "run", 1, "refused"),
    "executed": (EXECUTING, DONE, None, EXECUTED, "execute", 1, None),
    "execution failed": (EXECUTING, failed(1), None, RUNNING, "execute", 2, None),
    "lease held": (EXECUTING, failed(5), None, RUNNING, "execute", 2, None),
    "a table that is damaged": (*(PLANNING, failed(4), PlanResult("damaged"), PLANNED, "plan", 1, "damaged"),),
    "a table that is damaged, with orphans": (
        *(PLANNING, failed(4), PlanResult("damaged", "p1", 3), HANDED_OVER, "plan", 1, "damaged"),
    ),
    "damaged": (PLANNING, failed(1), DAMAGED, RUNNING, "plan", 2, None),
    "damaged at last": (replace(PLANNING, attempt=3), failed(1), DAMAGED, FAILED, "plan", 3, None),
    "lease held again": (
        *(replace(EXECUTING, attempt=3, ended=(HELD, HELD)), failed(5), None, RUNNING, "execute", 4, None),
    ),
    "failed among held leases": (
        *(replace(EXECUTING, attempt=4, ended=(HELD, HELD)), failed(1), None, RUNNING, "execute", 5, None),
    ),
    "failed too often among held leases": (
        *(replace(EXECUTING, attempt=5, ended=(HELD, HELD)), failed(1), None, FAILED, "execute", 5, None),
    ),
    "lease held for ever": (
        *(
            replace(EXECUTING, attempt=MAX_HELD + 1, ended=(HELD,) * MAX_HELD),
            failed(5),
            None,
            FAILED,
            "execute",
            MAX_HELD + 1,
            None,
        ),
    ),
    "stale execution": (EXECUTING, failed(3), None, REFUSED, "execute", 1, "refused"),
    "execution given up": (replace(EXECUTING, attempt=3), failed(1), None, FAILED, "execute", 3, None),
}


@pytest.mark.parametrize("case", CASES)
def test_next_step(case: str) -> None:
    """Every way in which a run can end."""
    document, run, result, state, kind, attempt, code = CASES[case]
    after = next_step(document, run, result, may_delete=True)
    assert (after.state, after.kind, after.attempt, after.code) == (state, kind, attempt, code)
    assert after.job_run_id is None
    assert after.ended == (*document.ended, Ended(document.kind, document.attempt, "r1", run.state, run.details))
    if state in (FAILED, REFUSED, CANCELLED):
        assert after.why


def test_a_deployment_that_observes_executes_nothing() -> None:
    """Its mode may have changed since somebody asked."""
    after = next_step(PLANNING, DONE, LARGE, may_delete=False)
    assert (after.state, after.code, after.plan_id) == (PLANNED, "observed", "p1")


def test_arguments_become_a_command_line() -> None:
    """Lists are repeated, what is about where it runs is left out, and the next attempt says the same."""
    arguments = {"engine": "spark", "objects": 5, "older_than": "2026-11-01", "owned_external": ["s3://a", "s3://b"]}
    document = replace(PLANNING, arguments=arguments)
    job = job_of(document)
    assert job.arguments == ("--older-than", "2026-11-01", "--owned-external", "s3://a", "--owned-external", "s3://b")
    assert job.objects == 5
    again = job_of(next_step(document, failed(1), None, may_delete=True))
    assert (again.arguments, again.attempt) == (job.arguments, 2)
    assert job_of(replace(EXECUTING, confirm=True)).arguments == ("--confirm", "p1")


def test_every_argument_of_a_scan_is_one_of_its_job() -> None:
    """The command line takes what the job is called with."""
    names = REMOVE_ORPHAN_FILES.arguments | {"external_roots"}
    arguments = {name: "x" for name in names if name not in ("dry_run", "mode")}
    options = {word for word in job_of(replace(PLANNING, arguments=arguments)).arguments if word.startswith("--")}
    help_text = call("remove-orphan-files", "--help").printed
    assert {option for option in options if f"{option} " not in help_text} == set()


def test_what_is_damaged_is_left_alone() -> None:
    """The next attempt has another place for its state, and so have those after it; a long id becomes no longer one."""
    document = replace(PLANNING, scan_id="s" * 40)
    after = next_step(document, failed(1), DAMAGED, may_delete=True)
    assert after.state_id == "s" * 37 + "-2"
    assert job_of(after).state_id == after.state_id
    assert job_of(after).scan_id == document.scan_id
    assert job_of(after).client_token == f"{document.scan_id}-plan-2"
    again = next_step(after, failed(1), None, may_delete=True)
    assert again.state_id == after.state_id
    assert next_step(again, failed(1), DAMAGED, may_delete=True).state == FAILED


def test_a_document_is_read_as_it_was_written() -> None:
    """With all that was ended; and nobody overwrites what somebody else wrote."""
    area = ControlArea(MemoryStore(), TABLE)
    document = replace(next_step(PLANNING, failed(1), None, may_delete=True), arguments={"objects": 7}, why="so")
    etag = write_job(area, document, None)
    assert read_job(area, "s1") == (document, etag)
    with pytest.raises(PreconditionFailedError):
        write_job(area, document, None)
    write_job(area, replace(document, attempt=3), etag)
    with pytest.raises(PreconditionFailedError):
        write_job(area, document, etag)


@pytest.mark.parametrize("text", ["[]", "{", '{"format_version": 2}', '{"format_version": 1, "scan_id": 3}'])
def test_a_damaged_document(text: str) -> None:
    """It is never taken for one that is not there."""
    area = ControlArea(MemoryStore(), TABLE)
    area.put("jobs/s1.json", text.encode())
    with pytest.raises(FormatError):
        read_job(area, "s1")


def test_the_command_line_of_a_deletion_of_rows() -> None:
    """Flags may come as texts; a text of a flag's kind stays a text. Every option is one of the command."""
    job = job_of(ROWS)
    assert job.commits
    assert job.arguments == (
        *(
            "--branch",
            "b",
            "--where-file",
            "s3://ops/forget.sql",
            "--catalog-type",
            "glue",
            "--catalog-lock",
            "--execute",
        ),
    )
    arguments = {
        "where": "true",
        "keep_condition": True,
        "time_zone": "UTC",
        "fallback_reappears": True,
        "engine": "spark",
        "options": {"commit.timeout": "5 min"},
        "external_roots": ["s3://more/files"],
    }
    dry = job_of(replace(ROWS, arguments=arguments, execute=False))
    assert not dry.commits
    assert dry.arguments == (
        *("--branch", "b", "--where", "true", "--time-zone", "UTC", "--keep-condition", "--fallback-reappears"),
        *("--option", "commit.timeout=5 min", "--external-root", "s3://more/files"),
    )
    answer = call("delete-rows", "/no/such/table", *dry.arguments)
    assert "no such branch" in answer.messages


def test_the_command_line_of_a_compaction() -> None:
    """Partitions are repeated, and one with a null value stays JSON."""
    arguments = {"partition": ["dt=20240101", {"dt": None}], "full": True, "max_size": "20 gb", "catalog_type": "glue"}
    job = job_of(replace(ROWS, operation="compact", arguments=arguments))
    assert (job.operation, job.commits) == ("compact", True)
    assert job.arguments == (
        *("--branch", "b", "--partition", "dt=20240101", "--partition", '{"dt": null}', "--full"),
        *("--max-size", str(20 << 30), "--catalog-type", "glue", "--execute"),
    )
    assert "no such branch" in call("compact", "/no/such/table", *job.arguments).messages
