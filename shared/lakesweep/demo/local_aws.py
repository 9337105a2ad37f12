"""An AWS of our own: S3, EventBridge and SQS of moto, served to this process alone.

Wired like the deployed system: the bucket reports new objects to EventBridge, one rule lets snapshots pass, and a queue
takes them. Credentials are invented, and hold as long as the server runs.
"""

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import boto3
from moto.moto_server.werkzeug_app import MotoRequestHandler
from moto.server import ThreadedMotoServer

from lakesweep.aws.events import CommitHint, coalesce, hints_of_message
from lakesweep.errors import StorageError
from lakesweep.storage.open import StoreSettings

REGION = "us-east-1"
ACCESS_KEY = "demo"
SECRET_KEY = "demo"
EVENT_WAIT_SECONDS = 20
"""How long the event of a commit may take; here it is there at once."""
_SNAPSHOT_WILDCARD = "*/snapshot/snapshot-*"
_USER_SETTINGS = ("AWS_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "BOTO_CONFIG")
"""Beginnings of the variables through which a user's account or proxy would reach us."""


class LocalAws:
    """The wired bucket, a second one for what Lakesweep keeps, and the queue."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        # Backends of moto outlive the server that shows them, so a second demo in a process takes other names.
        run = uuid4().hex[:8]
        self.bucket = f"lake-{run}"
        self.control_bucket = f"lakesweep-{run}"
        self._session: Any = boto3.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
        self.settings = StoreSettings(endpoint_url=endpoint, region=REGION)
        """For the stores of Lakesweep itself, opened like anywhere else."""
        self.s3 = self._client("s3")
        self._sqs = self._client("sqs")
        self._queue_url = self._wire(f"commits-{run}")

    def commit_hints(self) -> tuple[CommitHint, ...]:
        """Wait for the next events and return what they say, newest per table and branch.

        Raises:
            StorageError: No event of a commit came.
        """
        deadline = time.monotonic() + EVENT_WAIT_SECONDS
        while time.monotonic() < deadline:
            answer = self._sqs.receive_message(QueueUrl=self._queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            hints: list[CommitHint] = []
            for message in answer.get("Messages", []):
                hints += hints_of_message(message["Body"], f"message {message['MessageId']}")
                self._sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"])
            if hints:
                return coalesce(hints)
        raise StorageError(
            f"queue {self._queue_url}: expected the event of a commit, found none in {EVENT_WAIT_SECONDS} s"
        )

    def sizes(self, folder: str) -> dict[str, int]:
        """Return key -> size in bytes of what lies below a folder of the table's bucket; keys are relative to it."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{folder}/")
        return {
            entry["Key"].removeprefix(f"{folder}/"): entry["Size"]
            for page in pages
            for entry in page.get("Contents", [])
            if not entry["Key"].endswith("/")  # directory markers of the writer
        }

    def _client(self, service: str) -> Any:
        return self._session.client(service, endpoint_url=self.endpoint)

    def _wire(self, queue: str) -> str:
        for bucket in (self.bucket, self.control_bucket):
            self.s3.create_bucket(Bucket=bucket)
        self.s3.put_bucket_notification_configuration(
            Bucket=self.bucket, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
        url: str = self._sqs.create_queue(QueueName=queue)["QueueUrl"]
        attributes = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        pattern = {
            "source": ["aws.s3"],
            "detail-type": ["Object Created"],
            "detail": {"bucket": {"name": [self.bucket]}, "object": {"key": [{"wildcard": _SNAPSHOT_WILDCARD}]}},
        }
        events = self._client("events")
        events.put_rule(Name=queue, EventPattern=json.dumps(pattern))
        events.put_targets(Rule=queue, Targets=[{"Id": "queue", "Arn": attributes["QueueArn"]}])
        return url


@contextmanager
def local_aws() -> Iterator[LocalAws]:
    """Serve an AWS on a free port of 127.0.0.1, wired, until the end of the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request otherwise
    # Answers go out in two pieces; with Nagle's algorithm each waits 40 ms for the acknowledgement of the first.
    MotoRequestHandler.disable_nagle_algorithm = True
    with _own_environment():
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield LocalAws(f"http://{host}:{port}")
        finally:
            server.stop()


@contextmanager
def _own_environment() -> Iterator[None]:
    """Hide the user's AWS account and proxy from every library in this process, until the end of the block.

    Arguments of our own clients are not enough: moto makes a session itself, which fails on a profile that is not
    there, and stores look for credentials where every AWS program does.
    """
    environ = os.environ  # noqa: TID251 - not to read settings from it, but to keep others from it
    saved = dict(environ)
    for name in saved:
        if name.upper().startswith(_USER_SETTINGS):
            del environ[name]
    environ |= {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        yield
    finally:
        environ.clear()
        environ.update(saved)
