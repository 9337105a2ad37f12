"""Real processes that stand still in the middle of a request, and a server that holds the request meanwhile.

`Sleeper` starts this module as a program: the command line with leases of seconds instead of minutes. With `stop_at` it
stops itself (SIGSTOP) right before a call of the local store; on S3 the server says when its request has come.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
LEASE_MS = 3_000
MARGIN_MS = 500
PATIENCE_S = 60
"""How long anything may take before a test gives up."""

Matches = Callable[[str, str], bool]
"""Method, and path with query."""


class Stall:
    """Holds the first request that matches, and ends its connection without an answer."""

    def __init__(self, matches: Matches, *, takes_effect: bool = False) -> None:
        self._matches = matches
        self._lock = threading.Lock()
        self.takes_effect = takes_effect
        self.held = threading.Event()
        self.go = threading.Event()

    def is_meant(self, method: str, path: str) -> bool:
        """Tell whether this is the request, once."""
        with self._lock:
            if self.held.is_set() or not self._matches(method, path):
                return False
            self.held.set()
            return True


_stalls: list[Stall] = []


@cache
def stalling_endpoint() -> str:
    """Return the URL of a second server of this process's moto, which holds what tests tell it to."""
    from werkzeug.serving import make_server

    from tests.support.moto_http import QuickHandler, _one_at_a_time, all_services

    inner = _one_at_a_time(all_services())

    def app(environ: Any, start_response: Any) -> Any:
        path = f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}"
        for stall in list(_stalls):
            if stall.is_meant(environ["REQUEST_METHOD"], path):
                stall.go.wait(PATIENCE_S)
                if stall.takes_effect:
                    list(inner(environ, start_response))
                raise ConnectionResetError("held for a test")
        return inner(environ, start_response)

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuickHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.port}"


def stall(matches: Matches, *, takes_effect: bool = False) -> Stall:
    """Hold the next request that matches."""
    _stalls[:] = [Stall(matches, takes_effect=takes_effect)]
    return _stalls[0]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    status: int
    document: dict[str, Any]
    errors: str


class Sleeper:
    """A command line in a process of its own that can be stopped and woken."""

    def __init__(self, words: Sequence[str], stop_at: str = "") -> None:
        """Start it.

        Args:
            words: Of the command line.
            stop_at: Where it stops itself: `delete:1` right before the first call of `LocalStore.delete`.
        """
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.suspension", stop_at, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment,
        )  # fmt: skip

    def suspend(self, stalled: Stall) -> None:
        """Let it stand still in a request that the server holds, and have the connection end meanwhile."""
        assert stalled.held.wait(PATIENCE_S), self.ended()
        os.kill(self._process.pid, signal.SIGSTOP)
        self.wait_until_stopped()
        stalled.go.set()

    def wait_until_stopped(self) -> None:
        """Wait until it stands still."""
        until_s = time.monotonic() + PATIENCE_S
        while "T" not in Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]:
            assert time.monotonic() < until_s and self._process.poll() is None, self.ended()
            time.sleep(0.02)

    def wake(self) -> Ended:
        """Let it go on to its end."""
        os.kill(self._process.pid, signal.SIGCONT)
        return self.ended()

    def ended(self) -> Ended:
        """Wait for its end."""
        output, errors = self._process.communicate(timeout=PATIENCE_S)
        lines = output.strip()
        return Ended(self._process.returncode, json.loads(lines) if lines.startswith("{") else {}, errors)

    def close(self) -> None:
        """End it, wherever it is."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def shorten(patch: Callable[[Any, str, object], None], lease_ms: int = LEASE_MS) -> None:
    """Let leases last for seconds in this process, and successors wait for less than one.

    Args:
        patch: Sets an attribute, as `MonkeyPatch.setattr` does.
        lease_ms: How long leases last.
    """
    from lakesweep.control import lease
    from lakesweep.execute.waves import slices
    from lakesweep.runs import execution

    patch(lease, "LEASE_MS", lease_ms)
    patch(lease.Lease.check, "__defaults__", (lease_ms // 2,))
    for module in (lease, slices, execution):
        patch(module, "DELETE_MARGIN_MS", MARGIN_MS)


def _stop_before(method: str, number: int) -> None:
    from lakesweep.storage.local.store import LocalStore

    real, calls = getattr(LocalStore, method), 0

    def stopping(store: LocalStore, *given: Any, **more: Any) -> Any:
        nonlocal calls
        if "/control" not in store.location:
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGSTOP)
        return real(store, *given, **more)

    setattr(LocalStore, method, stopping)


def _main(stop_at: str, words: list[str]) -> int:
    from lakesweep.cli.main import main

    shorten(setattr)
    if stop_at:
        method, _, number = stop_at.partition(":")
        _stop_before(method, int(number))
    return main(words)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], sys.argv[2:]))
