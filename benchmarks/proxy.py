"""A proxy in front of an S3 server: it counts requests by kind and can hold each of them back for some milliseconds.

    python -m benchmarks.proxy HOST PORT

prints the port it listens on (loopback) and runs until its standard input ends. `GET /__proxy/reset?ms=20` forgets the
counts and sets the latency; `GET /__proxy/counts` answers with the counts as JSON, `GET /__proxy/log` with what was
asked for since, in order, each as its kind and its path, of a listing with the prefix.

Only the requests are parsed. A client of HTTP/1.1 that does not pipeline sends its next request after it has the whole
answer, so answers are handed through as they come.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from urllib.parse import parse_qs, unquote, urlsplit

_END = b"\r\n\r\n"
_LIST = frozenset({"list-type", "prefix", "delimiter"})


class Settings:
    """What all connections share."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.latency_s = 0.0
        self.counts: Counter[str] = Counter()
        self.log: list[list[str]] = []


class Back(asyncio.Protocol):
    """The connection to the server: everything it says goes to the client."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def data_received(self, data: bytes) -> None:
        self._front.answer(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._front.close()


class Front(asyncio.Protocol):
    """The connection of one client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._buffer = bytearray()
        self._body_left = 0
        self._held = False  # a request waits for its time, or for the server
        self._client: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._client = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._client = None
        if self._server is not None:
            self._server.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._advance()

    def answer(self, data: bytes) -> None:
        """Hand on what the server says."""
        if self._client is not None:
            self._settings.counts["bytes_down"] += len(data)
            self._client.write(data)

    def close(self) -> None:
        """The server has closed the connection."""
        self._server = None
        if self._client is not None:
            self._client.close()

    def _advance(self) -> None:
        while self._buffer and not self._held:
            if self._body_left:
                assert self._server is not None
                part = bytes(self._buffer[: self._body_left])
                del self._buffer[: len(part)]
                self._body_left -= len(part)
                self._server.write(part)
                continue
            end = self._buffer.find(_END)
            if end < 0:
                return
            head = bytes(self._buffer[: end + len(_END)])
            del self._buffer[: len(head)]
            self._begin(head)

    def _begin(self, head: bytes) -> None:
        first, _, rest = head.partition(b"\r\n")
        method, target, _ = first.decode("latin-1").split(" ", 2)
        if target.startswith("/__proxy/"):
            self._control(target)
            return
        length = 0
        for line in rest.split(b"\r\n"):
            name, _, value = line.partition(b":")
            name = name.lower()
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                raise ValueError(f"{method} {target}: this proxy expects bodies with a Content-Length")
        kind = _kind(method, target)
        self._settings.counts[kind] += 1
        self._settings.log.append([kind, _path(target)])
        self._settings.counts["bytes_up"] += length
        self._held = True
        if self._settings.latency_s:
            asyncio.get_running_loop().call_later(self._settings.latency_s, self._forward, head, length)
        else:
            self._forward(head, length)

    def _forward(self, head: bytes, length: int) -> None:
        if self._client is None:
            return
        if self._server is None:
            self._connecting = asyncio.ensure_future(self._connect(head, length))
            return
        self._server.write(head)
        self._body_left = length
        self._held = False
        self._advance()

    async def _connect(self, head: bytes, length: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            server, _ = await loop.create_connection(lambda: Back(self), self._settings.host, self._settings.port)
        except OSError:
            self.close()
            return
        assert isinstance(server, asyncio.Transport)
        self._server = server
        if self._client is None:
            server.close()
            return
        self._forward(head, length)

    def _control(self, target: str) -> None:
        assert self._client is not None
        asked = urlsplit(target)
        if asked.path == "/__proxy/reset":
            self._settings.counts.clear()
            self._settings.log.clear()
            self._settings.latency_s = float(parse_qs(asked.query).get("ms", ["0"])[0]) / 1000
        body = json.dumps(self._settings.log if asked.path == "/__proxy/log" else self._settings.counts).encode()
        self._client.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def _kind(method: str, target: str) -> str:
    _, _, query = target.partition("?")
    asked = {pair.partition("=")[0] for pair in query.split("&")} if query else set()
    if method == "GET" and asked & _LIST:
        return "LIST"
    if method == "POST":
        return "DeleteObjects" if "delete" in asked else "POST"
    return method


def _path(target: str) -> str:
    """Return what a request is about: of a listing, the bucket and the prefix."""
    asked = urlsplit(target)
    prefix = parse_qs(asked.query).get("prefix")
    return unquote(asked.path) if prefix is None else f"{unquote(asked.path).rstrip('/')}/{prefix[0]}"


async def _serve(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Front(settings), "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(Settings(sys.argv[1], int(sys.argv[2]))))
