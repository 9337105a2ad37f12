"""Send messages: hints, work and scans, with or without delay, one at a time or in batches."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from lakesweep.aws.fifo import dedup_id_of, group_of
from lakesweep.aws.messages import (
    MAX_BODY_BYTES,
    Commit,
    Hint,
    Housekeeping,
    Message,
    OrphanScan,
    OrphanSweep,
    OrphanTask,
    SparkRun,
    SparkScan,
    Sweep,
    TagSweep,
    Work,
    next_hop,
    to_body,
)
from lakesweep.errors import MaintenanceError, StorageError

MAX_DELAY_S = 900
"""Longest delay that SQS allows."""
_FIRST_DELAY_S = 60
BATCH_MESSAGES = 10
"""Messages that SQS takes in one request."""
_ATTEMPTS = 4
"""How often Lakesweep sends the messages of a batch that SQS did not take."""


class Queues:
    """The queues to which a function may send."""

    def __init__(self, urls: dict[str, str], client: Any = None, sleep: Callable[[float], None] = time.sleep) -> None:
        """Create it. The first message creates the client.

        Args:
            urls: `commits`, `expire`, `execute`, `sweep`, `tags`, `spark`, `scan`, `orphan`, `committer` -> URL.
            client: An SQS client instead of the usual one.
            sleep: Waits for this many seconds before messages are sent again.
        """
        self._urls = urls
        self._given = client
        self._sleep = sleep

    @cached_property
    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        from botocore.config import Config

        from lakesweep.storage.aws_client import new_session

        return new_session().create_client(
            "sqs",
            config=Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=4, read_timeout=10),
        )

    def ask_for_pass(self, hint: Hint) -> None:
        """Request a pass over a branch. A table's messages are delivered one at a time, and each commit only once."""
        self._send("expire", hint, MessageGroupId=group_of(hint.table), MessageDeduplicationId=dedup_id_of(hint))

    def ask_for_commit(self, commit: Commit) -> None:
        """Request an operation that commits a snapshot. A table's messages are delivered one at a time."""
        self._send(
            "committer", commit, MessageGroupId=group_of(commit.table), MessageDeduplicationId=dedup_id_of(commit)
        )

    def hand_over(self, work: Work) -> None:
        """Give work to the larger executor."""
        self._send("execute", work)

    @property
    def has_spark(self) -> bool:
        """Tell whether this deployment has Spark."""
        return "spark" in self._urls

    def ask_for_scan(self, scan: SparkScan | SparkRun) -> None:
        """Ask for a scan on Spark, or for another job there."""
        self._send("spark", scan)

    def ask_for_orphan_scan(self, scan: OrphanScan, delay_s: int = 0) -> None:
        """Request a scan by functions, or schedule its next step after a delay."""
        self._send("scan", scan, **_held_back(delay_s))

    def orphan_tasks(self, tasks: Iterable[OrphanTask]) -> None:
        """Send tasks of a scan to the workers.

        Raises:
            StorageError: SQS did not take all of them. Workers carry out the tasks that it took.
        """
        for batch in _batches(map(to_body, tasks)):
            self._send_batch("orphan", batch)

    def again(
        self,
        message: Hint | Work | Sweep | TagSweep | OrphanScan | OrphanSweep | Housekeeping,
        delay_s: int | None = None,
    ) -> bool:
        """Send a message once more, later. Return False if its hop limit is reached, so that it does not go in circles.

        Args:
            message: As it came. A hint is sent to the queue `commits`, since a FIFO queue cannot delay single messages.
            delay_s: Delay. `None`: a delay that grows with each hop.
        """
        handed_on = next_hop(message)
        if handed_on is None:
            return False
        if delay_s is None:
            delay_s = _FIRST_DELAY_S << min(message.hop, 4)
        self._send(_QUEUE_OF[message.kind], handed_on, **_held_back(delay_s))
        return True

    def _send(self, name: str, message: Message, **words: object) -> None:
        url = self._url(name)
        self._asked(name, partial(self._client.send_message, QueueUrl=url, MessageBody=to_body(message), **words))

    def _send_batch(self, name: str, bodies: list[str]) -> None:
        """Send up to ten messages. SQS may take only some of them; the others are sent again."""
        url, left = self._url(name), {str(number): body for number, body in enumerate(bodies)}
        why = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(0.1 * 4**attempt)
            entries = [{"Id": each, "MessageBody": body} for each, body in left.items()]
            answer = self._asked(name, partial(self._client.send_message_batch, QueueUrl=url, Entries=entries))
            # A message in neither list may have been taken or not. Sending it twice is harmless.
            left = {each: left[each] for each in left.keys() - {taken["Id"] for taken in answer.get("Successful", ())}}
            if not left:
                return
            failed: list[Mapping[str, Any]] = answer.get("Failed", [])
            why = "; ".join(sorted({f"{each.get('Code')}: {each.get('Message')}" for each in failed}))
            if failed and all(each.get("SenderFault") for each in failed):
                break  # the same messages would be refused again
        raise StorageError(
            f"queue {name}: {len(left)} of {len(bodies)} messages were not taken: {why}", code="not_sent"
        )

    def _url(self, name: str) -> str:
        url = self._urls.get(name)
        if url is None:
            raise MaintenanceError(
                f"queue {name}: expected its URL in LAKESWEEP_{name.upper()}_QUEUE, found none", code="bad_setting"
            )
        return url

    def _asked(self, name: str, ask: Callable[[], Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return ask()
        except (BotoCoreError, ClientError) as error:
            raise StorageError(f"queue {name}: a message could not be sent: {error}", code="not_sent") from error


_QUEUE_OF: Mapping[str, str] = {
    Hint.kind: "commits",
    "execute": "execute",
    "maintain": "execute",
    Housekeeping.kind: "execute",
    Sweep.kind: "sweep",
    TagSweep.kind: "tags",
    OrphanScan.kind: "scan",
    OrphanSweep.kind: "scan",
}


def _held_back(delay_s: int) -> dict[str, int]:
    return {"DelaySeconds": max(0, min(delay_s, MAX_DELAY_S))}


def _batches(bodies: Iterable[str]) -> Iterator[list[str]]:
    """Group messages as SQS takes them: at most ten at a time, and together no larger than one message may be."""
    batch: list[str] = []
    size = 0
    for body in bodies:
        length = len(body.encode())
        if batch and (len(batch) == BATCH_MESSAGES or size + length > MAX_BODY_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(body)
        size += length
    if batch:
        yield batch
