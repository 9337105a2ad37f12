"""Events: they turn messages of S3 into hints that a table changed.

S3 announces a new object in two forms. A *notification* goes straight to a queue or a function: `Records`, with keys
encoded like a web form. EventBridge sends one *event* per object, with the unencoded key. Either may arrive wrapped as
the `body` of messages in an SQS batch.

A *hint* says only that a branch of a table probably has a new snapshot. It names no file to delete. It may be lost,
late, doubled or out of order. So the key of any other object is not an error; it just gives no hint. Lakesweep refuses
only an event of neither form, because then a queue or rule is configured wrongly.

Source: AWS "Event message structure" and "EventBridge event message structure" (Amazon S3 User Guide), "Using Lambda
with Amazon SQS" (AWS Lambda Developer Guide).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import unquote_plus

from lakesweep.errors import FormatError
from lakesweep.format.codec import is_count
from lakesweep.format.names import branch_name_of, snapshot_id_of
from lakesweep.format.values.json_document import (
    describe,
    get_list,
    get_object,
    get_str,
    parse_object,
    require_str,
    shorten,
    wrong_type,
)
from lakesweep.model.commits.seen import Announced
from lakesweep.model.roots import MAIN

_MAX_ETAG = 100
TEST_EVENT = "s3:TestEvent"
"""S3 sends this event once, when a bucket's notifications are set up."""


@dataclass(frozen=True, slots=True)
class CommitHint:
    """A hint that a branch of a table probably has this snapshot."""

    bucket: str
    location: str
    """Location of the table: `s3://bucket/prefix`, without a trailing slash."""
    branch: str
    snapshot_id: int
    account: str | None = field(default=None, compare=False)
    """Account of the event bus that delivered the event; a notification does not contain it."""
    etag: str | None = field(default=None, compare=False)
    """The ETag of the snapshot: after a rollback, another snapshot may have the same id."""
    time_ms: int = field(default=0, compare=False)
    """When S3 had written it; 0: the event does not tell."""
    size_bytes: int = field(default=0, compare=False)
    """0: the event does not tell."""

    @property
    def announced(self) -> tuple[Announced, ...]:
        """Return the snapshot as the event announced it, if that is enough to recognise it."""
        return (Announced(self.snapshot_id, self.etag, self.time_ms, self.size_bytes),) if self.etag else ()


def coalesce(hints: Iterable[CommitHint]) -> tuple[CommitHint, ...]:
    """Return the newest hint of each table and branch, in the order of their first hints."""
    newest: dict[tuple[str, str], CommitHint] = {}
    for hint in hints:
        known = newest.get((hint.location, hint.branch))
        if known is None or hint.snapshot_id > known.snapshot_id:
            newest[hint.location, hint.branch] = hint
    return tuple(newest.values())


def hints_of_event(event: dict[str, object], name: str = "event") -> tuple[CommitHint, ...]:
    """Return the hints in the event of an invocation: a notification, an EventBridge event, or an SQS batch.

    Args:
        event: The decoded document.
        name: Its name in messages.

    Raises:
        FormatError: It is none of these; the message names the record. To answer an SQS batch record by record, call
            `hints_of_message` for each.
    """
    return tuple(_hints(event, name, may_wrap=True))


def hints_of_message(body: str | bytes, name: str) -> tuple[CommitHint, ...]:
    """Return the hints in the body of one SQS message.

    Raises:
        FormatError: It is neither a notification nor an EventBridge event.
    """
    try:
        data = body.encode() if isinstance(body, str) else body
    except UnicodeEncodeError as error:
        raise FormatError(f"{name}: expected JSON in UTF-8, found {shorten(str(error))}") from error
    return hints_of_document(parse_object(data, name), name)


def hints_of_document(document: dict[str, object], name: str) -> tuple[CommitHint, ...]:
    """Return the hints in the parsed body of one SQS message; see `hints_of_message`."""
    return tuple(_hints(document, name, may_wrap=False))


def hint_of_key(bucket: str, key: str) -> CommitHint | None:
    """Return the hint for a new object of this key; `None` unless the object is a snapshot of a table.

    A snapshot is `<table>/snapshot/snapshot-<id>` or `<table>/branch/branch-<name>/snapshot/snapshot-<id>`. The names
    must match exactly, since writers leave temporary files and hint files beside them.
    """
    *folders, parent, name = ["", *key.split("/")]
    snapshot_id = snapshot_id_of(name)
    if snapshot_id is None or parent != "snapshot":
        return None
    branch, table = MAIN, folders[1:]
    if len(table) >= 2 and table[-2] == "branch" and (found := branch_name_of(table[-1])):
        branch, table = found, table[:-2]
        if branch == MAIN:  # the main branch is at the table's root; a folder of this name is not a branch
            return None
    # Locations are normalised, so a key with such parts would be taken for a key of another table.
    if not table or any(part in ("", ".", "..") for part in table):
        return None
    return CommitHint(bucket, f"s3://{bucket}/{'/'.join(table)}", branch, snapshot_id)


def _hints(event: dict[str, object], name: str, *, may_wrap: bool) -> Iterator[CommitHint]:
    if "detail-type" in event:
        yield from _hints_of_eventbridge(event, name)
    elif "Records" in event:
        for index, record in enumerate(get_list(event, "Records", name)):
            yield from _hints_of_record(record, f"{name}, Records[{index}]", may_wrap=may_wrap)
    elif event.get("Event") != TEST_EVENT:
        raise FormatError(
            f"{name}: expected an S3 notification or an EventBridge event, found an object with "
            f"{shorten(', '.join(map(ascii, sorted(event))) or 'no fields')}"
        )


def _hints_of_record(record: object, name: str, *, may_wrap: bool) -> Iterator[CommitHint]:
    if not isinstance(record, dict):
        raise FormatError(f"{name}: expected an object, found {describe(record)}")
    if may_wrap and "body" in record:
        message = f"{name} (message {describe(record.get('messageId'))})"
        yield from hints_of_message(require_str(record, "body", message), message)
    elif "s3" in record:
        if not require_str(record, "eventName", name).removeprefix("s3:").startswith("ObjectCreated:"):
            return
        detail = get_object(record, "s3", name)
        bucket, key = _bucket_and_key(detail, name)
        for hint in _hint(bucket, _decoded(key, name), _etag(detail, "eTag", name)):
            yield replace(hint, time_ms=_time_ms(record.get("eventTime")), size_bytes=_size(detail, name))
    else:
        found = get_str(record, "eventSource", name)
        raise wrong_type(name, "eventSource", "aws:s3 or aws:sqs" if may_wrap else "aws:s3", found)


def _hints_of_eventbridge(event: dict[str, object], name: str) -> Iterator[CommitHint]:
    if event.get("source") != "aws.s3" or event["detail-type"] != "Object Created":
        return
    account = get_str(event, "account", name)
    detail = get_object(event, "detail", name)
    for hint in _hint(*_bucket_and_key(detail, name), _etag(detail, "etag", name)):
        yield replace(hint, account=account, time_ms=_time_ms(event.get("time")), size_bytes=_size(detail, name))


def _hint(bucket: str, key: str, etag: str | None) -> Iterator[CommitHint]:
    if (hint := hint_of_key(bucket, key)) is not None:
        yield replace(hint, etag=etag)


def _etag(detail: dict[str, object], key: str, name: str) -> str | None:
    """Return the ETag of a new object as a listing has it. An event without one is valid."""
    found = get_object(detail, "object", name).get(key)
    return found.strip('"') if isinstance(found, str) and found.isascii() and len(found) <= _MAX_ETAG else None


def _time_ms(found: object) -> int:
    """Return the time of an event. An event without one is valid."""
    try:
        return max(0, int(datetime.fromisoformat(str(found)).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return 0


def _size(detail: dict[str, object], name: str) -> int:
    """Return the size of a new object. An event without one is valid."""
    found = get_object(detail, "object", name).get("size")
    return found if is_count(found) else 0


def _bucket_and_key(detail: dict[str, object], name: str) -> tuple[str, str]:
    bucket = require_str(get_object(detail, "bucket", name), "name", f"{name}, bucket")
    if not bucket or "/" in bucket:
        raise wrong_type(name, "bucket.name", "the name of a bucket", bucket)
    return bucket, require_str(get_object(detail, "object", name), "key", f"{name}, object")


def _decoded(key: str, name: str) -> str:
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError as error:
        raise wrong_type(name, "object.key", "a key in form encoding", key) from error
