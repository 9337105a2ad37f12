"""moto for hundreds of runs: the S3 of this process behind a quicker HTTP server.

It holds the buckets that `s3_server` serves too. Requests go to moto's S3 at once, where moto's own server finds out
for each which of its services is meant; and connections stay open, as those of S3 do.
"""

import functools
import io
import itertools
import logging
import os
import threading
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app

_numbers = itertools.count()


@functools.cache
def endpoint() -> str:
    """Return the URL of the server, started once per process. It ends with the process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request otherwise
    server = make_server("127.0.0.1", 0, _app(), threaded=True, request_handler=QuickHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.port}"


def buckets() -> Any:
    """Return what moto holds: to fill it and to look at it past HTTP."""
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def make_bucket() -> str:
    """Make a bucket that nobody used before and return its name."""
    name = f"lakesweep-fault-{os.getpid()}-{next(_numbers)}"
    buckets().create_bucket(name, "us-east-1")
    return name


def _app() -> Any:
    # moto looks whether a condition holds and writes in two steps. Real S3 does it in one, so requests queue up here.
    app, lock = create_backend_app("s3"), threading.Lock()

    def locked(environ: Any, start_response: Any) -> Any:
        with lock:
            return app(environ, start_response)

    return locked


class QuickHandler(MotoRequestHandler):
    """Answers in one piece and waits for the next request; that of werkzeug closes the connection."""

    disable_nagle_algorithm = True
    wbufsize = -1  # until the answer is complete

    def handle_expect_100(self) -> bool:
        """Tell a client that waits for it to send its body."""
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def run_wsgi(self) -> None:
        """Answer one request."""
        environ = self.make_environ()
        # All of it, whether moto looks at it or not: behind it begins the next request.
        environ["wsgi.input"] = io.BytesIO(self._body(environ))
        parts, status, headers = run_wsgi_app(self.server.app, environ, buffered=True)
        body = b"".join(parts)
        code, _, reason = status.partition(" ")
        self.send_response_only(int(code), reason)
        if "Content-Length" not in headers and code != "204":
            headers["Content-Length"] = str(len(body))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self, environ: Any) -> bytes:
        if environ.get("wsgi.input_terminated"):
            return bytes(environ["wsgi.input"].read())
        return self.rfile.read(int(environ.get("CONTENT_LENGTH") or 0))
