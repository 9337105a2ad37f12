"""An HTTP server for moto that is quicker than moto's own: connections stay open, as those of S3 do.

That of werkzeug closes each, so that every request of a test opens one; and moto finds out for each request which of
its services is meant.
"""

import copy
import io
import logging
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from moto.core import serialize
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3 import models
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app

Application = Callable[[Any, Any], Iterable[bytes]]


_OBJECT = ("Key", "LastModified", "ETag", "ChecksumAlgorithm", "Size", "StorageClass")
"""What moto says of an object in a listing, in the order in which S3's model has it."""


general = serialize.BaseXMLSerializer._serialize_type_list
"""How moto writes lists: for each object it asks S3's model for each value."""


def _write(self: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
    if shape.member.name != "Object" or not shape.is_flattened or any(each.keys() - set(_OBJECT) for each in value):
        general(self, serialized, value, shape, key)
    elif found := [{name: each[name] for name in _OBJECT if name in each} for each in value]:
        self._default_serialize(serialized, found, shape.member, self.get_serialized_name(shape, key))


# Listings take half of the time so. moto parses the times of objects, which it has written itself.
serialize.BaseXMLSerializer._serialize_type_list = _write  # type: ignore[method-assign]
serialize.parse_to_aware_datetime = lru_cache(1 << 16)(serialize.parse_to_aware_datetime)  # type: ignore[attr-defined]


class _Clone(models.FakeKey):
    """Shares its body with a real object, and does not close it in the end."""

    def __del__(self) -> None:
        """Leave everything open."""


def _clones(versions: Iterable[Any]) -> list[Any]:
    """Return versions of a key for a listing, which changes what it lists."""
    found = []
    for each in versions:
        found.append(object.__new__(_Clone if isinstance(each, models.FakeKey) else type(each)))
        found[-1].__dict__.update(each.__dict__)
    return found


# moto copies every body of a bucket, to say which of its versions are the latest.
models.copy = SimpleNamespace(copy=copy.copy, deepcopy=_clones)  # type: ignore[attr-defined]


def serve(app: Application) -> str:
    """Serve an application to this process as long as it lives, one request at a time, and return the URL."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request otherwise
    server = make_server("127.0.0.1", 0, _one_at_a_time(app), threaded=True, request_handler=QuickHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.port}"


def all_services() -> Application:
    """Return moto with all of its services. What is signed for S3 is S3's without a search."""
    s3, others = create_backend_app("s3"), DomainDispatcherApplication(create_backend_app)

    def app(environ: Any, start_response: Any) -> Any:
        is_s3 = "/s3/aws4_request" in environ.get("HTTP_AUTHORIZATION", "")
        return (s3 if is_s3 else others)(environ, start_response)

    return app


def _one_at_a_time(app: Application) -> Application:
    # moto looks whether a condition holds and writes in two steps. Real S3 does it in one, so requests queue up here.
    lock = threading.Lock()

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
        if "Date" not in headers:
            headers["Date"] = self.date_time_string()
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self, environ: Any) -> bytes:
        if environ.get("wsgi.input_terminated"):
            return bytes(environ["wsgi.input"].read())
        return self.rfile.read(int(environ.get("CONTENT_LENGTH") or 0))
