"""A private AWS: moto serves S3, EventBridge and SQS to this process alone.

It is wired like the deployed system. The bucket reports new objects to EventBridge, one rule selects snapshots, and a
queue receives them. Credentials are invented, and are valid while the server runs.
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
"""How long Lakesweep waits for the event of a commit. Here it arrives at once."""
_SNAPSHOT_WILDCARD = "*/snapshot/snapshot-*"
_USER_SETTINGS = ("AWS_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "BOTO_CONFIG")
"""Prefixes of the variables that would connect the demo to the user's account or proxy."""


class LocalAws:
    """The wired bucket, a second bucket for Lakesweep's documents, and the queue."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        # The data of moto outlives its server, so a second demo in this process uses other names.
        run = uuid4().hex[:8]
        self.bucket = f"lake-{run}"
        self.control_bucket = f"lakesweep-{run}"
        self._session: Any = boto3.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
        self.settings = StoreSettings(endpoint_url=endpoint, region=REGION)
        """Settings for Lakesweep's own stores, which open them in the usual way."""
        self.s3 = self._client("s3")
        self._sqs = self._client("sqs")
        self._queue_url = self._wire(f"commits-{run}")

    def commit_hints(self) -> tuple[CommitHint, ...]:
        """Wait for the next events and return their hints, the newest of each table and branch.

        Raises:
            StorageError: No event of a commit arrived.
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
        """Return key -> size in bytes of all objects below a folder of the table's bucket; keys are relative to it."""
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
    """Serve a wired AWS on a free port of 127.0.0.1 until the end of the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # otherwise it logs a line per request
    # An answer is sent in two pieces. With Nagle's algorithm each waits 40 ms for the acknowledgement of the first.
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

    Arguments of the demo's own clients are not enough. moto creates a session itself, which fails if the user's profile
    does not exist. Stores look for credentials in the same places as every AWS program.
    """
    environ = os.environ  # the demo reads no settings from it, but hides settings of others
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
