"""The two readers of the S3 store, by name, and what one read of an object comes to."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from lakesweep.errors import StorageError
from lakesweep.storage import open as opening
from lakesweep.storage.location import Location
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body, Store
from tests.support.s3_server import S3Server

VARIABLE = "LAKESWEEP_S3_READER"
READERS = ["botocore", "obstore"]
_LEFT_OUT = ("CA_BUNDLE", "_PROXY", "_proxy", "AWS_SESSION_TOKEN")
"""Ends of variables that would turn every read over to botocore, and a token that versitygw does not know."""


@contextmanager
def reading_by(reader: str) -> Iterator[None]:
    """Let stores that are opened in the block read by `reader`."""
    opening._client.cache_clear()
    with patch.dict(os.environ, {VARIABLE: reader}):
        for name in [name for name in os.environ if name.endswith(_LEFT_OUT)]:
            del os.environ[name]
        yield
    opening._client.cache_clear()


def store_of(server: S3Server, bucket: str, prefix: str, counter: RequestCounter | None = None) -> Store:
    """Return a store on a server, as the environment's reader reads it."""
    location = Location("s3", bucket, prefix)
    return open_store(location, counter=counter, settings=StoreSettings(server.endpoint, server.region))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a read."""

    found: bytes | str
    """The object, or the code word of the error."""
    etag: str
    error: StorageError | None
    counted: dict[str, int]
    throttled: int
    read_bytes: int


def outcome_of(
    url: str, read: Callable[[Store], Body], location: str = "s3://b/p", region: str = "us-east-1"
) -> Outcome:
    """Read in a store of its own, with a counter of its own."""
    counter = RequestCounter()
    store = open_store(location, counter=counter, settings=StoreSettings(url, region))
    found: bytes | str
    error = None
    try:
        body = read(store)
        found, etag = body.data, body.etag
    except StorageError as caught:
        found, etag, error = caught.code, "", caught
    counted = {kind: count for kind, count in counter.snapshot().items() if count}
    return Outcome(found, etag, error, counted, counter.throttled, counter.read_bytes)
