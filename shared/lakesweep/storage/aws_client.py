"""The S3 client: configuration, request counting and error translation in one place.

botocore is imported when the first client is built, so that other code does not pay for the import. boto3 would only
add multipart transfers, and the time to import them.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, PreconditionFailedError, StorageError, UsageError
from lakesweep.model.safety import CONNECT_TIMEOUT_S, MAX_ATTEMPTS, READ_TIMEOUT_S
from lakesweep.storage import version_counts
from lakesweep.storage.clock import monotonic_s
from lakesweep.storage.guard import Guard
from lakesweep.storage.list_page import PARSE_EVENT, parse_response
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.retries import watch

_KIND_OF_OPERATION = {
    "HeadObject": "head",
    "HeadBucket": "head",
    "ListObjectsV2": "list",
    "ListObjectVersions": "list",
    "PutObject": "put",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
}
_CREDENTIAL_ATTEMPTS = 3
_CREDENTIAL_TIMEOUT_S = 10
_SLOW_DOWN = 503
_PRECONDITION = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})
_CODES = {"NoSuchBucket": "no_such_bucket", "NotImplemented": "not_implemented"}

_USER = re.compile(r"\S+@")
"""The text before the host in an endpoint."""

_BAD_HEADER = "Invalid header value"

_current = threading.local()
"""The counter and guard of the request that this thread makes. Stores with separate counters share a client, and
botocore's events do not tell which store sent the request."""


def make_client(
    endpoint_url: str | None = None,
    region: str | None = None,
    max_parallel: int = 32,
    session: Any = None,
    attempts: int = MAX_ATTEMPTS,
) -> Any:
    """Return an S3 client that threads and stores can safely share.

    Args:
        endpoint_url: A server other than AWS. It is addressed by path. It gets no checksums beyond those that S3
            requires, since some servers do not support them.
        region: Used if the usual configuration names none.
        max_parallel: Number of open connections.
        session: A session of botocore or boto3, with other credentials than the usual ones.
        attempts: Attempts of one request.

    Raises:
        UsageError: The endpoint is no URL, or the profile does not exist.
    """
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=max_parallel,
    )
    elsewhere = Config(
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        session = session or new_session()
        create = getattr(session, "create_client", None) or session.client
        if endpoint_url is None:
            client = create("s3", region_name=region, config=config)
            # An endpoint may also come from the usual configuration.
            if ".amazonaws.com" in client.meta.endpoint_url:
                return _with_events(client)
            endpoint_url = client.meta.endpoint_url
        client = create("s3", endpoint_url=endpoint_url, region_name=region, config=config.merge(elsewhere))
    except (BotoCoreError, ValueError) as error:
        # Without a scheme, later code would not notice a password in the text. The endpoint may come from the
        # environment.
        shown, why = (_USER.sub("***@", text) for text in (str(endpoint_url), str(error)))
        raise UsageError(f"S3 client for endpoint {shown}, region {region}: {why}", code="store_settings") from (
            error if why == str(error) else None
        )
    return _with_events(client)


def new_session() -> Any:
    """Return a botocore session. It looks for credentials and settings again; the models of AWS services are cached.

    Its clients that are made without a configuration have little patience: mostly those with which botocore itself asks
    for credentials.
    """
    from botocore.config import Config
    from botocore.session import Session

    session = Session()
    session.register_component("data_loader", _service_models())
    patience = Config(
        retries={"mode": "standard", "total_max_attempts": _CREDENTIAL_ATTEMPTS},
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=_CREDENTIAL_TIMEOUT_S,
    )
    session.set_default_client_config(patience)
    watch(session)
    return session


@cache
def _service_models() -> Any:
    from botocore.loaders import Loader

    return Loader()


def _with_events(client: Any) -> Any:
    client.meta.events.register("before-send.s3", _before_attempt)
    client.meta.events.register("response-received.s3", _count_throttling)
    client.meta.events.register(PARSE_EVENT, parse_response)
    client.meta.events.register(version_counts.PARSE_EVENT, version_counts.parse_response)
    return client


def _before_attempt(event_name: str, **_: object) -> None:
    """Ask whether the change is still allowed, and count the attempt.

    botocore calls this for each attempt of a request, after it is signed and before it is sent.
    """
    guard: Guard | None = getattr(_current, "guard", None)
    if guard is not None:
        guard()
    _current.attempts = getattr(_current, "attempts", 0) + 1
    counter: RequestCounter | None = getattr(_current, "counter", None)
    if counter is not None:
        counter.add(_KIND_OF_OPERATION.get(event_name.rsplit(".", 1)[-1], "get"))


def _count_throttling(parsed_response: Any = None, **_: object) -> None:
    counter: RequestCounter | None = getattr(_current, "counter", None)
    status = ((parsed_response or {}).get("ResponseMetadata") or {}).get("HTTPStatusCode")
    if counter is not None and status == _SLOW_DOWN:
        counter.add_throttled()


@contextmanager
def s3_request(
    operation: str, where: str, counter: RequestCounter, guard: Guard | None = None, tried_since_s: float = 0.0
) -> Iterator[None]:
    """Make one request in the block: every attempt is counted, and botocore's errors become Lakesweep's.

    Args:
        operation: The operation, for messages.
        where: Bucket and key, for messages.
        counter: Counts the attempts.
        guard: Asked before each attempt; its error is passed on.
        tried_since_s: When another attempt began, which has failed; 0 if there was none.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    _current.counter, _current.guard, _current.attempts = counter, guard, int(tried_since_s > 0)
    began_s = tried_since_s or monotonic_s()
    try:
        yield
    except ClientError as error:
        raise translated(operation, where, error.response) from error
    except (BotoCoreError, ResponseParserError, HTTPError) as error:
        if _BAD_HEADER in str(error):  # The message and its cause show a session token.
            raise StorageError(
                f"{operation} {where}: expected credentials of one line, found a line break in them",
                code="store_settings",
            ) from None
        tried = (
            f" (tried {_current.attempts} times in {monotonic_s() - began_s:.0f} s)" if _current.attempts > 1 else ""
        )
        raise StorageError(f"{operation} {where}: {error}{tried}", code=type(error).__name__) from error
    except ValueError as error:  # botocore parses a header, such as a length that is no number.
        raise StorageError(
            f"{operation} {where}: expected an answer with usable headers, found {error}", code="damaged_answer"
        ) from error
    except RecursionError as error:  # botocore asks again for the region, and is redirected again.
        raise StorageError(
            f"{operation} {where}: expected an S3 server, found redirects that name no region", code="store_settings"
        ) from error
    finally:
        _current.counter = _current.guard = None


def was_sent() -> bool:
    """Tell whether the last request of this thread was sent at all: the guard may have refused each attempt."""
    return bool(getattr(_current, "attempts", 0))


def was_repeated(error: StorageError) -> bool:
    """Tell whether botocore has repeated this request, so that its own earlier attempt may have succeeded."""
    response: Any = getattr(error.__cause__, "response", None) or {}
    return bool(response.get("ResponseMetadata", {}).get("RetryAttempts"))


def translated(operation: str, where: str, response: Any) -> StorageError:
    """Return Lakesweep's error for an answer that reports one, in botocore's form."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = str(response.get("Error", {}).get("Code") or status or "unknown")
    message = f"{operation} {where}: {response.get('Error', {}).get('Message') or 'failed'} ({code})"
    # A bare 404 may come from any proxy on the way; only S3 itself knows keys.
    if code == "NoSuchKey":
        return ObjectNotFoundError(f"{operation} {where}: it does not exist ({code})")
    if code in _PRECONDITION:
        return PreconditionFailedError(message)
    # An archived object is no matter of permissions, although its status is 403.
    if status == 403 and code != "InvalidObjectState":
        return AccessDeniedError(message)
    return StorageError(message, code=_CODES.get(code, code))
