"""The S3 client: configuration, request counting and error translation in one place.

botocore is imported when the first client is made, so that nothing else pays for it. boto3 on top of it would add
nothing but transfers in parts, and the time to import them.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from lakesweep.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    UsageError,
)
from lakesweep.storage.guard import Guard
from lakesweep.storage.list_page import PARSE_EVENT, parse_response
from lakesweep.storage.requests import RequestCounter

MAX_ATTEMPTS = 5
"""Attempts of one request. Between them botocore waits a random part of 1, 2, 4 and 8 s, also when S3 throttles."""
CONNECT_TIMEOUT_S = 4
READ_TIMEOUT_S = 15
LONGEST_REQUEST_S = MAX_ATTEMPTS * (CONNECT_TIMEOUT_S + READ_TIMEOUT_S) + 1 + 2 + 4 + 8
"""When one request has failed for good, with all its attempts. A lease has to outlast a delete by this much, which is
why the retry mode is "standard": "adaptive" also waits before a first attempt, and without bound."""

_KIND_OF_OPERATION = {
    "HeadObject": "head",
    "HeadBucket": "head",
    "ListObjectsV2": "list",
    "ListObjectVersions": "list",
    "PutObject": "put",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
}
_SLOW_DOWN = 503
_PRECONDITION = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})
_CODES = {"NoSuchBucket": "no_such_bucket", "NotImplemented": "not_implemented"}

_USER = re.compile(r"\S+@")
"""What stands before the host in an endpoint."""

_current = threading.local()
"""Whose request this thread is making: a client is shared by stores that count apart, and botocore's events do not say
for whom they are."""


def make_client(
    endpoint_url: str | None = None, region: str | None = None, max_parallel: int = 32, session: Any = None
) -> Any:
    """Return an S3 client, safe to share between threads and stores.

    Args:
        endpoint_url: Another S3 than AWS. It is addressed by path, and asked for no checksums beyond what S3 requires,
            which some servers do not know.
        region: Where the usual configuration names none.
        max_parallel: Connections kept open.
        session: A `boto3.Session`, or another maker of clients, with other credentials than the usual ones.

    Raises:
        UsageError: An endpoint that is no URL, or a profile that does not exist.
    """
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
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
        create = session.client if session is not None else new_session().create_client
        if endpoint_url is None:
            client = create("s3", region_name=region, config=config)
            # An endpoint may also come from the usual configuration.
            if ".amazonaws.com" in client.meta.endpoint_url:
                return _with_events(client)
            endpoint_url = client.meta.endpoint_url
        client = create("s3", endpoint_url=endpoint_url, region_name=region, config=config.merge(elsewhere))
    except (BotoCoreError, ValueError) as error:
        # Without a scheme nothing tells later that a password stands there. The endpoint may come from the environment.
        shown, why = (_USER.sub("***@", text) for text in (str(endpoint_url), str(error)))
        raise UsageError(f"S3 client for endpoint {shown}, region {region}: {why}", code="store_settings") from (
            error if why == str(error) else None
        )
    return _with_events(client)


def new_session() -> Any:
    """Return a botocore session. It finds credentials and settings anew; what AWS's services are like is read once."""
    from botocore.session import Session

    session = Session()
    session.register_component("data_loader", _service_models())
    return session


@cache
def _service_models() -> Any:
    from botocore.loaders import Loader

    return Loader()


def _with_events(client: Any) -> Any:
    client.meta.events.register("before-send.s3", _before_attempt)
    client.meta.events.register("response-received.s3", _count_throttling)
    client.meta.events.register(PARSE_EVENT, parse_response)
    return client


def _before_attempt(event_name: str, **_: object) -> None:
    """Ask whether a change may still be made, and count the attempt.

    botocore calls this for each attempt of a request, when it is signed and about to be sent.
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
def s3_request(operation: str, where: str, counter: RequestCounter, guard: Guard | None = None) -> Iterator[None]:
    """Make one request in the block: every attempt is counted, and errors of botocore become ours.

    Args:
        operation: What is asked, for messages.
        where: Bucket and key, for messages.
        counter: Counts the attempts.
        guard: Asked before each attempt; what it raises comes out.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    _current.counter, _current.guard, _current.attempts = counter, guard, 0
    try:
        yield
    except ClientError as error:
        raise _translated(operation, where, error.response) from error
    except (BotoCoreError, ResponseParserError, HTTPError) as error:
        raise StorageError(f"{operation} {where}: {error}", code=type(error).__name__) from error
    except RecursionError as error:  # botocore asks again for the region, and is redirected again
        raise StorageError(
            f"{operation} {where}: expected an S3 server, found redirects that name no region", code="store_settings"
        ) from error
    finally:
        _current.counter = _current.guard = None


def was_sent() -> bool:
    """Tell whether the last request of this thread was sent at all: a guard may have refused each attempt."""
    return bool(getattr(_current, "attempts", 0))


def was_repeated(error: StorageError) -> bool:
    """Tell whether botocore had sent this request before, so that its own earlier attempt may have succeeded."""
    response: Any = getattr(error.__cause__, "response", None) or {}
    return bool(response.get("ResponseMetadata", {}).get("RetryAttempts"))


def _translated(operation: str, where: str, response: Any) -> StorageError:
    """Return our error for a response that reports one."""
    code = str(response.get("Error", {}).get("Code", "unknown"))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    message = f"{operation} {where}: {response.get('Error', {}).get('Message') or 'failed'} ({code})"
    # A bare 404 may come from anything on the way; only S3 itself knows keys.
    if code == "NoSuchKey":
        return ObjectNotFoundError(f"{operation} {where}: it does not exist ({code})")
    if code in _PRECONDITION:
        return PreconditionFailedError(message)
    # An archived object is no question of permissions, although its status is 403.
    if status == 403 and code != "InvalidObjectState":
        return AccessDeniedError(message)
    return StorageError(message, code=_CODES.get(code, code))
