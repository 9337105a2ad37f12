"""A notification configuration that is not understood whole is not put back."""

from types import SimpleNamespace
from typing import Any

import pytest

from lakesweep.aws.bucket_events import BucketNotifications, plan_events
from lakesweep.errors import RefusedError, StorageError
from tests.support.stub_s3 import Answer, stub_s3

HEAD = '<NotificationConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
QUEUE = (
    "<QueueConfiguration><Id>q</Id><Queue>arn:aws:sqs:us-east-1:1:q</Queue><Event>s3:ObjectCreated:*</Event>{}"
    "</QueueConfiguration>"
)
UNKNOWN = "<StreamConfiguration><Stream>arn:aws:kinesis:us-east-1:1:s</Stream></StreamConfiguration>"


def notifications(client: Any) -> BucketNotifications:
    return BucketNotifications("lake", client)


def read(body: str) -> dict[str, Any]:
    with stub_s3(lambda _: Answer(200, body.encode())) as stub:
        return dict(plan_events(notifications(stub.store._s3.client())).before)


def test_the_documented_form_is_read() -> None:
    """Ids, filters and EventBridge itself."""
    filters = (
        "<Filter><S3Key><FilterRule><Name>Prefix</Name><Value>a/</Value></FilterRule>"
        "<FilterRule><Name>Suffix</Name><Value>.x</Value></FilterRule></S3Key></Filter>"
    )
    found = read(f"{HEAD}{QUEUE.format(filters)}<EventBridgeConfiguration/></NotificationConfiguration>")
    assert found["EventBridgeConfiguration"] == {}
    assert found["QueueConfigurations"][0]["Filter"]["Key"]["FilterRules"][1] == {"Name": "Suffix", "Value": ".x"}


@pytest.mark.parametrize(
    "inner",
    [
        UNKNOWN,
        QUEUE.format("<Filter><ObjectSize><AtLeast>1</AtLeast></ObjectSize></Filter>"),
        QUEUE.format("<InvocationRole>arn:aws:iam::1:role/r</InvocationRole>"),
    ],
)
def test_what_putting_back_would_lose_is_refused(inner: str) -> None:
    """botocore drops elements that it does not know, so the rest must not be put."""
    with pytest.raises(RefusedError, match="which Lakesweep does not know and would lose") as refused:
        read(f"{HEAD}{inner}</NotificationConfiguration>")
    assert refused.value.code == "unknown_notification"


def test_what_is_on_already_needs_no_understanding() -> None:
    """Nothing will be put back, so nothing can be lost."""
    assert "EventBridgeConfiguration" in read(f"{HEAD}{UNKNOWN}<EventBridgeConfiguration/></NotificationConfiguration>")


def test_what_is_no_xml_is_no_empty_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that cannot be read may hide anything."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    with pytest.raises(StorageError):
        read("<NotificationConfiguration><Queue")


def test_nothing_at_all_is_an_empty_configuration() -> None:
    """Some servers answer so for a bucket whose notifications nobody set."""
    assert read("") == {}
    assert read(f"{HEAD}</NotificationConfiguration>") == {}
