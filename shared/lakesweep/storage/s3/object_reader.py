"""Reads objects of one bucket through obstore, in a fraction of the CPU time that botocore takes.

It makes one attempt, and it returns only what is certain: a whole object, or an error that S3 has stated and that no
repetition changes. With everything else the caller turns to botocore, which repeats requests, follows a bucket to its
region, and has an error for each case. After such an answer, reads go to botocore for a while.
"""

import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, cached_property
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from lakesweep.model.safety import CONNECT_TIMEOUT_S, MAX_ATTEMPTS, READ_TIMEOUT_S
from lakesweep.storage import retries
from lakesweep.storage.aws_client import translated
from lakesweep.storage.clock import monotonic_s
from lakesweep.storage.requests import RequestCounter

_PAUSE_S = 30.0
"""So long reads go to botocore after an answer that is not certain: it spaces its attempts where a server is ill."""
_WHOLE_REQUEST_S = 86_400
"""Only the connection and each wait for bytes have limits, as with botocore: a large object takes its time."""
_LARGE_BYTES = 8 << 20
"""A larger object comes in parts, so that the memory never holds it twice."""
_CHUNK_BYTES = 1 << 20
_NO_PROXY = "http://127.0.0.1:0"
"""No program can listen at this port."""
_CONTROL = "lakesweep-control"
_LASTING: dict[str, Any] = {"token": None, "expires_at": None}
_CERTAIN = frozenset({403, 404, 412, 416})
"""With these, botocore makes no other attempt."""
_PASSING = frozenset({500, 502, 503, 504})
"""With these, botocore waits before its next attempt."""
_SLOW_DOWN = 503
_THROTTLED = re.compile("Throttl|SlowDown|LimitExceeded|TooManyRequests|RequestTimeout|PriorRequest")
"""Codes with which botocore makes another attempt, whatever the status."""
_ANSWER = re.compile(r"Server returned non-2xx status code: (\d{3})\b[^:]*: (.*?)(?:\n\nDebug source:|\Z)", re.DOTALL)
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
NOT_REACHED = "EndpointConnectionError"
_NAMES = {"Timeout": "ReadTimeoutError", "Connect": NOT_REACHED}
"""What botocore calls these kinds of failure."""
_PLAIN = re.compile(r"(?!.*(?:(?:^|/)\.{1,2}(?:/|$)|non-2xx))[^\x00-\x1f\x7f/]+(?:/[^\x00-\x1f\x7f/]+)*")
"""Keys that obstore sends as they are. It refuses the others, or drops slashes from them. Its messages contain the key,
so a key must not look like an answer."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a bucket is, and the credentials for it."""

    url: str
    """The URL of the bucket; a key follows after a slash."""
    region: str
    credentials: Mapping[str, str] | Callable[[], Mapping[str, Any]] = field(repr=False)
    """`access_key_id`, `secret_access_key`, perhaps `token`, or a function that obstore calls before they expire."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """An object, or a part of one."""

    data: bytes
    size_bytes: int
    """Size of the whole object."""
    etag: str | None
    """Without quotes; `None` if the answer had none."""
    control: str | None
    """The control location that the object names in its metadata."""


@dataclass(frozen=True, slots=True)
class NotFetched:
    """Nothing certain: the caller asks botocore."""

    began_s: float = 0.0
    """When the attempt began; 0 if no request was sent."""
    is_cut: bool = False
    """The answer had begun: it counts as an attempt to read a body."""
    why: str = ""
    """What was expected and found, for the message of a run that makes no other attempt."""


class ObjectReader:
    """Reads objects of one bucket."""

    def __init__(self, bucket: str, access: Access) -> None:
        """Build a reader; this sends no request."""
        self.bucket = bucket
        self._access = access
        self._paused_until_s = 0.0

    @cached_property
    def _store(self) -> Any:
        from obstore.store import S3Store

        credentials: Any = self._access.credentials
        # obstore takes what is not stated here from the environment, where botocore does not know it: even a token.
        return S3Store(
            self.bucket,
            endpoint=self._access.url,
            region=self._access.region,
            virtual_hosted_style_request=True,
            skip_signature=False,
            s3_express=False,
            request_payer=False,
            client_options={
                "allow_http": self._access.url.startswith("http://"),
                "allow_invalid_certificates": False,
                "http1_only": True,
                "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
                "read_timeout": timedelta(seconds=READ_TIMEOUT_S),
                "timeout": timedelta(seconds=_WHOLE_REQUEST_S),
                # obstore follows redirects. Only this host is reached without the proxy, and there is no proxy.
                "proxy_url": _NO_PROXY,
                "proxy_excludes": urlsplit(self._access.url).hostname or "",
            },
            retry_config={"max_retries": 0},
            credential_provider=credentials if callable(credentials) else lambda: _LASTING | credentials,
        )

    def get(
        self,
        key: str,
        where: str,
        counter: RequestCounter,
        part: tuple[int, int] | None = None,
        max_bytes: int | None = None,
    ) -> Fetched | NotFetched:
        """Read an object, or a part of it.

        Args:
            key: The whole key.
            where: The object, for messages.
            counter: Counts the request.
            part: The first byte, and the number of bytes.
            max_bytes: The body of a larger object is not read; the result has its size and no bytes.

        Raises:
            StorageError: S3 has stated an error that no repetition changes.
        """
        if monotonic_s() < self._paused_until_s or not _PLAIN.fullmatch(key) or _process_of_threads() != os.getpid():
            return NotFetched()
        from obstore import get
        from obstore.exceptions import BaseError

        try:
            store = self._store
        except (BaseError, OSError, ValueError):  # of a variable that obstore alone knows, or of certificates
            return self._paused(NotFetched())
        began_s = monotonic_s()
        counter.add("get")
        has_begun = False
        try:
            options: Any = {} if part is None else {"range": (part[0], part[0] + part[1])}
            result = _interruptibly(lambda: get(store, key, options=options))
            has_begun = True
            meta = result.meta
            size, etag = meta["size"], meta["e_tag"]
            is_read = max_bytes is None or size <= max_bytes
            expected = result.range[1] - result.range[0]
            data = _interruptibly(lambda: _body_of(result, expected)) if is_read else b""
        except (BaseError, OSError, ValueError, MemoryError) as error:
            return self._failed(error, where, counter, began_s, has_begun)
        except BaseException as error:
            if type(error).__module__ != "pyo3_runtime":  # a failed assertion in obstore
                raise
            return self._failed(error, where, counter, began_s, has_begun)
        if is_read and len(data) != expected:
            return self._paused(NotFetched(began_s, True, f"expected {expected} bytes, found {len(data)}"))
        attributes = result.attributes
        return Fetched(data, size, etag.strip('"') if etag else None, attributes.get(_CONTROL) if attributes else None)

    def _failed(
        self, error: BaseException, where: str, counter: RequestCounter, began_s: float, has_begun: bool
    ) -> NotFetched:
        """Raise the error that S3 has stated for certain, or wait until botocore may make the next attempt."""
        from obstore.exceptions import UnauthenticatedError

        text = str(error)
        found = _ANSWER.search(text)
        said = text.partition("\n\nDebug source:")[0]
        if not has_begun and found is None and isinstance(error, UnauthenticatedError | ValueError):
            counter.add("get", -1)  # Nothing was sent: there are no credentials, or obstore takes no such argument.
            return self._paused(NotFetched())
        if has_begun or (found is None and "error sending request" not in said):
            return self._paused(NotFetched(began_s, has_begun, "expected an object, found no usable answer"))
        status = int(found[1]) if found else 0
        if found and status in _CERTAIN:
            stated = _stated(status, found[2])
            if stated is not None:
                raise translated("read", where, stated) from error
        if status == _SLOW_DOWN:
            counter.add_throttled()
        kind = _KIND.search(text)
        name = _NAMES.get(kind[1] if kind else "", "ConnectionClosedError")
        why = f"expected an object, found {f'status {status}' if found else f'no answer ({name})'}"
        failed = self._paused(NotFetched(began_s, False, why))
        if not found:
            retries.tell(self._access.url, began_s, 1, MAX_ATTEMPTS, name)
        if not found or status in _PASSING or _THROTTLED.search(found[2]):
            time.sleep(random.random())
        return failed

    def _paused(self, failed: NotFetched) -> NotFetched:
        self._paused_until_s = monotonic_s() + _PAUSE_S
        return failed


@cache
def _process_of_threads() -> int:
    """Return the process that asked first. It has obstore's threads; a process forked from it would wait for ever."""
    return os.getpid()


def _note_threads() -> None:
    """Note before a fork that this process may have obstore's threads, since its program uses obstore itself."""
    if "obstore" in sys.modules:
        _process_of_threads()


os.register_at_fork(before=_note_threads)


def _interruptibly(call: Callable[[], Any]) -> Any:
    """Call obstore so that a signal ends the wait: Python handles signals in the main thread, not inside obstore."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            future.set_exception(error)

    try:
        threading.Thread(target=run, daemon=True).start()
    except RuntimeError:  # The machine, or Python at its end, allows no other thread.
        return call()
    return future.result()


def _body_of(result: Any, size_bytes: int) -> bytes:
    if size_bytes < _LARGE_BYTES:
        return bytes(result.bytes())
    body = BytesIO()
    for chunk in result.stream(min_chunk_size=_CHUNK_BYTES):
        body.write(chunk)
    return body.getvalue()


def _stated(status: int, body: str) -> Mapping[str, Any] | None:
    """Return an error in botocore's form; `None` if the answer does not state one, or botocore would try again."""
    from http import HTTPStatus
    from xml.etree.ElementTree import ParseError, fromstring

    found = {"Code": str(status), "Message": HTTPStatus(status).phrase}
    if body:
        try:
            root = fromstring(body)
        except ParseError:
            return None
        if root.tag != "Error":
            return None
        found = {child.tag: child.text or "" for child in root}
    if not found.get("Code") or _THROTTLED.search(found["Code"]):
        return None
    return {"Error": found, "ResponseMetadata": {"HTTPStatusCode": status}}
