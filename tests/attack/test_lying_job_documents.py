"""Documents of scans on Spark that are damaged, forged or others: an error of ours, or a job with its own words."""

import json
from collections.abc import Iterator
from random import Random

import pytest

from lakesweep.aws.emr import EmrSettings, start_job_run
from lakesweep.aws.jobs.documents import Ended, JobDocument, job_name, note_open, read_job, read_open, write_job
from lakesweep.aws.jobs.emr_serverless import JobRun
from lakesweep.aws.jobs.steps import job_of, next_step
from lakesweep.aws.scans.result import SCANS, plan_result_of, result_name
from lakesweep.control.area import ControlArea, from_json_bytes
from lakesweep.errors import MaintenanceError
from tests.attack.control_documents import lies
from tests.support.memory_store import MemoryStore

TABLE = "s3://lake/w/sales.db/orders"
JOB = JobDocument(
    "s1",
    TABLE,
    arguments={
        "older_than": "2026-01-01T00:00:00Z",
        "engine": "spark",
        "objects": 10**7,
        "external_root": ["s3://b/x"],
    },
    execute=True,
    job_run_id="r2",
    attempt=2,
    ended=(Ended("plan", 1, "r1", "FAILED", "Job failed. ExitCode: 1."),),
    created_ms=1,
    updated_ms=2,
)
RESULT = {"status": "planned", "plan_id": "p1", "action_count": 200_000, "needs_confirmation": False, "refusal": None}
SETTINGS = EmrSettings(
    "app", "arn:planner", "arn:executor", "arn:committer", "s3://art/1", "python3.11", "s3://ops/c", "eu-central-1"
)
RUNS = (
    JobRun("r2", "SUCCESS"),
    JobRun("r2", "FAILED", "Job failed. ExitCode: 3."),
    JobRun("r2", "FAILED", "Job failed. ExitCode: 1."),
    JobRun("r2", "CANCELLED", "", 10, 20),
)


class _Control:
    """A control location with a scan on Spark, and what its planning job left."""

    def __init__(self) -> None:
        self.store = MemoryStore("memory://ops/c", clock=lambda: 10)
        self.area = ControlArea(self.store, TABLE)
        self.scans = ControlArea(self.store, TABLE, SCANS)
        write_job(self.area, JOB, None)
        note_open(self.store, "s1", TABLE)
        self.scans.put(result_name("s1"), json.dumps(RESULT).encode())

    def look(self) -> None:
        """Do what a look at the scan does, for every end of a job run."""
        read_open(self.store)
        document, _ = read_job(self.area, "s1")
        path = self.scans.path(result_name("s1"))
        result = plan_result_of(from_json_bytes(self.scans.read(result_name("s1")).data, path), path)
        for run in RUNS:
            for found in (result, None):
                following = next_step(document, run, found, may_delete=True)
                start_job_run(job_of(following), SETTINGS)
                write_job(self.area, following, read_job(self.area, "s1")[1])
                read_job(self.area, "s1")


def _all_lies() -> Iterator[tuple[str, tuple[str, bytes]]]:
    control = _Control()
    documents = {each.key: control.store.read(each.key).data for each in control.store.list("")}
    assert any(key.endswith(job_name("s1")) for key in documents)
    for key, data in documents.items():
        yield from ((key, lie) for lie in lies(key, data, documents))


def _meets(key: str, lie: tuple[str, bytes]) -> None:
    control = _Control()
    control.store.put(key, lie[1])
    try:
        control.look()
    except MaintenanceError as error:
        assert str(error), (key, lie[0])
    except Exception as error:
        raise AssertionError(f"{key}, {lie[0]}: {error!r}") from error


def test_the_documents_as_they_are() -> None:
    _Control().look()


def test_a_document_of_a_scan_on_spark_that_lies() -> None:
    every = list(_all_lies())
    for key, lie in Random("jobs").sample(every, min(300, len(every))):
        _meets(key, lie)


@pytest.mark.long
def test_every_document_of_a_scan_on_spark_that_lies() -> None:
    for key, lie in _all_lies():
        _meets(key, lie)
