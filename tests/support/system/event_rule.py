"""EventBridge: what a bucket tells goes by a rule to a queue, and by a schedule too.

moto sorts the events by the rule's pattern, as it is in the template. What it would hand to its own SQS goes to the
queues of the system.
"""

import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.events.models import events_backends

from tests.support.stack import REGION
from tests.support.system.clock import Clock
from tests.support.system.message import SqsError
from tests.support.system.queue import Queue

_UNITS_S = {"minute": 60, "hour": 3600, "day": 86400}

OnDelivery = Callable[[dict[str, Any]], bool]
"""Is shown an event, and says whether it goes on."""


def deliver(body: str, target: Mapping[str, Any], queues: Mapping[str, Queue]) -> None:
    """Send to a target, and where that cannot be, to its dead letters.

    A queue that is gone or refuses is not asked again: so it is for what another attempt would not change.

    Args:
        body: What is sent.
        target: Of a rule or a schedule, with ARNs.
        queues: By ARN. What is not among them does not exist.
    """
    try:
        if target["Arn"] not in queues:
            raise SqsError("AWS.SimpleQueueService.NonExistentQueue", target["Arn"])
        queues[target["Arn"]].send(body)
    except SqsError:
        dead = target.get("DeadLetterConfig", {}).get("Arn")
        if dead is not None:
            queues[dead].send(body)


class EventRule:
    """A rule on the default bus of this process's moto. It lasts until `close`."""

    def __init__(self, name: str, properties: Mapping[str, Any], queues: Mapping[str, Queue], clock: Clock) -> None:
        """Make it, with its targets.

        Args:
            name: Nobody else's in this process.
            properties: From the rendered template.
            queues: By ARN.
            clock: What dates the events.
        """
        known = {"Description", "EventPattern", "Targets"}
        assert set(properties) <= known, set(properties) - known
        self.delivered = 0
        self.errors: list[Exception] = []
        """What went wrong here; moto would not tell."""
        self.on_delivery: OnDelivery = lambda _: True
        self._name = name
        self._backend = events_backends[DEFAULT_ACCOUNT_ID][REGION]
        rule = self._backend.put_rule(name=name, event_pattern=json.dumps(properties["EventPattern"]))
        targets = {target["Arn"].rpartition(":")[2]: target for target in properties["Targets"]}

        def send(queue_name: str, event: dict[str, Any], _: str | None = None) -> None:
            try:
                event = {**event, "time": clock.datetime().strftime("%Y-%m-%dT%H:%M:%SZ")}
                written = event["detail"]["object"]
                if "eTag" in written:  # so it is called in notifications; EventBridge writes it small
                    written["etag"] = written.pop("eTag")
                if self.on_delivery(event):
                    self.delivered += 1
                    deliver(json.dumps(event), targets[queue_name], queues)
            except Exception as error:
                self.errors.append(error)

        rule._send_to_sqs_queue = send
        self._ids = [each["Id"] for each in properties["Targets"]]
        self._backend.put_targets(
            name=name,
            event_bus_arn=None,
            targets=[{"Id": target["Id"], "Arn": target["Arn"]} for target in properties["Targets"]],
        )

    def close(self) -> None:
        """Remove it."""
        self._backend.remove_targets(self._name, None, self._ids)
        self._backend.delete_rule(self._name, None)


class Schedule:
    """A schedule of EventBridge Scheduler: `rate(...)` is known here, `cron(...)` is not."""

    def __init__(
        self, properties: Mapping[str, Any], queues: Mapping[str, Queue], clock: Clock, chance: random.Random
    ) -> None:
        """Describe it; it is due for the first time one interval from now.

        Args:
            properties: From the rendered template.
            queues: By ARN.
            clock: What it goes by.
            chance: Says when in its flexible window it comes.
        """
        found = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", properties["ScheduleExpression"])
        if found is None:
            raise NotImplementedError(properties["ScheduleExpression"])
        self._every_s = int(found[1]) * _UNITS_S[found[2]]
        window = properties.get("FlexibleTimeWindow", {"Mode": "OFF"})
        self._window_s = 60 * int(window["MaximumWindowInMinutes"]) if window["Mode"] == "FLEXIBLE" else 0
        self._target = properties["Target"]
        self._queues = queues
        self._clock = clock
        self._chance = chance
        self._due_s = clock.now() + self._every_s
        self._next_s = self._due_s + self._late_s()

    def tick(self) -> None:
        """Do what is done when it is time."""
        deliver(self._target["Input"], self._target, self._queues)

    def tick_if_due(self) -> bool:
        """Tick when it is time, and tell whether it was."""
        if self._clock.now() < self._next_s:
            return False
        self.tick()
        while self._due_s <= self._clock.now():
            self._due_s += self._every_s
        self._next_s = self._due_s + self._late_s()
        return True

    def _late_s(self) -> float:
        return self._chance.uniform(0, self._window_s)
