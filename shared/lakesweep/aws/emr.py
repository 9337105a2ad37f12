"""What Lakesweep asks EMR Serverless to run: a job as the arguments of StartJobRun. This module sends no request.

An archive with the package and all its dependencies is in S3 beside the scripts in `jobs/` (`make emr-artifacts`). EMR
unpacks it into the working directory of the driver and of every executor, as the folder named after the `#`. Their
Python is EMR's own. `PYTHONPATH` makes it search this folder before the packages that EMR provides.

Source: Amazon EMR Serverless API Reference, "StartJobRun"; Amazon EMR Serverless User Guide, "Using Python libraries",
"Spark job properties", "Supported worker configurations".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lakesweep.control.area import table_key
from lakesweep.errors import UsageError
from lakesweep.runs.bound import EXTERNAL_ROOTS

JobKind = Literal["plan", "execute", "run"]
"""Plan the removal of orphan files, execute such a plan, or run an operation that needs Spark."""

ARCHIVE = "archive.tar.gz"
FOLDER = "environment"
"""Folder into which EMR unpacks the archive."""
ENTRY_POINTS: Mapping[str, str] = {
    "plan": "jobs/remove_orphan_files.py",
    "execute": "jobs/execute_plan.py",
    "delete-rows": "jobs/delete_rows.py",
    "compact": "jobs/compact.py",
    "erase": "jobs/erase.py",
}
"""By kind of job; of the kind `run`, by operation."""
MAX_NAME = 256
_NAME = re.compile(r"lakesweep (plan|execute|run) (\S+) (\S+) ([0-9]+)")


@dataclass(frozen=True, slots=True)
class Worker:
    """A driver or an executor. EMR Serverless must offer its total memory for this number of cores."""

    cores: int
    heap_gb: int
    overhead_gb: int
    """For processes other than Java: one Python process per core, and the data that it reads from S3."""

    @property
    def memory_gb(self) -> int:
        """Return the memory that is paid for."""
        return self.heap_gb + self.overhead_gb


@dataclass(frozen=True, slots=True)
class Size:
    """The resources of a job."""

    objects: int
    """Largest table, in objects, for which they are enough."""
    driver: Worker
    executor: Worker
    max_executors: int
    timeout_min: int
    """EMR cancels a planning job after this time. Half a day at most: a scan is valid for a day, retries included."""


SIZES = (
    Size(10_000_000, Worker(2, 4, 4), Worker(4, 8, 8), 4, 120),
    Size(100_000_000, Worker(4, 8, 4), Worker(4, 10, 8), 16, 360),
    Size(1_000_000_000, Worker(4, 16, 8), Worker(8, 28, 16), 32, 720),
)
"""By number of objects. Spark adds and removes executors as needed, so a size is an upper bound."""
EXECUTION_MIN = 1440
"""For an executing job. A plan that has begun stays valid, and the rate of deletions decides how long it takes."""
USUAL_OBJECTS = 100_000_000
"""Assumed for a table of unknown size: a table comes here because it outgrew one machine."""


@dataclass(frozen=True, slots=True)
class EmrSettings:
    """The settings of a deployment for EMR Serverless."""

    application_id: str
    planner_role_arn: str
    """Role that cannot delete."""
    executor_role_arn: str
    committer_role_arn: str
    """Role that writes snapshots, and cannot delete."""
    artifacts: str
    """Location of one uploaded build of `make emr-artifacts`: `s3://bucket/prefix`."""
    python: str
    """Command of EMR's Python, such as `python3.11`, in the version that the archive was built for."""
    control: str
    region: str
    policy: str | None = None
    log_group: str | None = None
    external_roots: tuple[str, ...] = ()
    plan_key: str | None = None
    """ARNs of the KMS keys that seal plans. Executors have no key: the driver checks the seal."""


@dataclass(frozen=True, slots=True)
class SparkJob:
    """One attempt to plan, to execute, or to run an operation."""

    kind: JobKind
    table: str
    scan_id: str
    attempt: int
    arguments: tuple[str, ...] = ()
    """Additional arguments for the job's command line."""
    plan_id: str | None = None
    """For `execute`."""
    operation: str | None = None
    """For `run`."""
    commits: bool = False
    """For `run`: it is no dry run."""
    objects: int | None = None
    """About how many objects are in the table; `None` if unknown."""
    state_id: str | None = None
    """Id of the stored state with which the job continues; `None`: the scan's own id."""

    @property
    def client_token(self) -> str:
        """Return the token of this attempt. If Lakesweep asks EMR twice with one token, the job runs once."""
        return f"{self.scan_id}-{self.kind}-{self.attempt}"

    @property
    def name(self) -> str:
        """Return the job's name in lists and events. `parse_name` reads it."""
        return f"lakesweep {self.kind} {table_key(self.table)} {self.scan_id} {self.attempt}"


def parse_name(name: str) -> tuple[str, str] | None:
    """Return the table's key and the scan id from the name of a job run; `None` if the job is not Lakesweep's."""
    found = _NAME.fullmatch(name)
    return None if found is None or "/" in found[2] + found[3] else (found[2], found[3])


def size_for(objects: int | None) -> Size:
    """Return the smallest size that is enough, or the largest size if none is."""
    expected = USUAL_OBJECTS if objects is None else objects
    return next((size for size in SIZES if expected <= size.objects), SIZES[-1])


def start_job_run(job: SparkJob, settings: EmrSettings) -> dict[str, object]:
    """Return the arguments of StartJobRun.

    Args:
        job: Equal jobs give equal arguments, since EMR refuses a token that comes again with other arguments.
        settings: The settings of the deployment.

    Raises:
        UsageError: A setting that spark-submit would split into several words.
    """
    size = size_for(job.objects)
    arguments: dict[str, object] = {
        "applicationId": settings.application_id,
        "clientToken": job.client_token,
        "name": job.name[:MAX_NAME],
        "executionRoleArn": _role(job, settings),
        "executionTimeoutMinutes": EXECUTION_MIN if job.kind == "execute" else size.timeout_min,
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{settings.artifacts}/{ENTRY_POINTS[job.operation or job.kind]}",
                "entryPointArguments": list(_command_line(job, settings)),
                "sparkSubmitParameters": " ".join(
                    f"--conf {name}={_word(name, value)}" for name, value in _configuration(size, settings).items()
                ),
            }
        },
        "tags": {"lakesweep:scan-id": job.scan_id, "lakesweep:job": job.kind},
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


def _role(job: SparkJob, settings: EmrSettings) -> str:
    """Return the role that may do what the job does, and no more."""
    if job.kind == "execute":
        return settings.executor_role_arn
    return settings.committer_role_arn if job.commits else settings.planner_role_arn


def _command_line(job: SparkJob, settings: EmrSettings) -> tuple[str, ...]:
    what = (job.table,) if job.plan_id is None else (job.table, job.plan_id)
    always = ("--control", settings.control, "--engine", "spark", "--json")
    if job.kind == "plan":
        return (*what, *always, "--scan-id", job.state_id or job.scan_id, *job.arguments)
    if job.kind == "run":
        return (*what, *always, "--run-id", job.scan_id, *job.arguments)
    return (*what, *always, *job.arguments)


def _configuration(size: Size, settings: EmrSettings) -> dict[str, str]:
    """Return the part of Spark's configuration that depends on where the job runs. The job itself sets the rest."""
    environment = {
        "PYSPARK_PYTHON": settings.python,
        "PYTHONPATH": f"./{FOLDER}",
        "AWS_DEFAULT_REGION": settings.region,
    }
    # Without a locale Java 17 replaces non-ASCII characters of an argument, such as a table's name, by question marks.
    driver = {**environment, "PYSPARK_DRIVER_PYTHON": settings.python, "LC_ALL": "C.UTF-8"}
    if settings.policy is not None:
        driver["LAKESWEEP_POLICY"] = settings.policy
    # Set it even without external roots, since a message's roots are checked against it. EMR allows no empty variable.
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
