"""A message as SQS keeps it, and what SQS refuses to keep."""

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.system.queue import Queue

MAX_BODY_BYTES = 256 * 1024
"""SQS has taken 1 MiB since August 2025. The smaller limit is here on purpose: what fits into it fits everywhere."""

_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""All but the characters that the reference of SendMessage lists."""
_NAME = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")
"""Of a group or a deduplication: ASCII letters, digits and punctuation."""


class SqsError(Exception):
    """A request that SQS refuses."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Message:
    """A message at one moment; the queue replaces it when something about it changes."""

    id: str
    body: str
    sent_s: float
    """What retention counts from."""
    entered_s: float
    """When it came into this queue: later than `sent_s` among dead letters."""
    visible_at_s: float
    """From when on it can be received: after its delay, then after its visibility timeout."""
    sequence: int
    group: str | None = None
    dedup_id: str | None = None
    trace: str | None = None
    receive_count: int = 0
    """In all queues that it was in."""
    received_here: int = 0
    first_received_s: float | None = None
    receipt: str | None = None
    """Of the last reception from this queue, the only one that counts."""

    def is_in_flight(self, now_s: float) -> bool:
        """Tell whether somebody has it."""
        return self.receipt is not None and self.visible_at_s > now_s

    def is_delayed(self, now_s: float) -> bool:
        """Tell whether it is held back, and nobody had it."""
        return self.receipt is None and self.visible_at_s > now_s

    def record(self, queue: "Queue") -> dict[str, Any]:
        """Return the record that Lambda hands to a function."""
        assert self.receipt is not None and self.first_received_s is not None, "a record is of a received message"
        _, _, _, region, account, _ = queue.arn.split(":")
        attributes = {
            "ApproximateReceiveCount": str(self.receive_count),
            "SentTimestamp": str(int(self.sent_s * 1000)),
            "SenderId": account,
            "ApproximateFirstReceiveTimestamp": str(int(self.first_received_s * 1000)),
        }
        if self.trace is not None:
            attributes["AWSTraceHeader"] = self.trace
        if self.group is not None:
            attributes["MessageGroupId"] = self.group
        if queue.fifo:
            attributes["MessageDeduplicationId"] = str(self.dedup_id)
            attributes["SequenceNumber"] = f"{self.sequence:020d}"
        return {
            "messageId": self.id,
            "receiptHandle": self.receipt,
            "body": self.body,
            "attributes": attributes,
            "messageAttributes": {},
            "md5OfBody": hashlib.md5(self.body.encode(), usedforsecurity=False).hexdigest(),
            "eventSource": "aws:sqs",
            "eventSourceARN": queue.arn,
            "awsRegion": region,
        }


def check_body(body: str, max_bytes: int = MAX_BODY_BYTES) -> None:
    """Refuse what SQS does not take as a body."""
    if not body:
        raise SqsError("MissingParameter", "The request must contain the parameter MessageBody.")
    if refused := _REFUSED.search(body):
        raise SqsError("InvalidMessageContents", f"The message holds {refused[0]!r}, which is not allowed.")
    if len(body.encode()) > max_bytes:
        raise SqsError("InvalidParameterValue", f"Message must be shorter than {max_bytes} bytes.")


def check_name(parameter: str, value: str) -> None:
    """Refuse what SQS does not take as the name of a group or a deduplication."""
    if not _NAME.fullmatch(value):
        raise SqsError("InvalidParameterValue", f"Value {value} for parameter {parameter} is invalid.")


def check_seconds(parameter: str, value: float, most: float) -> None:
    """Refuse a time that is none, or too long."""
    if not 0 <= value <= most:
        raise SqsError("InvalidParameterValue", f"Value {value} for parameter {parameter} is invalid: 0 to {most}.")
