"""What a job on Spark ends with, and what follows from it for whoever started the job."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lakesweep.aws.jobs.documents import REFUSED, RUNNING, JobDocument
from lakesweep.aws.jobs.emr_serverless import JobRun
from lakesweep.aws.jobs.steps import next_step
from lakesweep.cli.answer import explain
from lakesweep.cli.job import ERROR
from lakesweep.cli.reach import silence_ends_with
from lakesweep.errors import StorageError
from tests.support.stub_s3 import error, stub_s3

REPOSITORY = Path(__file__).resolve().parents[3]
PLANNING = JobDocument("s1", "s3://lake/t", execute=True, job_run_id="r1")
SILENT = "http://127.0.0.1:9"
"""Nothing listens there."""
WORDS = ["s3://lake/t", "--control", "s3://ops/control", "--region", "us-east-1"]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def job(name: str, words: list[str]) -> int:
    """Run a job as EMR does, in a process of its own: the Spark that it starts stays with its process."""
    script = REPOSITORY / "jobs" / f"{name}.py"
    finished = subprocess.run([sys.executable, str(script), *words], capture_output=True, timeout=600, check=False)
    return finished.returncode


def after(exit_code: int, kind: str) -> JobDocument:
    document = PLANNING if kind == "plan" else replace(PLANNING, kind="execute", plan_id="p1")
    return next_step(document, JobRun("r1", "FAILED", f"Job failed. ExitCode: {exit_code}."), None, may_delete=True)


@pytest.mark.long
def test_a_job_that_cannot_reach_its_store_is_tried_again() -> None:
    words = [WORDS[0], "20260101T000000Z-00000000", *WORDS[1:], "--endpoint-url", SILENT]
    document = after(job("execute_plan", words), "execute")
    assert (document.state, document.attempt) == (RUNNING, 2)


def test_a_job_that_is_denied_is_final() -> None:
    with stub_s3(lambda _: error(403, "AccessDenied")) as stub:
        words = [*WORDS, "--endpoint-url", stub.url]
        exit_code = job("remove-orphan-files", words)
    assert after(exit_code, "plan").state == REFUSED


@pytest.mark.parametrize("code", ["EndpointConnectionError", "ConnectTimeoutError", "SSLError", "ReadTimeoutError"])
def test_an_endpoint_that_does_not_answer_may_answer_another_attempt(code: str) -> None:
    with silence_ends_with(ERROR):
        *_, exit_code = explain(StorageError("nobody answers", code=code))
    assert after(exit_code, "plan").state == RUNNING


@pytest.mark.parametrize("code", ["NoCredentialsError", "InvalidAccessKeyId", "ExpiredToken", "PermanentRedirect"])
def test_wrong_credentials_and_regions_are_final(code: str) -> None:
    with silence_ends_with(ERROR):
        *_, exit_code = explain(StorageError("no way in", code=code))
    assert after(exit_code, "plan").state == REFUSED


@pytest.mark.parametrize("code", ["EndpointConnectionError", "ConnectTimeoutError", "SSLError", "NoCredentialsError"])
def test_a_command_ends_with_the_exit_code_of_ever(code: str) -> None:
    assert explain(StorageError("nobody answers", code=code))[2] == 3
