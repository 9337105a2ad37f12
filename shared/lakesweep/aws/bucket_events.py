"""The notifications of a bucket, and how EventBridge gets to know of its objects.

S3 tells EventBridge about the objects of a bucket once the bucket's *notification configuration* says so. The same
document holds what goes to topics, queues and functions, and the API knows only how to replace all of it. So whoever
adds one thing can lose another, and this module guards against that:

- What was read must be understood to the last element: botocore drops what its model does not know, and putting the
  rest back would delete it.
- The configuration is read again right before it is replaced, and must be what the plan was made from.
- It is read again afterwards, until it shows what was put.

Between the last read and the put somebody may still change it. The API has no condition that would close this gap, so
do not change one bucket's notifications from two places at once.

Source: Amazon S3 API Reference, "PutBucketNotificationConfiguration"; Amazon S3 User Guide, "Enabling EventBridge".
"""

import json
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lakesweep.errors import AccessDeniedError, RefusedError, StorageError
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3_client import make_client, s3_request

Configuration = Mapping[str, Any]
"""As S3 has it: lists by kind of destination, and `EventBridgeConfiguration` where that is on."""

EVENT_BRIDGE = "EventBridgeConfiguration"
DESTINATIONS = {
    "TopicConfigurations": "TopicArn",
    "QueueConfigurations": "QueueArn",
    "LambdaFunctionConfigurations": "LambdaFunctionArn",
}
"""Kind of destination -> the key that names it."""

LOOKS = 6
"""Reads after the put. Settings of a bucket may take a moment to show."""
LOOK_INTERVAL_S = 2.0

_ELEMENTS = frozenset(
    {
        "TopicConfiguration",
        "QueueConfiguration",
        "CloudFunctionConfiguration",
        "EventBridgeConfiguration",
        "Id",
        "Topic",
        "Queue",
        "CloudFunction",
        "Event",
        "Filter",
        "S3Key",
        "FilterRule",
        "Name",
        "Value",
    }
)
"""Everything below the root of this document that botocore reads and writes."""
_FOUND = "LakesweepElements"


@dataclass(frozen=True, slots=True)
class EventsPlan:
    """A bucket's notifications as they are and as they should be."""

    bucket: str
    before: Configuration
    after: Configuration

    @property
    def is_needed(self) -> bool:
        """Tell whether EventBridge is off yet."""
        return EVENT_BRIDGE not in self.before


class BucketNotifications:
    """The notification configuration of one bucket. Reads and replaces it whole."""

    def __init__(self, bucket: str, client: Any) -> None:
        """Use a client of S3, made for this alone: its answers are looked at before botocore parses them."""
        self.bucket = bucket
        self._client = client
        client.meta.events.register("before-parse.s3.GetBucketNotificationConfiguration", _note_elements)

    def read(self) -> Configuration:
        """Read it.

        Raises:
            RefusedError: It holds something that would be lost if it were put back.
            AccessDeniedError: It may not be read.
        """
        with self._asked("GetBucketNotificationConfiguration", "read", "s3:GetBucketNotification"):
            answer = self._client.get_bucket_notification_configuration(Bucket=self.bucket)
        found = answer.get(_FOUND)
        if found is None:
            raise StorageError(f"bucket {self.bucket}: its notification configuration is not the XML it should be")
        unknown = sorted(found - _ELEMENTS)
        if unknown and EVENT_BRIDGE not in answer:  # where that is on, nothing will be put
            raise RefusedError(
                f"bucket {self.bucket}: its notification configuration holds {', '.join(unknown)}, which putting it "
                "back would lose; enable EventBridge in the S3 console",
                code="unknown_notification",
            )
        found_lists = {kind: answer[kind] for kind in DESTINATIONS if answer.get(kind)}
        return {**found_lists, **({EVENT_BRIDGE: {}} if EVENT_BRIDGE in answer else {})}

    def replace(self, configuration: Configuration) -> None:
        """Replace all of it."""
        with self._asked("PutBucketNotificationConfiguration", "change", "s3:PutBucketNotification"):
            self._client.put_bucket_notification_configuration(
                Bucket=self.bucket,
                NotificationConfiguration=configuration,
                # The destinations are those that S3 has checked before. To check them again it would send each topic
                # and queue a test message, and refuse because of one that was deleted long ago.
                SkipDestinationValidation=True,
            )

    @contextmanager
    def _asked(self, operation: str, verb: str, permission: str) -> Iterator[None]:
        try:
            with s3_request(operation, self.bucket, RequestCounter()):
                yield
        except AccessDeniedError as error:
            raise AccessDeniedError(
                f"bucket {self.bucket}: no permission to {verb} its notification configuration; expected {permission}"
            ) from error
        except StorageError as error:
            if error.code != "no_such_bucket":
                raise
            raise StorageError(f"bucket {self.bucket} does not exist", code=error.code) from error


def open_notifications(bucket: str, endpoint_url: str | None = None, region: str | None = None) -> BucketNotifications:
    """Open the notification configuration of a bucket. Touches nothing yet."""
    return BucketNotifications(bucket, make_client(endpoint_url=endpoint_url, region=region, max_parallel=1))


def plan_events(notifications: BucketNotifications) -> EventsPlan:
    """Read what a bucket notifies, and plan to have EventBridge among it. Changes nothing."""
    before = notifications.read()
    return EventsPlan(notifications.bucket, before, {**before, EVENT_BRIDGE: {}})


def enable_events(
    notifications: BucketNotifications, plan: EventsPlan, wait: Callable[[float], None] = time.sleep
) -> None:
    """Carry out a plan, and return when S3 shows the result.

    Args:
        notifications: Of the bucket that the plan is about.
        plan: What was shown to whoever decided.
        wait: Waits for so many seconds.

    Raises:
        RefusedError: The configuration is not the planned one any more. Nothing was changed.
        StorageError: It was put, and S3 shows something else (`not_as_put`) or still what was there (`not_shown_yet`).
    """
    where = f"bucket {plan.bucket}: its notification configuration"
    if not _same(notifications.read(), plan.before):
        raise RefusedError(
            f"{where} was changed by somebody else since it was read; nothing was put, try again",
            code="notifications_changed",
        )
    notifications.replace(plan.after)
    for look in range(LOOKS):
        if look:
            wait(LOOK_INTERVAL_S)
        found = notifications.read()
        if _same(found, plan.after):
            return
        if not _same(found, plan.before):
            raise StorageError(
                f"{where} is neither what was there nor what was put; somebody else changes it, look at it now",
                code="not_as_put",
            )
    raise StorageError(
        f"{where} was put, and S3 still shows the former one; look again in a minute", code="not_shown_yet"
    )


def _note_elements(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Leave the names of all elements beside botocore's result. The names of the parameters are botocore's."""
    body = response_dict["body"]
    try:
        # Some servers answer nothing at all, or name the document otherwise, when there are no notifications.
        elements = list(ElementTree.fromstring(body).iter())[1:] if body else []
    except ElementTree.ParseError:
        return
    customized_response_dict[_FOUND] = frozenset(element.tag.rpartition("}")[2] for element in elements)


def _same(one: Configuration, other: Configuration) -> bool:
    """Tell whether two configurations say the same, in whatever order and case S3 writes them."""
    return _canonical(one) == _canonical(other)


def _canonical(configuration: Configuration) -> dict[str, list[str]]:
    entries = {kind: configuration.get(kind, ()) for kind in DESTINATIONS}
    return {
        EVENT_BRIDGE: [EVENT_BRIDGE] if EVENT_BRIDGE in configuration else [],
        **{
            kind: sorted(json.dumps(_ordered(entry), sort_keys=True) for entry in found)
            for kind, found in entries.items()
        },
    }


def _ordered(entry: Mapping[str, Any]) -> dict[str, Any]:
    rules = entry.get("Filter", {}).get("Key", {}).get("FilterRules", ())
    return {
        **entry,
        "Events": sorted(entry.get("Events", ())),
        "Filter": sorted((rule["Name"].lower(), rule.get("Value", "")) for rule in rules),
    }
