"""What FIFO queues go by: the group of a table, and the id by which they recognise a repeated message."""

import hashlib
import uuid

from lakesweep.aws.messages import Commit, Hint


def group_of(table: str) -> str:
    """Return the group of a table in a FIFO queue. SQS delivers the messages of a group one at a time."""
    return hashlib.sha256(table.encode("utf-8", "surrogatepass")).hexdigest()


def dedup_id_of(message: Hint | Commit) -> str:
    """Return the id by which a FIFO queue recognises the same message within five minutes.

    A hint without a commit that is sent again gets a random id. Nothing else would distinguish it from the earlier one.
    So does an operation that commits, if it is sent again, or if a person requests it.
    """
    words: tuple[str, ...]
    if isinstance(message, Commit):
        is_new = message.manual or message.hop > 0
        words = (message.operation, message.table, message.branch)
    else:
        is_new = message.snapshot_id is None and message.hop > 0
        words = (message.table, message.branch, str(message.snapshot_id), message.etag or "", str(message.hop))
        words += tuple(f"{each.id} {each.etag}" for each in message.announced)
    if is_new:
        return uuid.uuid4().hex
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()
