"""The deployed system in small: the functions' own code, real queues and buckets of moto, one message at a time.

What AWS does between the functions is done by hand here: take messages from a queue, invoke, delete what was answered.
"""

import importlib.util
import io
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import boto3
from moto.core import DEFAULT_ACCOUNT_ID
from moto.emrserverless import models as emr_models
from moto.emrserverless.models import JobRun, emrserverless_backends
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends

from lakesweep.storage.open import _client
from lakesweep.storage.s3.store import S3Store
from tests.support.s3_server import fresh_bucket, moto_client, moto_endpoint, moto_store
from tests.support.system.backdoor import Backdoor
from tests.support.table_builder import TableBuilder

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"
ACCOUNT = "111122223333"
APPLICATION = "00f1cbsc6anuij25"
"""Of EMR Serverless, as the samples in events/ name it."""
PREFIX = "warehouse"
STATED = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}
_numbers = itertools.count()


@dataclass
class Context:
    """What Lambda hands to a handler."""

    remaining_ms: int = 60_000
    reads: int | None = None
    """So often it answers with that; from then on the time is over."""
    function_name: str = "test"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:test"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        if self.reads is None:
            return self.remaining_ms
        self.reads -= 1
        return self.remaining_ms if self.reads >= 0 else 0


@dataclass
class Answer:
    """What an invocation gave."""

    value: dict[str, Any]
    lines: list[dict[str, Any]]
    """Log lines and metrics, as they were printed."""

    @property
    def failed(self) -> list[str]:
        """Return the ids of the messages that come again."""
        return [item["itemIdentifier"] for item in self.value["batchItemFailures"]]

    @property
    def metrics(self) -> dict[str, float]:
        """Return what was counted."""
        found: dict[str, float] = {}
        for line in self.lines:
            for group in line.get("_aws", {}).get("CloudWatchMetrics", ()):
                for metric in group["Metrics"]:
                    values = line[metric["Name"]]
                    found[metric["Name"]] = sum(values) if isinstance(values, list) else values
        return found

    @property
    def dimensions(self) -> set[str]:
        """Return the dimensions of all metrics."""
        groups = [group for line in self.lines for group in line.get("_aws", {}).get("CloudWatchMetrics", ())]
        return {name for group in groups for names in group["Dimensions"] for name in names}

    @property
    def text(self) -> str:
        """Return all lines."""
        return json.dumps(self.lines)


class _Moto:
    """What a `Backdoor` looks at, while no function runs."""

    @contextmanager
    def alone(self) -> Iterator[Any]:
        yield s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


@cache
def _sqs() -> Any:
    return boto3.client("sqs", endpoint_url=moto_endpoint(), region_name="us-east-1")


@dataclass
class Deployment:
    """One bucket of tables, one of control documents, and the queues."""

    mode: str = "delete"
    extra: Mapping[str, str] = field(default_factory=dict)
    bucket: str = field(default_factory=fresh_bucket)
    control_bucket: str = field(default_factory=fresh_bucket)

    queue_names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _client.cache_clear()  # an earlier test's client may speak to another place
        self.sqs = _sqs()
        number = f"{os.getpid()}-{next(_numbers)}"
        self.queues = {}
        for name in ("commits", "expire", "execute", "sweep", "tags", "spark", "scan", "orphan", "committer"):
            is_fifo = name in ("expire", "committer")
            made = sqs_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].create_queue(
                self.queue_names.get(name, f"{name}-{number}{'.fifo' if is_fifo else ''}"),
                **({"FifoQueue": "true", "DeduplicationScope": "messageGroup"} if is_fifo else {}),
            )
            self.queues[name] = made.url(urlsplit(moto_endpoint()))
        self._modules: dict[str, ModuleType] = {}
        self._make_application()

    def _make_application(self) -> None:
        """Make the application under its fixed id. moto knows no `emr-spark`, and ends every job at once."""
        emr_models.JOB_STATUS = "RUNNING"
        backend = emrserverless_backends[DEFAULT_ACCOUNT_ID]["us-east-1"]
        backend.job_runs.pop(APPLICATION, None)
        if APPLICATION not in backend.applications:
            client = boto3.client("emr-serverless", endpoint_url=moto_endpoint(), region_name="us-east-1")
            made = client.create_application(name="lakesweep", releaseLabel="emr-7.0.0", type="SPARK")
            backend.applications[APPLICATION] = backend.applications.pop(made["applicationId"])

    @property
    def job_runs(self) -> list[JobRun]:
        """Return what was started; a test says how far it is."""
        return list(emrserverless_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].job_runs.get(APPLICATION, []))

    def environment_of(self, function: str) -> dict[str, str]:
        """Return what a function finds in its environment."""
        return {
            "LAKESWEEP_TABLES": f"{self.bucket}/{PREFIX}",
            "LAKESWEEP_CONTROL": f"s3://{self.control_bucket}/lakesweep",
            "LAKESWEEP_MODE": self.mode,
            "LAKESWEEP_POLICY": "",
            "LAKESWEEP_ACCOUNTS": ACCOUNT,
            "LAKESWEEP_MIN_INTERVAL": "1 min",
            **{f"LAKESWEEP_{name.upper()}_QUEUE": url for name, url in self.queues.items()},
            **(self.spark_environment() if function == "spark_jobs" else {}),
            "POWERTOOLS_SERVICE_NAME": "lakesweep",
            "POWERTOOLS_METRICS_NAMESPACE": "Lakesweep",
            "AWS_ENDPOINT_URL": moto_endpoint(),
            **self.extra,
        }

    def spark_environment(self) -> dict[str, str]:
        """Return what the function that starts jobs finds besides."""
        return {
            "LAKESWEEP_SPARK_APPLICATION": APPLICATION,
            "LAKESWEEP_SPARK_ARTIFACTS": "s3://artifacts/lakesweep/1",
            "LAKESWEEP_SPARK_PYTHON": "python3.11",
            "LAKESWEEP_SPARK_PLANNER_ROLE": f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/planner",
            "LAKESWEEP_SPARK_EXECUTOR_ROLE": f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/executor",
            "LAKESWEEP_SPARK_COMMITTER_ROLE": f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/committer",
            "LAKESWEEP_SPARK_LOG_GROUP": "/aws/emr-serverless/lakesweep",
            "AWS_REGION": "us-east-1",
        }

    def table(self, name: str = "sales.db/orders", commits: int = 6, **words: Any) -> TableBuilder:
        """Write a table whose commits are long ago; each replaces the file of the one before. No commit is an event."""
        store: Any = Backdoor(_Moto(), self.bucket, f"{PREFIX}/{name}/")
        builder = TableBuilder(store, **{"options": STATED, **words})
        for number in range(1, commits + 1):
            builder.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))
            builder.hint("LATEST", number)
        return builder

    def location(self, name: str = "sales.db/orders") -> str:
        return f"s3://{self.bucket}/{PREFIX}/{name}"

    def store(self, name: str = "sales.db/orders") -> S3Store:
        return moto_store(f"{PREFIX}/{name}", bucket=self.bucket)

    def control(self) -> S3Store:
        return moto_store("lakesweep", bucket=self.control_bucket)

    def snapshots(self, name: str = "sales.db/orders") -> list[int]:
        keys = [entry.key for entry in self.store(name).list("snapshot/")]
        return sorted(int(key.rsplit("-", 1)[1]) for key in keys if "snapshot-" in key)

    def control_keys(self) -> list[str]:
        return [entry.key for entry in self.control().list("")]

    def commit_event(self, snapshot_id: int, name: str = "sales.db/orders", **detail: Any) -> dict[str, Any]:
        """Return what EventBridge says of a new snapshot, which may be gone by now."""
        found = [each.etag for each in self.store(name).list("snapshot/") if each.key.endswith(f"t-{snapshot_id}")]
        return {
            "version": "0",
            "detail-type": "Object Created",
            "source": "aws.s3",
            "account": ACCOUNT,
            "detail": {
                "bucket": {"name": self.bucket},
                "object": {
                    "key": f"{PREFIX}/{name}/snapshot/snapshot-{snapshot_id}",
                    "size": 1,
                    "etag": next(iter(found), "gone"),
                },
                "reason": "PutObject",
                **detail,
            },
        }

    def load(self, function: str) -> ModuleType:
        """Import a function as Lambda does: once, with its settings in the environment."""
        if function not in self._modules:
            name = f"function_{function}_{next(_numbers)}"
            spec = importlib.util.spec_from_file_location(name, FUNCTIONS / function / "app.py")
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            with patch.dict(os.environ, self.environment_of(function)):
                spec.loader.exec_module(module)
            self._modules[function] = module
        return self._modules[function]

    def invoke(self, function: str, event: Any, reads: int | None = None) -> Answer:
        """Invoke a function, which may look so often at its time until that is over."""
        module = self.load(function)
        out = io.StringIO()
        handlers = list(module.runtime.telemetry.logger.handlers)
        with patch.dict(os.environ, self.environment_of(function)), redirect_stdout(out):
            streams = [handler.setStream(out) for handler in handlers]
            try:
                value = module.handler(event, Context(reads=reads))
            finally:
                for handler, stream in zip(handlers, streams, strict=True):
                    handler.setStream(stream or sys.stdout)
        json.dumps(value)  # what cannot be sent is no answer
        return Answer(value, [json.loads(line) for line in out.getvalue().splitlines()])

    def send(self, function: str, *bodies: Any, reads: int | None = None) -> Answer:
        """Invoke a function with a batch of messages."""
        return self.invoke(function, batch(*bodies), reads)

    def waiting(self, queue: str) -> list[dict[str, Any]]:
        """Take all messages from a queue, those that are held back as well."""
        found: list[dict[str, Any]] = []
        held = _queue(self.queues[queue])
        for message in held._messages:
            message.delayed_until = 0
        while held._messages:  # asked over HTTP, an empty queue takes as long as a full one
            messages = self.sqs.receive_message(
                QueueUrl=self.queues[queue], MaxNumberOfMessages=10, WaitTimeSeconds=0
            ).get("Messages")
            if not messages:
                break
            for message in messages:
                self.sqs.delete_message(QueueUrl=self.queues[queue], ReceiptHandle=message["ReceiptHandle"])
                found.append(json.loads(message["Body"]))
        return found

    def run(self, *bodies: Any) -> list[Answer]:
        """Send events and invoke whatever has messages, until every queue is empty."""
        answers = [self.send("on_snapshot_written", *bodies)] if bodies else []
        steps = (
            ("commits", "on_snapshot_written"),
            ("expire", "expire"),
            ("execute", "execute_batch"),
            ("committer", "committer"),
            ("sweep", "sweep"),
            ("tags", "tag_schedule"),
            ("spark", "spark_jobs"),
            ("scan", "orphan_scan"),
            ("orphan", "orphan_worker"),
        )
        for _ in range(50):
            taken = [(function, body) for queue, function in steps for body in self.waiting(queue)]
            if not taken:
                return answers
            answers += [self.send(function, body) for function, body in taken]
        raise AssertionError("messages go in circles")


def batch(*bodies: Any) -> dict[str, Any]:
    """Return messages as Lambda gets them from SQS."""
    return {
        "Records": [
            {
                "messageId": f"m{number}",
                "receiptHandle": f"r{number}",
                "body": body if isinstance(body, str) else json.dumps(body),
                "attributes": {"ApproximateReceiveCount": "1"},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:us-east-1:{ACCOUNT}:queue",
                "awsRegion": "us-east-1",
            }
            for number, body in enumerate(bodies)
        ]
    }


def _queue(url: str) -> Any:
    """Return a queue as moto has it."""
    return sqs_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].queues[url.rsplit("/", 1)[-1]]


def keys_of(store: S3Store) -> Sequence[str]:
    return [entry.key for entry in store.list("")]


__all__ = ["ACCOUNT", "PREFIX", "STATED", "Answer", "Context", "Deployment", "batch", "keys_of", "moto_client"]
