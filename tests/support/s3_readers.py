"""The two readers of the S3 store, by name, and what one read of an object comes to."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from lakesweep.errors import StorageError
from lakesweep.storage import open as opening
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body, Store

VARIABLE = "LAKESWEEP_S3_READER"
READERS = ["botocore", "obstore"]
HAS_BOTH = importlib.util.find_spec("lakesweep.storage.s3.obstore_reader") is not None


@contextmanager
def reading_by(reader: str) -> Iterator[None]:
    """Let stores that are opened in the block read by `reader`."""
    if reader == "obstore" and not HAS_BOTH:
        pytest.skip("the reader with obstore does not exist yet")
    opening._client.cache_clear()
    with patch.dict(os.environ, {VARIABLE: reader}):
        yield
    opening._client.cache_clear()


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
