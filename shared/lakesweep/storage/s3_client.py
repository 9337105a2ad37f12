"""The S3 client: configuration, request counting and error translation in one place.

boto3 is imported when the first client is made, so that nothing else pays for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.storage.list_page import parse_list_response
from lakesweep.storage.requests import RequestCounter

MAX_ATTEMPTS = 8
"""Attempts of one request, with growing pauses in between: throttling is normal under load."""
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 15

_KIND_OF_OPERATION = {
    "GetObject": "get",
    "HeadObject": "head",
    "HeadBucket": "head",
    "ListObjectsV2": "list",
    "PutObject": "put",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
}
_DENIED = frozenset({"403", "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
_PRECONDITION = frozenset({"412", "PreconditionFailed", "409", "ConditionalRequestConflict"})


def make_client(
    counter: RequestCounter, endpoint_url: str | None = None, region: str | None = None, max_parallel: int = 32
) -> Any:
    """Return an S3 client whose every attempt is counted.

    Args:
        counter: Counts by kind, retries included.
        endpoint_url: Another S3 than AWS; path-style addressing then.
        region: Where the usual configuration names none.
        max_parallel: Connections kept open.
    """
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "max_attempts": MAX_ATTEMPTS},
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=max_parallel,
        s3={"addressing_style": "path"} if endpoint_url else {},
    )
    client = boto3.session.Session().client("s3", endpoint_url=endpoint_url, region_name=region, config=config)

    def count(event_name: str, **_: object) -> None:
        counter.add(_KIND_OF_OPERATION.get(event_name.rsplit(".", 1)[-1], "get"))

    client.meta.events.register("before-send.s3", count)
    client.meta.events.register("before-parse.s3.ListObjectsV2", parse_list_response)
    return client


@contextmanager
def translated(operation: str, where: str) -> Iterator[None]:
    """Turn botocore's errors into ours, once.

    Args:
        operation: What was asked, for the message.
        where: Bucket and key, for the message.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise storage_error(operation, where, error.response) from error
    except BotoCoreError as error:
        raise StorageError(f"{operation} {where}: {error}", code=type(error).__name__) from error


def storage_error(operation: str, where: str, response: Any) -> StorageError:
    """Return the error for a response that reports one."""
    code = str(response.get("Error", {}).get("Code", "unknown"))
    status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
    found = response.get("Error", {}).get("Message") or code
    message = f"{operation} {where}: {found}"
    if code == "NoSuchBucket":
        return StorageError(f"{operation} {where}: expected an existing bucket, found none", code="no_such_bucket")
    if code in ("NoSuchKey", "404") or (code == "NotFound" and status == "404"):
        return ObjectNotFoundError(f"{where} does not exist")
    if code in _DENIED or status == "403":
        return AccessDeniedError(f"{operation} {where}: permission denied ({code})")
    if code in _PRECONDITION:
        return PreconditionFailedError(message)
    return StorageError(message, code=code)
