"""An S3 below HTTP: it sends the very bytes that a test tells it to, stalls, or breaks connections, on 127.0.0.1."""

import contextlib
import itertools
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.support.stub_s3 import Request


class End(Enum):
    """How a connection ends; without one, it waits for the next request."""

    CLOSE = auto()
    RESET = auto()
    STALL = auto()
    """Nothing more comes until the client gives up."""


Step = bytes | float | End
"""Bytes to send, seconds to wait, or the end of the connection."""
RawAnswer = tuple[Step, ...]
_REASONS = {200: "OK", 206: "Partial Content"}


def http(status: int, body: bytes = b"", *headers: str, version: str = "1.1", length: int | str | None = -1) -> bytes:
    """Return an answer; without another `length`, with that of its body. `None` sends no Content-Length."""
    lines = [f"HTTP/{version} {status} {_REASONS.get(status, 'Other')}", *headers]
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length == -1 else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def s3_error(status: int, code: str, *headers: str, more: str = "") -> bytes:
    """Return an error as S3 reports it."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>raw: {code}</Message>{more}</Error>'
    return http(status, body.encode(), "Content-Type: application/xml", *headers)


@dataclass
class RawS3:
    """The running server: its answers in order, of which the last repeats, and the requests that reached it."""

    url: str
    answers: Sequence[RawAnswer]
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    """How many have begun."""


@contextmanager
def raw_s3(*answers: RawAnswer, tls: ssl.SSLContext | None = None) -> Iterator[RawS3]:
    """Serve `answers` until the end of the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = RawS3(f"{'https' if tls else 'http'}://127.0.0.1:{port}", answers)
    numbers, lock, open_ones = itertools.count(), threading.Lock(), set[socket.socket]()

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            spoken = tls.wrap_socket(connection, server_side=True) if tls else connection
            with lock:
                open_ones.add(spoken)
            with spoken, spoken.makefile("rb") as lines:
                while request := _request(lines):
                    with lock:
                        server.requests.append(request)
                        answer = server.answers[min(next(numbers), len(server.answers) - 1)]
                    if _play(spoken, answer):
                        return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            server.connections += 1
            thread = threading.Thread(target=talk, args=(connection,), daemon=True)
            threads.append(thread)
            thread.start()

    threads = [threading.Thread(target=accept, daemon=True)]
    threads[0].start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        threads[0].join()
        listener.close()
        with lock:
            for connection in open_ones:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(5)


def _request(lines: "socket.SocketIO") -> Request | None:
    """Return the next request, `None` at the end of the connection."""
    method, _, rest = lines.readline().decode("latin-1").partition(" ")
    headers = {}
    while line := lines.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = lines.read(int(headers.get("content-length", 0)))
    return Request(method, rest.rsplit(" ", 1)[0], headers, body or b"") if rest else None


def _play(connection: socket.socket, answer: RawAnswer) -> bool:
    """Play the steps of an answer; tell whether the connection has ended."""
    for step in answer:
        if isinstance(step, bytes):
            connection.sendall(step)
        elif isinstance(step, float):
            time.sleep(step)
        else:
            if step is End.STALL:
                connection.recv(1)
            elif step is End.RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return True
    return False
