"""What EMR Serverless is asked to run: a job of ours as the arguments of StartJobRun. Asks AWS nothing.

An archive with the package and all that it imports lies in S3 beside the scripts in `jobs/` (`make emr-artifacts`).
EMR unpacks it into the working directory of the driver and of every executor, as the folder that follows the `#`. Their
Python is EMR's own; `PYTHONPATH` lets it find the folder, before the packages that EMR brings.

Source: Amazon EMR Serverless API Reference, "StartJobRun"; Amazon EMR Serverless User Guide, "Using Python libraries",
"Spark job properties", "Supported worker configurations".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.control.area import table_key
from lakesweep.errors import UsageError
from lakesweep.operations.allowance import EXTERNAL_ROOTS

JobKind = Literal["plan", "execute"]

ARCHIVE = "archive.tar.gz"
FOLDER = "environment"
"""What the archive becomes where a job runs."""
ENTRY_POINTS: Mapping[JobKind, str] = {"plan": "jobs/remove_orphan_files.py", "execute": "jobs/execute_plan.py"}
MAX_NAME = 256
_NAME = re.compile(r"lakesweep (plan|execute) (\S+) (\S+) ([0-9]+)")


@dataclass(frozen=True, slots=True)
class Worker:
    """A driver or an executor. The whole of its memory has to be a size that EMR Serverless has for so many cores."""

    cores: int
    heap_gb: int
    overhead_gb: int
    """For what is not Java: the Python processes, one a core, and what they read from S3."""

    @property
    def memory_gb(self) -> int:
        """Return what is paid for."""
        return self.heap_gb + self.overhead_gb


@dataclass(frozen=True, slots=True)
class Size:
    """What a job may have."""

    objects: int
    """Enough for a table of so many."""
    driver: Worker
    executor: Worker
    max_executors: int
    timeout_min: int
    """EMR cancels a job that plans then. Half a day at most: a scan holds for a day, and another attempt needs time."""


SIZES = (
    Size(10_000_000, Worker(2, 4, 4), Worker(4, 8, 8), 4, 120),
    Size(100_000_000, Worker(4, 8, 4), Worker(4, 10, 8), 16, 360),
    Size(1_000_000_000, Worker(4, 16, 8), Worker(8, 28, 16), 32, 720),
)
"""By the number of objects. Executors come and go with the work, so a size is what a job may grow to."""
EXECUTION_MIN = 1440
"""For a job that carries out: a plan that is begun holds, and how long it takes is up to the rate of deletions."""
USUAL_OBJECTS = 100_000_000
"""What is expected of a table of which nobody says how large it is: it is here because it outgrew one machine."""


@dataclass(frozen=True, slots=True)
class EmrSettings:
    """The EMR side of a deployment."""

    application_id: str
    planner_role_arn: str
    """Cannot delete."""
    executor_role_arn: str
    artifacts: str
    """Where one build of `make emr-artifacts` was uploaded to: `s3://bucket/prefix`."""
    python: str
    """The command of EMR's Python, of the version that the archive was built for: `python3.11`."""
    control: str
    region: str
    policy: str | None = None
    log_group: str | None = None
    external_roots: tuple[str, ...] = ()
    plan_key: str | None = None
    """ARNs of the KMS keys that plans are sealed with. Executors have none: the driver checks the seal."""


@dataclass(frozen=True, slots=True)
class SparkJob:
    """One attempt at planning or at carrying out."""

    kind: JobKind
    table: str
    scan_id: str
    attempt: int
    arguments: tuple[str, ...] = ()
    """For the job's command line, beside those that every job gets."""
    plan_id: str | None = None
    """For `execute`."""
    branch: str | None = None
    objects: int | None = None
    """About so many lie in the table; `None` if nobody says."""
    tags: Mapping[str, str] = field(default_factory=dict)
    state_id: str | None = None
    """Id under which the job goes on with what earlier attempts left, where that is another one."""

    @property
    def client_token(self) -> str:
        """Return what EMR knows this attempt by: asked for twice, it runs once."""
        return f"{self.scan_id}-{self.kind}-{self.attempt}"

    @property
    def name(self) -> str:
        """Return what lists and events call it, which `parse_name` reads."""
        return f"lakesweep {self.kind} {table_key(self.table)} {self.scan_id} {self.attempt}"


def parse_name(name: str) -> tuple[str, str] | None:
    """Return the table's key and the scan id from the name of a job run, `None` when it is none of ours."""
    found = _NAME.fullmatch(name)
    return None if found is None or "/" in found[2] + found[3] else (found[2], found[3])


def size_for(objects: int | None) -> Size:
    """Return the smallest size that is enough, and the largest for what is larger than all."""
    expected = USUAL_OBJECTS if objects is None else objects
    return next((size for size in SIZES if expected <= size.objects), SIZES[-1])


def start_job_run(job: SparkJob, settings: EmrSettings) -> dict[str, object]:
    """Return the arguments of StartJobRun.

    Args:
        job: Equal jobs give equal arguments: EMR refuses a token that comes again with others.
        settings: Of the deployment.

    Raises:
        UsageError: A setting that spark-submit would read as several words.
    """
    size = size_for(job.objects)
    arguments: dict[str, object] = {
        "applicationId": settings.application_id,
        "clientToken": job.client_token,
        "name": job.name[:MAX_NAME],
        "executionRoleArn": settings.planner_role_arn if job.kind == "plan" else settings.executor_role_arn,
        "executionTimeoutMinutes": size.timeout_min if job.kind == "plan" else EXECUTION_MIN,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{settings.artifacts}/{ENTRY_POINTS[job.kind]}",
                "entryPointArguments": list(_command_line(job, settings)),
                "sparkSubmitParameters": " ".join(
                    f"--conf {name}={_word(name, value)}" for name, value in _configuration(size, settings).items()
                ),
            }
        },
        "tags": {"lakesweep:scan-id": job.scan_id, "lakesweep:job": job.kind, **job.tags},
    }
    if settings.log_group is not None:
        arguments["configurationOverrides"] = {
            "monitoringConfiguration": {
                "cloudWatchLoggingConfiguration": {
                    "enabled": True,
                    "logGroupName": settings.log_group,
                    "logStreamNamePrefix": job.client_token,
                    "logTypes": {"SPARK_DRIVER": ["STDOUT", "STDERR"]},
                }
            }
        }
    return arguments


def _command_line(job: SparkJob, settings: EmrSettings) -> tuple[str, ...]:
    what = (job.table,) if job.plan_id is None else (job.table, job.plan_id)
    always = ("--control", settings.control, "--engine", "spark", "--json")
    if job.kind == "plan":
        return (*what, *always, "--scan-id", job.state_id or job.scan_id, *job.arguments)
    branch = () if job.branch is None else ("--branch", job.branch)
    return (*what, *always, *branch, *job.arguments)


def _configuration(size: Size, settings: EmrSettings) -> dict[str, str]:
    """Return Spark's configuration, as far as it is about where the job runs. What it does, it says itself."""
    environment = {
        "PYSPARK_PYTHON": settings.python,
        "PYTHONPATH": f"./{FOLDER}",
        "AWS_DEFAULT_REGION": settings.region,
    }
    # Without a locale Java 17 turns what is not ASCII in an argument, such as a table's name, into question marks.
    driver = {**environment, "PYSPARK_DRIVER_PYTHON": settings.python, "LC_ALL": "C.UTF-8"}
    if settings.policy is not None:
        driver["LAKESWEEP_POLICY"] = settings.policy
    # Also where there are none: what a message asks for is held against it. A variable cannot be empty here.
    driver[EXTERNAL_ROOTS] = ",".join(settings.external_roots) or ","
    if settings.plan_key is not None:
        driver["LAKESWEEP_PLAN_KEY"] = settings.plan_key
    return {
        "spark.archives": f"{settings.artifacts}/{ARCHIVE}#{FOLDER}",
        **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in driver.items()},
        **{f"spark.executorEnv.{name}": value for name, value in environment.items()},
        "spark.driver.cores": str(size.driver.cores),
        "spark.driver.memory": f"{size.driver.heap_gb}g",
        "spark.driver.memoryOverhead": f"{size.driver.overhead_gb}g",
        "spark.executor.cores": str(size.executor.cores),
        "spark.executor.memory": f"{size.executor.heap_gb}g",
        "spark.executor.memoryOverhead": f"{size.executor.overhead_gb}g",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": "2",
        "spark.dynamicAllocation.maxExecutors": str(size.max_executors),
    }


def _word(name: str, value: str) -> str:
    if re.search(r"[\s\"'\\]", value):
        raise UsageError(f"{name}: expected a value without spaces and quotes, found {value!r}", code="bad_setting")
    return value
