"""The system of template.yaml, at work on this machine.

    with System(build_here(), mode="delete") as system:
        table = system.table("sales.db/orders", {"snapshot.num-retained.max": "3", ...})
        table.commit("+F1")
        system.settle()

What it consists of and how it is wired comes from the template. Functions are processes of their own; queues,
schedules, mappings and the clock are in this one, and so is S3 (moto).
"""

import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import boto3

from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.s3.store import S3Store
from tests.support.iam import role_of
from tests.support.stack import NAME, REGION, Stack, render
from tests.support.system.backdoor import Backdoor
from tests.support.system.build import Build
from tests.support.system.clock import Clock
from tests.support.system.embedded_aws import OUTSIDE, EmbeddedAws
from tests.support.system.event_rule import EventRule, Schedule
from tests.support.system.function import DeployedFunction, Invocation, ThrottledError
from tests.support.system.metrics import Metrics
from tests.support.system.queue import Queue, queues_of
from tests.support.system.source_mapping import POLL_S, SourceMapping
from tests.support.table_builder import TableBuilder

PREFIX = "warehouse"
MAX_ASYNC_BYTES = 256 << 10
"""Of an event that nobody waits for; Lambda takes 1 MB since 2025, and what fits here fits there."""
ASYNC_RETRIES_S = (60.0, 120.0)
"""How long Lambda waits before it tries such an event again ("Error handling for asynchronous invocation")."""
MAX_ASYNC_AGE_S = 6 * 3600.0
"""So long it waits for concurrency. Attempts that found none do not count."""
THROTTLED_WAITS_S = (1.0, 300.0)
"""Between two of those: at first, and at most."""
OBSERVED_EVERY_S = 60.0
SWITCH_S = 0.0005
_numbers = itertools.count(1)


class System:
    """A deployment. A context manager: it is at work inside the block."""

    def __init__(
        self,
        build: Build,
        *,
        mode: str = "delete",
        speed: float = 1.0,
        began_s: float | None = None,
        latency_s: float = 0.0,
        seed: int = 0,
        parameters: Mapping[str, str] | None = None,
        takes_messages: bool = True,
        name: str = NAME,
    ) -> None:
        """Describe it.

        Args:
            build: What the functions are started from.
            mode: `observe` or `delete`.
            speed: How many times as fast as the work the system's time passes.
            began_s: When it begins, in seconds since the epoch; else now.
            latency_s: Added to each request to S3, in real time.
            seed: Of everything here that is left to chance.
            parameters: Of the template, over those that name the buckets.
            takes_messages: Else its mappings are paused, and functions run only when they are invoked.
            name: The stack's name.
        """
        number = f"{os.getpid()}-{next(_numbers)}"
        named = {
            "TableBuckets": f"lake-{number}",
            "TablePrefixes": f"lake-{number}/{PREFIX}",
            "ControlBucket": f"control-{number}",
            "Mode": mode,
        }
        self.stack: Stack = render({**named, **(parameters or {})}, name=name)
        self.bucket: str = self.stack.parameters["TableBuckets"][0]
        self.control_bucket: str = self.stack.parameters["ControlBucket"]
        self.clock = Clock(speed, began_s)
        self.chance = random.Random(seed)
        self.metrics = Metrics()
        self.invocations: list[Invocation] = []
        self.listeners: list[Callable[[Invocation], None]] = []
        """Are told of every invocation that ended."""
        self._takes_messages = takes_messages
        self._build = build
        self._latency_s = latency_s
        self._open = ExitStack()
        self._pending = 0
        self._lock = threading.Lock()
        self._ticking = threading.Event()
        self._closing = threading.Event()

    def __enter__(self) -> Self:
        """Deploy, and begin to work."""
        self._folder = Path(tempfile.mkdtemp(prefix="lakesweep-system-"))
        self._open.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self.told = self._folder / "work-clock"
        """The file that tells processes the clock of the work."""
        self.clock.work.tell(self.told)
        self.clock.tell(self.told.with_suffix(".system"))
        # Many threads do a little each here. One that waits for its turn would wait for 5 ms, as long as a request.
        self._open.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_S)
        self.aws = self._open.enter_context(EmbeddedAws(self.clock))
        self.s3 = boto3.client(
            "s3",
            endpoint_url=self.aws.endpoint,
            region_name=REGION,
            aws_access_key_id=OUTSIDE,
            aws_secret_access_key=OUTSIDE,
        )
        for bucket in (self.bucket, self.control_bucket):
            self.s3.create_bucket(Bucket=bucket)
        self.s3.put_bucket_notification_configuration(
            Bucket=self.bucket, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
        self.queues: dict[str, Queue] = queues_of(self.stack, self.clock)
        self.aws.queues = {queue.name: queue for queue in self.queues.values()}
        self.queues_by_arn = {queue.arn: queue for queue in self.queues.values()}
        """As EventBridge finds them: one that is taken out is gone for it."""
        self.functions = {name: self._deploy(name) for name in self.stack.of_type("AWS::Serverless::Function")}
        self.mappings = {}
        for name, function in self.functions.items():
            for event in self.stack.function(name).get("Events", {}).values():
                assert event["Type"] == "SQS", event["Type"]
                properties = event["Properties"]
                queue = self.queues_by_arn[properties["Queue"]]
                self.mappings[name] = SourceMapping(queue, function, properties, self.clock, self.metrics)
        self.rules = {}
        for name, properties in self.stack.of_type("AWS::Events::Rule").items():
            self.rules[name] = EventRule(f"{self.bucket}-{name}", properties, self.queues_by_arn, self.clock)
            self._open.callback(self.rules[name].close)
        self.schedules = {
            name: Schedule(properties, self.queues_by_arn, self.clock, self.chance)
            for name, properties in self.stack.of_type("AWS::Scheduler::Schedule").items()
        }
        for mapping in self.mappings.values():
            mapping.pause(not self._takes_messages)
            mapping.start()
        threading.Thread(target=self._go_on, daemon=True).start()
        self.aws.latency_s = self._latency_s
        return self

    def __exit__(self, *_: object) -> None:
        """End everything that was started."""
        self._closing.set()
        for mapping in self.mappings.values():
            mapping.stop()
        for function in self.functions.values():
            function.close()
        self._open.close()

    # --- what is outside ---

    def location(self, name: str) -> str:
        """Return where a table lies, by its path below the warehouse."""
        return f"s3://{self.bucket}/{PREFIX}/{name}"

    def store(self, name: str) -> S3Store:
        """Return the store of a table, as somebody outside of the system reaches it."""
        return self._store(self.location(name))

    def control(self) -> S3Store:
        """Return the store of the control location."""
        return self._store(self.stack.environment("Expire")["LAKESWEEP_CONTROL"])

    def table(self, name: str, options: Mapping[str, str], **words: Any) -> TableBuilder:
        """Begin a table; each commit is an event."""
        return TableBuilder(self.store(name), options=options, **words)

    def backdoor(self, name: str) -> Backdoor:
        """Return the store of a table for a writer that is quicker than HTTP; what it puts is an event, too."""
        return Backdoor(self.aws, self.bucket, f"{PREFIX}/{name}/")

    def _store(self, location: str) -> S3Store:
        store = open_store(location, settings=StoreSettings(endpoint_url=self.aws.endpoint, region=REGION))
        assert isinstance(store, S3Store)
        return store

    # --- what happens ---

    def invoke(self, function: str, event: Any) -> Invocation:
        """Invoke a function by its logical id, and wait for the answer."""
        return self.functions[function].invoke(event)

    def invoke_later(self, function: str, event: Any) -> None:
        """Invoke a function as an event: Lambda tries it three times, and nobody hears of the answer.

        Raises:
            ValueError: The event is too large.
        """
        if len(json.dumps(event).encode()) > MAX_ASYNC_BYTES:
            raise ValueError(f"{function}: the event has more than {MAX_ASYNC_BYTES} bytes")
        with self._lock:
            self._pending += 1
        threading.Thread(target=self._invoke_later, args=(function, event), daemon=True).start()

    def tick(self, schedule: str = "SweepTrigger") -> None:
        """Let a schedule come now."""
        self.schedules[schedule].tick()

    def run_schedules(self) -> None:
        """Let schedules come by themselves from now on."""
        self._ticking.set()

    def settle(self, within_s: float = 90, *, skip: bool = True) -> None:
        """Wait until nothing is under way and nothing waits. What only time brings about, comes at once.

        Args:
            within_s: Seconds of work until it fails.
            skip: Let the time be over that only passes; else wait for it.

        Raises:
            TimeoutError: It goes on and on.
        """
        with self.clock.work.looking():
            self._settle(self.clock.work.now() + within_s, skip)

    def _settle(self, end_s: float, skip: bool) -> None:
        quiet = 0
        while self.clock.work.now() < end_s:
            change_s = self._next_change_s()
            if self._is_busy() or (change_s is not None and change_s <= self.clock.now()):
                quiet = 0
            elif quiet < 2:
                quiet += 1
            elif change_s is None:
                self.observe()
                return
            elif skip:
                self.clock.skip_to(change_s)
                self.observe()
            time.sleep(POLL_S)
        raise TimeoutError(f"the system does not come to rest: {self.backlog()}")

    def pass_time(self, seconds: float, step_s: float = OBSERVED_EVERY_S) -> None:
        """Let time pass and everything happen that it brings about."""
        with self.clock.work.looking():
            self._pass_time(self.clock.now() + seconds, step_s)

    def _pass_time(self, end_s: float, step_s: float) -> None:
        while (now_s := self.clock.now()) < end_s:
            change_s = self._next_change_s()
            if self._is_busy() or (change_s is not None and change_s <= now_s):
                time.sleep(POLL_S)
                continue
            self.clock.skip_to(min(end_s, now_s + step_s, change_s or end_s))
            self.observe()
            time.sleep(POLL_S)

    def observe(self) -> None:
        """Note of each queue what CloudWatch notes once a minute."""
        now_s = self.clock.now()
        for queue in self.queues.values():
            dimensions = {"QueueName": queue.name}
            for name, value in (
                ("ApproximateNumberOfMessagesVisible", queue.visible()),
                ("ApproximateNumberOfMessagesNotVisible", queue.in_flight()),
                ("ApproximateNumberOfMessagesDelayed", queue.delayed()),
                ("ApproximateAgeOfOldestMessage", queue.oldest_age_s()),
            ):
                self.metrics.put("AWS/SQS", name, dimensions, [value], now_s)

    def backlog(self) -> dict[str, int]:
        """Return how many messages each queue has, if any."""
        return {name: count for name, queue in self.queues.items() if (count := len(queue.messages()))}

    def dead_letters(self) -> dict[str, int]:
        """Return how many messages the queues have that nobody takes from."""
        taken_from = {mapping.queue for mapping in self.mappings.values()}
        return {name: count for name, count in self.backlog().items() if self.queues[name] not in taken_from}

    # --- inside ---

    def _deploy(self, name: str) -> DeployedFunction:
        return DeployedFunction(
            name,
            self.stack.function(name),
            role_of(self.stack, name),
            self._build,
            self.aws,
            self.metrics,
            self._folder,
            self.told,
            self._ended,
        )

    def _ended(self, done: Invocation) -> None:
        with self._lock:
            self.invocations.append(done)
        for listener in self.listeners:
            listener(done)

    def _invoke_later(self, function: str, event: Any) -> None:
        end_s = self.clock.now() + MAX_ASYNC_AGE_S
        try:
            for wait_s in (0.0, *ASYNC_RETRIES_S):
                self.clock.sleep(wait_s)
                done = self._invoke_when_free(function, event, end_s)
                if done is None or not done.error:
                    return
        finally:
            with self._lock:
                self._pending -= 1

    def _invoke_when_free(self, function: str, event: Any, end_s: float) -> Invocation | None:
        wait_s, most_s = THROTTLED_WAITS_S
        while self.clock.now() < end_s:
            try:
                return self.functions[function].invoke(event)
            except ThrottledError:
                self.clock.sleep(wait_s)
                wait_s = min(2 * wait_s, most_s)
        return None

    def _is_busy(self) -> bool:
        return bool(self._pending) or any(mapping.is_busy for mapping in self.mappings.values())

    def _next_change_s(self) -> float | None:
        found = [mapping.next_change_s() for mapping in self.mappings.values()]
        return min((each for each in found if each is not None), default=None)

    def _go_on(self) -> None:
        """Tick what is due, and note what is noted once a minute."""
        with self.clock.work.looking():
            self._observe_again_and_again()

    def _observe_again_and_again(self) -> None:
        observed_s = self.clock.now()
        while not self._closing.wait(0.02):
            if self._ticking.is_set():
                for schedule in self.schedules.values():
                    schedule.tick_if_due()
            if self.clock.now() - observed_s >= OBSERVED_EVERY_S:
                observed_s = self.clock.now()
                self.observe()
