"""EventBridge of the running system: what a bucket tells comes through the rule of the template, or to dead letters."""

import json
import random
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest

from tests.support.mocked_aws import mocked_aws
from tests.support.stack import REGION, Stack, render
from tests.support.system.clock import ManualClock
from tests.support.system.event_rule import EventRule, Schedule
from tests.support.system.message import MAX_BODY_BYTES
from tests.support.system.queue import Queue, queues_of

COMMITS, SWEEP, DEAD = "CommitsQueue", "SweepQueue", "EventsDeadLetters"
HOUR_S, MINUTE_S = 3600.0, 60.0


class Bus:
    """The rule and the schedule of a deployment, and a bucket that tells EventBridge of its objects."""

    def __init__(self, stack: Stack, s3: Any) -> None:
        self.stack = stack
        self.bucket = stack.parameters["TableBuckets"][0]
        self.clock = ManualClock()
        self.queues = queues_of(stack, self.clock)
        self.by_arn = {queue.arn: queue for queue in self.queues.values()}
        self.s3 = s3
        properties = stack.of_type("AWS::Events::Rule")["SnapshotWrittenRule"]
        self.rule = EventRule(f"{self.bucket}-rule", properties, self.by_arn, self.clock)

    def put(self, *keys: str, bucket: str = "") -> None:
        for key in keys:
            self.s3.put_object(Bucket=bucket or self.bucket, Key=key, Body=b"x")

    def keys(self, queue: str = COMMITS) -> list[str]:
        return [json.loads(message.body)["detail"]["object"]["key"] for message in self.queues[queue].messages()]

    def schedule(self, expression: str = "rate(1 hour)", window_min: int = 0, chance: Any = None) -> Schedule:
        properties = self.stack.of_type("AWS::Scheduler::Schedule")["SweepTrigger"]
        flexible = {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": window_min} if window_min else {"Mode": "OFF"}
        stated = {**properties, "ScheduleExpression": expression, "FlexibleTimeWindow": flexible}
        return Schedule(stated, self.by_arn, self.clock, chance or random.Random(1))

    def queue(self, name: str) -> Queue:
        return self.queues[name]


@pytest.fixture
def bus() -> Iterator[Bus]:
    with mocked_aws():
        s3 = boto3.client("s3", region_name=REGION)
        name = f"lake-{uuid4().hex[:12]}"
        for bucket in (name, f"{name}-other"):
            s3.create_bucket(Bucket=bucket)
            told = {"EventBridgeConfiguration": {}}
            s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=told)
        made = Bus(render({"TableBuckets": name, "TablePrefixes": f"{name}/warehouse"}), s3)
        yield made
        made.rule.close()
        assert not made.rule.errors


# --- the rule ---


def test_new_snapshots_come_to_the_queue_and_nothing_else_does(bus: Bus) -> None:
    table = "warehouse/sales.db/orders"
    wanted = [f"{table}/snapshot/snapshot-1", f"{table}/branch/branch-b/snapshot/snapshot-2"]
    others = ("snapshot/LATEST", "snapshot/EARLIEST", "schema/schema-0", "manifest/manifest-1", "tag/tag-t", "f.orc")
    bus.put(*wanted, *(f"{table}/{name}" for name in others))
    bus.put(wanted[0], bucket=f"{bus.bucket}-other")
    bus.s3.delete_object(Bucket=bus.bucket, Key=wanted[0])
    assert bus.keys() == wanted
    assert bus.rule.delivered == 2


def test_an_event_is_dated_by_the_systems_clock(bus: Bus) -> None:
    bus.put("t/snapshot/snapshot-1")
    (message,) = bus.queue(COMMITS).messages()
    event = json.loads(message.body)
    assert event["time"] == "2023-11-14T22:13:20Z"
    assert (event["detail-type"], event["detail"]["bucket"]["name"]) == ("Object Created", bus.bucket)
    assert message.sent_s == bus.clock.now()


def test_an_event_may_get_lost_on_the_way(bus: Bus) -> None:
    bus.rule.on_delivery = lambda event: not event["detail"]["object"]["key"].endswith("-1")
    bus.put("t/snapshot/snapshot-1", "t/snapshot/snapshot-2")
    assert bus.keys() == ["t/snapshot/snapshot-2"]
    assert bus.rule.delivered == 1


def test_what_the_queue_cannot_get_goes_to_the_dead_letters_as_it_is(bus: Bus) -> None:
    gone = bus.by_arn.pop(bus.queue(COMMITS).arn)
    bus.put("t/snapshot/snapshot-1")
    bus.by_arn[gone.arn] = gone
    bus.put("t/snapshot/snapshot-2")
    assert bus.keys(DEAD) == ["t/snapshot/snapshot-1"]
    assert bus.keys() == ["t/snapshot/snapshot-2"]


def test_a_rule_that_is_closed_lets_nothing_through(bus: Bus) -> None:
    bus.rule.close()
    bus.put("t/snapshot/snapshot-1")
    assert not bus.queue(COMMITS).messages()
    properties = bus.stack.of_type("AWS::Events::Rule")["SnapshotWrittenRule"]
    bus.rule = EventRule(f"{bus.bucket}-again", properties, bus.by_arn, bus.clock)


def test_a_rule_that_says_more_than_is_known_is_refused(bus: Bus) -> None:
    properties = bus.stack.of_type("AWS::Events::Rule")["SnapshotWrittenRule"]
    with pytest.raises(AssertionError, match="State"):
        EventRule("x", {**properties, "State": "DISABLED"}, bus.by_arn, bus.clock)


def test_what_a_queue_refuses_goes_to_the_dead_letters(bus: Bus) -> None:
    """Here what is too long for this queue, and not for that one."""
    stated = dict(bus.stack.of_type("AWS::SQS::Queue")[SWEEP])
    arn = bus.queue(SWEEP).arn
    bus.by_arn[arn] = Queue(stated["QueueName"], arn, {**stated, "MaximumMessageSize": 10}, bus.clock)
    bus.schedule().tick()
    assert not bus.by_arn[arn].messages()
    assert len(bus.queue(DEAD).messages()) == 1
    assert len(bus.queue(DEAD).messages()[0].body) < MAX_BODY_BYTES


# --- the schedule ---


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [("rate(1 minute)", 60), ("rate(5 minutes)", 300), ("rate(1 hour)", 3600), ("rate(1 day)", 86400)],
)
def test_a_schedule_comes_once_an_interval(bus: Bus, expression: str, seconds: float) -> None:
    """For the first time when one is over."""
    schedule = bus.schedule(expression)
    assert not schedule.tick_if_due()
    for number in range(1, 4):
        bus.clock.advance(seconds - 1)
        assert not schedule.tick_if_due()
        bus.clock.advance(1)
        assert schedule.tick_if_due()
        assert not schedule.tick_if_due()
        assert len(bus.queue(SWEEP).messages()) == number


def test_a_schedule_sends_what_the_template_says(bus: Bus) -> None:
    bus.schedule().tick()
    (message,) = bus.queue(SWEEP).messages()
    assert json.loads(message.body) == {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}


def test_a_schedule_that_nobody_looked_at_for_days_comes_once(bus: Bus) -> None:
    """And then at its hours again: missed ones are not made up for, and do not move those that follow."""
    schedule = bus.schedule()
    bus.clock.advance(3 * 24 * HOUR_S + 30 * MINUTE_S)
    assert schedule.tick_if_due()
    assert not schedule.tick_if_due()
    bus.clock.advance(30 * MINUTE_S - 1)
    assert not schedule.tick_if_due()
    bus.clock.advance(1)
    assert schedule.tick_if_due()
    assert len(bus.queue(SWEEP).messages()) == 2


class _Late(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return b


class _Early(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return a


def test_a_schedule_comes_within_its_flexible_window(bus: Bus) -> None:
    late, early = bus.schedule(window_min=5, chance=_Late()), bus.schedule(window_min=5, chance=_Early())
    for _ in range(3):
        bus.clock.advance(HOUR_S)
        assert early.tick_if_due()
        bus.clock.advance(5 * MINUTE_S - 1)
        assert not late.tick_if_due()
        bus.clock.advance(1)
        assert late.tick_if_due()
        assert not early.tick_if_due()
        bus.clock.advance(-5 * MINUTE_S)


def test_a_schedule_whose_queue_is_gone_leaves_a_dead_letter(bus: Bus) -> None:
    del bus.by_arn[bus.queue(SWEEP).arn]
    bus.schedule().tick()
    (message,) = bus.queue(DEAD).messages()
    assert json.loads(message.body)["kind"] == "sweep"


def test_a_cron_expression_is_not_known(bus: Bus) -> None:
    with pytest.raises(NotImplementedError, match="cron"):
        bus.schedule("cron(0 * * * ? *)")
