"""Lambda's event source mapping: takes messages from one queue to one function.

Messages that the function took are deleted. Those that it names as failed, and all of them when it ends otherwise than
it should, stay where they are until their visibility timeout is over.

Source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS" and "Use Lambda recursive loop detection".
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tests.support.system.clock import Clock
from tests.support.system.function import MAX_PAYLOAD_BYTES, DeployedFunction, ThrottledError, new_trace
from tests.support.system.message import MAX_BODY_BYTES, Message, SqsError
from tests.support.system.metrics import Metrics
from tests.support.system.queue import MAX_RECEIVED, Queue

POLL_S = 0.004
"""Real seconds between two looks at a queue."""
HOP_LIMIT = 16
"""Invocations of one function in a chain of requests; then Lambda takes the chain for a loop."""
_LINEAGE = re.compile(r";?Lineage=([^;]*)")
_SLACK_BYTES = MAX_RECEIVED * 2 * MAX_BODY_BYTES
"""What one more reception may add to a batch, written as JSON."""

Disturbance = Callable[["SourceMapping", Sequence[Message]], Sequence[Sequence[Message]]]
"""Says what becomes of messages that were received: batches, each for an invocation of its own."""


def undisturbed(_: "SourceMapping", messages: Sequence[Message]) -> Sequence[Sequence[Message]]:
    """Deliver what was received."""
    return [messages]


class SourceMapping:
    """One event source of a function, at work in threads of its own between `start` and `stop`."""

    def __init__(
        self,
        queue: Queue,
        function: DeployedFunction,
        properties: Mapping[str, Any],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """Describe it.

        Args:
            queue: Where messages come from.
            function: Where they go.
            properties: Of the event in the rendered template.
            clock: What the batch window goes by.
            metrics: Takes what is dropped as a loop.
        """
        known = {"Queue", "BatchSize", "MaximumBatchingWindowInSeconds", "FunctionResponseTypes", "ScalingConfig"}
        assert set(properties) <= known, set(properties) - known
        self.queue = queue
        self.function = function
        self.batch_size = int(properties.get("BatchSize", 10))
        self.window_s = float(properties.get("MaximumBatchingWindowInSeconds", 0))
        self.concurrency = int(properties.get("ScalingConfig", {}).get("MaximumConcurrency", 1000))
        self.disturbance: Disturbance = undisturbed
        self.most_at_once = 0
        """So many invocations were under way at one time."""
        self._is_partial = "ReportBatchItemFailures" in properties.get("FunctionResponseTypes", ())
        self._clock = clock
        self._metrics = metrics
        self._slots = threading.Semaphore(self.concurrency)
        self._busy = 0
        self._delivering = 0
        self._window_ends_s: float | None = None
        self._lock = threading.Lock()
        self._receiving = threading.Lock()
        self._stopping = threading.Event()
        self._paused = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to look at the queue."""
        self._spawn(self._poll)

    def stop(self) -> None:
        """Take no more messages, and wait for what is under way."""
        self._stopping.set()
        for thread in list(self._threads):
            thread.join(timeout=60)

    def pause(self, paused: bool = True) -> None:
        """Stop to take messages, or go on: as the mapping's `Enabled` does."""
        with self._receiving:  # whoever sends a message after this has paused the mapping before
            self._paused.set() if paused else self._paused.clear()

    @property
    def is_busy(self) -> bool:
        """Tell whether an invocation is under way, or about to be."""
        return self._busy > 0

    def next_change_s(self) -> float | None:
        """Return when something happens here that time alone brings about, `None` if nothing does."""
        if self._paused.is_set():
            return None
        # Also within the window: what waits in the queue belongs to the batch, however late the window's thread looks.
        return min((it for it in (self._window_ends_s, self.queue.next_change_s()) if it is not None), default=None)

    def _poll(self) -> None:
        with self._clock.work.looking():
            self._look_again_and_again()

    def _look_again_and_again(self) -> None:
        while not self._stopping.is_set():
            if self._paused.is_set() or not self._slots.acquire(timeout=0.05):
                time.sleep(POLL_S)
                continue
            if not self._take_batch():
                time.sleep(POLL_S)

    def _take_batch(self) -> bool:
        """Receive a batch and begin to deliver it; tell whether there was one."""
        with self._marked_busy(1):  # not idle for a moment between the reception and the invocation
            messages = self._gather()
            batches = [batch for batch in self.disturbance(self, messages) if batch] if messages else []
            for number, batch in enumerate(batches):
                if number:
                    self._slots.acquire()
                self._spawn(self._deliver, batch)
            if not batches:
                self._slots.release()
        return bool(messages)

    @contextmanager
    def _marked_busy(self, change: int) -> Iterator[None]:
        """Count this thread as one more that is busy, or as one less, inside the block."""
        with self._lock:
            self._busy += change
        try:
            yield
        finally:
            with self._lock:
                self._busy -= change

    def _gather(self) -> list[Message]:
        """Receive a batch: for as long as the window, until it is full. The thread is busy but where it waits."""
        with self._receiving:
            messages = [] if self._paused.is_set() else self.queue.receive(min(MAX_RECEIVED, self.batch_size))
        if not messages or not self.window_s:
            return messages
        ends_s = self._clock.now() + self.window_s
        self._window_ends_s = ends_s
        while (room := self.batch_size - len(messages)) > 0 and self._clock.now() < ends_s:
            if self._stopping.is_set() or _bytes_of(messages) > MAX_PAYLOAD_BYTES - _SLACK_BYTES:
                break
            more = self.queue.receive(min(MAX_RECEIVED, room))
            messages += more
            if not more:
                with self._marked_busy(-1):
                    time.sleep(POLL_S)
        self._window_ends_s = None
        return messages

    def _spawn(self, target: Callable[..., None], *arguments: Any) -> None:
        with self._lock:
            if target == self._deliver:
                self._busy += 1
                self._delivering += 1
                self.most_at_once = max(self.most_at_once, self._delivering)
            self._threads = [each for each in self._threads if each.is_alive()]
            thread = threading.Thread(target=target, args=arguments, daemon=True)
            self._threads.append(thread)
        thread.start()

    def _deliver(self, messages: Sequence[Message]) -> None:
        try:
            trace, hops = _trace_of(messages, self.function.function_name)
            if hops >= HOP_LIMIT and self.function.is_stopped_in_loops:
                self._count_dropped()  # the messages come again, and to the same end, until they are dead letters
                return
            event = {"Records": [message.record(self.queue) for message in messages]}
            with suppress(ThrottledError):  # the messages come again
                done = self.function.invoke(event, trace=trace)
                for message in messages if not done.error else ():
                    if message.id not in self._failed(done.value, messages):
                        self._delete(message)
        finally:
            with self._lock:
                self._busy -= 1
                self._delivering -= 1
            self._slots.release()

    def _failed(self, answer: Any, messages: Sequence[Message]) -> set[str]:
        """Return the ids of the messages that stay: all of them when the answer is not what was agreed."""
        if not self._is_partial or answer is None or answer == {}:
            return set()
        every = {message.id for message in messages}
        items = answer.get("batchItemFailures") if isinstance(answer, dict) else 0
        if items is None or items == []:
            return set()
        if not isinstance(items, list):
            return every
        named = [item.get("itemIdentifier") if isinstance(item, dict) else None for item in items]
        return set(named) if all(isinstance(each, str) and each in every for each in named) else every

    def _delete(self, message: Message) -> None:
        with suppress(SqsError):  # its time was over, so it comes again
            self.queue.delete(str(message.receipt))

    def _count_dropped(self) -> None:
        dimensions = {"FunctionName": self.function.function_name}
        self._metrics.put("AWS/Lambda", "RecursiveInvocationsDropped", dimensions, [1], self._clock.now())


def _bytes_of(messages: Sequence[Message]) -> int:
    return sum(len(json.dumps(message.body)) for message in messages)


def _trace_of(messages: Sequence[Message], function: str) -> tuple[str, int]:
    """Return the trace of an invocation for these messages, and how often it went through this function before.

    It counts every function that it went through. Of several messages the one that came farthest names the trace.
    """
    traces = [message.trace for message in messages if message.trace is not None] or [new_trace()]
    counts = [_lineage_of(trace) for trace in traces]
    longest = max(range(len(traces)), key=lambda at: counts[at].get(function, 0))
    hops = counts[longest].get(function, 0)
    lineage = ",".join(f"{name}:{count}" for name, count in {**counts[longest], function: hops + 1}.items())
    return f"{_LINEAGE.sub('', traces[longest])};Lineage={lineage}", hops


def _lineage_of(trace: str) -> dict[str, int]:
    found = _LINEAGE.search(trace)
    pairs = (part.rpartition(":") for part in found[1].split(",")) if found else ()
    return {name: int(count) for name, _, count in pairs}
