"""The notifications of a bucket, which EventBridge needs to learn of new objects.

S3 tells EventBridge about the objects of a bucket if the bucket's *notification configuration* says so. The same
document lists the topics, queues and functions that S3 notifies. The API can only replace the whole document. So a
program that adds one thing can lose another. This module guards against that:

- Lakesweep must know every element of the document. botocore drops an element that its model does not know, so
  putting the document back would delete it.
- Lakesweep reads the configuration again right before it replaces it. It must still be the one from which the plan was
  made.
- Lakesweep reads it again afterwards, until it shows the new configuration.

Between the last read and the put, another program may still change it. The API has no condition that would close this
gap, so do not change one bucket's notifications from two places at once.

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
from lakesweep.storage.aws_client import make_client, s3_request
from lakesweep.storage.requests import RequestCounter

Configuration = Mapping[str, Any]
"""As S3 returns it: lists by kind of destination, and `EventBridgeConfiguration` if EventBridge is on."""

EVENT_BRIDGE = "EventBridgeConfiguration"
DESTINATIONS = {
    "TopicConfigurations": "TopicArn",
    "QueueConfigurations": "QueueArn",
    "LambdaFunctionConfigurations": "LambdaFunctionArn",
}
"""Kind of destination -> the key that names the destination."""

LOOKS = 6
"""Reads after the put. It may take a moment until S3 shows new settings of a bucket."""
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
"""All elements below the root of this document that botocore reads and writes."""
_FOUND = "LakesweepElements"


@dataclass(frozen=True, slots=True)
class EventsPlan:
    """A bucket's notifications as they are and as they should be."""

    bucket: str
    before: Configuration
    after: Configuration

    @property
    def is_needed(self) -> bool:
        """Tell whether EventBridge is still off."""
        return EVENT_BRIDGE not in self.before


class BucketNotifications:
    """The notification configuration of one bucket. It is read and replaced as a whole."""

    def __init__(self, bucket: str, client: Any) -> None:
        """Take an S3 client that nothing else uses: this class registers a hook that inspects its answers."""
        self.bucket = bucket
        self._client = client
        client.meta.events.register("before-parse.s3.GetBucketNotificationConfiguration", _note_elements)

    def read(self) -> Configuration:
        """Read the configuration.

        Raises:
            RefusedError: It holds an element that would be lost if it were put back.
            AccessDeniedError: There is no permission to read it.
        """
        with self._asked("GetBucketNotificationConfiguration", "read", "s3:GetBucketNotification"):
            answer = self._client.get_bucket_notification_configuration(Bucket=self.bucket)
        found = answer.get(_FOUND)
        if found is None:
            raise StorageError(f"bucket {self.bucket}: its notification configuration cannot be parsed as XML")
        unknown = sorted(found - _ELEMENTS)
        if unknown and EVENT_BRIDGE not in answer:  # if EventBridge is on already, Lakesweep puts nothing
            raise RefusedError(
                f"bucket {self.bucket}: its notification configuration holds {', '.join(unknown)}, which Lakesweep "
                "does not know and would lose; enable EventBridge in the S3 console",
                code="unknown_notification",
            )
        found_lists = {kind: answer[kind] for kind in DESTINATIONS if answer.get(kind)}
        return {**found_lists, **({EVENT_BRIDGE: {}} if EVENT_BRIDGE in answer else {})}

    def replace(self, configuration: Configuration) -> None:
        """Replace the whole configuration."""
        with self._asked("PutBucketNotificationConfiguration", "change", "s3:PutBucketNotification"):
            self._client.put_bucket_notification_configuration(
                Bucket=self.bucket,
                NotificationConfiguration=configuration,
                # S3 has checked these destinations before. To check them again, it would send each topic and queue a
                # test message. It would also refuse the put because of a destination that was deleted long ago.
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
    """Open the notification configuration of a bucket. Sends no request yet."""
    return BucketNotifications(bucket, make_client(endpoint_url=endpoint_url, region=region, max_parallel=1))


def plan_events(notifications: BucketNotifications) -> EventsPlan:
    """Read the notifications of a bucket, and plan to add EventBridge. Changes nothing."""
    before = notifications.read()
    return EventsPlan(notifications.bucket, before, {**before, EVENT_BRIDGE: {}})


def enable_events(
    notifications: BucketNotifications, plan: EventsPlan, wait: Callable[[float], None] = time.sleep
) -> None:
    """Execute a plan, and return when S3 shows the result.

    Args:
        notifications: The notifications of the plan's bucket.
        plan: The plan that was shown to the person who decided.
        wait: Waits for this many seconds.

    Raises:
        RefusedError: The configuration changed since the plan was made. Nothing was changed.
        StorageError: It was put. But S3 shows another one (`not_as_put`) or still the former one (`not_shown_yet`).
    """
    where = f"bucket {plan.bucket}: its notification configuration"
    if not _same(notifications.read(), plan.before):
        raise RefusedError(
            f"{where} has changed since it was read; nothing was written, try again",
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
                f"{where} is neither the former nor the planned one; another program changes it, check it now",
                code="not_as_put",
            )
    raise StorageError(
        f"{where} was written, but S3 still shows the former one; check again in a minute", code="not_shown_yet"
    )


def _note_elements(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Add the names of all elements to botocore's result. The names of the parameters are botocore's."""
    body = response_dict["body"]
    try:
        # Without notifications some servers answer nothing at all, or give the document another name.
        elements = list(ElementTree.fromstring(body).iter())[1:] if body else []
    except ElementTree.ParseError:
        return
    customized_response_dict[_FOUND] = frozenset(element.tag.rpartition("}")[2] for element in elements)


def _same(one: Configuration, other: Configuration) -> bool:
    """Tell whether two configurations are equal, whatever order and case S3 uses."""
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
