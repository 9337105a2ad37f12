"""A slow way to a server: snapshots often come second, so a writer without a lock replaces that of another.

Writers test whether a snapshot exists, and then write it without a condition. Every other such write waits here until
another writer has written the snapshot, for a while at most. All else is handed through as it is.
"""

import http.client
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

from botocore.exceptions import ClientError

from tests.support.s3_server import S3Server

_SNAPSHOT = re.compile(r"/([^/]+)/(.+/snapshot/snapshot-\d+)")
_WAITS = 1 / 2
_MOST_S = 1.5
_LOOK_S = 0.005
_OF_ONE_HOP = frozenset({"connection", "keep-alive", "expect", "transfer-encoding"})


class LatePuts:
    """A server for one writer, in front of another one."""

    def __init__(self, server: S3Server, seed: int) -> None:
        self._server = server
        self._chance = Random(seed)
        way = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _hand_on(self) -> None:
                body = self._body()
                if self.command == "PUT":
                    way.wait(self.path)
                answer, data = way.ask(self, body)
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.getheaders():
                    if name.lower() not in _OF_ONE_HOP and (name.lower() != "content-length" or self.command == "HEAD"):
                        self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _hand_on

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = b""
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass
                return body

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def ask(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request on; its signature is valid, since the name of the host stays."""
        server = http.client.HTTPConnection(urlsplit(self._server.endpoint).netloc, timeout=60)
        server.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            if name.lower() not in _OF_ONE_HOP | {"content-length"}:
                server.putheader(name, value)
        if body or request.command in ("PUT", "POST"):
            server.putheader("Content-Length", str(len(body)))
        server.endheaders(body)
        answer = server.getresponse()
        data = answer.read()
        server.close()
        return answer, data

    def wait(self, path: str) -> None:
        """Wait until another writer has written this snapshot, if this is one and that is its turn."""
        found = _SNAPSHOT.fullmatch(unquote(urlsplit(path).path))
        if found is None or self._chance.random() >= _WAITS:
            return
        bucket, key = found.groups()
        end_s = time.monotonic() + _MOST_S
        while time.monotonic() < end_s and not self._is_there(bucket, key):
            time.sleep(_LOOK_S)

    def _is_there(self, bucket: str, key: str) -> bool:
        try:
            self._server.client.head_object(Bucket=bucket, Key=key)
        except ClientError:
            return False
        return True
