"""The sending side of SQS, for functions in processes of their own: messages are taken here and handed out by hand.

Standard queues only. What a sender is told is what SQS tells; who receives is in this process.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ACCOUNT = "111122223333"


@dataclass(order=True, slots=True)
class Message:
    """One message of a queue."""

    visible_at_s: float
    number: int
    body: str = field(compare=False)
    receptions: int = field(default=0, compare=False)


@dataclass(slots=True)
class SqsServer:
    """A running server, and what lies in its queues."""

    endpoint: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    """By action, receptions and deletions included."""
    _queues: dict[str, list[Message]] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, queue: str) -> str:
        """Return where a queue is."""
        return f"{self.endpoint}/{ACCOUNT}/{queue}"

    def put(self, queue: str, body: str, delay_s: float = 0.0) -> None:
        """Add a message."""
        with self._changed:
            message = Message(time.monotonic() + delay_s, next(self._numbers), body)
            heapq.heappush(self._queues.setdefault(queue, []), message)
            self._changed.notify_all()

    def give_back(self, queue: str, message: Message, delay_s: float) -> None:
        """Add a message that was received and not done."""
        with self._changed:
            message.visible_at_s = time.monotonic() + delay_s
            heapq.heappush(self._queues[queue], message)
            self._changed.notify_all()

    def receive(self, queue: str, wait_s: float) -> Message | None:
        """Take one message, or wait for one."""
        until_s = time.monotonic() + wait_s
        with self._changed:
            while True:
                waiting = self._queues.setdefault(queue, [])
                now_s = time.monotonic()
                if waiting and waiting[0].visible_at_s <= now_s:
                    message = heapq.heappop(waiting)
                    message.receptions += 1
                    self.requests["ReceiveMessage"] += 1
                    return message
                if now_s >= until_s:
                    return None
                next_s = min(until_s, waiting[0].visible_at_s if waiting else until_s)
                self._changed.wait(max(0.001, next_s - now_s))

    def delete(self) -> None:
        """Count that a message was done."""
        with self._changed:
            self.requests["DeleteMessage"] += 1

    def answer(self, action: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Take what a sender sends."""
        queue = asked["QueueUrl"].rpartition("/")[2]
        self.requests[action] += 1
        if action == "SendMessage":
            return self._sent(queue, asked)
        if action == "SendMessageBatch":
            entries = asked["Entries"]
            return {"Successful": [{"Id": entry["Id"], **self._sent(queue, entry)} for entry in entries]}
        raise NotImplementedError(action)

    def _sent(self, queue: str, entry: dict[str, Any]) -> dict[str, Any]:
        body = entry["MessageBody"]
        self.put(queue, body, entry.get("DelaySeconds", 0))
        return {"MessageId": str(uuid.uuid4()), "MD5OfMessageBody": hashlib.md5(body.encode()).hexdigest()}


@contextlib.contextmanager
def sqs_server() -> Iterator[SqsServer]:
    """Run a server."""
    sqs = SqsServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            action = self.headers["X-Amz-Target"].rpartition(".")[2]
            answer = json.dumps(sqs.answer(action, json.loads(body))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *words: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        sqs.endpoint = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield sqs
        finally:
            server.shutdown()
