"""Both readers of the S3 store reach the same servers, in the same way, or fail in the same way."""

import contextlib
import datetime
import ipaddress
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from lakesweep.model.safety import MAX_ATTEMPTS, READ_TIMEOUT_S
from lakesweep.storage.s3 import object_reader
from lakesweep.storage.s3.connection import Connection, connect
from tests.support.raw_s3 import End, http, raw_s3, s3_error
from tests.support.s3_readers import Outcome, outcome_of, reading_by

OBJECT = (http(200, b"body", 'ETag: "e"'),)
BUCKETS = ["lake", "my.lake", "My_Lake", "LAKE", "la", "lake_", "lake-", "1.2.3.4", "a" * 63, "a" * 64, "lake--x-s3"]
REGIONS = [
    "us-east-1",
    "eu-west-1",
    "ap-southeast-5",
    "cn-north-1",
    "us-gov-west-1",
    "us-iso-east-1",
    "aws-global",
    "x",
]
ENDPOINTS = [
    None,
    "http://127.0.0.1:9000",
    "http://127.0.0.1:9000/base/",
    "http://[::1]:9000",
    "https://example.com:443",
]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nothing between attempts."""
    clock = SimpleNamespace(sleep=lambda seconds: None)
    monkeypatch.setattr("botocore.endpoint.time", clock)
    monkeypatch.setattr(object_reader, "time", clock)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that only itself vouches for, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + secret)
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def read(url: str) -> Outcome:
    return outcome_of(url, lambda store: store.read("k"))


def test_nothing_listens(reader: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    outcome = read(f"http://127.0.0.1:{port}")
    assert (outcome.found, outcome.counted) == ("EndpointConnectionError", {"get": MAX_ATTEMPTS})
    assert f"tried {MAX_ATTEMPTS} times" in str(outcome.error)


@pytest.mark.parametrize("variable", ["", "AWS_ALLOW_INVALID_CERTIFICATES"])
def test_a_certificate_that_does_not_verify(
    variable: str, reader: str, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request is sent there, also where the environment allows another program as much."""
    if variable:
        monkeypatch.setenv(variable, "true")
    with raw_s3(OBJECT, tls=tls) as server:
        outcome = read(server.url)
    assert (outcome.found, server.requests) == ("SSLError", [])


def test_a_certificate_of_a_bundle(
    reader: str, tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with raw_s3(OBJECT, tls=tls) as server:
        assert (read(server.url).found, len(server.requests)) == (b"body", 1)


def test_a_proxy(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the request, unless the server is one of NO_PROXY."""
    with raw_s3(OBJECT) as proxy, raw_s3(OBJECT) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert read("http://127.0.0.1:1").found == b"body"
        assert [request.path for request in proxy.requests] == ["http://127.0.0.1:1/b/p/k"]
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert read(server.url).found == b"body"
        assert (len(proxy.requests), len(server.requests)) == (1, 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server(status: int, reader: str) -> None:
    """Nobody follows it: what another server says is no answer, and it learns no token."""
    with raw_s3(OBJECT) as other:
        away = other.url.replace("127.0.0.1", "localhost")
        with raw_s3((http(status, b"", f"Location: {away}/x"),)) as server:
            outcome = read(server.url)
    # botocore asks for the region; by where its recursion ends it finds one error or the other.
    assert outcome.found in (str(status), "store_settings", "HTTPClientError")
    assert other.requests == []


@pytest.mark.parametrize("code", ["NoSuchKey", "NoSuchBucket", "AccessDenied"])
def test_a_redirect_of_s3_to_another_region(code: str, reader: str) -> None:
    """S3 redirects so while a bucket is new; without a signature, the other region knows nothing of the object."""
    with raw_s3((s3_error(404, code),)) as other:
        away = other.url.replace("127.0.0.1", "localhost")
        moved = s3_error(307, "TemporaryRedirect", "x-amz-bucket-region: eu-west-1", f"Location: {away}/b/p/k")
        with raw_s3((moved,), OBJECT) as server:
            outcome = read(server.url)
    assert (outcome.found, outcome.counted, other.requests) == (b"body", {"get": 2}, [])


def test_a_redirect_to_another_port() -> None:
    """obstore has no setting against redirects on the same host. Such a port gets no signature."""
    with reading_by("obstore"), raw_s3(OBJECT) as other:
        redirect = http(302, b"", f"Location: {other.url}/x")
        with raw_s3((redirect,)) as server:
            outcome = read(server.url)
    assert (outcome.found, outcome.counted, len(other.requests)) == (b"body", {"get": 1}, 1)
    assert "authorization" not in other.requests[0].headers


@pytest.mark.parametrize("begun", [b"", http(200, b"bo", 'ETag: "e"', length=4)], ids=["no answer", "half a body"])
def test_a_signal_ends_a_wait(begun: bytes, reader: str) -> None:
    """At once, as Ctrl-C does: the read would wait for `READ_TIMEOUT_S`."""

    def handle(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, handle)
    began_s = time.monotonic()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        with raw_s3((begun, End.STALL)) as server, pytest.raises(KeyboardInterrupt):
            read(server.url)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - began_s < READ_TIMEOUT_S - 3


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_bucket_has_one_address(endpoint: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the environment alone says where it is, or botocore: both readers send their requests there."""
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    for region in REGIONS:
        by_environment = connect(endpoint, region, 8, {**SETTINGS})
        by_botocore = connect(endpoint, region, 8, {**SETTINGS, "AWS_RETRY_MODE": "standard"})
        for bucket in BUCKETS:
            for connection in (by_environment, by_botocore):
                reader = connection.reader(bucket)
                if reader is not None:
                    found = reader._access.url.replace(".s3.us-east-1.", ".s3.").replace("//s3.us-east-1.", "//s3.")
                    assert (found, reader._access.region) == sent_to(by_botocore, bucket), (region, bucket)


SETTINGS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_CONFIG_FILE": "/dev/null"}


def sent_to(connection: Connection, bucket: str) -> tuple[str, str]:
    """Return where botocore would send a request for an object, and the region that it signs; nothing is sent."""
    found: list[Any] = []

    def answer(request: Any, **_: object) -> AWSResponse:
        found.append(request)
        return AWSResponse(request.url, 200, {"content-length": "0"}, SimpleNamespace(stream=lambda *a, **k: iter(())))

    client = connection.client()
    client.meta.events.register_first("before-send.s3", answer, unique_id="test")
    client.get_object(Bucket=bucket, Key="k")
    client.meta.events.unregister("before-send.s3", unique_id="test")
    signed = found[0].headers["Authorization"]
    region = (signed.decode() if isinstance(signed, bytes) else signed).split("/")[2]
    return found[0].url.removesuffix("/k"), region


FORKED = """
import os, sys
from lakesweep.storage.open import StoreSettings, open_store

def read(region):
    return open_store("s3://b/p", settings=StoreSettings(sys.argv[1], region)).read("k").data

assert read("us-east-1") == b"body"
child = os.fork()
if not child:
    # One store is open already, the other is opened here.
    os._exit(0 if read("us-east-1") == read("eu-west-1") == b"body" else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_was_forked(reader: str) -> None:
    """Threads of obstore do not come with it, so that botocore reads there, on connections of its own."""
    with raw_s3(OBJECT) as server:
        command = [sys.executable, "-c", FORKED, server.url]
        ended = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert server.connections == 3, "on a connection of the first process, each gets answers to the other's requests"


OBSTORE_OF_THE_PROGRAM = """
import os, sys
import obstore
from lakesweep.storage.open import StoreSettings, open_store

own = obstore.store.S3Store("b", endpoint=sys.argv[1], client_options={"allow_http": True}, skip_signature=True)
assert bytes(obstore.get(own, "k").bytes()) == b"body"
store = open_store("s3://b/p", settings=StoreSettings(sys.argv[1], "us-east-1"))
child = os.fork()
if not child:
    os._exit(0 if store.read("k").data == b"body" else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_program_that_uses_obstore_before_it_forks() -> None:
    """Its threads do not come with the new process, either."""
    with reading_by("obstore"), raw_s3(OBJECT) as server:
        command = [sys.executable, "-c", OBSTORE_OF_THE_PROGRAM, server.url]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            assert process.wait(timeout=60) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
