"""StartJobRun's arguments: what the service's own model takes, and the same each time."""

from dataclasses import replace

import botocore.session
import pytest
from botocore.validate import validate_parameters

from lakesweep.aws.emr import (
    EXECUTION_MIN,
    SIZES,
    EmrSettings,
    SparkJob,
    Worker,
    parse_name,
    size_for,
    start_job_run,
)
from lakesweep.aws.jobs.emr_serverless import JobRun
from lakesweep.control.area import table_key
from lakesweep.errors import UsageError
from lakesweep.model.safety import PLAN_LIFETIME_MS

TABLE = "s3://lake/warehouse/sales.db/orders"
SETTINGS = EmrSettings(
    application_id="00f1cbsc6anuij25",
    planner_role_arn="arn:aws:iam::123456789012:role/planner",
    executor_role_arn="arn:aws:iam::123456789012:role/executor",
    committer_role_arn="arn:aws:iam::123456789012:role/committer",
    artifacts="s3://artifacts/lakesweep/0.1.0",
    python="python3.11",
    control="s3://ops/lakesweep",
    region="eu-central-1",
    policy="s3://ops/policy.json",
    log_group="/aws/emr-serverless/lakesweep",
)
SCAN = "20261121T220000Z-1f2e3d4c"
PLAN = SparkJob("plan", TABLE, SCAN, 1, arguments=("--older-than", "2026-11-01T00:00:00Z"))
EXECUTE = SparkJob("execute", TABLE, SCAN, 2, plan_id="20261121T230000Z-aabbccdd")
ROWS = SparkJob(
    "run",
    TABLE,
    SCAN,
    1,
    operation="delete-rows",
    arguments=("--where-file", "s3://ops/forget.sql", "--execute"),
    commits=True,
)

MEMORY_GB = {1: range(2, 9), 2: range(4, 17), 4: range(8, 31), 8: range(16, 61, 4), 16: range(32, 121, 8)}
"""vCPUs -> what a worker may have ("Supported worker configurations", Amazon EMR Serverless User Guide)."""


def configuration(job: SparkJob) -> dict[str, str]:
    driver: dict[str, dict[str, str]] = start_job_run(job, SETTINGS)["jobDriver"]  # type: ignore[assignment]
    words = driver["sparkSubmit"]["sparkSubmitParameters"].split(" ")
    assert set(words[::2]) == {"--conf"}
    return dict(word.split("=", 1) for word in words[1::2])


@pytest.mark.parametrize("job", [PLAN, EXECUTE, ROWS], ids=["plan", "execute", "rows"])
def test_the_service_takes_them(job: SparkJob) -> None:
    """Against the model of the service in botocore: names, types, lengths."""
    shape = (
        botocore.session.get_session().get_service_model("emr-serverless").operation_model("StartJobRun").input_shape
    )
    validate_parameters(start_job_run(job, SETTINGS), shape)


def test_a_planning_job_has_the_role_that_cannot_delete() -> None:
    """Each kind its role, its script and its command line."""
    plan, execute = start_job_run(PLAN, SETTINGS), start_job_run(EXECUTE, SETTINGS)
    assert (plan["executionRoleArn"], execute["executionRoleArn"]) == (
        SETTINGS.planner_role_arn,
        SETTINGS.executor_role_arn,
    )
    always = ["--control", SETTINGS.control, "--engine", "spark", "--json"]
    submitted = [each["jobDriver"]["sparkSubmit"] for each in (plan, execute)]  # type: ignore[index]
    assert [each["entryPoint"] for each in submitted] == [
        "s3://artifacts/lakesweep/0.1.0/jobs/remove_orphan_files.py",
        "s3://artifacts/lakesweep/0.1.0/jobs/execute_plan.py",
    ]
    assert submitted[0]["entryPointArguments"] == [
        *(TABLE, *always, "--scan-id", SCAN, "--older-than", "2026-11-01T00:00:00Z")
    ]
    assert submitted[1]["entryPointArguments"] == [TABLE, "20261121T230000Z-aabbccdd", *always]


def test_a_job_that_deletes_rows_has_the_role_that_commits() -> None:
    """Its dry run has the role that changes no table."""
    job, dry = start_job_run(ROWS, SETTINGS), start_job_run(replace(ROWS, commits=False), SETTINGS)
    assert (job["executionRoleArn"], dry["executionRoleArn"]) == (
        SETTINGS.committer_role_arn,
        SETTINGS.planner_role_arn,
    )
    submitted = job["jobDriver"]["sparkSubmit"]  # type: ignore[index]
    assert submitted["entryPoint"] == "s3://artifacts/lakesweep/0.1.0/jobs/delete_rows.py"
    assert submitted["entryPointArguments"] == [
        *(TABLE, "--control", SETTINGS.control, "--engine", "spark", "--json", "--run-id", SCAN),
        *("--where-file", "s3://ops/forget.sql", "--execute"),
    ]
    assert parse_name(str(job["name"])) == (table_key(TABLE), SCAN)
    assert job["executionTimeoutMinutes"] == SIZES[1].timeout_min


def test_a_token_is_an_attempt() -> None:
    """Asked for twice it runs once; another attempt, or the other half of the scan, is another run."""
    jobs = [SparkJob(kind, TABLE, SCAN, attempt) for kind in ("plan", "execute") for attempt in (1, 2)]  # type: ignore[arg-type]
    tokens = [start_job_run(job, SETTINGS)["clientToken"] for job in jobs]
    assert len(set(tokens)) == 4
    assert all(len(str(token)) <= 64 for token in tokens)
    assert start_job_run(PLAN, SETTINGS) == start_job_run(PLAN, SETTINGS)


def test_a_name_names_its_scan() -> None:
    """An event carries the name, and no more is needed to find the document."""
    name = str(start_job_run(PLAN, SETTINGS)["name"])
    assert parse_name(name) == (table_key(TABLE), SCAN)
    for other in ("emr-job-run-name", "", name + " x", "lakesweep plan ../x y 1", name.replace("plan", "undo")):
        assert parse_name(other) is None


def test_the_longest_name_is_whole() -> None:
    """A key of two parts of 60 characters and the longest scan id stay below what EMR takes."""
    job = SparkJob("execute", f"s3://lake/{'d' * 90}/{'t' * 90}", "s" * 40, 3)
    name = str(start_job_run(job, SETTINGS)["name"])
    assert parse_name(name) is not None


def test_driver_and_executors_find_the_package() -> None:
    """The archive's folder, the same Python, and nothing of the driver's alone for the executors."""
    found = configuration(PLAN)
    assert found["spark.archives"] == "s3://artifacts/lakesweep/0.1.0/archive.tar.gz#environment"
    for place in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        assert found[f"{place}.PYTHONPATH"] == "./environment"
        assert found[f"{place}.PYSPARK_PYTHON"] == "python3.11"
        assert found[f"{place}.AWS_DEFAULT_REGION"] == "eu-central-1"
    assert found["spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON"] == "python3.11"
    assert found["spark.emr-serverless.driverEnv.LC_ALL"] == "C.UTF-8"
    assert found["spark.emr-serverless.driverEnv.LAKESWEEP_POLICY"] == "s3://ops/policy.json"


@pytest.mark.parametrize("worker", [worker for size in SIZES for worker in (size.driver, size.executor)])
def test_every_worker_is_one_that_there_is(worker: Worker) -> None:
    """Heap and overhead together are what EMR looks at."""
    assert worker.memory_gb in MEMORY_GB[worker.cores]


def test_a_size_by_the_number_of_objects() -> None:
    """The smallest that is enough; the largest for what is larger than all; the middle for what nobody knows."""
    assert [size_for(count) for count in (0, 10**7, 10**7 + 1, 10**8, 10**9, 10**12)] == [
        *(SIZES[0], SIZES[0], SIZES[1], SIZES[1], SIZES[2], SIZES[2])
    ]
    assert size_for(None) is SIZES[1]
    large = configuration(SparkJob("plan", TABLE, SCAN, 1, objects=10**9))
    assert (large["spark.executor.memory"], large["spark.executor.memoryOverhead"]) == ("28g", "16g")
    assert large["spark.dynamicAllocation.maxExecutors"] == "32"


def test_timeouts_are_what_emr_takes() -> None:
    """From release 7.11 on: not 0, and seven days at most."""
    assert all(5 <= minutes <= 7 * 24 * 60 for minutes in (EXECUTION_MIN, *(size.timeout_min for size in SIZES)))


def test_an_attempt_that_ran_out_of_time_leaves_enough_for_another() -> None:
    """A scan, and the plan that comes of it, hold for a day from the beginning of the first attempt."""
    assert all(2 * size.timeout_min * 60_000 <= PLAN_LIFETIME_MS for size in SIZES)
    assert start_job_run(PLAN, SETTINGS)["executionTimeoutMinutes"] == SIZES[1].timeout_min
    assert start_job_run(EXECUTE, SETTINGS)["executionTimeoutMinutes"] == EXECUTION_MIN


def test_a_setting_with_spaces_is_refused() -> None:
    """spark-submit would read it as several words."""
    with pytest.raises(UsageError, match="spaces"):
        start_job_run(PLAN, EmrSettings(**{**_fields(SETTINGS), "python": "python3.11 -m evil"}))


def _fields(settings: EmrSettings) -> dict[str, str]:
    return {name: getattr(settings, name) for name in settings.__slots__}


@pytest.mark.parametrize(
    ("details", "code"),
    [
        (
            "Job failed, please check complete logs in configured logging destination. ExitCode: 3. Last few",
            3,
        ),
        ("ExitCode: 137", 137),
        ("Job run timed out", None),
        ("", None),
        ("ExitCode: 12345", None),
    ],
)
def test_an_exit_code_in_words(details: str, code: int | None) -> None:
    """EMR tells it in a sentence."""
    assert JobRun("1", "FAILED", details).exit_code == code


@pytest.mark.parametrize(
    ("state", "seconds", "expected"),
    [("CANCELLED", 7200, True), ("CANCELLED", 7150, True), ("CANCELLED", 600, False), ("FAILED", 7200, False)],
)
def test_who_cancelled(state: str, seconds: int, expected: bool) -> None:
    """A run that had all of its time was cancelled by EMR."""
    assert JobRun("1", state, "", seconds, 120).is_out_of_time is expected
