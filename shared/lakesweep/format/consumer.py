"""Consumers: the progress of a streaming reader. Source: Paimon `Consumer`."""

from lakesweep.format.values import json_document


def parse_consumer(body: bytes, path: str) -> int:
    """Return the id of the next snapshot that the consumer will read."""
    document = json_document.parse_object(body, path)
    next_snapshot = json_document.require_int(document, "nextSnapshot", path)
    if next_snapshot < 0:
        raise json_document.wrong_type(path, "nextSnapshot", "a snapshot id", next_snapshot)
    return next_snapshot
