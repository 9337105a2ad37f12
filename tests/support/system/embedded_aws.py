"""The AWS that the functions speak to: moto's S3, and SQS of our own, behind one door that sees every request.

At the door each caller is known by its access key. So a request is logged with who made it, held against the caller's
role, may be slowed down, refused, or answered to a process that is dead by then. Answers carry the time of the system's
clock, which is the time that Lakesweep goes by.
"""

import hashlib
import io
import json
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from unittest.mock import patch
from urllib.parse import parse_qsl
from uuid import uuid4
from xml.etree import ElementTree

from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Response

from tests.support.iam import Role, calls_of
from tests.support.moto_http import QuickHandler
from tests.support.system.clock import Clock
from tests.support.system.filler import Filler, with_deleted
from tests.support.system.message import MAX_BODY_BYTES
from tests.support.system.queue import Queue, SqsError

OUTSIDE = "outside"
"""The caller whose key nobody was given by the system: a writer, or a test."""
SENDS = ("SendMessage", "SendMessageBatch")
MAX_BATCH_ENTRIES = 10
_CREDENTIAL = re.compile(r"Credential=([^/]+)/")
_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@dataclass(slots=True)
class Request:
    """One request, as it came to the door."""

    number: int
    caller: str
    """The name of an environment of a function, such as `Expire-1`, or `OUTSIDE`."""
    operation: str
    """As the API names it, such as `PutObject`."""
    bucket: str
    key: str
    at_s: float
    """By the system's clock."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Arguments by the names of the API, as far as somebody here looks at them."""
    body: bytes = b""
    status: int = 0

    @property
    def function(self) -> str:
        """Return the logical id of the function that asks."""
        return self.caller.rpartition("-")[0] or self.caller


Before = Callable[[Request], Response | None]
After = Callable[[Request], None]


class EmbeddedAws:
    """One server on 127.0.0.1. A context manager: it answers inside the block."""

    def __init__(self, clock: Clock, latency_s: float = 0.0) -> None:
        """Make it.

        Args:
            clock: Goes into every answer and onto every object.
            latency_s: Added to each request to S3, in real time.
        """
        self.clock = clock
        self.latency_s = latency_s
        self.roles: dict[str, Role] = {}
        """By caller; one without a role may do everything."""
        self.queues: dict[str, Queue] = {}
        """By name."""
        self.log: list[Request] = []
        self.denied: list[Request] = []
        self.before: list[Before] = []
        """Each is shown a request before it is carried out, and may answer it instead."""
        self.after: list[After] = []
        """Each is shown a request when it has been carried out, before the caller hears of it."""
        self.fillers: dict[str, Filler] = {}
        """By bucket: objects that moto does not know of."""
        self.not_taken: Callable[[Request], Collection[str]] = lambda _: ()
        """Says of a batch of messages which of them, by their ids in it, the queue has no time for."""
        self._s3 = create_backend_app("s3")
        # moto looks whether a condition holds and writes in two steps. Real S3 does it in one, so requests queue up.
        self._lock = threading.Lock()
        self._log_lock = threading.Lock()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Serve."""
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request otherwise
        self._open.enter_context(patch("moto.s3.models.utcnow", self.clock.datetime))
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=QuickHandler)
        self._server.daemon_threads = True
        self._server.handle_error = _tell_of_errors  # type: ignore[method-assign]
        self.endpoint = f"http://127.0.0.1:{self._server.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._open.close()

    @property
    def buckets(self) -> Any:
        """Return what moto holds: to fill it and to look at it past the door."""
        return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]

    @contextmanager
    def alone(self) -> Iterator[Any]:
        """Give what moto holds, while no request is carried out there."""
        with self._lock:
            yield self.buckets

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer one request."""
        body = environ["wsgi.input"].read()
        if len(body) < int(environ.get("CONTENT_LENGTH") or 0):
            # Who sent it died in the middle of it. AWS carries out no half requests.
            return Response(status=400)(environ, start_response)
        request = self._request(environ, body)
        if self.latency_s and request.operation not in SENDS:
            time.sleep(self.latency_s)
        answer = next((it for each in self.before if (it := each(request)) is not None), None)
        if answer is None and not self._is_allowed(request):
            self.denied.append(request)
            answer = _refusal(request, 403, "AccessDenied")
        if answer is None:
            is_sent = request.operation in SENDS
            answer = self._send(request) if is_sent else self._ask_s3(environ, body, request)
        answer.headers["Date"] = self.clock.http_date()
        request.status = answer.status_code
        for each in self.after:
            each(request)
        request.body = b""
        return answer(environ, start_response)

    def _request(self, environ: Mapping[str, Any], body: bytes) -> Request:
        found = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        caller = found[1] if found and found[1] in self.roles else OUTSIDE
        target = environ.get("HTTP_X_AMZ_TARGET", "").removeprefix("AmazonSQS.")
        if target in SENDS:
            operation, bucket, key = target, "", ""
            asked: dict[str, Any] = {**json.loads(body), "trace": environ.get("HTTP_X_AMZN_TRACE_ID")}
        else:
            path = environ["PATH_INFO"].encode("latin-1").decode()
            bucket, _, key = path.lstrip("/").partition("/")
            query = dict(parse_qsl(environ["QUERY_STRING"], keep_blank_values=True))
            operation = _operation(environ["REQUEST_METHOD"], key, query)
            asked = _asked(bucket, key, query, environ, operation, body)
        with self._log_lock:
            request = Request(len(self.log), caller, operation, bucket, key, self.clock.now(), asked, body)
            self.log.append(request)
        return request

    def _is_allowed(self, request: Request) -> bool:
        role = self.roles.get(request.caller)
        if role is None:
            return True
        service = "sqs" if request.operation in SENDS else "s3"
        calls = calls_of(service, request.operation, request.asked)
        # S3 refuses single keys of a DeleteObjects; here the whole request is refused, since none of it should occur.
        return all(role.decide(call.action, call.resource, call.context) == "allowed" for call in calls)

    def _ask_s3(self, environ: dict[str, Any], body: bytes, request: Request) -> Response:
        filler = self.fillers.get(request.bucket)
        with self._lock:
            if filler is None:
                return self._ask_moto(environ, body)
            if request.operation != "DeleteObjects":
                keys = self.buckets.get_bucket(request.bucket).keys
                answer = filler.answer(request.operation, request.key, environ, keys)
                return self._ask_moto(environ, body) if answer is None else answer
            left, gone = filler.delete_some(body)
            answer = None if left is None else self._ask_moto(environ, left)
            return with_deleted(answer, gone) if answer is None or gone else answer

    def _ask_moto(self, environ: dict[str, Any], body: bytes) -> Response:
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        parts, status, headers = run_wsgi_app(self._s3, environ, buffered=True)
        return Response([b"".join(parts)], status, headers)  # a list, else a HEAD's length becomes that of its body

    def _send(self, request: Request) -> Response:
        asked = request.asked
        queue = self.queues.get(asked["QueueUrl"].rpartition("/")[2])
        try:
            if queue is None:
                raise SqsError("AWS.SimpleQueueService.NonExistentQueue", asked["QueueUrl"])
            if request.operation == "SendMessage":
                return Response(json.dumps(_sent(queue, asked, asked["trace"])), 200)
            return Response(json.dumps(self._sent_together(queue, request)), 200)
        except SqsError as error:
            return Response(json.dumps({"__type": error.code, "message": str(error)}), 400)

    def _sent_together(self, queue: Queue, request: Request) -> dict[str, list[dict[str, Any]]]:
        """Take the messages of a batch, each for itself.

        Source: Amazon SQS API Reference, "SendMessageBatch".
        """
        entries = request.asked["Entries"]
        if not 0 < len(entries) <= MAX_BATCH_ENTRIES:
            raise SqsError("AWS.SimpleQueueService.TooManyEntriesInBatchRequest", f"{len(entries)} messages")
        if len({each["Id"] for each in entries}) < len(entries):
            raise SqsError("AWS.SimpleQueueService.BatchEntryIdsNotDistinct", "an id comes twice")
        if (size := sum(len(each["MessageBody"].encode()) for each in entries)) > MAX_BODY_BYTES:
            raise SqsError("AWS.SimpleQueueService.BatchRequestTooLong", f"{size} bytes")
        slow = self.not_taken(request)
        taken: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for each in entries:
            refused = {"Id": each["Id"], "SenderFault": False, "Code": "ServiceUnavailable", "Message": "not now"}
            if each["Id"] in slow:
                failed.append(refused)
                continue
            try:
                taken.append({"Id": each["Id"], **_sent(queue, each, request.asked["trace"])})
            except SqsError as error:
                failed.append({**refused, "SenderFault": True, "Code": error.code, "Message": error.message})
        return {"Successful": taken, "Failed": failed}


def _sent(queue: Queue, asked: Mapping[str, Any], trace: str | None) -> dict[str, str]:
    body = asked["MessageBody"]
    message_id = queue.send(
        body,
        delay_s=asked.get("DelaySeconds"),
        group=asked.get("MessageGroupId"),
        dedup_id=asked.get("MessageDeduplicationId"),
        trace=trace,
    )
    return {"MessageId": message_id, "MD5OfMessageBody": hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()}


def _tell_of_errors(_: Any, client: Any) -> None:
    if not isinstance(sys.exception(), ConnectionError):  # a client that was killed
        traceback.print_exc()


def refusal(request: Request, status: int, code: str) -> Response:
    """Return an answer of S3 that says no, such as 503 `SlowDown`."""
    return _refusal(request, status, code)


def _refusal(request: Request, status: int, code: str) -> Response:
    if request.operation in SENDS:
        return Response(json.dumps({"__type": code, "message": code}), status)
    text = f"<Error><Code>{code}</Code><Message>{code}</Message><RequestId>{uuid4().hex}</RequestId></Error>"
    return Response("" if request.operation.startswith("Head") else text, status, content_type="application/xml")


def _operation(method: str, key: str, query: Mapping[str, str]) -> str:
    if key:
        if method == "PUT":
            return "UploadPart" if "partNumber" in query else "PutObject"
        if method == "POST":
            return "CreateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
        return {"GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}[method]
    if method == "GET":
        for name, operation in _OF_BUCKETS.items():
            if name in query:
                return operation
    if method == "POST" and "delete" in query:
        return "DeleteObjects"
    return "HeadBucket" if method == "HEAD" else f"{method} bucket"


_OF_BUCKETS = {
    "list-type": "ListObjectsV2",
    "versions": "ListObjectVersions",
    "lifecycle": "GetBucketLifecycleConfiguration",
    "notification": "GetBucketNotificationConfiguration",
}


def _asked(
    bucket: str, key: str, query: Mapping[str, str], environ: Mapping[str, Any], operation: str, body: bytes
) -> dict[str, Any]:
    asked: dict[str, Any] = {"Bucket": bucket}
    if key:
        asked["Key"] = key
    if "HTTP_IF_MATCH" in environ:
        asked["IfMatch"] = environ["HTTP_IF_MATCH"]
    if "HTTP_IF_NONE_MATCH" in environ:
        asked["IfNoneMatch"] = environ["HTTP_IF_NONE_MATCH"]
    names = {"prefix": "Prefix", "delimiter": "Delimiter", "max-keys": "MaxKeys", "versionId": "VersionId"}
    names |= {"start-after": "StartAfter", "continuation-token": "ContinuationToken"}
    asked |= {name: query[word] for word, name in names.items() if word in query}
    if operation == "DeleteObjects":
        objects = ElementTree.fromstring(body).iter(f"{_NAMESPACE}Object")
        asked["Delete"] = {"Objects": [{it.tag.removeprefix(_NAMESPACE): it.text for it in each} for each in objects]}
    return asked
