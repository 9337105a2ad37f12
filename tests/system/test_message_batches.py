"""Messages that a function sends together: SQS takes each for itself, or not."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.support.stack import REGION
from tests.support.system.clock import ManualClock
from tests.support.system.embedded_aws import EmbeddedAws
from tests.support.system.message import MAX_BODY_BYTES
from tests.support.system.queue import Queue

URL = f"https://sqs.{REGION}.amazonaws.com/123456789012/work"


@pytest.fixture
def aws() -> Iterator[EmbeddedAws]:
    clock = ManualClock()
    with EmbeddedAws(clock) as running:
        running.queues["work"] = Queue("work", f"arn:aws:sqs:{REGION}:123456789012:work", {}, clock)
        yield running


def send(aws: EmbeddedAws, *bodies: str, **words: Any) -> dict[str, Any]:
    keys = {"aws_access_key_id": "outside", "aws_secret_access_key": "outside", "region_name": REGION}
    client = boto3.client("sqs", endpoint_url=aws.endpoint, **keys)  # type: ignore[call-overload]
    entries = [{"Id": str(number), "MessageBody": body, **words} for number, body in enumerate(bodies)]
    answer: dict[str, Any] = client.send_message_batch(QueueUrl=URL, Entries=entries)
    return answer


def bodies_in(aws: EmbeddedAws) -> list[str]:
    return [message.body for message in aws.queues["work"].messages()]


def test_all_are_taken(aws: EmbeddedAws) -> None:
    answer = send(aws, "a", "b", DelaySeconds=7)
    assert [each["Id"] for each in answer["Successful"]] == ["0", "1"] and not answer.get("Failed")
    assert bodies_in(aws) == ["a", "b"]
    assert aws.queues["work"].delayed() == 2


def test_some_are_not(aws: EmbeddedAws) -> None:
    """One has a character that SQS refuses, and one comes when the queue has no time."""
    aws.not_taken = lambda _: {"2"}
    answer = send(aws, "a", "\ufffe", "c")
    assert [each["Id"] for each in answer["Successful"]] == ["0"]
    failed = {each["Id"]: (each["Code"], each["SenderFault"]) for each in answer["Failed"]}
    assert failed == {"1": ("InvalidMessageContents", True), "2": ("ServiceUnavailable", False)}
    assert bodies_in(aws) == ["a"]


@pytest.mark.parametrize("bodies", [["a"] * 11, ["a" * (MAX_BODY_BYTES // 2), "b" * (MAX_BODY_BYTES // 2 + 1)]])
def test_too_many_are_refused(bodies: list[str], aws: EmbeddedAws) -> None:
    with pytest.raises(ClientError):
        send(aws, *bodies)
    assert bodies_in(aws) == []
