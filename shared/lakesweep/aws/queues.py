"""Send messages: hints and work, now or later."""

from functools import cached_property
from typing import Any

from lakesweep.aws.messages import Hint, Message, SparkScan, Sweep, Work, dedup_id_of, group_of, next_hop, to_body
from lakesweep.errors import MaintenanceError, StorageError

MAX_DELAY_S = 900
"""The longest that SQS holds a message back."""
_FIRST_DELAY_S = 60


class Queues:
    """The queues that a function may send to."""

    def __init__(self, urls: dict[str, str], client: Any = None) -> None:
        """Make it; the client comes with the first message.

        Args:
            urls: `commits`, `expire`, `execute`, `sweep`, `spark` -> URL.
            client: An SQS client instead of the usual one.
        """
        self._urls = urls
        self._given = client

    @cached_property
    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        from botocore.config import Config

        from lakesweep.storage.s3_client import new_session

        return new_session().create_client(
            "sqs",
            config=Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=4, read_timeout=10),
        )

    def ask_for_pass(self, hint: Hint) -> None:
        """Ask for a pass over a branch. A table's messages come one at a time, and a commit counts once."""
        self._send("expire", hint, MessageGroupId=group_of(hint.table), MessageDeduplicationId=dedup_id_of(hint))

    def hand_over(self, work: Work) -> None:
        """Give work to the larger executor."""
        self._send("execute", work)

    @property
    def has_spark(self) -> bool:
        """Tell whether this deployment has Spark."""
        return "spark" in self._urls

    def ask_for_scan(self, scan: SparkScan) -> None:
        """Ask for a scan on Spark."""
        self._send("spark", scan)

    def again(self, message: Hint | Work | Sweep, delay_s: int | None = None) -> bool:
        """Send a message once more, later, and tell whether it may be: it must not go in circles.

        Args:
            message: As it came. A hint goes to the commits, since a FIFO queue holds no message back.
            delay_s: Else longer with each time.
        """
        handed_on = next_hop(message)
        if handed_on is None:
            return False
        if delay_s is None:
            delay_s = _FIRST_DELAY_S << min(message.hop, 4)
        name = "commits" if isinstance(message, Hint) else "execute" if isinstance(message, Work) else "sweep"
        self._send(name, handed_on, DelaySeconds=max(0, min(delay_s, MAX_DELAY_S)))
        return True

    def _send(self, name: str, message: Message, **words: object) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        url = self._urls.get(name)
        if url is None:
            raise MaintenanceError(
                f"queue {name}: expected its URL in LAKESWEEP_{name.upper()}_QUEUE, found none", code="bad_setting"
            )
        try:
            self._client.send_message(QueueUrl=url, MessageBody=to_body(message), **words)
        except (BotoCoreError, ClientError) as error:
            raise StorageError(f"queue {name}: a message could not be sent: {error}", code="not_sent") from error
