"""SQS as AWS documents it, in memory: standard and FIFO queues on a `Clock`.

Where the documentation leaves a choice, the unkind one is taken: a stale receipt deletes nothing. Not here: the limits
on how many messages are in flight and how many requests come in a second, message attributes, and long polling.
"""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count, islice
from typing import Any

from tests.support.stack import ACCOUNT, REGION, Stack
from tests.support.system.clock import Clock
from tests.support.system.deduplication import Deduplication
from tests.support.system.message import MAX_BODY_BYTES, Message, SqsError, check_body, check_name, check_seconds

MAX_DELAY_S = 900
MAX_VISIBILITY_S = 12 * 3600
MAX_RECEIVED = 10
_POISON_RECEPTIONS = 3
"""So often received, a message goes to the back of a standard queue, and its age does not count any more."""

_DEFAULTS: dict[str, Any] = {
    "FifoQueue": False,
    "ContentBasedDeduplication": False,
    "DeduplicationScope": "queue",
    "VisibilityTimeout": 30,
    "DelaySeconds": 0,
    "MessageRetentionPeriod": 4 * 86400,
    "MaximumMessageSize": MAX_BODY_BYTES,
    "RedrivePolicy": None,
}
_WITHOUT_EFFECT = {"QueueName", "FifoThroughputLimit", "SqsManagedSseEnabled", "KmsMasterKeyId", "Tags"}

_LOCK = threading.RLock()
"""One for all queues: a message that goes from one to another is never seen in both or in neither."""


class Queue:
    """A queue of SQS."""

    def __init__(self, name: str, arn: str, properties: Mapping[str, Any], clock: Clock) -> None:
        """Make it, empty.

        Args:
            name: Ends with ".fifo" if, and only if, the queue is one.
            arn: As eventSourceARN tells it.
            properties: Those of AWS::SQS::Queue; one that is not known here raises.
            clock: What all timers go by.
        """
        if unknown := set(properties) - set(_DEFAULTS) - _WITHOUT_EFFECT:
            raise NotImplementedError(f"queue {name}: {sorted(unknown)}")
        stated = {**_DEFAULTS, **properties}
        self.name = name
        self.arn = arn
        self.fifo = bool(stated["FifoQueue"])
        if self.fifo != name.endswith(".fifo"):
            raise SqsError("InvalidParameterValue", f"{name}: a FIFO queue's name, and no other, ends with .fifo")
        self.visibility_s = float(stated["VisibilityTimeout"])
        self.retention_s = float(stated["MessageRetentionPeriod"])
        redrive = stated["RedrivePolicy"]
        self.max_receive_count = None if redrive is None else int(redrive["maxReceiveCount"])
        self.dead_letters_arn: str | None = None if redrive is None else redrive["deadLetterTargetArn"]
        self.dead_letters: Queue | None = None
        """To be set by who has all queues."""
        self._delay_s = float(stated["DelaySeconds"])
        self._max_bytes = min(int(stated["MaximumMessageSize"]), MAX_BODY_BYTES)
        self._deduplication = Deduplication(
            stated["ContentBasedDeduplication"], _is_per_group(stated["DeduplicationScope"])
        )
        self._clock = clock
        self._messages: dict[str, Message] = {}
        """By id, in the order in which they are received."""
        self._sequences = count(18_850_000_000_000_000_000, 256)
        self._receptions = count(1)

    # --- senders and receivers ---

    def send(
        self,
        body: str,
        *,
        delay_s: float | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        trace: str | None = None,
    ) -> str:
        """Take a message and return its id: that of the first one if this is a duplicate, which is not kept."""
        check_body(body, self._max_bytes)
        check_seconds("DelaySeconds", delay_s or 0, MAX_DELAY_S)
        if group is not None:
            check_name("MessageGroupId", group)
        if self.fifo:
            if group is None:
                raise SqsError("MissingParameter", "The request must contain the parameter MessageGroupId.")
            if delay_s:  # 0 is allowed, and says nothing
                raise SqsError(
                    "InvalidParameterValue", f"Value {delay_s} for DelaySeconds: not valid for this queue type."
                )
            dedup_id = self._deduplication.id_of(body, dedup_id)
        elif dedup_id is not None:
            raise SqsError("InvalidParameterValue", "MessageDeduplicationId: not valid for this queue type.")
        message_id = str(uuid.uuid4())
        with _LOCK:
            now_s = self._now()
            if group is not None and dedup_id is not None:
                first_id = self._deduplication.first(group, dedup_id, message_id, now_s)
                if first_id != message_id:
                    return first_id
            visible_at_s = now_s + (self._delay_s if delay_s is None or self.fifo else delay_s)
            self._messages[message_id] = Message(
                message_id, body, now_s, now_s, visible_at_s, next(self._sequences), group, dedup_id, trace
            )
            return message_id

    def receive(self, limit: int = MAX_RECEIVED, visibility_s: float | None = None) -> list[Message]:
        """Receive up to ten messages. One that would be received too often goes to the dead letters instead."""
        if not 1 <= limit <= MAX_RECEIVED:
            raise SqsError("InvalidParameterValue", f"Value {limit} for parameter MaxNumberOfMessages is invalid.")
        hidden_s = self.visibility_s if visibility_s is None else visibility_s
        check_seconds("VisibilityTimeout", hidden_s, MAX_VISIBILITY_S)
        with _LOCK:
            now_s = self._now()
            alive = (message for message in self._receivable(now_s) if not self._redriven(message, now_s))
            return [self._received(message, now_s, hidden_s) for message in islice(alive, limit)]

    def delete(self, receipt: str) -> None:
        """Delete what was received. Twice is fine.

        A FIFO queue refuses a receipt whose visibility timeout is over. A standard queue takes it, and deletes the
        message unless it was received again: then the older receipt succeeds and does nothing.
        """
        with _LOCK:
            message = self._of(receipt)
            if message is None:
                return
            if self.fifo and (message.receipt != receipt or not message.is_in_flight(self._clock.now())):
                raise _expired(receipt)
            if message.receipt == receipt:
                del self._messages[message.id]

    def change_visibility(self, receipt: str, seconds: float) -> None:
        """Hide a message in flight for so long from now on; 0 gives it back."""
        check_seconds("VisibilityTimeout", seconds, MAX_VISIBILITY_S)
        with _LOCK:
            message = self._of(receipt)
            now_s = self._clock.now()
            if message is None:
                raise SqsError("InvalidParameterValue", f"Value {receipt}: the message does not exist.")
            if message.receipt != receipt or (self.fifo and not message.is_in_flight(now_s)):
                raise _expired(receipt)
            if not message.is_in_flight(now_s):
                raise SqsError("MessageNotInflight", f"The message of {receipt} is not in flight.")
            self._messages[message.id] = replace(message, visible_at_s=now_s + seconds)

    def move_to(self, other: "Queue") -> int:
        """Do StartMessageMoveTask: send what waits here to another queue, as new messages, and return how many."""
        if self.fifo != other.fifo:
            raise SqsError("InvalidParameterValue", f"{self.name} and {other.name} are not of one type")
        with _LOCK:
            now_s = self._now()
            waiting = [message for message in self._messages.values() if message.visible_at_s <= now_s]
            for message in waiting:
                other.send(message.body, group=message.group, dedup_id=message.dedup_id, trace=message.trace)
                del self._messages[message.id]
            return len(waiting)

    # --- who looks at it ---

    def visible(self) -> int:
        """Return ApproximateNumberOfMessagesVisible; a FIFO queue's include those whose group is blocked."""
        now_s, messages = self._seen()
        return sum(message.visible_at_s <= now_s for message in messages)

    def in_flight(self) -> int:
        """Return ApproximateNumberOfMessagesNotVisible."""
        now_s, messages = self._seen()
        return sum(message.is_in_flight(now_s) for message in messages)

    def delayed(self) -> int:
        """Return ApproximateNumberOfMessagesDelayed."""
        now_s, messages = self._seen()
        return sum(message.is_delayed(now_s) for message in messages)

    def oldest_age_s(self) -> float:
        """Return ApproximateAgeOfOldestMessage, 0 if there is none.

        A standard queue leaves out what was received three times: it fails again and again, and would hide the others.
        """
        now_s, messages = self._seen()
        counted = (it for it in messages if self.fifo or it.received_here < _POISON_RECEPTIONS)
        return max((now_s - message.entered_s for message in counted), default=0.0)

    def messages(self) -> list[Message]:
        """Return all that is in it, as it is now."""
        return self._seen()[1]

    def next_change_s(self) -> float | None:
        """Return from when on a message can be received, if nobody does anything before; `None` if there is none."""
        now_s, messages = self._seen()
        lines: dict[str, list[Message]] = {}
        for message in messages:
            lines.setdefault(str(message.group) if self.fifo else message.id, []).append(message)
        # A group waits for its first message, and for every one that somebody has.
        free = (
            max(it.visible_at_s for it in line if it is line[0] or it.is_in_flight(now_s)) for line in lines.values()
        )
        next_s = min(free, default=None)
        return None if next_s is None else max(now_s, next_s)

    def _seen(self) -> tuple[float, list[Message]]:
        with _LOCK:  # the time too, else what was sent just after it would look delayed
            return self._now(), list(self._messages.values())

    # --- inside, with the lock ---

    def _now(self) -> float:
        """Return the time, and forget what is too old by then."""
        now_s = self._clock.now()
        old = [it.id for it in self._messages.values() if now_s - it.sent_s >= self.retention_s]
        for message_id in old:
            del self._messages[message_id]
        return now_s

    def _receivable(self, now_s: float) -> list[Message]:
        if not self.fifo:
            return [message for message in self._messages.values() if message.visible_at_s <= now_s]
        blocked = {message.group for message in self._messages.values() if message.is_in_flight(now_s)}
        groups: dict[str | None, list[Message]] = {}
        for message in self._messages.values():
            if message.visible_at_s > now_s:
                blocked.add(message.group)  # what comes after a delayed message waits for it
            if message.group not in blocked:
                groups.setdefault(message.group, []).append(message)
        return list(chain.from_iterable(groups.values()))  # as many as possible of one group, then the next group

    def _redriven(self, message: Message, now_s: float) -> bool:
        if self.max_receive_count is None or message.received_here < self.max_receive_count:
            return False
        if self.dead_letters is None:
            raise RuntimeError(f"queue {self.name}: its dead letters were not set")
        if self.dead_letters.fifo != self.fifo:
            raise SqsError("InvalidParameterValue", f"{self.dead_letters.name} is not of the type of {self.name}")
        self.dead_letters._bury(self._messages.pop(message.id), now_s)
        return True

    def _bury(self, message: Message, now_s: float) -> None:
        """Take a dead letter with its id and count.

        A FIFO queue counts its age anew, and makes the message's id its deduplication id: none is taken for another.
        """
        dead = replace(
            message, entered_s=now_s, visible_at_s=now_s, sequence=next(self._sequences), received_here=0, receipt=None
        )
        self._messages[message.id] = replace(dead, sent_s=now_s, dedup_id=message.id) if self.fifo else dead

    def _received(self, message: Message, now_s: float, hidden_s: float) -> Message:
        received = replace(
            message,
            visible_at_s=now_s + hidden_s,
            receive_count=message.receive_count + 1,
            received_here=message.received_here + 1,
            first_received_s=now_s if message.first_received_s is None else message.first_received_s,
            receipt=f"{self.name}/{message.id}/{next(self._receptions)}",
        )
        if not self.fifo and received.received_here >= _POISON_RECEPTIONS:
            del self._messages[message.id]  # to the back
        self._messages[message.id] = received
        return received

    def _of(self, receipt: str) -> Message | None:
        """Return the message of a receipt, `None` if it is gone."""
        name, _, rest = receipt.partition("/")
        if name != self.name or "/" not in rest:
            raise SqsError("ReceiptHandleIsInvalid", f"The receipt handle {receipt!r} is not valid for this queue.")
        self._now()
        return self._messages.get(rest.partition("/")[0])


def queues_of(stack: Stack, clock: Clock) -> dict[str, Queue]:
    """Make the queues of a stack, by logical id, each with its dead letters."""
    queues = {
        logical_id: Queue(it["QueueName"], f"arn:aws:sqs:{REGION}:{ACCOUNT}:{it['QueueName']}", it, clock)
        for logical_id, it in stack.of_type("AWS::SQS::Queue").items()
    }
    by_arn = {queue.arn: queue for queue in queues.values()}
    for queue in queues.values():
        if queue.dead_letters_arn is not None:
            queue.dead_letters = by_arn[queue.dead_letters_arn]
    return queues


def _is_per_group(scope: str) -> bool:
    assert scope in ("messageGroup", "queue"), f"DeduplicationScope {scope}"
    return scope == "messageGroup"


def _expired(receipt: str) -> SqsError:
    return SqsError("InvalidParameterValue", f"Value {receipt} for ReceiptHandle: The receipt handle has expired.")
