"""Lambda in small: a function as `sam build` left it, under the real runtime client and a Runtime API of our own.

The client (`awslambdaric`) runs in a process of its own, with a Python that has nothing but it and boto3, as Lambda's
has. It imports the handler, asks for the first event, answers it and asks for the next. Events come from `invoke`.

What else Lambda does is not here: limits of memory and processor, a read-only disk, freezing between invocations.

Source: AWS Lambda Developer Guide, "Using the Lambda runtime API for custom runtimes" and "Working with Lambda
environment variables".
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, Self

REGION = "us-east-1"
ACCOUNT = "123456789012"


@dataclass(frozen=True, slots=True)
class Init:
    """What went before the first event: the interpreter, the runtime client, the function's module."""

    seconds: float
    """From the start of the process until it asked for an event."""
    cpu_s: float
    log: str
    """What it printed until then."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How one invocation ended."""

    value: Any
    is_error: bool
    """The handler raised; `value` says what."""
    seconds: float
    """From handing over the event until the answer was there."""


class FunctionDiedError(Exception):
    """The process ended, or was too slow, before it did what was waited for."""


class FunctionTimedOutError(FunctionDiedError):
    """It was too slow."""


@dataclass(frozen=True, slots=True)
class _Said:
    """One thing that the process did."""

    what: str
    """`next`, `response`, `error` or `end`."""
    at_s: float
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class _Event:
    """What the process gets for one invocation."""

    body: bytes
    timeout_s: float
    trace: str


_LOOK_S = 0.1
"""Real seconds between two looks at the clock."""
NO_TRACE = "Root=1-00000000-000000000000000000000000;Sampled=0"


class Process(Protocol):
    """What a function runs in."""

    @property
    def pid(self) -> int:
        """Return its id."""

    def kill(self) -> None:
        """Kill it, unless it has ended."""

    def wait(self) -> int | None:
        """Wait for its end, and return its exit code if that is known."""


def start(command: Sequence[str], cwd: Path, environment: Mapping[str, str], log: Path) -> Process:
    """Start a process, which prints into a file."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


class LambdaFunction:
    """One process of one function. A context manager: the process lives inside the block."""

    init: Init

    def __init__(
        self,
        python: Path,
        code: Path,
        layers: Sequence[Path],
        environment: Mapping[str, str],
        log: Path,
        *,
        options: Sequence[str] = (),
        timeout_s: float = 60,
        clock_s: Callable[[], float] = time.time,
        start: Callable[[Sequence[str], Path, Mapping[str, str], Path], Process] = start,
    ) -> None:
        """Describe it; it starts with the block.

        Args:
            python: Of an environment with awslambdaric and boto3.
            code: The function's folder; its handler is `app.handler`.
            layers: Folders with a folder `python` each.
            environment: The function's own variables.
            log: Takes what the process prints.
            options: Of the interpreter, such as `-Ximporttime`; with `-c`, instead of its running the client.
            timeout_s: Of each invocation, and of the start.
            clock_s: What timeouts go by. The process has to know it too.
            start: Starts the process.
        """
        client = () if "-c" in options else ("-m", "awslambdaric")
        self._command = [str(python), *options, *client, "app.handler"]
        self._clock_s = clock_s
        self._start = start
        self._code = code
        self._log = log
        self._timeout_s = timeout_s
        self._environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "PYTHONDONTWRITEBYTECODE": "1",  # Lambda's disk is read-only there
            "PYTHONPATH": ":".join([str(code), *(f"{layer}/python" for layer in layers)]),
            "LAMBDA_TASK_ROOT": str(code),
            "_HANDLER": "app.handler",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_SESSION_TOKEN": "testing",
            "AWS_LAMBDA_FUNCTION_NAME": code.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "AWS_LAMBDA_LOG_LEVEL": "INFO",
            **environment,
        }
        self._said: SimpleQueue[_Said] = SimpleQueue()
        self._events: SimpleQueue[_Event] = SimpleQueue()

    def __enter__(self) -> Self:
        """Start the process, and wait until it asks for its first event.

        Raises:
            FunctionDiedError: It never did, for instance because its module could not be imported.
        """
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        api = f"127.0.0.1:{self._server.server_port}"
        environment = {**self._environment, "AWS_LAMBDA_RUNTIME_API": api}
        started = time.perf_counter()
        self._process = self._start(self._command, self._code, environment, self._log)
        threading.Thread(target=self._tell_of_its_end, daemon=True).start()
        try:
            asked = self._wait_for("next")
        except FunctionDiedError:
            self.__exit__()
            raise
        self.init = Init(asked.at_s - started, self.cpu_s, self.log)
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.kill()
        self._process.wait()
        self._events.put(_Event(b"", 0, ""))  # for the thread that waits with its request
        self._server.shutdown()
        self._server.server_close()

    def kill(self) -> None:
        """Kill the process, as it stands."""
        self._process.kill()

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    @property
    def log(self) -> str:
        """Return what it printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def cpu_s(self) -> float:
        """Return the processor time of the process so far, of the user and the system, with all threads."""
        # Linux numbers the clock of a process so (clock_getcpuclockid); it counts nanoseconds where /proc counts ticks.
        return time.clock_gettime(~self._process.pid << 3 | 2)

    def invoke(
        self, event: Any, *, timeout_s: float | None = None, ends_after_s: float | None = None, trace: str = NO_TRACE
    ) -> Answer:
        """Hand over an event, and wait until it is answered and the next one asked for.

        Args:
            event: As JSON.
            timeout_s: Of this invocation, instead of the function's.
            ends_after_s: It is over after this time already, which the function does not know.
            trace: The trace header that the invocation belongs to.

        Raises:
            FunctionTimedOutError: It took longer.
            FunctionDiedError: The process did not come so far.
        """
        timeout_s = timeout_s or self._timeout_s
        body = json.dumps(event).encode()
        start = time.perf_counter()
        self._events.put(_Event(body, timeout_s, trace))
        said = self._wait_for("response", "error", timeout_s=ends_after_s or timeout_s)
        self._wait_for("next")
        return Answer(json.loads(said.body), said.what == "error", said.at_s - start)

    def _wait_for(self, *whats: str, timeout_s: float | None = None) -> _Said:
        timeout_s = timeout_s or self._timeout_s
        end_s, said = self._clock_s() + timeout_s, None
        while said is None:
            left_s = end_s - self._clock_s()
            if left_s <= 0:
                raise FunctionTimedOutError(f"{self._code.name}: nothing for {timeout_s} s\n{self.log}")
            with suppress(Empty):
                said = self._said.get(timeout=min(left_s, _LOOK_S))
        if said.what not in whats:
            detail = said.body.decode("utf-8", "replace")
            raise FunctionDiedError(f"{self._code.name}: expected {whats}, found {said.what} {detail}\n{self.log}")
        return said

    def _tell_of_its_end(self) -> None:
        code = self._process.wait()
        how = b"" if code is None else f"with exit code {code}".encode()
        self._said.put(_Said("end", time.perf_counter(), how))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        said, events, name, clock_s = self._said, self._events, self._code.name, self._clock_s

        class Api(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else an answer in two pieces waits 40 ms for an acknowledgement
            number = 0

            def do_GET(self) -> None:
                said.put(_Said("next", time.perf_counter()))
                event = events.get()
                if not event.body:
                    self.close_connection = True
                    return
                Api.number += 1
                self._answer(
                    200,
                    event.body,
                    {
                        "Content-Type": "application/json",
                        "Lambda-Runtime-Aws-Request-Id": f"00000000-0000-0000-0000-{Api.number:012}",
                        "Lambda-Runtime-Deadline-Ms": str(int((clock_s() + event.timeout_s) * 1000)),
                        "Lambda-Runtime-Invoked-Function-Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}",
                        "Lambda-Runtime-Trace-Id": event.trace,
                    },
                )

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                said.put(_Said(self.path.rsplit("/", 1)[-1], time.perf_counter(), body))
                self._answer(202, b'{"status":"OK"}')

            def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
                self.send_response_only(status)
                for header, value in (headers or {}).items():
                    self.send_header(header, value)
                self.send_header("Content-Length", str(len(body)))
                with suppress(ConnectionError):  # who asked is dead by now
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Api
