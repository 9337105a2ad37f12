"""`lakesweep enable-events`."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.options import EndpointUrl, Json, Place, Region, option
from lakesweep.cli.text import fields

EXAMPLES = ("lakesweep enable-events lake", "lakesweep enable-events lake --execute")

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_NAMES = {"TopicConfigurations": "topic", "QueueConfigurations": "queue", "LambdaFunctionConfigurations": "function"}


def enable_events(
    bucket: Annotated[str, typer.Argument(metavar="BUCKET", help="Name of a bucket, or s3://bucket.")],
    *,
    execute: Annotated[
        bool, option("--execute", "Change the bucket's notifications; otherwise nothing changes.")
    ] = False,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Have S3 send the events of a bucket to EventBridge, and keep all its other notifications.

    Shows what would change, and changes nothing without --execute.
    """
    import shlex

    from lakesweep.cli.answer import answer_call

    def call() -> dict[str, Any]:
        return _enable(_bucket_name(bucket), endpoint_url, region, execute=execute)

    def lines(document: Mapping[str, Any]) -> Iterator[str]:
        yield f"events of bucket {document['bucket']}: {document['status'].replace('_', ' ')}"
        words = Place(bucket, endpoint_url=endpoint_url, region=region).words("endpoint_url", "region")
        again = shlex.join(["lakesweep", "enable-events", bucket, "--execute", *words])
        yield from fields(_pairs(document, again))

    return answer_call(call, lines, as_json=as_json)


def _bucket_name(text: str) -> str:
    from lakesweep.errors import UsageError

    name = text.removeprefix("s3://").rstrip("/")
    if not _BUCKET.fullmatch(name):
        raise UsageError(f"BUCKET: expected the name of a bucket, found {text!r}")
    return name


def _enable(bucket: str, endpoint_url: str | None, region: str | None, *, execute: bool) -> dict[str, Any]:
    from lakesweep.aws import bucket_events

    notifications = bucket_events.open_notifications(bucket, endpoint_url, region)
    plan = bucket_events.plan_events(notifications)
    if execute and plan.is_needed:
        bucket_events.enable_events(notifications, plan)
    status = ("done" if execute else "planned") if plan.is_needed else "nothing_to_do"
    return {
        "bucket": bucket,
        "status": status,
        "executed": status == "done",
        "before": plan.before,
        "after": plan.after,
    }


def _pairs(document: Mapping[str, Any], again: str) -> Iterator[tuple[str, str]]:
    from lakesweep.aws.bucket_events import DESTINATIONS, EVENT_BRIDGE

    after = "on" if EVENT_BRIDGE in document["after"] else "off"
    before = "on" if EVENT_BRIDGE in document["before"] else "off"
    yield "EventBridge", "on, as before" if before == after else f"{before} -> {after}"
    for kind, key in DESTINATIONS.items():
        for entry in document["after"].get(kind, ()):
            yield _NAMES[kind], f"{entry[key]}, {_what(entry)} (unchanged)"
    if document["status"] == "planned":
        yield "next", again
    elif document["status"] == "done":
        yield "note", "S3 begins to send within about five minutes"


def _what(entry: Mapping[str, Any]) -> str:
    rules = entry.get("Filter", {}).get("Key", {}).get("FilterRules", ())
    filters = [f"{rule['Name'].lower()} {rule.get('Value', '')!r}" for rule in rules]
    return ", ".join([*entry.get("Events", ()), *filters, *([f"id {entry['Id']}"] if entry.get("Id") else [])])
