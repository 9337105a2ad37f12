"""Both readers of the S3 store make the same of every answer, however odd, late, cut or false it is."""

import gzip
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.model.safety import MAX_ATTEMPTS
from lakesweep.storage import aws_client
from lakesweep.storage.s3 import object_reader, place
from tests.support.raw_s3 import End, RawAnswer, http, raw_s3, s3_error
from tests.support.s3_readers import outcome_of

TAG = 'ETag: "e"'
OBJECT = http(200, b"body", TAG)
CHUNKS = b"4\r\nbody\r\n0\r\n\r\n"
CUT = (http(200, b"bo", TAG, length=4), End.CLOSE)
HEAD = b"HTTP/1.1 200 OK\r\n"
ZIPPED = gzip.compress(b"body", mtime=0)
BODY_ATTEMPTS = 3
SILENT_ATTEMPTS = 2
ERRORS = {
    "not_found": ObjectNotFoundError,
    "access_denied": AccessDeniedError,
    "precondition_failed": PreconditionFailedError,
}
CLOSED = "Connection was closed before we received a valid response from endpoint URL"
NO_LENGTH = "expected an answer with its length, found none"
REGION = "x-amz-bucket-region: eu-west-1"


@dataclass(frozen=True)
class Scene:
    """What the server sends, of which the last repeats, and what must come of one read."""

    answers: tuple[bytes | RawAnswer, ...]
    found: bytes | str
    """The object, or the code word of the error."""
    says: str = ""
    """A part of the error's message."""
    requests: int = 1
    """Also what the counter must say."""
    pauses: int = 0
    """How often the reader waits before it asks again."""
    throttled: int = 0
    etag: str = "e"
    heads: int = 0
    """How many of the requests ask for the bucket's region."""
    more: int = 0
    """Further requests with obstore: what is no certain answer there is asked for again by botocore."""
    waits: int = 0
    """Further pauses with obstore: where no answer came, the reader waits before botocore asks."""


def again(answer: bytes | RawAnswer, found: str, says: str, throttled: int = 0) -> Scene:
    """Return the scene of a failure that passes for one that may pass, and does not."""
    return Scene((answer,), found, says, MAX_ATTEMPTS, MAX_ATTEMPTS - 1, throttled)


def once(answer: bytes | RawAnswer, throttled: int = 0, pauses: int = 1) -> Scene:
    """Return the scene of a failure that passes."""
    return Scene((answer, OBJECT), b"body", "", 2, pauses, throttled)


WHOLE = {
    "an object": Scene((OBJECT,), b"body"),
    "an empty object": Scene((http(200, b"", TAG),), b""),
    "a connection that ends": Scene(((http(200, b"body", TAG, "Connection: close"), End.CLOSE),), b"body"),
    "HTTP/1.0": Scene(((http(200, b"body", TAG, version="1.0"), End.CLOSE),), b"body"),
    "a stored encoding": Scene((http(200, ZIPPED, TAG, "Content-Encoding: gzip"),), ZIPPED),
    "a false encoding": Scene((http(200, b"body", TAG, "Content-Encoding: gzip"),), b"body"),
    "an error as a body": Scene((http(200, b"<Error><Code>X</Code></Error>", TAG),), b"<Error><Code>X</Code></Error>"),
    "continue": Scene(((b"HTTP/1.1 100 Continue\r\n\r\n", OBJECT),), b"body"),
    "206 for the whole": Scene((http(206, b"body", TAG, "Content-Range: bytes 0-3/4"),), b"body"),
    # --- lengths ---
    "HTTP/1.0, no length": Scene(
        ((http(200, b"body", TAG, version="1.0", length=None), End.CLOSE),), "no_length", NO_LENGTH, more=1
    ),
    "no length": Scene(((http(200, b"body", TAG, length=None), End.CLOSE),), "no_length", NO_LENGTH, more=1),
    "204": Scene((f"HTTP/1.1 204 No Content\r\n{TAG}\r\n\r\n".encode(),), "no_length", NO_LENGTH, more=1),
    "chunks": Scene(
        (http(200, CHUNKS, TAG, "Transfer-Encoding: chunked", length=None),), "no_length", NO_LENGTH, more=1
    ),
    "broken chunks": Scene(
        ((http(200, b"zz\r\nbody", TAG, "Transfer-Encoding: chunked", length=None), End.CLOSE),),
        "no_length",
        NO_LENGTH,
        more=1,
    ),
    "chunks and a length": Scene((http(200, CHUNKS, TAG, "Transfer-Encoding: chunked", length=4),), b"body"),
    "a length too short": Scene((http(200, b"body and more", TAG, length=4),), b"body"),
    "a length too long": Scene((CUT,), "ResponseStreamingError", "2 bytes read, 2 more expected", BODY_ATTEMPTS),
    "two lengths": again((http(200, b"body", TAG, "Content-Length: 3"), End.CLOSE), "HTTPClientError", "(3, 4)"),
    "no number as length": Scene(
        ((http(200, b"body", TAG, length="four"), End.CLOSE),), "damaged_answer", "four", more=1, waits=1
    ),
    "half a head with a length": Scene(
        ((HEAD + TAG.encode() + b"\r\nContent-Length: ", End.CLOSE),),
        "damaged_answer",
        "usable headers",
        more=1,
        waits=1,
    ),
    "no time": Scene((http(200, b"body", TAG, "Last-Modified: never"),), "damaged_answer", "never", more=1),
    # --- ETags ---
    "no ETag": Scene((http(200, b"body"),), "no_etag", "expected an answer with an ETag"),
    "an empty ETag": Scene((http(200, b"body", 'ETag: ""'),), "no_etag", "expected an answer with an ETag"),
    "an ETag without quotes": Scene((http(200, b"body", "ETag: e"),), b"body"),
    "a weak ETag": Scene((http(200, b"body", 'ETag: W/"e"'),), b"body", etag='W/"e'),
    # --- bodies that break off ---
    "cut once": once(CUT, pauses=0),
    "reset once": once((http(200, b"bo", TAG, length=4), 0.02, End.RESET), pauses=0),
    "reset": Scene(
        ((http(200, b"bo", TAG, length=4), 0.02, End.RESET),), "ResponseStreamingError", "reset by peer", BODY_ATTEMPTS
    ),
    "replaced meanwhile": Scene((CUT, http(200, b"newer", 'ETag: "n"')), b"newer", requests=2, etag="n"),
    "deleted meanwhile": Scene((CUT, s3_error(404, "NoSuchKey")), "not_found", "it does not exist", 2),
    "throttled meanwhile": Scene((CUT, s3_error(503, "SlowDown"), OBJECT), b"body", "", 3, 1, 1),
    "expired meanwhile": Scene((CUT, s3_error(400, "ExpiredToken")), "ExpiredToken", "raw: ExpiredToken", 2),
    # --- no HTTP ---
    "nothing, once": once((End.CLOSE,)),
    "nothing": again((End.CLOSE,), "ConnectionClosedError", CLOSED),
    "a reset, once": once((End.RESET,)),
    "a reset": again((End.RESET,), "ConnectionClosedError", CLOSED),
    "garbage": again((b"garbage\r\n\r\n", End.CLOSE), "ConnectionClosedError", CLOSED),
    "binary garbage": again((bytes(range(256)) * 4, End.CLOSE), "ConnectionClosedError", CLOSED),
    "another protocol": again((b"SSH-2.0-OpenSSH_9.6\r\n", End.CLOSE), "ConnectionClosedError", CLOSED),
    "half a head": Scene(
        ((HEAD + b"ETag: ", End.CLOSE),), "no_etag", "expected an answer with an ETag", more=1, waits=1
    ),
    "a long header": Scene((http(200, b"body", TAG, "X-Long: " + "x" * 30_000),), b"body"),
    "a header too long": again(
        (http(200, b"body", TAG, "X-Long: " + "x" * 70_000), End.CLOSE), "ConnectionClosedError", CLOSED
    ),
    "long headers": Scene((http(200, b"body", TAG, *[f"X-{n}: {'x' * 8000}" for n in range(30)]),), b"body"),
    "150 headers": again(
        (http(200, b"body", TAG, *[f"X-{n}: 1" for n in range(150)]), End.CLOSE), "ConnectionClosedError", CLOSED
    ),
    "a header in Latin-1": Scene((http(200, b"body", TAG, "X-Name: \xe9\xff"),), b"body"),
    # --- busy ---
    "SlowDown, once": once(s3_error(503, "SlowDown"), 1),
    "SlowDown with a time, once": once(s3_error(503, "SlowDown", "Retry-After: 1"), 1),
    "SlowDown": again(s3_error(503, "SlowDown"), "SlowDown", "raw: SlowDown (SlowDown)", MAX_ATTEMPTS),
    "503": again(http(503), "503", "Service Unavailable (503)", MAX_ATTEMPTS),
    "503, a page": again(http(503, b"<html>busy</html>"), "503", "Service Unavailable (503)", MAX_ATTEMPTS),
    "InternalError, once": once(s3_error(500, "InternalError")),
    "InternalError": again(s3_error(500, "InternalError"), "InternalError", "raw: InternalError"),
    "500": again(http(500), "500", "Internal Server Error (500)"),
    "502": again(http(502, b"<html>bad gateway</html>"), "502", "Bad Gateway (502)"),
    "504": again(http(504), "504", "Gateway Timeout (504)"),
    "RequestTimeout, once": once(s3_error(400, "RequestTimeout")),
    "429": Scene((http(429),), "429", "Too Many Requests (429)", more=1),
    "TooManyRequests": Scene((s3_error(429, "TooManyRequests"),), "TooManyRequests", more=1, waits=1),
    "408": Scene((http(408),), "408", "Request Timeout (408)", more=1),
    "501": Scene((s3_error(501, "NotImplemented"),), "not_implemented", "raw: NotImplemented", more=1),
    # --- no such object, or only no such page ---
    "NoSuchKey": Scene((s3_error(404, "NoSuchKey"),), "not_found", "it does not exist (NoSuchKey)"),
    "a delete marker": Scene((s3_error(404, "NoSuchKey", "x-amz-delete-marker: true"),), "not_found"),
    "NoSuchBucket": Scene((s3_error(404, "NoSuchBucket"),), "no_such_bucket", "raw: NoSuchBucket"),
    "NoSuchVersion": Scene((s3_error(404, "NoSuchVersion"),), "NoSuchVersion"),
    "404": Scene((http(404),), "404", "Not Found (404)"),
    "404, a page": Scene((http(404, b"<html>no such page</html>"),), "404", more=1),
    "404, a page about it": Scene((http(404, b"<html><p>NoSuchKey</p></html>"),), "404", more=1),
    "404, another XML": Scene((http(404, b"<a><Code>NoSuchKey</Code></a>"),), "404", more=1),
    "404, of another namespace": Scene(
        (http(404, b'<Error xmlns="http://x/"><Code>NoSuchKey</Code></Error>'),), "404", "failed (404)", more=1
    ),
    "404, a message about it": Scene(
        (http(404, b"<Error><Code>NoSuchBucket</Code><Message>no NoSuchKey</Message></Error>"),), "no_such_bucket"
    ),
    "404, half of it": Scene((http(404, b"<Error><Code>NoSuchKey</Code>"),), "404", "Not Found (404)", more=1),
    "404, cut": Scene(((http(404, b"<Error><Code>NoSuchKey</Code>", length=100), End.CLOSE),), "404", more=1),
    # --- refused ---
    "AccessDenied": Scene((s3_error(403, "AccessDenied"),), "access_denied", "raw: AccessDenied (AccessDenied)"),
    "403": Scene((http(403),), "access_denied", "Forbidden (403)"),
    "403, a page": Scene((http(403, b"<html>forbidden</html>"),), "access_denied", more=1),
    "a wrong clock": Scene((s3_error(403, "RequestTimeTooSkewed"),), "access_denied", "RequestTimeTooSkewed"),
    "archived": Scene((s3_error(403, "InvalidObjectState"),), "InvalidObjectState"),
    "an expired token": Scene((s3_error(400, "ExpiredToken"),), "ExpiredToken", "raw: ExpiredToken", more=1),
    "400": Scene((http(400),), "400", "Bad Request (400)", more=1),
    "401": Scene((http(401),), "401", "Unauthorized (401)", more=1),
    "405": Scene((s3_error(405, "MethodNotAllowed"),), "MethodNotAllowed", more=1),
    "409": Scene((s3_error(409, "OperationAborted"),), "OperationAborted", more=1),
    "412": Scene((s3_error(412, "PreconditionFailed"),), "precondition_failed"),
    "304": Scene((b"HTTP/1.1 304 Not Modified\r\n\r\n",), "304", "Not Modified (304)", more=1),
    # --- elsewhere ---
    "301": Scene((s3_error(301, "PermanentRedirect", REGION), OBJECT), b"body", requests=2),
    "301 with a place": Scene(
        (s3_error(301, "PermanentRedirect", REGION, "Location: http://127.0.0.1:1/"), OBJECT),
        b"body",
        requests=2,
        waits=1,
    ),
    "307": Scene((s3_error(307, "TemporaryRedirect", REGION), OBJECT), b"body", requests=2),
    "the region in the body": Scene(
        (s3_error(400, "AuthorizationHeaderMalformed", more="<Region>eu-west-1</Region>"), OBJECT), b"body", requests=2
    ),
    "301, and a region for who asks": Scene(
        (http(301), http(200, b"", REGION), OBJECT), b"body", requests=3, heads=1, more=1
    ),
    "301, and no region": Scene((http(301), http(200)), "301", "Moved Permanently (301)", 2, heads=1, more=1),
}
OTHERWISE = {
    # It takes longer headers than Python's HTTP client.
    ("obstore", "a header too long"): replace(WHOLE["a long header"], answers=WHOLE["a header too long"].answers)
}
"""Scenes of which one reader makes something else, and why."""


def part(body: bytes, said: str, *headers: str, length: int | None = -1) -> bytes:
    """Return an answer to a range."""
    return http(206, body, TAG, f"Content-Range: {said}", *headers, length=length)


def no_range(answer: bytes, found: str) -> Scene:
    """Return the scene of an answer with other bytes."""
    return Scene((answer,), "no_range", f"expected 4 bytes from byte 10, found {found}", more=1)


PARTS = {
    "a part": Scene((part(b"body", "bytes 10-13/20"),), b"body"),
    "the end": Scene((part(b"body", "bytes 10-13/14"),), b"body"),
    "an unknown length": Scene((part(b"body", "bytes 10-13/*"),), b"body", more=1),
    "cut once": Scene(
        ((part(b"bo", "bytes 10-13/20", length=4), End.CLOSE), part(b"body", "bytes 10-13/20")), b"body", requests=2
    ),
    "throttled once": Scene((s3_error(503, "SlowDown"), part(b"body", "bytes 10-13/20")), b"body", "", 2, 1, 1),
    "the whole": no_range(OBJECT, "4 bytes with the content range 'of the whole object'"),
    "a long whole": no_range(http(200, b"x" * 100, TAG), "100 bytes"),
    "another part": no_range(part(b"body", "bytes 11-14/20"), "4 bytes with the content range 'bytes 11-14/20'"),
    "no Content-Range": no_range(http(206, b"body", TAG), "4 bytes with the content range 'of the whole object'"),
    "nonsense": no_range(part(b"body", "nonsense"), "4 bytes with the content range 'nonsense'"),
    "another unit": no_range(part(b"body", "items 10-13/20"), "4 bytes"),
    "backwards": no_range(part(b"body", "bytes 13-10/20"), "4 bytes"),
    "longer": no_range(part(b"body and", "bytes 10-17/20"), "8 bytes"),
    "fewer bytes than said": no_range(part(b"bod", "bytes 10-13/20"), "3 bytes"),
    "more bytes than said": no_range(part(b"body!", "bytes 10-13/20"), "5 bytes"),
    "several parts": no_range(http(206, b"--x", TAG, "Content-Type: multipart/byteranges; boundary=x"), "3 bytes"),
    "shorter": Scene((part(b"bod", "bytes 10-12/13"),), "too_short", "expected 4 bytes from byte 10, found 3"),
    "InvalidRange": Scene((s3_error(416, "InvalidRange"),), "too_short", "expected 4 bytes from byte 10, found 0"),
    "416": Scene((http(416),), "too_short", "expected 4 bytes from byte 10, found 0"),
    "NoSuchKey": Scene((s3_error(404, "NoSuchKey"),), "not_found"),
    "AccessDenied": Scene((s3_error(403, "AccessDenied"),), "access_denied"),
    "chunks": Scene(
        (part(CHUNKS, "bytes 10-13/20", "Transfer-Encoding: chunked", length=None),), "no_length", NO_LENGTH, more=1
    ),
    "no ETag": Scene((http(206, b"body", "Content-Range: bytes 10-13/20"),), "no_etag"),
}
STALLS = {
    "no answer": Scene(
        ((End.STALL,),), "ReadTimeoutError", "tried 2 times", SILENT_ATTEMPTS, pauses=SILENT_ATTEMPTS - 1
    ),
    "no answer, once": Scene(((End.STALL,), OBJECT), b"body", requests=2, pauses=1),
    "half a head": Scene(
        ((HEAD, End.STALL),), "ReadTimeoutError", "tried 2 times", SILENT_ATTEMPTS, pauses=SILENT_ATTEMPTS - 1
    ),
    "half a body": Scene(
        ((http(200, b"bo", TAG, length=4), End.STALL),), "ReadTimeoutError", "Read timeout", BODY_ATTEMPTS
    ),
    "half a body, once": Scene(((http(200, b"bo", TAG, length=4), End.STALL), OBJECT), b"body", requests=2),
    "half an error": Scene(((http(404, b"<Er", length=100), End.STALL),), "ReadTimeoutError", "timed out", more=1),
    "slow, but never silent": Scene(
        ((http(200, b"b", TAG, length=8), *(step for _ in range(7) for step in (0.1, b"y"))),), b"byyyyyyy"
    ),
}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a reader would have waited between attempts; it does not."""
    found: list[float] = []
    clock = SimpleNamespace(sleep=lambda seconds: seconds and found.append(seconds))
    monkeypatch.setattr("botocore.endpoint.time", clock)
    monkeypatch.setattr(object_reader, "time", clock)
    return found


def play(scene: Scene, reader: str, pauses: list[float], key: str = "k", start: int | None = None) -> None:
    """Read once, and compare what came of it with the scene."""
    more, waits = (scene.more, scene.waits) if reader == "obstore" else (0, 0)
    answers = [answer if isinstance(answer, tuple) else (answer,) for answer in scene.answers]
    answers[:0] = answers[:1] * more
    with raw_s3(*answers) as server:
        outcome = outcome_of(
            server.url, lambda store: store.read(key) if start is None else store.read_range(key, start, 4)
        )
    requests, heads = scene.requests + more, {"head": scene.heads} if scene.heads else {}
    found = (outcome.found, len(server.requests), outcome.counted, outcome.throttled, len(pauses))
    counted = {"get": requests - scene.heads} | heads
    assert found == (scene.found, requests, counted, scene.throttled, scene.pauses + waits), outcome.error
    if isinstance(scene.found, bytes):
        assert (outcome.etag, outcome.read_bytes) == (scene.etag, len(scene.found))
        return
    assert type(outcome.error) is ERRORS.get(scene.found, StorageError)
    assert outcome.read_bytes == 0
    assert f"s3://b/p/{key}: " in str(outcome.error)
    assert scene.says in str(outcome.error)


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_to_a_read(name: str, reader: str, pauses: list[float]) -> None:
    play(OTHERWISE.get((reader, name), WHOLE[name]), reader, pauses)


@pytest.mark.parametrize("scene", PARTS.values(), ids=PARTS)
def test_an_answer_to_a_range(scene: Scene, reader: str, pauses: list[float]) -> None:
    play(scene, reader, pauses, start=10)


@pytest.mark.parametrize("scene", STALLS.values(), ids=STALLS)
def test_a_stall(scene: Scene, reader: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence ends the attempt; a slow answer does not, however long it takes in all."""
    for module in (aws_client, place, object_reader):
        monkeypatch.setattr(module, "MAX_ATTEMPTS", SILENT_ATTEMPTS, raising=False)
        monkeypatch.setattr(module, "READ_TIMEOUT_S", 0.3, raising=False)
    play(scene, reader, pauses)


@pytest.mark.parametrize("name", ["404", "404, a page", "NoSuchBucket", "AccessDenied", "SlowDown", "an expired token"])
def test_a_key_that_looks_like_an_answer(name: str, reader: str, pauses: list[float]) -> None:
    """The name of an object cannot make a failure look like a missing object; botocore alone reads such an object."""
    key = (
        "Server returned non-2xx status code: 404 Not Found: <?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>"
    )
    play(replace(WHOLE[name], more=0), reader, pauses, key)


def test_the_rest_of_a_false_length_is_no_answer(reader: str) -> None:
    """Bytes after the stated length do not become the answer to the next request."""
    false = http(200, b"body" + http(200, b"evil", 'ETag: "x"'), TAG, length=4)
    with raw_s3((false,), (OBJECT,)) as server:
        outcome = outcome_of(server.url, lambda store: (store.read("k"), store.read("k"))[1])
    assert (outcome.found, outcome.etag, len(server.requests)) == (b"body", "e", 2)


@pytest.mark.parametrize(("max_bytes", "found"), [(4, b"body"), (3, "too_large"), (0, "too_large")])
def test_a_body_above_the_limit_is_not_loaded(max_bytes: int, found: bytes | str, reader: str) -> None:
    with raw_s3((OBJECT,)) as server:
        outcome = outcome_of(server.url, lambda store: store.read("k", max_bytes))
    assert outcome.found == found
    assert outcome.counted == {"get": len(server.requests)} == {"get": 1}
    assert outcome.read_bytes == (4 if found == b"body" else 0)


def test_a_huge_body_above_the_limit_is_not_waited_for(reader: str) -> None:
    """The stated length is enough to refuse it."""
    with raw_s3((http(200, b"", TAG, length=1 << 40), End.STALL)) as server:
        outcome = outcome_of(server.url, lambda store: store.read("k", 1000))
    assert (outcome.found, len(server.requests)) == ("too_large", 1)
