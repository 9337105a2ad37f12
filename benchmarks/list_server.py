"""A server that answers ListObjectsV2 from memory as AWS does, after a stated latency, so that clients can be measured.

    python -m benchmarks.list_server KEYS

prints its port (on the loopback) and runs until its standard input ends. `GET /__server/reset?ms=20` forgets the count
and sets the latency; `GET /__server/count` answers with the number of requests since.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit

from benchmarks.servers import PROJECT, environment

BUCKET = "bench"
PREFIX = "table"
PAGE_KEYS = 1000
_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    f"<Name>{BUCKET}</Name><Prefix>{PREFIX}/</Prefix><MaxKeys>{PAGE_KEYS}</MaxKeys><EncodingType>url</EncodingType>"
)
_TAIL = b"</ListBucketResult>"


def names(count: int) -> list[str]:
    """Return keys as a table has them: partitions, buckets, names of 51 characters."""
    return [
        f"dt=2026-{n % 12 + 1:02}-01/bucket-0/data-{n * 2654435761 % 2**32:08x}-{n:027}-0.parquet" for n in range(count)
    ]


def contents(number: int, key: str) -> bytes:
    """Return one object of a page, with the fields that AWS gives since it adds checksums."""
    return (
        f"<Contents><Key>{quote(key)}</Key><LastModified>2026-01-{number % 28 + 1:02}T00:{number % 60:02}:00.000Z"
        f"</LastModified><ETag>&quot;{number:032x}&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>"
        f"<ChecksumType>FULL_OBJECT</ChecksumType><Size>{number * 37}</Size><StorageClass>STANDARD</StorageClass>"
        "</Contents>"
    ).encode()


class Bucket:
    """The keys, and what was asked."""

    def __init__(self, count: int) -> None:
        """Make so many objects."""
        self.keys = sorted(f"{PREFIX}/{name}" for name in names(count))
        self.objects = [contents(number, key) for number, key in enumerate(self.keys)]
        self.count = 0
        self.latency_s = 0.0
        self.lock = threading.Lock()

    def answer(self, target: str) -> bytes:
        """Return the body of an answer."""
        asked = {name: values[-1] for name, values in parse_qs(urlsplit(target).query).items()}
        if target.startswith("/__server/"):
            count = self.count
            if "ms" in asked:
                self.count, self.latency_s = 0, float(asked["ms"]) / 1000
            return str(count).encode()
        with self.lock:
            self.count += 1
        time.sleep(self.latency_s)
        if "continuation-token" in asked:
            begin = int(asked["continuation-token"])
        else:
            begin = bisect_right(self.keys, asked.get("start-after", ""))
        return self.page(begin)

    def page(self, begin: int) -> bytes:
        """Return the page that begins at a place."""
        end = begin + PAGE_KEYS
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{end}</NextContinuationToken>"
        state = more if end < len(self.keys) else "<IsTruncated>false</IsTruncated>"
        return b"".join([f"{_HEAD}{state}".encode(), *self.objects[begin:end], _TAIL])

    def serve(self, client: socket.socket) -> None:
        """Answer one client until it goes."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client, client.makefile("rb") as lines:
            while first := lines.readline():
                while lines.readline().strip():
                    pass
                body = self.answer(first.split()[1].decode())
                date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
                head = (
                    f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}"
                )
                client.sendall(f"{head}\r\n\r\n".encode() + body)


@dataclass(frozen=True, slots=True)
class ListServer:
    """A running server."""

    endpoint: str

    def reset(self, latency_ms: float = 0) -> None:
        """Forget the count, and hold back every request from now on for so long."""
        self._ask(f"reset?ms={latency_ms}")

    def count(self) -> int:
        """Return how many requests came since."""
        return self._ask("count")

    def _ask(self, what: str) -> int:
        with urllib.request.urlopen(f"{self.endpoint}/__server/{what}") as answer:
            return int(answer.read())


@contextlib.contextmanager
def list_server(keys: int) -> Iterator[ListServer]:
    """Run a server with so many objects."""
    command = [sys.executable, "-m", "benchmarks.list_server", str(keys)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=environment()
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield ListServer(f"http://127.0.0.1:{int(server.stdout.readline())}")
        finally:
            server.stdin.close()


def _main() -> None:
    bucket = Bucket(int(sys.argv[1]))
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        print(listening.getsockname()[1], flush=True)

        def accept() -> None:
            while True:
                client, _ = listening.accept()
                threading.Thread(target=bucket.serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        sys.stdin.read()


if __name__ == "__main__":
    _main()
