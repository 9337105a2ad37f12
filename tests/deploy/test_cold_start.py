"""The functions as they are built, each started under Lambda's own runtime client in a Python that has nothing else."""

import json
import re
import subprocess
import venv
from pathlib import Path

import pytest

from tests.deploy.test_build import ARCHITECTURE, FOLDERS, REPOSITORY, RUNTIME, sam_build
from tests.functions.deployment import Deployment
from tests.support.lambda_runtime import LambdaFunction

NOT_AT_INIT = {"pyarrow", "pydantic", "boto3", "urllib3"}
"""What a start must not wait for, since AWS is asked nothing yet. (`botocore` itself is where Powertools registers.)"""
EVENTS = {
    "OnSnapshotWritten": "sqs_eventbridge_batch",
    "Expire": "sqs_expire",
    "ExecuteBatch": "sqs_execute_maintain",
    "Sweep": "sqs_sweep",
    "OnDemand": "on_demand_expire_snapshots",
}


def lambda_python(folder: Path) -> Path:
    """Make a Python as Lambda has it, with awslambdaric and boto3 alone; skip the test where they cannot be had."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1"]
    lock = REPOSITORY / "requirements" / "lambda.txt"
    done = subprocess.run(
        [*pip, "--only-binary", ":all:", "--require-hashes", "--no-deps", "-r", lock],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"Lambda's runtime client cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    return python


def event_of(name: str, bucket: str) -> object:
    """Return an event file, about another bucket."""
    text = (REPOSITORY / "events" / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(re.sub(r's3://lake/|\\"lake\\"|"lake"', lambda found: found[0].replace("lake", bucket), text))


def imported(log: str) -> set[str]:
    """Return the packages that `-X importtime` told of."""
    return {found[1] for found in re.finditer(r"^import time: +\d+ \| +\d+ \| +(\w+)", log, re.MULTILINE)}


@pytest.mark.slow
def test_every_function_starts_light_and_answers(tmp_path: Path) -> None:
    python = lambda_python(tmp_path / "python")
    built = sam_build(tmp_path, runtime=RUNTIME, architecture=ARCHITECTURE)
    layers = [built / "BaseLayer", built / "PackageLayer"]
    lake = Deployment(extra={"LAKESWEEP_ACCOUNTS": ""})  # whatever account the files name
    for name in ("sales.db/orders", "sales.db/customers"):
        lake.table(name)

    assert set(EVENTS) == set(FOLDERS)
    for function, event in EVENTS.items():
        environment = lake.environment_of(FOLDERS[function])
        log = tmp_path / f"{function}.log"
        with LambdaFunction(python, built / function, layers, environment, log, options=["-Ximporttime"]) as running:
            answer = running.invoke(event_of(event, lake.bucket))

            at_init, in_all = imported(running.init.log), imported(running.log)
            assert {"awslambdaric", "aws_lambda_powertools", "lakesweep"} <= at_init, function
            assert at_init & NOT_AT_INIT == set(), function
            assert in_all & {"pyarrow", "pydantic"} == set(), function
            assert "urllib3" in in_all, f"{function} asked nothing of AWS"
            assert not answer.is_error, (function, answer.value)
            if function == "OnDemand":
                assert answer.value["status"] == "nothing_to_do", answer.value  # since `expire` has been there
            else:
                assert answer.value == {"batchItemFailures": []}, (function, running.log)
            assert '"level":"ERROR"' not in running.log, running.log
    assert lake.snapshots() == [5, 6], "the newest two, as the table says of commits that are older than an hour"


def test_the_runtime_has_the_boto3_that_the_tests_ran_with() -> None:
    lines = [(REPOSITORY / "requirements" / name).read_text(encoding="utf-8") for name in ("lambda.txt", "dev.txt")]
    in_lambda, here = (set(re.findall(r"^boto(?:3|core)==\S+", text, re.MULTILINE)) for text in lines)
    assert in_lambda == here
