"""Run the real command line in a process that dies, or whose storage misbehaves, at a call that a test names.

`Zygote` starts this module as a program. The program imports the command line once and forks a child for every run, so
that a run costs milliseconds and not a start of Python. The child opens the stores that the command line opens; what it
counts are calls of both stores (`level="store"`) or requests on the wire to S3 (`level="wire"`).

The child differs from a user's process in three things only: its stores' clock says what the test says, its ids are
counted instead of random, and it does not wait for the disk (`fsync`), since the death of a process loses no page of
the kernel.
"""

import contextlib
import io
import itertools
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lakesweep.storage.store import DeleteRequest, delete_all

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DEATH = -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes wrong in a child, and at which calls."""

    mode: str = "none"
    """`kill`: SIGKILL before the call; `kill_after`: right after it took effect, its answer unseen; `SIGINT` and
    `SIGTERM`: that signal before the call; on the wire also
    `slow_down`: answered 503 twice, then served; `slow_down_for_ever`: this request and every later one;
    `lost_answer`: it takes effect and the connection ends, once."""
    first: int = 0
    """The call it happens at, counted from 1."""
    every: int = 0
    """And at every so many calls after that; 0 for never again."""

    def at(self, number: int) -> bool:
        """Tell whether call `number` is one to break."""
        if self.mode == "slow_down_for_ever":
            return number >= self.first
        past = number - self.first
        return past == 0 or (past > 0 and self.every > 0 and past % self.every == 0)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended."""

    status: int
    """Its exit code, or minus the signal that ended it."""
    output: str
    errors: str
    calls: tuple[str, ...]
    """Every call or request that began, in order."""


class Zygote:
    """A parent of children that run the command line, one at a time."""

    def __init__(self, folder: Path, level: str) -> None:
        """Start it.

        Args:
            folder: For what the children print; made when missing.
            level: `store` or `wire`: what counts as a call.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path]),
            "PYTHONHASHSEED": "0",  # the order of sets decides which manifests are read first, and so how many
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.dying_cli", str(folder), level],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment,
        )  # fmt: skip

    def run(self, arguments: Sequence[str], now_ms: int, trouble: Trouble | None = None) -> Ended:
        """Run one command line to its end."""
        asked = {"arguments": list(arguments), "now_ms": now_ms, "trouble": asdict(trouble or Trouble())}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise AssertionError(f"the parent of the children ended: {self._process.wait()}")
        output, errors, calls = ((self._folder / name).read_text() for name in ("output", "errors", "calls"))
        return Ended(json.loads(answer)["status"], output, errors, tuple(calls.splitlines()))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# What follows runs in the children and their parent.


class _Calls:
    """Counts calls, notes each as it begins, and breaks the ones that the test named."""

    def __init__(self, trouble: Trouble, note: int) -> None:
        self._trouble = trouble
        self._note = note
        self._count = 0
        self._under_way = 0
        self._dying = False
        self._changed = threading.Condition()

    def begin(self, name: str) -> bool:
        """Note a call; tell whether it is one to break. Does not return where the process is to die first."""
        with self._changed:
            self._changed.wait_for(lambda: not self._dying)
            self._count += 1
            os.write(self._note, f"{name}\n".encode())
            hit = self._trouble.at(self._count)
            if hit and self._trouble.mode == "kill":
                self._die()
            if hit and self._trouble.mode in ("SIGINT", "SIGTERM"):
                os.kill(os.getpid(), signal.Signals[self._trouble.mode])
            self._under_way += 1
        return hit

    def end(self, hit: bool) -> None:
        """Note that a call has its answer. Does not return where the process is to die now."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()
            if hit and self._trouble.mode == "kill_after":
                self._die()

    def _die(self) -> None:
        """End the process once what other threads have under way is answered.

        What a dead process has sent may take effect when the test has put the table back for the next death.
        """
        self._dying = True
        self._changed.wait_for(lambda: self._under_way == 0, timeout=10)
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    def run(self, name: str, call: Callable[[], object]) -> object:
        """Make one call of a store: what a `FaultyStore` asks of its switch."""
        hit = self.begin(name)
        try:
            return call()
        finally:
            self.end(hit)


def _wrap_stores(calls: _Calls) -> None:
    from lakesweep.api import opening
    from tests.support.faulty_store import FaultyStore

    real, names = opening.open_store, itertools.chain(["table", "control"], itertools.repeat("other"))
    opening.open_store = lambda *given, **more: FaultyStore(real(*given, **more), calls, next(names))  # type: ignore


def _wrap_requests(calls: _Calls, trouble: Trouble) -> None:
    from botocore import endpoint, httpsession
    from botocore.exceptions import ConnectionClosedError

    real = httpsession.URLLib3Session.send
    attempts: dict[int, int] = {}
    broken: dict[int, bool] = {}

    def send(session: Any, request: Any) -> Any:
        # Attempts of one request come one after another in one thread; each is signed anew with its attempt's number.
        thread = threading.get_ident()
        is_first = b"attempt=1" in _bytes(request.headers.get("amz-sdk-request", "attempt=1"))
        if is_first:
            attempts[thread] = 0
            broken[thread] = calls.begin(f"{request.method} {request.url}")
        attempts[thread] += 1
        hit = broken[thread]
        throttled = trouble.mode == "slow_down_for_ever" or (trouble.mode == "slow_down" and attempts[thread] <= 2)
        try:
            response = _slow_down(request) if hit and throttled else real(session, request)
        finally:
            if is_first:
                calls.end(hit)
        if hit and trouble.mode == "lost_answer" and attempts[thread] == 1:
            raise ConnectionClosedError(endpoint_url=request.url)
        return response

    httpsession.URLLib3Session.send = send  # type: ignore[method-assign]
    endpoint.time = _NoWaiting  # type: ignore[attr-defined]


class _NoWaiting:
    """Takes the place of the module `time` where botocore waits between attempts."""

    @staticmethod
    def sleep(seconds: float) -> None:
        """Do not wait."""


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _slow_down(request: Any) -> Any:
    from botocore.awsrequest import AWSResponse, HeadersDict

    class Raw(io.BytesIO):
        def stream(self, **_: object) -> Any:
            yield self.read()

    body = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    headers = HeadersDict({"content-type": "application/xml", "content-length": str(len(body))})
    return AWSResponse(request.url, 503, headers, Raw(body))


def _child(asked: Any, folder: Path, level: str) -> int:
    for name, descriptor in (("output", 1), ("errors", 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    note = os.open(folder / "calls", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    now_ms, trouble = asked["now_ms"], Trouble(**asked["trouble"])
    numbers = itertools.count(1)
    os.fsync = lambda descriptor: None
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests in the background has it ignored
    secrets.token_hex = lambda size=4: f"{next(numbers):0{2 * size}x}"

    from lakesweep.cli.main import main
    from lakesweep.storage.local.store import LocalStore
    from lakesweep.storage.s3.store import S3Store

    LocalStore.now_ms = S3Store.now_ms = lambda store: now_ms  # type: ignore[method-assign, assignment]
    calls = _Calls(trouble, note)
    if level == "store":
        _wrap_stores(calls)
    else:
        _wrap_requests(calls, trouble)
    status = main(asked["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _serve(folder: Path, level: str) -> None:
    _warm_up()
    for line in sys.stdin:
        asked = json.loads(line)
        if level == "wire":
            _make_client(asked["arguments"])
        process = os.fork()
        if process == 0:
            status = 70
            try:
                status = _child(asked, folder, level)
            finally:
                os._exit(status)
        ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(json.dumps({"status": ended}), flush=True)


def _warm_up() -> None:
    """Run a pass in memory, so that children find imported and compiled what they need."""
    from lakesweep.cli.main import main
    from lakesweep.storage.local import store as local
    from lakesweep.storage.open import MEMORY_STORES
    from lakesweep.storage.s3 import store as s3
    from tests.support import faulty_store
    from tests.support.fault_history import build
    from tests.support.memory_store import MemoryStore

    assert local and s3 and faulty_store  # a pass in memory does not import them

    table, control = MemoryStore("memory://warm/t"), MemoryStore("memory://warm/control")
    build(table, table.now_ms())
    MEMORY_STORES[table.location] = lambda: table
    MEMORY_STORES[control.location] = lambda: control
    with contextlib.redirect_stdout(io.StringIO()):
        status = main(["maintain", table.location, "--control", control.location, "--execute"])
    assert status == 0


@cache
def _client_made(endpoint_url: str, region: str) -> None:
    """Make the client that the children will find made, and let it ask once of each kind: no connection is opened."""
    from botocore import endpoint, httpsession

    from lakesweep.errors import StorageError
    from lakesweep.storage.open import StoreSettings, open_store

    real_send, real_time = httpsession.URLLib3Session.send, endpoint.time  # type: ignore[attr-defined]
    httpsession.URLLib3Session.send = lambda session, request: _slow_down(request)  # type: ignore[method-assign]
    endpoint.time = _NoWaiting  # type: ignore[attr-defined]
    store = open_store("s3://any/place", settings=StoreSettings(endpoint_url=endpoint_url, region=region))
    for ask in (
        lambda: list(store.list("")),
        lambda: store.read("any"),
        lambda: store.put("any", b"", if_absent=True),
        lambda: store.delete(delete_all(["any"])),
        lambda: store.delete([DeleteRequest("any", "etag")]),
    ):
        with contextlib.suppress(StorageError):
            ask()
    httpsession.URLLib3Session.send, endpoint.time = real_send, real_time  # type: ignore[method-assign, attr-defined]


def _make_client(arguments: Sequence[str]) -> None:
    stated = dict(itertools.pairwise(arguments))
    _client_made(stated["--endpoint-url"], stated["--region"])


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2])
