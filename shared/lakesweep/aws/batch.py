"""Answer a batch of messages: what was taken is gone, what failed comes again, alone."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lakesweep.aws.messages import Hint, OrphanTask, Sweep, TagTour, Work, parse_message
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import MaintenanceError
from lakesweep.format.json_document import wrong_type

M = TypeVar("M", Hint, Work, Sweep, TagTour, OrphanTask)
Take = Callable[[str, str], None]
"""Takes the body of a message, and what log lines call it."""


def bodies_of(event: object) -> list[str]:
    """Return the bodies of the messages of a batch, as far as they are messages."""
    return [record["body"] for record in _records(event)]


def comes_again(event: object) -> bool:
    """Tell whether somebody has tried a message of a batch before, and did not end it."""
    attributes = [record.get("attributes") for record in _records(event)]
    return any(isinstance(each, dict) and each.get("ApproximateReceiveCount", "1") != "1" for each in attributes)


def messages(kind: type[M], work: Callable[[M, str], object]) -> Take:
    """Return what takes our own messages of one kind, for `answer`.

    Args:
        kind: `Hint`, `Work`, `Sweep`, `TagTour` or `OrphanTask`.
        work: Called with a message, and what log lines call it.
    """

    def take(body: str, name: str) -> None:
        message = parse_message(body, name)
        if not isinstance(message, kind):
            raise wrong_type(name, "kind", f"that of a {kind.__name__.lower()}", message.kind)
        work(message, name)

    return take


def by_kind(works: Mapping[str, Callable[[Any, str], object]]) -> Take:
    """Return what takes our own messages of several kinds, for `answer`.

    Args:
        works: Kind -> called with a message of it, and what log lines call it.
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

    A message that is damaged fails like one that met an error: after some attempts it lies in the dead-letter queue,
    where somebody can look at it, and the others have passed. What is no message at all is counted, and nothing else
    can be done.
    """
    records = _records(event)
    given = event.get("Records") if isinstance(event, dict) else None
    lost = (len(given) if isinstance(given, list) else 1) - len(records)
    if lost:
        runtime.telemetry.count("EventsRejected", lost)
        runtime.telemetry.warn("an event that is no batch of messages", found=type(event).__name__, lost=lost)
    if not records:
        return {"batchItemFailures": []}

    def one(record: SQSRecord) -> None:
        name = f"message {record.message_id}"
        try:
            take(record.body, name)
        except MaintenanceError as error:
            runtime.telemetry.warn(f"{name}: {error}", code=error.code)
            raise
        except Exception:
            runtime.telemetry.logger.exception("an error that nobody foresaw", message_id=record.message_id)
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
