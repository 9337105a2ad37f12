"""Answer a batch of messages: SQS deletes the messages that succeeded, and repeats each failed message alone."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from lakesweep.aws.messages import Commit, Hint, OrphanTask, Sweep, TagSweep, Work, parse_message
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import MaintenanceError
from lakesweep.format.values.json_document import wrong_type

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

M = TypeVar("M", Hint, Work, Commit, Sweep, TagSweep, OrphanTask)
Take = Callable[[str, str], None]
"""Takes the body of a message, and its name in log lines."""


def bodies_of(event: object) -> list[str]:
    """Return the bodies of the valid messages of a batch."""
    return [record["body"] for record in _records(event)]


def comes_again(event: object) -> bool:
    """Tell whether an earlier attempt at a message of a batch did not finish."""
    attributes = [record.get("attributes") for record in _records(event)]
    return any(isinstance(each, dict) and each.get("ApproximateReceiveCount", "1") != "1" for each in attributes)


def messages(kind: type[M], work: Callable[[M, str], object]) -> Take:
    """Return a function for `answer` that takes Lakesweep's own messages of one kind.

    Args:
        kind: `Hint`, `Work`, `Commit`, `Sweep`, `TagSweep` or `OrphanTask`.
        work: Called with a message, and its name in log lines.
    """

    def take(body: str, name: str) -> None:
        message = parse_message(body, name)
        if not isinstance(message, kind):
            raise wrong_type(name, "kind", f"that of a {kind.__name__.lower()}", message.kind)
        work(message, name)

    return take


def by_kind(works: Mapping[str, Callable[[Any, str], object]]) -> Take:
    """Return a function for `answer` that takes Lakesweep's own messages of several kinds.

    Args:
        works: Kind -> function, called with a message of this kind and its name in log lines.
    """

    def take(body: str, name: str) -> None:
        message = parse_message(body, name)
        work = works.get(message.kind)
        if work is None:
            raise wrong_type(name, "kind", " or ".join(works), message.kind)
        work(message, name)

    return take


def answer(runtime: Runtime, event: object, context: Context, take: Take) -> dict[str, Any]:
    """Take each message of a batch and tell SQS which ones failed.

    A damaged message fails like one that met an error. After some attempts SQS moves it to the dead-letter queue, where
    an operator can read it. The other messages of the batch succeed. A record that is not a message is only counted.
    """
    # A third of a start: it imports asyncio and the events of all services. The first event waits for it instead.
    from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

    records = _records(event)
    given = event.get("Records") if isinstance(event, dict) else None
    lost = (len(given) if isinstance(given, list) else 1) - len(records)
    if lost:
        runtime.telemetry.count("EventsRejected", lost)
        runtime.telemetry.warn("an event that is not a batch of messages", found=type(event).__name__, lost=lost)
    if not records:
        return {"batchItemFailures": []}

    def one(record: "SQSRecord") -> None:
        name = f"message {record.message_id}"
        try:
            take(record.body, name)
        except MaintenanceError as error:
            runtime.telemetry.warn(f"{name}: {error}", code=error.code)
            raise
        except Exception:
            runtime.telemetry.logger.exception("an unexpected error", message_id=record.message_id)
            raise

    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    answered = process_partial_response(
        event={"Records": records},
        record_handler=one,
        processor=processor,
        context=context,  # type: ignore[arg-type]
    )
    return dict(answered)


def _records(event: object) -> list[dict[str, Any]]:
    records = event.get("Records") if isinstance(event, dict) else None
    return [
        record
        for record in (records if isinstance(records, list) else ())
        if isinstance(record, dict) and isinstance(record.get("messageId"), str) and isinstance(record.get("body"), str)
    ]
