"""A counting proxy in front of a server: what a bill would count, seen from outside of Lakesweep."""

import json
import os
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.s3_server import S3Server

REPOSITORY = Path(__file__).resolve().parent.parent.parent
_KINDS = {"GET": "get", "HEAD": "head", "LIST": "list", "PUT": "put", "DELETE": "delete", "DeleteObjects": "delete"}


@dataclass(frozen=True, slots=True)
class Door:
    """The proxy."""

    endpoint: str

    def reset(self) -> None:
        """Forget what came so far."""
        self._ask("reset")

    def log(self) -> list[tuple[str, str]]:
        """Return kind (as receipts name it) and path of each request since then, in order."""
        with urllib.request.urlopen(f"{self.endpoint}/__proxy/log") as answer:
            return [(_KINDS[kind], path) for kind, path in json.load(answer)]

    def _ask(self, what: str) -> None:
        with urllib.request.urlopen(f"{self.endpoint}/__proxy/{what}") as answer:
            answer.read()


def counted(log: list[tuple[str, str]]) -> dict[str, int]:
    """Return the requests of a log by kind."""
    return dict(Counter(kind for kind, _ in log))


def until(log: list[tuple[str, str]], *ends: str) -> list[tuple[str, str]]:
    """Return a log up to the last put whose path ends or begins with one of these names."""
    last = max(at for at, (kind, path) in enumerate(log) if kind == "put" and any(end in path for end in ends))
    return log[: last + 1]


@contextmanager
def door_to(server: S3Server) -> Iterator[Door]:
    """Start the proxy in a process of its own."""
    place = urlsplit(server.endpoint)
    command = [sys.executable, "-m", "benchmarks.proxy", str(place.hostname), str(place.port)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            yield Door(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.terminate()
