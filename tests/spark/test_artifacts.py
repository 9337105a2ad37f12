"""The archive as EMR runs it: StartJobRun's arguments start a local spark-submit that has the archive and nothing else.

What is done here instead of EMR stands in `as_emr_does`, and nowhere else.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from emr.artifacts import ARCHIVE, MANIFEST, build
from lakesweep.aws.emr import EmrSettings, SparkJob, start_job_run
from lakesweep.aws.jobs.documents import JobDocument
from lakesweep.aws.jobs.emr_serverless import JobRun
from lakesweep.aws.jobs.steps import FINAL_EXIT_CODES, next_step
from lakesweep.aws.scans.result import SCANS, plan_result_of, result_name
from lakesweep.control.area import ControlArea
from tests.support.s3_server import fresh_bucket, moto_endpoint, moto_store
from tests.support.spark import java_home, spark_home
from tests.support.system.build import ARCHITECTURE
from tests.support.table_builder import TableBuilder

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
ARTIFACTS = "s3://artifacts/lakesweep/1"
SCAN = "20261121T220000Z-1f2e3d4c"
PROBE = """
import json, sys
import lakesweep, pyarrow, pyspark
from pyspark.sql import SparkSession

def places(rows):
    import boto3, lakesweep, pyarrow, typer
    from backports import zstd

    yield from (module.__file__ for module in (lakesweep, pyarrow, zstd, boto3, typer))

session = SparkSession.builder.getOrCreate()
rows = session.sparkContext.parallelize([0], 1).mapPartitions(places).collect()
print("probe " + json.dumps({
    "driver": [lakesweep.__file__, pyarrow.__file__],
    "pyspark": pyspark.__file__,
    "executors": rows,
    "arguments": sys.argv[1:],
    "python": sys.version_info[:2],
}))
"""


@dataclass(frozen=True)
class Submitted:
    """What a job left behind."""

    exit_code: int
    output: str
    log: str


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For this machine and this Python."""
    if java_home() is None:
        pytest.skip("no Java 17")
    return build("emr-spark-8.0.0", ARCHITECTURE, tmp_path_factory.mktemp("emr"), PYTHON)


def settings(control: str = "s3://ops/lakesweep") -> EmrSettings:
    return EmrSettings(
        application_id="00f1cbsc6anuij25",
        planner_role_arn="arn:aws:iam::123456789012:role/planner",
        executor_role_arn="arn:aws:iam::123456789012:role/executor",
        committer_role_arn="arn:aws:iam::123456789012:role/committer",
        artifacts=ARTIFACTS,
        python=f"python{PYTHON}",
        control=control,
        region="us-east-1",
    )


def as_emr_does(arguments: dict[str, object], artifacts: Path, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment that these arguments mean here.

    - What lies in S3 below the artifacts lies in a folder, and the archive is unpacked where the driver starts.
    - `spark.emr-serverless.driverEnv` is the environment of the driver.
    - EMR's own Python is the one that this environment was made from, without the packages of either.
    - Sizes of workers are what this machine has.
    """
    submitted: dict[str, object] = arguments["jobDriver"]["sparkSubmit"]  # type: ignore[index]
    words = str(submitted["sparkSubmitParameters"]).split(" ")
    stated = dict(word.split("=", 1) for word in words[1::2])
    own_python = str(Path(sys.base_prefix) / "bin" / f"python{PYTHON}")
    sizes = re.compile(r"spark\.(driver|executor)\.(cores|memory|memoryOverhead)|spark\.dynamicAllocation\..+")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYTHONNOUSERSITE": "1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": moto_endpoint(),
    }
    here = {"spark.driver.memory": "1g", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
    for name, text in stated.items():
        value = own_python if text == f"python{PYTHON}" else text.replace(ARTIFACTS, str(artifacts))
        if name.startswith("spark.emr-serverless.driverEnv."):
            environment[name.removeprefix("spark.emr-serverless.driverEnv.")] = value
        elif not sizes.fullmatch(name):
            here[name] = value
    archive, _, name = here["spark.archives"].partition("#")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / name, filter="data")
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", "local[2]"),
        *(word for pair in here.items() for word in ("--conf", "=".join(pair))),
        str(submitted["entryPoint"]).replace(ARTIFACTS, str(artifacts)),
        *submitted["entryPointArguments"],  # type: ignore[misc]
    ]
    return command, environment


def submit(arguments: dict[str, object], artifacts: Path, folder: Path) -> Submitted:
    """Run a job as StartJobRun's arguments say, in an empty folder."""
    command, environment = as_emr_does(arguments, artifacts, folder)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    return Submitted(done.returncode, done.stdout, done.stderr)


@pytest.mark.long
def test_driver_and_executors_have_the_archive_and_nothing_else(artifacts: Path, tmp_path: Path) -> None:
    """The package and all that it imports come from the archive; pyspark comes from Spark."""
    probing = tmp_path / "artifacts"
    (probing / "jobs").mkdir(parents=True)
    (probing / ARCHIVE).symlink_to(artifacts / ARCHIVE)
    (probing / "jobs" / "remove_orphan_files.py").write_text(PROBE, encoding="utf-8")
    job = SparkJob("plan", "s3://lake/a b/größe=1 $HOME/表;t", SCAN, 1, ("--no-writers", 'it\'s "over" `x` \\ ✓\nso'))
    arguments = start_job_run(job, settings())
    done = submit(arguments, probing, tmp_path)
    assert done.exit_code == 0, done.output[-2000:] + done.log[-2000:]
    (line,) = [line for line in done.output.splitlines() if line.startswith("probe ")]
    found = json.loads(line.removeprefix("probe "))
    inside = str(tmp_path / "environment") + "/"
    assert all(place.startswith(inside) for place in found["driver"]), found
    assert all(str((tmp_path / place).resolve()).startswith(inside) for place in found["executors"]), found
    assert found["pyspark"].startswith(str(spark_home()))
    assert found["arguments"] == arguments["jobDriver"]["sparkSubmit"]["entryPointArguments"]  # type: ignore[index]


@pytest.mark.long
@pytest.mark.slow
def test_the_job_plans_a_table(artifacts: Path, tmp_path: Path) -> None:
    """From StartJobRun's arguments to a stored plan, over S3, with what is in the archive."""
    bucket, control = fresh_bucket(), fresh_bucket()
    table = TableBuilder(moto_store("warehouse/sales.db/orders", bucket=bucket), options={})
    table.commit("+F1")
    table.hint("LATEST", 1)
    table.store.put("bucket-0/data-6e0b1a52-3c1d-4f0e-9d5c-2f1e0d3c4b5a-0.parquet", b"nobody's")
    now = datetime.now(UTC)  # the time of an object has no fractions, and the job takes longer than this to begin
    older_than = (now + timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    location = f"s3://{bucket}/warehouse/sales.db/orders"
    job = SparkJob("plan", location, SCAN, 1, ("--no-writers", "a test", "--older-than", older_than))
    done = submit(start_job_run(job, settings(f"s3://{control}/lakesweep")), artifacts, tmp_path)
    assert done.exit_code == 0, done.output[-2000:] + done.log[-2000:]
    report = json.loads(done.output)
    assert report["operation"] == "remove-orphan-files"
    assert report["status"] == "planned"
    area = ControlArea(moto_store("lakesweep", bucket=control), location)
    result = json.loads(replace(area, root=SCANS).read(result_name(SCAN)).data)
    assert (result["status"], result["action_count"], result["refusal"]) == ("planned", 1, None)
    assert f"plans/{result['plan_id']}/header.json" in area.names("plans/")
    # What the function makes of it: the job's document goes on to an executor.
    document = JobDocument(SCAN, location, execute=True, job_run_id="r")
    done_step = next_step(document, JobRun("r", "SUCCESS"), plan_result_of(result, "result.json"), may_delete=True)
    assert (done_step.state, done_step.plan_id) == ("handed_over", result["plan_id"])


@pytest.mark.long
def test_a_refusal_is_the_exit_code_of_spark_submit(artifacts: Path, tmp_path: Path) -> None:
    """By which it is known that another attempt would be answered the same."""
    bucket, control = fresh_bucket(), fresh_bucket()
    job = SparkJob("plan", f"s3://{bucket}/warehouse/sales.db/nothing", SCAN, 1)
    done = submit(start_job_run(job, settings(f"s3://{control}/lakesweep")), artifacts, tmp_path)
    assert done.exit_code in FINAL_EXIT_CODES, done.output[-2000:] + done.log[-2000:]


@pytest.mark.long
@pytest.mark.slow
def test_the_manifest_tells_what_is_in_it(artifacts: Path) -> None:
    """Versions, the Python, and the hash of every file."""
    manifest = json.loads((artifacts / MANIFEST).read_text(encoding="utf-8"))
    assert (manifest["python"], manifest["architecture"]) == (PYTHON, ARCHITECTURE)
    assert set(manifest["files"]) == {
        str(path.relative_to(artifacts)) for path in artifacts.rglob("*") if path.is_file() and path.name != MANIFEST
    }
    assert manifest["files"][ARCHIVE]["bytes"] < 100 << 20, "every executor fetches it"
    with tarfile.open(artifacts / ARCHIVE) as packed:
        names = set(packed.getnames())
    assert {"lakesweep/cli/main.py", "lakesweep-archive.json", "pyarrow/__init__.py", "boto3/__init__.py"} <= names
    assert not [name for name in names if name.endswith(".pyc") or name.startswith(("/", "..", "bin/"))]
