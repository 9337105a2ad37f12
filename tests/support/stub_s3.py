"""An S3 that answers what a test tells it to, over real HTTP on 127.0.0.1."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3

from lakesweep.storage.aws_client import make_client
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3.store import S3Store


@dataclass(frozen=True)
class Request:
    """What came."""

    method: str
    path: str
    """With the query, still encoded."""
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What goes back."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0
    """So many bytes of the body stay unsent, though Content-Length promises them."""


DROP = Answer(status=0)
"""The connection ends without an answer."""


def error(status: int, code: str) -> Answer:
    """Return an error as S3 reports it."""
    return Answer(status, f"<Error><Code>{code}</Code><Message>stub: {code}</Message></Error>".encode())


def page(inner: str, truncated: str = "<IsTruncated>false</IsTruncated>") -> Answer:
    """Return a page of a listing."""
    return Answer(200, f"<ListBucketResult><Name>b</Name>{truncated}{inner}</ListBucketResult>".encode())


@dataclass
class StubS3:
    """The running stub: what it was asked, and a store in it."""

    store: S3Store
    counter: RequestCounter
    requests: list[Request]
    url: str


@cache
def _session() -> boto3.Session:
    # One for all stubs: reading the model of S3 is what makes a client slow to make.
    return boto3.Session("testing", "testing", region_name="us-east-1")


@contextmanager
def stub_s3(answer: Callable[[Request], Answer]) -> Iterator[StubS3]:
    """Serve `answer` until the end of the block."""
    requests: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, data)
            requests.append(request)
            found = answer(request)
            if found is DROP:
                self.close_connection = True
                return
            self.send_response_only(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found.body[: len(found.body) - found.cut])
            self.close_connection = found.cut > 0

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
    thread.start()
    try:
        counter = RequestCounter()
        url = f"http://127.0.0.1:{server.server_port}"
        client = make_client(endpoint_url=url, session=_session())
        yield StubS3(S3Store("b", "p", client, counter), counter, requests, url)
        client.close()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
