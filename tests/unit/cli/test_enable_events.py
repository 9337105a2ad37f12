"""`enable-events` adds EventBridge to a bucket's notifications and loses none of them."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakesweep.aws import bucket_events
from tests.support.moto_events import show_event_bridge
from tests.support.s3_server import fresh_bucket, moto_client, moto_endpoint
from tests.unit.cli.command_line import Answer, call

ACCOUNT = "arn:aws:{}:us-east-1:123456789012:{}"
CROWDED: dict[str, Any] = {
    "TopicConfigurations": [
        {
            "Id": "to-topic",
            "TopicArn": ACCOUNT.format("sns", "objects"),
            "Events": ["s3:ObjectRemoved:*"],
        }
    ],
    "QueueConfigurations": [
        {
            "Id": "to-queue",
            "QueueArn": ACCOUNT.format("sqs", "objects"),
            "Events": ["s3:ObjectCreated:*"],
            "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "raw & new/"}]}},
        },
        {
            "Id": "to-queue-too",
            "QueueArn": ACCOUNT.format("sqs", "objects"),
            "Events": ["s3:ObjectCreated:Put", "s3:ObjectCreated:Copy"],
            "Filter": {
                "Key": {"FilterRules": [{"Name": "prefix", "Value": "a/"}, {"Name": "suffix", "Value": ".parquet"}]}
            },
        },
    ],
    "LambdaFunctionConfigurations": [
        {
            "Id": "to-function",
            "LambdaFunctionArn": ACCOUNT.format("lambda", "function:thumbnails"),
            "Events": ["s3:ObjectCreated:CompleteMultipartUpload"],
            "Filter": {"Key": {"FilterRules": [{"Name": "suffix", "Value": ".png"}]}},
        }
    ],
}


@pytest.fixture(autouse=True)
def moto_as_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    show_event_bridge(monkeypatch)
    monkeypatch.setattr(bucket_events.time, "sleep", lambda _: None)


def enable(bucket: str, *words: str) -> Answer:
    return call("enable-events", bucket, "--endpoint-url", moto_endpoint(), "--region", "us-east-1", *words)


def stored(bucket: str) -> dict[str, Any]:
    answer = moto_client().get_bucket_notification_configuration(Bucket=bucket)
    return {key: value for key, value in answer.items() if key != "ResponseMetadata"}


def crowded_bucket() -> str:
    bucket = fresh_bucket()
    moto_client().put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=CROWDED)
    assert stored(bucket) == CROWDED
    return bucket


def test_a_plan_changes_nothing() -> None:
    """Without --execute the difference is shown, with the command that would make it."""
    bucket = crowded_bucket()
    answer = enable(bucket)
    assert answer.exit_code == 0
    lines = answer.printed.splitlines()
    assert lines[0] == f"events of bucket {bucket}: planned"
    assert lines[1].split(maxsplit=1) == ["EventBridge", "off -> on"]
    assert len([line for line in lines if line.endswith("(unchanged)")]) == 4
    assert "prefix 'raw & new/'" in answer.printed
    assert f"lakesweep enable-events {bucket} --execute --endpoint-url" in lines[-1]
    assert stored(bucket) == CROWDED


def test_everything_else_survives() -> None:
    """Topics, queues and functions keep their ids, events and filters."""
    bucket = crowded_bucket()
    answer = enable(bucket, "--execute", "--json")
    assert (answer.exit_code, answer.messages) == (0, "")
    after = {**CROWDED, "EventBridgeConfiguration": {}}
    assert stored(bucket) == after
    assert answer.document == {
        "bucket": bucket,
        "status": "done",
        "executed": True,
        "before": CROWDED,
        "after": after,
    }


def test_a_bucket_without_notifications() -> None:
    """EventBridge is then the only one; the bucket may also be named as a location."""
    bucket = fresh_bucket()
    answer = enable(f"s3://{bucket}/", "--execute")
    assert (answer.exit_code, answer.messages) == (0, "")
    assert stored(bucket) == {"EventBridgeConfiguration": {}}


def test_doing_it_again_puts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that sends its events already is left alone."""
    bucket = crowded_bucket()
    assert enable(bucket, "--execute").exit_code == 0

    def never(*_: object) -> None:
        raise AssertionError("nothing to put")

    monkeypatch.setattr(bucket_events.BucketNotifications, "replace", never)
    for words in ([], ["--execute"]):
        again = enable(bucket, *words, "--json")
        assert again.exit_code == 0
        assert (again.document["status"], again.document["executed"]) == ("nothing_to_do", False)
    assert "on, as before" in enable(bucket).printed


def somebody_else(bucket: str) -> None:
    moto_client().put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"TopicConfigurations": CROWDED["TopicConfigurations"]}
    )


def between(monkeypatch: pytest.MonkeyPatch, read: int, act: Callable[[], None]) -> None:
    """Act right before the given read of the configuration, counted from one."""
    reads, ask = [], bucket_events.BucketNotifications.read

    def counted(self: bucket_events.BucketNotifications) -> bucket_events.Configuration:
        reads.append(1)
        if len(reads) == read:
            act()
        return ask(self)

    monkeypatch.setattr(bucket_events.BucketNotifications, "read", counted)


def test_a_change_after_the_plan_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else has put since stays, and nothing is put."""
    bucket = crowded_bucket()
    between(monkeypatch, 2, lambda: somebody_else(bucket))
    answer = enable(bucket, "--execute", "--json")
    assert answer.exit_code == 3
    assert answer.document["error"]["code"] == "notifications_changed"
    assert stored(bucket) == {"TopicConfigurations": CROWDED["TopicConfigurations"]}
    assert len(answer.sentences) == 1


def test_a_change_after_the_put_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who overwrites what was put leaves the bucket without EventBridge, so it is no success."""
    bucket = crowded_bucket()
    between(monkeypatch, 3, lambda: somebody_else(bucket))
    answer = enable(bucket, "--execute", "--json")
    assert answer.exit_code == 1
    assert answer.document["error"]["code"] == "not_as_put"


def test_what_shows_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 may show the former configuration for a while."""
    bucket = crowded_bucket()
    put, waits = bucket_events.BucketNotifications.replace, []
    monkeypatch.setattr(bucket_events.BucketNotifications, "replace", lambda *_: None)

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            notifications = bucket_events.open_notifications(bucket, moto_endpoint(), "us-east-1")
            put(notifications, {**CROWDED, "EventBridgeConfiguration": {}})

    notifications = bucket_events.open_notifications(bucket, moto_endpoint(), "us-east-1")
    bucket_events.enable_events(notifications, bucket_events.plan_events(notifications), wait=sleep)
    assert waits == [bucket_events.LOOK_INTERVAL_S] * 2


def test_what_never_shows_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that S3 does not show within seconds ends with a sentence that says so."""
    bucket = crowded_bucket()
    monkeypatch.setattr(bucket_events.BucketNotifications, "replace", lambda *_: None)
    notifications = bucket_events.open_notifications(bucket, moto_endpoint(), "us-east-1")
    with pytest.raises(bucket_events.StorageError, match="still shows the former one") as found:
        bucket_events.enable_events(notifications, bucket_events.plan_events(notifications), wait=lambda _: None)
    assert found.value.code == "not_shown_yet"


def test_a_bucket_that_does_not_exist() -> None:
    """One sentence, and the exit code of other commands for it."""
    answer = enable("no-such-bucket-anywhere", "--json")
    assert answer.exit_code == 3
    assert answer.document["error"]["code"] == "no_such_bucket"
    assert answer.sentences == ["lakesweep: bucket no-such-bucket-anywhere does not exist"]


@pytest.mark.parametrize("name", ["", "s3://", "lake/sales.db", "a b", "arn:aws:s3:::lake", "x"])
def test_what_is_no_bucket(name: str) -> None:
    """A table, an ARN or nothing is a usage error."""
    answer = enable(name)
    assert answer.exit_code == 2
    assert len(answer.sentences) == 1


@pytest.mark.parametrize(
    ("method", "words", "permission"),
    [
        ("get_bucket_notification_configuration", [], "s3:GetBucketNotification"),
        ("put_bucket_notification_configuration", ["--execute"], "s3:PutBucketNotification"),
    ],
)
def test_access_denied_names_the_permission(
    monkeypatch: pytest.MonkeyPatch, method: str, words: list[str], permission: str
) -> None:
    """Whoever reads it knows what to ask for."""
    bucket, make = fresh_bucket(), bucket_events.make_client

    def denied(**_: object) -> None:
        error = {"Error": {"Code": "AccessDenied", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
        raise ClientError(error, method)  # type: ignore[arg-type]

    def client(**settings: Any) -> Any:
        made = make(**settings)
        setattr(made, method, denied)
        return made

    monkeypatch.setattr(bucket_events, "make_client", client)
    answer = enable(bucket, *words, "--json")
    assert answer.exit_code == 3
    assert answer.document["error"]["code"] == "access_denied"
    assert answer.sentences[0].endswith(f"expected {permission}")
