"""What a FIFO queue remembers of what was sent to it."""

import hashlib
from dataclasses import dataclass, field

from tests.support.system.message import SqsError, check_name

INTERVAL_S = 300


@dataclass(slots=True)
class Deduplication:
    """The messages of the last five minutes, also those that are deleted by now."""

    by_content: bool
    """ContentBasedDeduplication: the body's hash serves when the sender names nothing."""
    per_group: bool
    """DeduplicationScope is messageGroup."""
    _sent: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """Group (or nothing) and deduplication -> id and time of the first message, oldest first."""

    def id_of(self, body: str, stated: str | None) -> str:
        """Return a message's deduplication id."""
        if stated is not None:
            check_name("MessageDeduplicationId", stated)
            return stated
        if not self.by_content:
            raise SqsError(
                "InvalidParameterValue", "A MessageDeduplicationId, or ContentBasedDeduplication, is needed."
            )
        return hashlib.sha256(body.encode()).hexdigest()

    def first(self, group: str, dedup_id: str, message_id: str, now_s: float) -> str:
        """Return the id of the message that was sent first: this one's unless it is a duplicate."""
        while self._sent and now_s - next(iter(self._sent.values()))[1] >= INTERVAL_S:
            del self._sent[next(iter(self._sent))]
        return self._sent.setdefault((group if self.per_group else "", dedup_id), (message_id, now_s))[0]
