"""moto keeps whether a bucket sends its events to EventBridge, and does not say so when it is asked. Here it does."""

from collections.abc import Callable
from typing import Any

import pytest
from moto.s3.responses import S3Response

_CLOSING = b"</NotificationConfiguration>"


def show_event_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have moto's answers to GetBucketNotificationConfiguration show EventBridge, as S3's do."""
    ask: Callable[[Any], Any] = S3Response.get_bucket_notification

    def answer(self: Any) -> Any:
        status, headers, body = ask(self)
        found = self.backend.get_bucket_notification_configuration(self.bucket_name)
        if found is None or found.event_bridge is None:
            return status, headers, body
        data = body if isinstance(body, bytes) else body.encode()
        namespace = b"http://s3.amazonaws.com/doc/2006-03-01/"
        if _CLOSING not in data:
            data = b'<NotificationConfiguration xmlns="%s">%s' % (namespace, _CLOSING)
        data = data.replace(_CLOSING, b"<EventBridgeConfiguration/>" + _CLOSING)
        return status, {**headers, "content-length": str(len(data))}, data

    monkeypatch.setattr(S3Response, "get_bucket_notification", answer)
