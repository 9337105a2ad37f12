"""Run a job on Spark that works on rows, in this process."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from tests.functions.stacked import Stacked
from tests.support.iam import Call, recorded
from tests.support.s3_server import moto_endpoint
from tests.unit.cli.command_line import Answer, call

VECTORS = {"deletion-vectors.enabled": "true", "snapshot.num-retained.max": "3"}
SECRET = "v00003"
NAME = "sales.db/visits"


@contextmanager
def environment(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have the environment of a driver, and yield the command line of the latest job; Spark is this process."""
    run = deployed.job_runs[-1].job_driver["sparkSubmit"]
    prefix = "spark.emr-serverless.driverEnv."
    for word in run["sparkSubmitParameters"].split():
        if word.startswith(f"{prefix}LAKESWEEP"):
            monkeypatch.setenv(*word.removeprefix(prefix).split("=", 1))
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint())
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert SECRET not in json.dumps(run)
    yield ["local" if word == "spark" else word for word in run["entryPointArguments"]]


def run_job(
    deployed: Stacked, monkeypatch: pytest.MonkeyPatch, command: str = "delete-rows"
) -> tuple[Answer, list[Call]]:
    """Run the latest job, and tell the function that it has ended."""
    with environment(deployed, monkeypatch) as words, recorded() as calls:
        answer = call(command, *words)
    assert SECRET not in answer.printed + answer.messages
    run = deployed.job_runs[-1]
    run.state = "FAILED" if answer.exit_code else "SUCCESS"
    run.state_details = f"Job failed. ExitCode: {answer.exit_code}." if answer.exit_code else ""
    poll = {"format_version": 1, "kind": "spark_poll", "hop": 0}
    assert deployed.send("spark_jobs", poll).failed == []
    return answer, calls


def job(deployed: Stacked, answer: dict[str, Any]) -> dict[str, Any]:
    area = ControlArea(deployed.control(), deployed.location(NAME))
    document: dict[str, Any] = json.loads(area.read(f"jobs/{answer['scan_id']}.json").data)
    return document


def document_at(deployed: Stacked, place: str) -> dict[str, Any]:
    key = place.removeprefix(f"s3://{deployed.control_bucket}/lakesweep/")
    document: dict[str, Any] = json.loads(deployed.control().read(key).data)
    return document
