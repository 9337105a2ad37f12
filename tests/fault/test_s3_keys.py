"""Both readers of the S3 store find the same under every key, on two servers: bytes, ETags, parts and errors."""

import hashlib
from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError

from lakesweep.errors import StorageError
from lakesweep.storage.requests import RequestCounter
from tests.conformance.keys import BAD_KEYS, STRANGE_KEYS
from tests.support.s3_readers import store_of
from tests.support.s3_server import S3Server, moto_server
from tests.support.versitygw import shared_versitygw

SERVERS: dict[str, Callable[[], S3Server]] = {"moto": moto_server, "versitygw": shared_versitygw}
KEYS = [
    *STRANGE_KEYS,
    " ",
    " a ",
    "a%20b",
    "a%2Fb",
    "a%252Fb",
    "%",
    "%zz",
    "%2e%2e/b",
    "a?b=c",
    "?versionId=null",
    "a#b",
    "a&b=c;d",
    "a\\b",
    "..\\b",
    "C:\\b",
    "a:b",
    "*",
    "~",
    "'\"`$(b)",
    "<a>&amp;",
    "{a}|b^c",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
    "e\N{COMBINING ACUTE ACCENT}",
    "日本/語",
    "\N{WASTEBASKET}\N{VARIATION SELECTOR-16}/\N{WAVING WHITE FLAG}",
    "\N{RIGHT-TO-LEFT OVERRIDE}a",
    "\N{ZERO WIDTH NO-BREAK SPACE}a",
    "a\N{NO-BREAK SPACE}b",
    "\x01\x1f",
    "a\tb",
    "a\nb",
    "a\r\nHost: b",
    "\x7f",
    "\x85",
    "\u2028",
    "/".join(["x" * 200] * 5),
    "/".join(["\N{WASTEBASKET}" * 60] * 5),
    "Server returned non-2xx status code: 404 Not Found: <Error><Code>NoSuchKey</Code></Error>",
]
REFUSED = {"moto": {"a\nb", "a\r\nHost: b"}, "versitygw": set[str]()}
"""Keys that a server does not store."""
LONGEST = 1024
"""S3 allows keys of so many bytes."""


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("prefix", ["", "db.db/a b+c%2F\N{LATIN SMALL LETTER U WITH DIAERESIS}"])
def test_every_key_is_read_as_it_was_written(name: str, prefix: str, reader: str) -> None:
    """And a key beside it is missing, which nothing else is."""
    server = SERVERS[name]()
    bucket = server.bucket()
    before = f"{prefix}/" if prefix else ""
    room = LONGEST - len(before) - 2
    keys = [*KEYS, "/".join(["y" * 199] * 5) + "/" + "y" * (room - 5 * 200)]
    written, refused = {}, set()
    for key in keys:
        body = hashlib.sha256(key.encode()).digest()
        try:
            written[key] = body, server.client.put_object(Bucket=bucket, Key=before + key, Body=body)["ETag"].strip('"')
        except ClientError:
            refused.add(key)
    assert refused == REFUSED[name] & set(keys)
    counter = RequestCounter()
    store = store_of(server, bucket, prefix, counter)
    for key, (body, etag) in written.items():
        found, part = store.read(key), store.read_range(key, 3, 4)
        assert (found.data, found.etag, part.data, part.etag) == (body, etag, body[3:7], etag), key
    assert counter.snapshot()["get"] == sum(counter.snapshot().values()) == 2 * len(written)
    for key in filter(str.isprintable, written):  # What a server says of other keys may be no XML.
        assert error_of(lambda key=key: store.read(key + "-")) == "not_found", key


@pytest.mark.parametrize("key", [*BAD_KEYS, "a/", "/a", "//", "a//b", "a/./b", "a/../b", "..", "a/.."])
def test_no_request_is_sent_for_what_is_no_key(key: str, reader: str) -> None:
    """A client might change such a key on its way, and read another object."""
    counter = RequestCounter()
    store = store_of(moto_server(), "no-such-bucket", "p", counter)
    assert error_of(lambda: store.read(key)) == error_of(lambda: store.read_range(key, 0, 1)) == "bad_key"
    assert sum(counter.snapshot().values()) == 0


@pytest.mark.parametrize("name", SERVERS)
def test_every_part_is_the_requested_one(name: str, reader: str) -> None:
    """At the beginning, at the end, beyond it, and in objects of no byte and of one."""
    server = SERVERS[name]()
    bucket = server.bucket()
    bodies = {"empty": b"", "one": b"1", "some": bytes(range(100))}
    for key, body in bodies.items():
        server.client.put_object(Bucket=bucket, Key=key, Body=body)
    store = store_of(server, bucket, "")
    for key, body in bodies.items():
        assert store.read(key).data == body
        for limit in (0, len(body) - 1, len(body), len(body) + 1):
            fits = limit >= len(body)
            assert found_in(lambda b=limit, k=key: store.read(k, b)) == (body if fits else "too_large"), (key, limit)
        for start in (-1, 0, 1, 50, 99, 100, 101, 1 << 40, 1 << 62):
            for length in (-1, 0, 1, 2, 50, 100, 101, 1 << 40):
                part = body[max(start, 0) :][: max(length, 0)]
                expected: bytes | str = part if len(part) == length else "too_short"
                if start < 0 or length < 1:
                    expected = "bad_range"
                found = found_in(lambda s=start, n=length, k=key: store.read_range(k, s, n))
                assert found == expected, (key, start, length)


@pytest.mark.parametrize("name", SERVERS)
def test_a_missing_bucket_is_no_missing_object(name: str, reader: str) -> None:
    server = SERVERS[name]()
    store = store_of(server, "no-such-bucket-anywhere", "p")
    assert error_of(lambda: store.read("k")) == error_of(lambda: store.read_range("k", 0, 1)) == "no_such_bucket"


@pytest.mark.parametrize("name", SERVERS)
def test_a_bucket_with_dots(name: str, reader: str) -> None:
    server = SERVERS[name]()
    bucket = f"{server.bucket()}.with.dots"
    server.client.create_bucket(Bucket=bucket)
    server.client.put_object(Bucket=bucket, Key="p/k", Body=b"x")
    assert store_of(server, bucket, "p").read("k").data == b"x"


def found_in(read: Callable[[], object]) -> object:
    """Return the bytes that were read, or the code word of the error."""
    try:
        return read().data  # type: ignore[attr-defined]
    except StorageError as error:
        return error.code


def error_of(read: Callable[[], object]) -> object:
    """Return the code word of an error."""
    with pytest.raises(StorageError) as caught:
        read()
    return caught.value.code
