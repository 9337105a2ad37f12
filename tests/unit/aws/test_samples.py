"""The samples in events/ are what their README says."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from lakesweep.aws.emr import parse_name
from lakesweep.aws.events import hints_of_event, hints_of_message
from lakesweep.aws.jobs.spark import STATE_CHANGE
from lakesweep.aws.orphan_arguments import call_of
from lakesweep.control.area import table_key
from lakesweep.errors import FormatError
from lakesweep.operations.registry import OPERATIONS
from lakesweep.storage.location import parse_location
from tests.conftest import REPOSITORY
from tests.support.stack import render

EVENTS = REPOSITORY / "events"
README = (EVENTS / "README.md").read_text(encoding="utf-8")
NAMES = sorted(path.stem for path in EVENTS.glob("*.json"))
ORDERS = "s3://lake/warehouse/sales.db/orders"
ODD = "s3://lake/warehouse/dt=a%3Ab/t+a b"

HINTS = {
    "eventbridge_snapshot_copied": [(ORDERS, "main", 46)],
    "eventbridge_snapshot_multipart": [(ORDERS, "main", 47)],
    "eventbridge_odd_key": [(ODD, "main", 8)],
    "s3_snapshot_copied": [(ORDERS, "main", 46)],
    "s3_snapshot_multipart": [(ORDERS, "main", 47)],
    "s3_odd_key": [(ODD, "main", 8)],
}
OWN = {
    "sqs_commits_hint_again": "hint",
    "sqs_expire": "hint",
    "sqs_expire_branch": "hint",
    "sqs_expire_later_version": "hint",
    "sqs_execute_plan": "execute",
    "sqs_execute_plan_continued": "execute",
    "sqs_execute_maintain": "maintain",
    "sqs_housekeeping": "housekeeping",
    "sqs_housekeeping_continued": "housekeeping",
    "sqs_committer": "commit",
    "sqs_committer_compact": "commit",
    "sqs_committer_drop": "commit",
    "sqs_sweep": "sweep",
    "sqs_sweep_continued": "sweep",
    "sqs_tag_sweep": "tag_sweep",
    "sqs_tag_sweep_continued": "tag_sweep",
    "sqs_spark_scan": "spark",
    "sqs_spark_scan_execute": "spark",
    "sqs_spark_plan": "spark",
    "sqs_spark_rows": "spark_run",
    "sqs_spark_poll": "spark_poll",
    "sqs_orphan_scan": "orphan_scan",
    "sqs_orphan_scan_execute": "orphan_scan",
    "sqs_orphan_scan_step": "orphan_scan",
    "sqs_orphan_task": "orphan_task",
    "sqs_orphan_sweep": "orphan_sweep",
    "sqs_orphan_sweep_continued": "orphan_sweep",
}
KEYS = {
    "hint": {"table", "branch", "snapshot_id"},
    "execute": {"table", "branch", "plan_id", "grace_ms", "confirm"},
    "maintain": {"table", "branch"},
    "housekeeping": {"cursor"},
    "commit": {"operation", "table", "branch", "arguments", "manual"},
    "sweep": {"cursor"},
    "tag_sweep": {"cursor"},
    "spark": {"table", "branch", "scan_id", "arguments", "execute", "plan_id", "confirm"},
    "spark_run": {"operation", "table", "branch", "scan_id", "arguments", "execute"},
    "spark_poll": set(),
    "orphan_scan": {"table", "branch", "scan_id", "arguments", "execute", "manual", "step"},
    "orphan_task": {"table", "scan_id", "task"},
    "orphan_sweep": {"cursor"},
}
SQS = [name for name in NAMES if name.startswith("sqs_")]
STORED_PLAN = ("on_demand_execute_plan", "on_demand_execute_plan_spark")
ON_SPARK = ("on_demand_remove_orphan_files_spark", "on_demand_remove_orphan_files_spark_execute")
ON_FUNCTIONS = ("on_demand_remove_orphan_files_lambda", "on_demand_remove_orphan_files_database_execute")
ELSEWHERE = STORED_PLAN + ON_SPARK + ON_FUNCTIONS
ON_DEMAND = [name for name in NAMES if name.startswith("on_demand_") and name not in ELSEWHERE]
JOBS_ENDED = {
    "eventbridge_job_succeeded": "SUCCESS",
    "eventbridge_job_failed": "FAILED",
    "eventbridge_job_cancelled": "CANCELLED",
}


def sample(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def body_of(record: Mapping[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(record["body"])
    return document


def test_the_readme_names_every_file_once() -> None:
    """A file without a row, or a row without its file, is a claim that nothing checks."""
    rows = [line.split("|")[1] for line in README.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == NAMES


@pytest.mark.parametrize("name", HINTS)
def test_an_event_gives_its_hints(name: str) -> None:
    """By copy, in parts, and with keys that are encoded or look so: alone and in a message."""
    text = (EVENTS / f"{name}.json").read_text(encoding="utf-8")
    for hints in (hints_of_event(sample(name)), hints_of_message(text, "message 1")):
        assert [(hint.location, hint.branch, hint.snapshot_id) for hint in hints] == HINTS[name]


def test_poison_does_not_spoil_its_batch() -> None:
    """Message by message: three are refused, and the others say what they say."""
    found: list[str] = []
    for index, record in enumerate(sample("sqs_commits_poison")["Records"]):
        try:
            found += [f"{hint.location} {hint.snapshot_id}" for hint in hints_of_message(record["body"], "message")]
        except FormatError:
            found.append(f"refused {index}")
    assert found == [f"{ORDERS} 49", "refused 1", "refused 2", "refused 3", f"{ORDERS[:-6]}customers 101"]


@pytest.mark.parametrize("name", SQS)
def test_a_batch_is_as_lambda_delivers_it(name: str) -> None:
    """Every record is whole: its digest holds, and a FIFO queue adds what it adds."""
    records = sample(name)["Records"]
    assert len({record["messageId"] for record in records}) == len(records)
    for record in records:
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()
        fifo = record["eventSourceARN"].endswith(".fifo")
        added = {"SequenceNumber", "MessageGroupId", "MessageDeduplicationId"}
        assert (added & set(record["attributes"]) == added) == fifo
        assert len(record["attributes"].get("MessageGroupId", "")) <= 128


@pytest.mark.parametrize("name", OWN)
def test_our_own_messages(name: str) -> None:
    """Version, kind, hop, and the keys of the kind."""
    (record,) = sample(name)["Records"]
    message = body_of(record)
    assert message["kind"] == OWN[name]
    assert KEYS[message["kind"]] <= set(message)
    assert isinstance(message["hop"], int)
    assert message["format_version"] == (2 if name.endswith("later_version") else 1)


def test_the_schedule_sends_what_arrives() -> None:
    """The sweep's message is the schedule's body."""
    (record,) = sample("sqs_sweep")["Records"]
    assert (
        body_of(record) == sample("schedule_sweep") == {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}
    )


def test_spark_schedule_sends_what_arrives() -> None:
    """The look's message is the schedule's body, in the template as well."""
    (record,) = sample("sqs_spark_poll")["Records"]
    schedules = render({"SparkArtifacts": "s3://artifacts/lakesweep/1"}).of_type("AWS::Scheduler::Schedule")
    stated = json.loads(schedules["SparkTrigger"]["Target"]["Input"])
    assert body_of(record) == sample("schedule_spark_poll") == stated


def test_the_schedule_of_scans_sends_what_arrives() -> None:
    """The tour's message is the schedule's body, in the template as well."""
    (record,) = sample("sqs_orphan_sweep")["Records"]
    stated = json.loads(render().of_type("AWS::Scheduler::Schedule")["OrphanTrigger"]["Target"]["Input"])
    assert body_of(record) == sample("schedule_orphan_sweep") == stated


def test_the_schedule_of_tags_sends_what_arrives() -> None:
    """The tour's message is the schedule's body, in the template as well."""
    (record,) = sample("sqs_tag_sweep")["Records"]
    stated = json.loads(render().of_type("AWS::Scheduler::Schedule")["TagTrigger"]["Target"]["Input"])
    assert body_of(record) == sample("schedule_tag_sweep") == stated


def test_the_schedule_of_housekeeping_sends_what_arrives() -> None:
    """The message is the schedule's body, in the template as well."""
    (record,) = sample("sqs_housekeeping")["Records"]
    stated = json.loads(render().of_type("AWS::Scheduler::Schedule")["HouseTrigger"]["Target"]["Input"])
    assert body_of(record) == sample("schedule_housekeeping") == stated


@pytest.mark.parametrize("name", ON_FUNCTIONS)
def test_a_scan_by_functions_takes_its_arguments(name: str) -> None:
    """They are those of the operation, and those that choose who does it."""
    event = sample(name)
    assert (event["operation"], event["execute"]) == ("remove-orphan-files", name.endswith("_execute"))
    call_of(event["arguments"])


@pytest.mark.parametrize("name", JOBS_ENDED)
def test_an_event_names_the_scan_that_was_asked_for(name: str) -> None:
    """The job run's name leads to the scan of `sqs_spark_scan`, and the rule lets the event in."""
    (record,) = sample("sqs_spark_scan")["Records"]
    detail = sample(name)["detail"]
    assert parse_name(detail["jobRunName"]) == (table_key(body_of(record)["table"]), body_of(record)["scan_id"])
    rule = render({"SparkArtifacts": "s3://artifacts/lakesweep/1"}).of_type("AWS::Events::Rule")["SparkJobEndedRule"]
    assert detail["state"] == JOBS_ENDED[name]
    assert detail["state"] in rule["EventPattern"]["detail"]["state"]
    assert [sample(name)["detail-type"]] == rule["EventPattern"]["detail-type"] == [STATE_CHANGE]
    assert parse_name(sample("eventbridge_job_of_others")["detail"]["jobRunName"]) is None


def test_on_demand_covers_the_operations() -> None:
    """Each operation of the registry as a plan and to be executed; `undo` is for people alone."""
    expected = {
        f"on_demand_{name.replace('-', '_')}{end}" for name in OPERATIONS if name != "undo" for end in ("", "_execute")
    }
    assert set(ON_DEMAND) == expected


@pytest.mark.parametrize("name", ON_DEMAND)
def test_an_invocation_is_valid(name: str) -> None:
    """Its operation takes its arguments, and its table is a location."""
    event = sample(name)
    operation = name.removeprefix("on_demand_").removesuffix("_execute").replace("_", "-")
    assert (event["operation"], event["execute"]) == (operation, name.endswith("_execute"))
    assert str(parse_location(event["table"])) == event["table"]
    OPERATIONS[event["operation"]].signature.parse(event["arguments"])


@pytest.mark.parametrize("name", STORED_PLAN)
def test_a_stored_plan_is_confirmed_by_its_id(name: str) -> None:
    """The invocation that carries out what was planned before."""
    event = sample(name)
    assert (event["operation"], event["execute"]) == ("execute", True)
    assert event["plan_id"] == event["confirm"]
