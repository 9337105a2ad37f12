"""The mapping from a queue to a function, held against what AWS documents, with a function that is none."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack import ACCOUNT, REGION
from tests.support.system.build import Build
from tests.support.system.clock import Clock, ManualClock
from tests.support.system.deployed import MAX_ASYNC_BYTES, System
from tests.support.system.function import MAX_PAYLOAD_BYTES, DeployedFunction, Invocation, ThrottledError
from tests.support.system.message import MAX_BODY_BYTES, Message
from tests.support.system.metrics import Metrics
from tests.support.system.queue import Queue
from tests.support.system.source_mapping import SourceMapping

VISIBILITY_S = 60.0
PATIENCE_S = 120
"""Real seconds until a test gives up."""
QUIET_S = 0.08
"""Real seconds after which nothing more is expected to happen."""
PARTIAL = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}
TRACE = "Root=1-00000000-000000000000000000000000;Parent=0000000000000000;Sampled=0"


class Function:
    """Stands for a deployed function: notes what it is given, and answers as it is told."""

    def __init__(self) -> None:
        self.function_name = "lakesweep-it"
        self.is_stopped_in_loops = False
        self.events: list[dict[str, Any]] = []
        self.traces: list[str] = []
        self.answer: Callable[[dict[str, Any]], Any] = lambda _: None
        self.error = ""
        self.is_throttled = False
        self.goes_on = threading.Event()
        """Invocations do not end before."""
        self.goes_on.set()
        self.under_way: list[tuple[str, ...]] = []
        """The groups of the messages of each invocation that has not ended."""
        self._lock = threading.Lock()

    def invoke(self, event: dict[str, Any], *, timeout_s: float | None = None, trace: str = "") -> Invocation:
        with self._lock:
            self.events.append(event)
            self.traces.append(trace)
        if self.is_throttled:
            raise ThrottledError(self.function_name)
        groups = tuple(record["attributes"].get("MessageGroupId", "") for record in event.get("Records", ()))
        with self._lock:
            self.under_way.append(groups)
        assert self.goes_on.wait(PATIENCE_S)
        with self._lock:
            self.under_way.remove(groups)
        return Invocation("It", "It-1", 0.0, value=self.answer(event), error=self.error)

    @property
    def batches(self) -> list[list[str]]:
        return [[record["body"] for record in event["Records"]] for event in self.events]


class Pump:
    """A queue with dead letters, a mapping and a function."""

    def __init__(self, *, fifo: bool = False, clock: Clock | None = None, **properties: Any) -> None:
        self.clock = clock or ManualClock()
        self.metrics = Metrics()
        self.function: Any = Function()
        self.dead = queue("dead", self.clock, fifo)
        redrive = {"deadLetterTargetArn": self.dead.arn, "maxReceiveCount": 3}
        self.queue = queue("work", self.clock, fifo, RedrivePolicy=redrive, VisibilityTimeout=VISIBILITY_S)
        self.queue.dead_letters = self.dead
        self.mapping = SourceMapping(self.queue, self.function, properties, self.clock, self.metrics)

    def send(self, *bodies: str, group: str | None = None) -> list[str]:
        ids = []
        for body in bodies:
            dedup_id = body if self.queue.fifo else None
            ids.append(self.queue.send(body, group=group, dedup_id=dedup_id))
        return ids

    def wait_for(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, (self.function.batches, self.queue.messages())
            time.sleep(0.002)

    def has_invoked(self, times: int) -> bool:
        return len(self.function.events) == times

    def rest(self) -> None:
        """Wait until nothing is under way and nothing more comes at this time."""
        self.wait_for(lambda: not self.mapping.is_busy)
        time.sleep(QUIET_S)
        self.wait_for(lambda: not self.mapping.is_busy)


def queue(name: str, clock: Clock, fifo: bool, **properties: Any) -> Queue:
    name += ".fifo" if fifo else ""
    stated = {"QueueName": name, **({"FifoQueue": True} if fifo else {}), **properties}
    return Queue(name, f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}", stated, clock)


@contextmanager
def at_work(pump: Pump) -> Iterator[Pump]:
    pump.mapping.start()
    try:
        yield pump
    finally:
        pump.function.goes_on.set()
        pump.mapping.stop()


# --- batches ---


def test_a_batch_has_no_more_messages_than_its_size() -> None:
    pump = Pump(BatchSize=4)
    pump.send(*map(str, range(10)))
    with at_work(pump):
        pump.wait_for(lambda: not pump.queue.messages())
    assert sorted(map(len, pump.function.batches)) == [2, 4, 4]
    assert sorted(body for batch in pump.function.batches for body in batch) == sorted(map(str, range(10)))


def test_a_batch_has_ten_messages_unless_its_size_is_stated() -> None:
    pump = Pump()
    pump.send(*map(str, range(12)))
    with at_work(pump):
        pump.wait_for(lambda: not pump.queue.messages())
    assert sorted(map(len, pump.function.batches)) == [2, 10]


def test_what_comes_within_the_window_is_one_invocation() -> None:
    """The window begins with the first message; its end is what comes next here."""
    pump = Pump(BatchSize=100, MaximumBatchingWindowInSeconds=10)
    with at_work(pump):
        assert pump.mapping.next_change_s() is None
        pump.send("a", "b")
        pump.wait_for(lambda: pump.queue.in_flight() == 2)
        began_s = pump.clock.now()
        pump.clock.advance(9.9)
        pump.send("c")
        pump.wait_for(lambda: pump.queue.in_flight() == 3)
        pump.rest()
        assert not pump.function.events
        assert pump.mapping.next_change_s() == began_s + 10
        pump.clock.advance(0.1)
        pump.wait_for(lambda: not pump.queue.messages())
        assert pump.function.batches == [["a", "b", "c"]]
        assert pump.mapping.next_change_s() is None
        pump.send("d")
        pump.rest()
        assert len(pump.function.events) == 1, "a window of its own"
        pump.clock.advance(10)
        pump.wait_for(lambda: not pump.queue.messages())
    assert pump.function.batches == [["a", "b", "c"], ["d"]]


def test_the_window_of_a_thread_that_is_slow_does_not_end_before_what_waits() -> None:
    """On a busy machine the thread that gathers may come late. Who skips time waits for it."""
    pump = Pump(BatchSize=100, MaximumBatchingWindowInSeconds=10)
    pump.send(*map(str, range(15)))
    receive, looks, goes_on = pump.queue.receive, [], threading.Event()

    def slowly(limit: int) -> list[Message]:
        looks.append(limit)
        assert len(looks) != 2 or goes_on.wait(PATIENCE_S)
        return receive(limit)

    pump.queue.receive = slowly  # type: ignore[method-assign]
    with at_work(pump):
        pump.wait_for(lambda: len(looks) == 2)
        assert pump.queue.in_flight() == 10
        assert pump.mapping.is_busy
        assert pump.mapping.next_change_s() == pump.clock.now()
        goes_on.set()
        pump.wait_for(lambda: pump.queue.in_flight() == 15)
        pump.rest()
        pump.clock.advance(10)
        pump.wait_for(lambda: not pump.queue.messages())
    assert [len(batch) for batch in pump.function.batches] == [15]


def test_a_full_batch_does_not_wait_for_the_end_of_its_window() -> None:
    pump = Pump(BatchSize=25, MaximumBatchingWindowInSeconds=10)
    pump.send(*map(str, range(40)))
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.events) == 1)
        pump.wait_for(lambda: pump.queue.in_flight() == 15)
        assert [len(batch) for batch in pump.function.batches] == [25]
        pump.clock.advance(10)
        pump.wait_for(lambda: not pump.queue.messages())
    assert [len(batch) for batch in pump.function.batches] == [25, 15]


def test_a_batch_ends_before_it_is_larger_than_an_invocation_may_be() -> None:
    """6 MB, and quotation marks take two bytes each in the batch's JSON."""
    pump = Pump(BatchSize=100, MaximumBatchingWindowInSeconds=10)
    pump.send(*('"' * (MAX_BODY_BYTES - 8) for _ in range(30)))
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.events) >= 2)
        pump.rest()
        pump.clock.advance(10)
        pump.wait_for(lambda: not pump.queue.messages())
    sizes = [len(json.dumps(event).encode()) for event in pump.function.events]
    assert max(sizes) < MAX_PAYLOAD_BYTES
    assert sum(map(len, pump.function.batches)) == 30
    assert len(sizes) < 30 / 2


def test_the_function_gets_the_records_of_its_queue() -> None:
    pump = Pump()
    (message_id,) = pump.send("the body")
    with at_work(pump):
        pump.wait_for(lambda: not pump.queue.messages())
    (record,) = pump.function.events[0]["Records"]
    assert (record["messageId"], record["body"], record["eventSourceARN"]) == (message_id, "the body", pump.queue.arn)
    assert record["attributes"]["ApproximateReceiveCount"] == "1"


def test_a_paused_mapping_takes_nothing_and_says_that_nothing_comes() -> None:
    pump = Pump()
    pump.mapping.pause()
    with at_work(pump):
        pump.send("a")
        pump.rest()
        assert not pump.function.events
        assert pump.mapping.next_change_s() is None
        pump.mapping.pause(False)
        pump.wait_for(lambda: not pump.queue.messages())
    assert pump.function.batches == [["a"]]


def test_a_mapping_knows_what_it_is_told() -> None:
    with pytest.raises(AssertionError, match="FilterCriteria"):
        Pump(FilterCriteria={})


# --- what the function answers ---


def naming(*items: Any) -> Callable[[list[str]], Any]:
    return lambda ids: {"batchItemFailures": [{"itemIdentifier": it if it is not SECOND else ids[1]} for it in items]}


SECOND = object()
ALL, NONE = (0, 1, 2), ()
ANSWERS: dict[str, tuple[Callable[[list[str]], Any], tuple[int, ...]]] = {
    "nothing at all": (lambda _: None, NONE),
    "an empty object": (lambda _: {}, NONE),
    "null for the failures": (lambda _: {"batchItemFailures": None}, NONE),
    "no failures": (lambda _: {"batchItemFailures": []}, NONE),
    "something else": (lambda _: {"statusCode": 200}, NONE),
    "one failure": (naming(SECOND), (1,)),
    "one failure, twice": (naming(SECOND, SECOND), (1,)),
    "an id that is none of the batch": (naming("unknown"), ALL),
    "such an id beside a true one": (naming(SECOND, "unknown"), ALL),
    "an empty id": (naming(""), ALL),
    "null for an id": (naming(None), ALL),
    "an object for an id": (naming({}), ALL),
    "another key": (lambda ids: {"batchItemFailures": [{"itemId": ids[1]}]}, ALL),
    "a bare id": (lambda ids: {"batchItemFailures": [ids[1]]}, ALL),
    "no list": (lambda ids: {"batchItemFailures": {"itemIdentifier": ids[1]}}, ALL),
    "a list": (lambda _: ["batchItemFailures"], ALL),
    "text": (lambda _: "ok", ALL),
}
"""Answer -> which of three messages stay."""


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_stays_after_an_answer(answer: str) -> None:
    said, stays = ANSWERS[answer]
    pump = Pump(**PARTIAL)
    ids = pump.send("0", "1", "2")
    pump.function.answer = lambda _: said(ids)
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.events) == 1)
        pump.rest()
        assert tuple(int(message.body) for message in pump.queue.messages()) == stays
        pump.function.answer = lambda _: None
        pump.clock.advance(VISIBILITY_S - 0.5)
        pump.rest()
        assert len(pump.function.events) == 1, "hidden"
        pump.clock.advance(0.5)
        pump.wait_for(lambda: not pump.queue.messages())
    counts = [record["attributes"]["ApproximateReceiveCount"] for record in pump.function.events[-1]["Records"]]
    assert counts == (["2"] * len(stays) or ["1"] * 3)


def test_without_partial_answers_an_answer_takes_all() -> None:
    pump = Pump()
    (message_id,) = pump.send("a")
    pump.function.answer = lambda _: {"batchItemFailures": [{"itemIdentifier": message_id}]}
    with at_work(pump):
        pump.wait_for(lambda: not pump.queue.messages())


def test_after_an_error_all_messages_come_again_and_in_the_end_are_dead_letters() -> None:
    """Whatever the answer was: a function that broke off has taken nothing."""
    pump = Pump(**PARTIAL)
    pump.function.error = "Unhandled"
    pump.function.answer = lambda _: {"batchItemFailures": []}
    pump.send("a", "b")
    with at_work(pump):
        for attempt in range(1, 4):
            pump.wait_for(partial(pump.has_invoked, attempt))
            pump.rest()
            assert pump.mapping.next_change_s() == pump.clock.now() + VISIBILITY_S
            pump.clock.advance(VISIBILITY_S)
        pump.wait_for(lambda: pump.dead.visible() == 2)
        pump.rest()
    assert len(pump.function.events) == 3
    assert not pump.queue.messages()


def test_a_throttled_invocation_takes_nothing_and_counts_as_a_reception() -> None:
    pump = Pump(**PARTIAL)
    pump.function.is_throttled = True
    pump.send("a")
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.events) == 1)
        pump.rest()
        assert pump.queue.in_flight() == 1
        pump.function.is_throttled = False
        pump.clock.advance(VISIBILITY_S)
        pump.wait_for(lambda: not pump.queue.messages())
    assert pump.function.events[-1]["Records"][0]["attributes"]["ApproximateReceiveCount"] == "2"


def test_what_took_longer_than_it_was_hidden_comes_again() -> None:
    """A standard queue has no other choice, and the first answer deletes nothing any more."""
    pump = Pump(BatchSize=1)
    pump.send("a")
    pump.function.goes_on.clear()
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.under_way) == 1)
        pump.clock.advance(VISIBILITY_S)
        pump.wait_for(lambda: len(pump.function.under_way) == 2)
        pump.function.goes_on.set()
        pump.wait_for(lambda: not pump.queue.messages())
    assert pump.function.batches == [["a"], ["a"]]


# --- at once ---


def test_a_group_is_in_one_invocation_at_a_time_and_groups_do_not_wait_for_each_other() -> None:
    pump = Pump(fifo=True, BatchSize=1)
    for group in ("x", "y", "z"):
        pump.send(*(f"{group}{number}" for number in range(3)), group=group)
    pump.function.goes_on.clear()
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.under_way) == 3)
        time.sleep(QUIET_S)
        assert sorted(pump.function.under_way) == [("x",), ("y",), ("z",)]
        pump.function.goes_on.set()
        pump.wait_for(lambda: not pump.queue.messages())
    bodies = [batch[0] for batch in pump.function.batches]
    assert [[body for body in bodies if body[0] == group] for group in "xyz"] == [
        [f"{group}{number}" for number in range(3)] for group in "xyz"
    ]


def test_a_message_that_fails_holds_its_group_and_no_other() -> None:
    pump = Pump(fifo=True, BatchSize=1, **PARTIAL)
    pump.send("x0", "x1", group="x")
    pump.send("y0", group="y")
    pump.function.answer = lambda event: {
        "batchItemFailures": [{"itemIdentifier": it["messageId"]} for it in event["Records"] if it["body"] == "x0"]
    }
    with at_work(pump):
        for _ in range(3):
            pump.rest()
            assert [message.body for message in pump.queue.messages()] == ["x0", "x1"]
            pump.clock.advance(VISIBILITY_S)
        pump.wait_for(lambda: not pump.queue.messages())
    assert [message.body for message in pump.dead.messages()] == ["x0"]
    assert [batch[0] for batch in pump.function.batches].count("x0") == 3
    assert pump.function.batches[-1] == ["x1"]


@pytest.mark.parametrize("most", [2, 5])
def test_no_more_invocations_at_once_than_the_mapping_allows(most: int) -> None:
    """The others stay in the queue, unreceived."""
    pump = Pump(BatchSize=1, ScalingConfig={"MaximumConcurrency": most})
    pump.send(*map(str, range(8)))
    pump.function.goes_on.clear()
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.under_way) == most)
        time.sleep(QUIET_S)
        assert len(pump.function.events) == most
        assert pump.queue.visible() == 8 - most
        pump.function.goes_on.set()
        pump.wait_for(lambda: not pump.queue.messages())
    assert pump.mapping.most_at_once == most


# --- what happens to messages on the way ---


def test_a_disturbance_says_how_messages_are_delivered() -> None:
    """Doubled, in other batches, or not at all: then they come again by themselves."""
    pump = Pump()
    pump.mapping.disturbance = lambda _, messages: [messages[:1], messages[:1], []]
    pump.send("a", "b")
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.events) == 2)
        pump.rest()
        assert pump.function.batches == [["a"], ["a"]]
        assert [message.body for message in pump.queue.messages()] == ["b"]
        pump.clock.advance(VISIBILITY_S)
        pump.wait_for(lambda: not pump.queue.messages())
    assert pump.function.batches[-1] == ["b"]


def hand_on(pump: Pump, times: int) -> None:
    """Let the function send what it gets to its own queue, with the trace that its process would pass on."""

    def answer(event: Mapping[str, Any]) -> None:
        if len(pump.function.events) < times:
            (record,) = event["Records"]
            pump.queue.send(record["body"], trace=pump.function.traces[-1])

    pump.function.answer = answer


def test_a_trace_counts_how_often_it_went_through_a_function() -> None:
    pump = Pump(BatchSize=1)
    hand_on(pump, 20)
    pump.queue.send("a", trace=TRACE)
    with at_work(pump):
        pump.wait_for(lambda: len(pump.function.events) == 20 and not pump.queue.messages())
    assert pump.function.traces == [f"{TRACE};Lineage=lakesweep-it:{number}" for number in range(1, 21)]


def test_a_trace_counts_every_function_that_it_went_through() -> None:
    pump = Pump(BatchSize=1)
    pump.queue.send("a", trace=f"{TRACE};Lineage=lakesweep-other:7,lakesweep-it:3")
    pump.queue.send("b", trace=f"{TRACE};Lineage=lakesweep-other:2")
    pump.queue.send("c")
    with at_work(pump):
        pump.wait_for(lambda: not pump.queue.messages())
    traces = {batch[0]: trace for batch, trace in zip(pump.function.batches, pump.function.traces, strict=True)}
    assert traces["a"] == f"{TRACE};Lineage=lakesweep-other:7,lakesweep-it:4"
    assert traces["b"] == f"{TRACE};Lineage=lakesweep-other:2,lakesweep-it:1"
    assert traces["c"].startswith("Root=1-")
    assert traces["c"].endswith(";Lineage=lakesweep-it:1")


def test_of_a_batch_the_message_that_came_farthest_counts() -> None:
    pump = Pump()
    pump.queue.send("a", trace=f"{TRACE};Lineage=lakesweep-it:2")
    pump.queue.send("b", trace=f"{TRACE};Lineage=lakesweep-it:5")
    pump.queue.send("c")
    with at_work(pump):
        pump.wait_for(lambda: not pump.queue.messages())
    assert pump.function.traces == [f"{TRACE};Lineage=lakesweep-it:6"]


def test_a_function_that_is_stopped_in_loops_is_not_invoked_a_seventeenth_time() -> None:
    """Each reception is refused and counted, until the message is a dead letter."""
    pump = Pump(BatchSize=1)
    pump.function.is_stopped_in_loops = True
    hand_on(pump, 99)
    pump.send("a")
    with at_work(pump):
        for _ in range(3):
            pump.wait_for(lambda: pump.queue.in_flight() == 1 and len(pump.function.events) == 16)
            pump.rest()
            pump.clock.advance(VISIBILITY_S)
        pump.wait_for(lambda: pump.dead.visible() == 1)
    assert len(pump.function.events) == 16
    dropped = pump.metrics.values("AWS/Lambda", "RecursiveInvocationsDropped", {"FunctionName": "lakesweep-it"})
    assert dropped == [1, 1, 1]


# --- invoked otherwise ---


def test_an_invocation_takes_six_megabytes() -> None:
    """Before a process is asked."""
    properties = {"FunctionName": "it", "Timeout": 1, "MemorySize": 128, "Environment": {"Variables": {}}}
    unused: Any = None
    function = DeployedFunction("It", properties, unused, unused, unused, Metrics(), Path("/nowhere"), Path("/nowhere"))
    with pytest.raises(ValueError, match="more than 6291456 bytes"):
        function.invoke("a" * (MAX_PAYLOAD_BYTES - len('""') + 1))


@pytest.fixture
def system() -> System:
    """A system that is not at work, with a function that is none; ten minutes pass in a second."""
    made = System(Build(Path("/nowhere"), Path("/nowhere")), speed=600)
    function: Any = Function()
    made.functions = {"It": function}
    return made


def waited_for(system: System, count: int) -> list[dict[str, Any]]:
    function: Any = system.functions["It"]
    end = time.monotonic() + PATIENCE_S
    while len(function.events) < count or system._pending:
        assert time.monotonic() < end, function.events
        time.sleep(0.005)
    return list(function.events)


def test_an_event_that_nobody_waits_for_is_tried_three_times(system: System) -> None:
    function: Any = system.functions["It"]
    function.error = "Unhandled"
    began_s = system.clock.now()
    system.invoke_later("It", {"a": 1})
    assert waited_for(system, 3) == [{"a": 1}] * 3
    assert system.clock.now() - began_s >= 180
    function.error = ""
    system.invoke_later("It", {"a": 2})
    assert waited_for(system, 4)[3:] == [{"a": 2}]


def test_an_event_that_nobody_waits_for_waits_for_concurrency(system: System) -> None:
    """Attempts that find none do not count, for six hours."""
    function: Any = system.functions["It"]
    function.is_throttled = True
    system.invoke_later("It", {})
    while len(function.events) < 5:
        time.sleep(0.005)
    function.is_throttled = False
    assert len(waited_for(system, 6)) == 6
    function.is_throttled = True
    system.invoke_later("It", {})
    while len(function.events) < 8:
        time.sleep(0.005)
    system.clock.skip_to(system.clock.now() + 6 * 3600)
    assert len(waited_for(system, 8)) < 12


def test_an_event_that_nobody_waits_for_has_a_quarter_of_a_megabyte(system: System) -> None:
    largest = {"a": "b" * (MAX_ASYNC_BYTES - len('{"a": ""}'))}
    with pytest.raises(ValueError, match="more than 262144 bytes"):
        system.invoke_later("It", {**largest, "a": largest["a"] + "b"})
    system.invoke_later("It", largest)
    assert len(waited_for(system, 1)) == 1
