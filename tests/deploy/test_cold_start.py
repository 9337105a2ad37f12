"""The functions as they are built, each started under Lambda's own runtime client in a Python that has nothing else."""

import json
import re
from pathlib import Path

import pytest

from tests.deploy.builds import FOLDERS
from tests.functions.deployment import Deployment
from tests.support.lambda_runtime import LambdaFunction
from tests.support.system.build import REPOSITORY, build_here

NOT_AT_INIT = {"asyncio", "pyarrow", "pydantic", "boto3", "urllib3"}
"""What a start must not wait for, since AWS is asked nothing yet. (`botocore` itself is where Powertools registers.)"""
NOT_BEFORE_A_PASS = ("lakesweep.execute", "lakesweep.model.policy", "lakesweep.operations.tags", "lakesweep.runs.run")
"""What the two functions of a commit must not wait for, since most commits need no pass."""
EVENTS = {
    "OnSnapshotWritten": "sqs_eventbridge_batch",
    "Expire": "sqs_expire",
    "ExecuteBatch": "sqs_execute_maintain",
    "Committer": "sqs_committer",
    "Sweep": "sqs_sweep",
    "TagSchedule": "sqs_tag_sweep",
    "OrphanScan": "sqs_orphan_scan",
    "OrphanWorker": "sqs_orphan_task",  # of that scan
    "OnDemand": "on_demand_expire_snapshots",
    "SparkJobs": "sqs_spark_scan",
}


def event_of(name: str, bucket: str) -> object:
    """Return an event file, about another bucket."""
    text = (REPOSITORY / "events" / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(re.sub(r's3://lake/|\\"lake\\"|"lake"', lambda found: found[0].replace("lake", bucket), text))


def imported(log: str) -> set[str]:
    """Return the packages that `-X importtime` told of."""
    return {found[1] for found in re.finditer(r"^import time: +\d+ \| +\d+ \| +(\w+)", log, re.MULTILINE)}


@pytest.mark.slow
def test_every_function_starts_light_and_answers(tmp_path: Path) -> None:
    build = build_here()
    lake = Deployment(extra={"LAKESWEEP_ACCOUNTS": ""})  # whatever account the files name
    for name in ("sales.db/orders", "sales.db/customers"):
        lake.table(name)

    assert set(EVENTS) == set(FOLDERS)
    for function, event in EVENTS.items():
        environment = lake.environment_of(FOLDERS[function])
        log = tmp_path / f"{function}.log"
        with LambdaFunction(
            build.python, build.code(function), build.layers, environment, log, options=["-Ximporttime"]
        ) as running:
            answer = running.invoke(event_of(event, lake.bucket))

            at_init, in_all = imported(running.init.log), imported(running.log)
            assert {"awslambdaric", "aws_lambda_powertools", "lakesweep"} <= at_init, function
            assert at_init & NOT_AT_INIT == set(), function
            if function in ("OnSnapshotWritten", "Expire"):
                assert not [name for name in NOT_BEFORE_A_PASS if f"| {name}\n" in re.sub(" +", " ", running.init.log)]
            assert in_all & {"pyarrow", "pydantic"} == set(), function
            assert "urllib3" in in_all, f"{function} asked nothing of AWS"
            assert not answer.is_error, (function, answer.value)
            if function == "OnDemand":
                assert answer.value["status"] == "nothing_to_do", answer.value  # since `expire` has been there
            else:
                assert answer.value == {"batchItemFailures": []}, (function, running.log)
            assert '"level":"ERROR"' not in running.log, running.log
    assert lake.snapshots() == [5, 6], "the newest two, as the table says of commits that are older than an hour"

    hint = {"format_version": 1, "kind": "hint", "table": lake.location(), "snapshot_id": 6, "hop": 0}
    doubled = {"Records": [{"messageId": "m", "body": json.dumps(hint), "attributes": {}, "eventSource": "aws:sqs"}]}
    for function in ("OnSnapshotWritten", "Expire"):
        environment = lake.environment_of(FOLDERS[function])
        log = tmp_path / f"{function}-doubled.log"
        with LambdaFunction(
            build.python, build.code(function), build.layers, environment, log, options=["-Ximporttime"]
        ) as running:
            assert running.invoke(doubled).value == {"batchItemFailures": []}
            assert "urllib3" not in imported(running.log), f"{function} needs no botocore to find nothing to do"
            assert '"ListRequests"' not in running.log


def test_the_runtime_has_the_boto3_that_the_tests_ran_with() -> None:
    lines = [(REPOSITORY / "requirements" / name).read_text(encoding="utf-8") for name in ("lambda.txt", "dev.txt")]
    in_lambda, here = (set(re.findall(r"^boto(?:3|core)==\S+", text, re.MULTILINE)) for text in lines)
    assert in_lambda == here
