"""What `doctor --stack` says about a deployment: moto has its queues, rule and schedules.

moto's Lambda needs Docker, so its two answers are given in the form of AWS's documentation.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError

from lakesweep.aws.deployment import DEAD, FUNCTIONS, SCHEDULES, Clients, deployment_lines
from lakesweep.model.diagnosis import Line
from tests.support.moto_events import show_event_bridge
from tests.support.s3_server import fresh_bucket, moto_client, moto_endpoint
from tests.support.stack import TEMPLATE

REGION = "us-east-1"


@dataclass
class Lambda:
    """The two answers of Lambda, by function."""

    environment: dict[str, str]
    layers: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    disabled: set[str] = field(default_factory=set)
    unmapped: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    denied: bool = False

    def get_function_configuration(self, FunctionName: str) -> Any:
        self._check(FunctionName)
        arn = "arn:aws:lambda:us-east-1:123456789012:layer:lakesweep-package:"
        return {
            "State": "Failed" if FunctionName in self.failed else "Active",
            "StateReason": "no role",
            "Layers": [{"Arn": arn + self.layers.get(FunctionName, "7")}],
            "Environment": {"Variables": self.environment},
        }

    def list_event_source_mappings(self, FunctionName: str) -> Any:
        self._check(FunctionName)
        if FunctionName in self.unmapped:
            return {"EventSourceMappings": []}
        state = "Disabled" if FunctionName in self.disabled else "Enabled"
        return {"EventSourceMappings": [{"UUID": "0000-11", "State": state}]}

    def _check(self, name: str) -> None:
        if self.denied:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetFunction")
        if name in self.missing:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}, "GetFunction")


class Stack:
    """A deployment, its bucket and what is looked at."""

    def __init__(self) -> None:
        self.name = f"sweep{uuid4().hex[:8]}"
        self.bucket = fresh_bucket()
        self.table = f"s3://{self.bucket}/lake/sales.db/orders"
        self.control = f"s3://{self.bucket}/ops"
        own = self
        self.functions = Lambda(
            {
                "LAKESWEEP_TABLES": f"s3://{self.bucket}/lake",
                "LAKESWEEP_MODE": "delete",
                "LAKESWEEP_CONTROL": self.control,
            }
        )

        class Known(Clients):
            @cached_property
            def functions(self) -> Any:
                return own.functions

        self.clients = Known(moto_endpoint(), REGION)
        self.arns = {name: self._queue(name) for name in (*filter(None, FUNCTIONS.values()), *DEAD)}
        self.events = self.client("events")
        self.events.put_rule(Name=f"{self.name}-rule", EventPattern='{"source": ["aws.s3"]}')
        self.events.put_targets(Rule=f"{self.name}-rule", Targets=[{"Id": "1", "Arn": self.arns["commits"]}])
        self.schedules = self.client("scheduler")
        for each in SCHEDULES:
            self.schedule(each, "ENABLED", new=True)
        on = {"EventBridgeConfiguration": {}}
        moto_client().put_bucket_notification_configuration(Bucket=self.bucket, NotificationConfiguration=on)

    def client(self, service: str) -> Any:
        make: Any = boto3.client
        return make(service, endpoint_url=moto_endpoint(), region_name=REGION)

    def _queue(self, name: str) -> str:
        sqs = self.client("sqs")
        more = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        url = sqs.create_queue(QueueName=f"{self.name}-{name}", Attributes=more)["QueueUrl"]
        arn: str = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return arn

    def url(self, name: str) -> str:
        found: str = self.client("sqs").get_queue_url(QueueName=f"{self.name}-{name}")["QueueUrl"]
        return found

    def schedule(self, name: str, state: str, *, new: bool = False) -> None:
        call = self.schedules.create_schedule if new else self.schedules.update_schedule
        call(
            Name=f"{self.name}-{name}-ABC",
            State=state,
            ScheduleExpression="rate(1 hours)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": self.arns["sweep"], "RoleArn": "arn:aws:iam::123456789012:role/x"},
        )

    def lines(self, control: str | None = "") -> list[Line]:
        return list(deployment_lines(self.clients, self.name, self.table, self.control if control == "" else control))

    def bad(self, control: str | None = "") -> list[Line]:
        return [line for line in self.lines(control) if line.verdict != "ok"]


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    show_event_bridge(monkeypatch)
    yield Stack()


def test_a_whole_deployment(stack: Stack) -> None:
    found = stack.lines()
    assert {line.verdict for line in found} == {"ok"}, found
    assert {line.subject for line in found} == {"functions", "mappings", "queues", "events", "schedules"}
    assert "lakesweep-package 7" in next(line.says for line in found if line.subject == "functions")


def test_each_thing_that_is_broken(stack: Stack) -> None:
    """One at a time: the line says it, and which command mends it."""
    name, functions = stack.name, stack.functions

    functions.missing = {f"{name}-sweep"}
    assert [(line.subject, line.verdict) for line in stack.bad()] == [("functions", "act")]
    functions.missing = set()

    functions.failed = {f"{name}-expire"}
    [line] = stack.bad()
    assert (line.subject, line.verdict) == ("functions", "act") and "no role" in line.says
    functions.failed = set()

    functions.layers = {f"{name}-expire": "6"}
    [line] = stack.bad()
    assert (line.subject, line.verdict) == ("version", "act") and "lakesweep-package 6" in line.says
    functions.layers = {}

    functions.disabled = {f"{name}-expire"}
    [line] = stack.bad()
    assert line.mend == "aws lambda update-event-source-mapping --uuid 0000-11 --enabled"
    functions.disabled = set()

    functions.unmapped = {f"{name}-expire"}
    assert [(line.subject, line.verdict) for line in stack.bad()] == [("mappings", "act")]
    functions.unmapped = set()

    functions.environment["LAKESWEEP_MODE"] = "observe"
    assert [(line.subject, line.verdict) for line in stack.bad()] == [("functions", "look")]
    functions.environment["LAKESWEEP_MODE"] = "delete"

    assert [(line.subject, line.verdict) for line in stack.bad("s3://other/ops")] == [("control", "act")]
    assert stack.bad(None) == []
    assert stack.bad(f"{stack.control}/") == []

    functions.environment["LAKESWEEP_TABLES"] = f"s3://{stack.bucket}/lake/sales.db/order"
    [line] = stack.bad()
    assert (line.subject, line.verdict) == ("functions", "act") and "lies elsewhere" in line.says


def test_queues_rule_and_schedules(stack: Stack) -> None:
    sqs = stack.client("sqs")
    sqs.send_message(QueueUrl=stack.url("commits"), MessageBody="{}")
    assert stack.bad() == []
    sqs.send_message(QueueUrl=stack.url("commits-dead"), MessageBody="{}")
    [line] = stack.bad()
    assert (line.subject, line.verdict) == ("queues", "act")
    assert line.mend is not None and line.mend.endswith(f"--source-arn {stack.arns['commits-dead']}")
    sqs.purge_queue(QueueUrl=stack.url("commits-dead"))

    stack.events.disable_rule(Name=f"{stack.name}-rule")
    [line] = stack.bad()
    assert line.mend == f"aws events enable-rule --name {stack.name}-rule"
    stack.events.remove_targets(Rule=f"{stack.name}-rule", Ids=["1"])
    assert [(line.subject, line.verdict) for line in stack.bad()] == [("events", "act")]
    stack.events.put_targets(Rule=f"{stack.name}-rule", Targets=[{"Id": "1", "Arn": stack.arns["commits"]}])
    stack.events.enable_rule(Name=f"{stack.name}-rule")

    stack.schedule("OrphanTrigger", "DISABLED")
    assert [(line.subject, line.verdict) for line in stack.bad()] == [("schedules", "look")]
    stack.schedule("SweepTrigger", "DISABLED")
    assert [line.verdict for line in stack.bad()] == ["act", "look"]

    sqs.delete_queue(QueueUrl=stack.url("expire.fifo"))
    assert ("queues", "act") in [(line.subject, line.verdict) for line in stack.bad()]


def test_a_bucket_that_tells_nobody(stack: Stack) -> None:
    moto_client().put_bucket_notification_configuration(Bucket=stack.bucket, NotificationConfiguration={})
    [line] = stack.bad()
    assert line.mend == f"lakesweep enable-events {stack.bucket} --execute"
    direct = {"QueueConfigurations": [{"QueueArn": stack.arns["commits"], "Events": ["s3:ObjectCreated:*"]}]}
    moto_client().put_bucket_notification_configuration(Bucket=stack.bucket, NotificationConfiguration=direct)
    assert stack.bad() == []


def test_what_may_not_be_asked_is_unknown(stack: Stack) -> None:
    """Never "ok", and the rest is still looked at."""
    stack.functions.denied = True
    found = stack.lines()
    assert {line.verdict for line in found if line.subject in ("functions", "mappings")} == {"unknown"}
    assert {line.verdict for line in found if line.subject in ("queues", "events", "schedules")} == {"ok"}


def test_names_are_those_of_the_template() -> None:
    """A function or queue of the template that `doctor` does not know would never be looked at."""
    text = Path(TEMPLATE).read_text(encoding="utf-8")
    named = {line.split("${AWS::StackName}-", 1)[1].strip() for line in text.splitlines() if "QueueName: !Sub" in line}
    functions = {
        line.split("${AWS::StackName}-", 1)[1].strip() for line in text.splitlines() if "FunctionName: !Sub" in line
    }
    assert functions - {"spark-jobs"} == set(FUNCTIONS)
    assert named - {"spark", "spark-dead"} == {*filter(None, FUNCTIONS.values()), *DEAD}
    assert all(f"  {each}:\n" in text for each in SCHEDULES)


def test_rights_of_the_operator_suffice() -> None:
    """The policy for operators allows what is asked here."""
    policy = json.loads((Path(TEMPLATE).parent / "deploy" / "policies" / "operator.json").read_text(encoding="utf-8"))
    allowed = {
        action
        for statement in policy["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    assert {
        *("lambda:GetFunctionConfiguration", "lambda:ListEventSourceMappings", "sqs:GetQueueUrl"),
        *("sqs:GetQueueAttributes", "events:ListRuleNamesByTarget", "events:DescribeRule", "scheduler:ListSchedules"),
        *("s3:GetBucketNotification", "s3:GetLifecycleConfiguration", "s3:GetBucketVersioning"),
    } <= allowed
