"""A deployed function: as many processes as run at once, what they print, and what Lambda counts of them."""

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.iam import Role
from tests.support.lambda_runtime import FunctionDiedError, FunctionTimedOutError, LambdaFunction
from tests.support.system.build import Build
from tests.support.system.embedded_aws import EmbeddedAws
from tests.support.system.metrics import Metrics
from tests.support.system.zygote import zygote

MAX_PAYLOAD_BYTES = 6 << 20
"""Of an invocation that is waited for, and of its answer ("Lambda quotas", AWS Lambda Developer Guide)."""
START_TIMEOUT_S = 60
"""Seconds of work until a process asks for its first event. Lambda allows ten."""
_START = """
import mmap, runpy, struct, sys
from lakesweep.storage import clock
from awslambdaric.lambda_context import LambdaContext
with open({path!r}, "rb") as file:
    told = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
def worked_s():
    return struct.unpack("<d", told[:])[0]
def left_ms(context):
    return max(0, context._epoch_deadline_time_in_ms - int(worked_s() * 1000))
def wall_ms():
    with open({system!r}, "rb") as file:
        began_s, speed = struct.unpack("<dd", file.read())
    return int((began_s + worked_s() * speed) * 1000)
clock.wall_ms = wall_ms
LambdaContext.get_remaining_time_in_millis = left_ms
runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)
"""
"""Starts the runtime client, with the clock of the system's work (`ToldClock`) for the time that is left.

The machine's clock shows the system's time, too. Nothing else of Lakesweep may be imported before it does."""


class ThrottledError(Exception):
    """There is no concurrency left."""


@dataclass(slots=True)
class Invocation:
    """How one invocation went."""

    function: str
    caller: str
    """The process that it ran in."""
    at_s: float
    """When it began, by the system's clock."""
    seconds: float = 0.0
    """How long it took: seconds of work, whatever time was skipped meanwhile."""
    is_cold: bool = False
    value: Any = None
    error: str = ""
    """Empty, `Unhandled`, `Timeout`, `Crash` or `ResponseTooLarge`."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """What it logged."""


class DeployedFunction:
    """One function of the template."""

    def __init__(
        self,
        name: str,
        properties: Mapping[str, Any],
        role: Role,
        build: Build,
        aws: EmbeddedAws,
        metrics: Metrics,
        folder: Path,
        told: Path,
        on_end: Callable[[Invocation], None] = lambda _: None,
    ) -> None:
        """Deploy it; a process starts with the first invocation that finds none idle.

        Args:
            name: Its logical id.
            properties: From the rendered template.
            role: What it may do.
            build: Where its code and layers are.
            aws: What it speaks to.
            metrics: Where its metrics go, Lambda's and its own.
            folder: Takes the logs of its processes.
            told: The file that tells them the clock of the system's work.
            on_end: Is told of every invocation.
        """
        self.name = name
        self.function_name = str(properties["FunctionName"])
        self.timeout_s = float(properties["Timeout"])
        self.ends_after_s: float | None = None
        """Seconds of work after which an invocation is over, although its process was told of more time."""
        self.is_stopped_in_loops = properties.get("RecursiveLoop", "Terminate") == "Terminate"
        self.reserved = int(properties.get("ReservedConcurrentExecutions", 1000))
        self.environment: dict[str, str] = {
            **{key: str(value) for key, value in properties["Environment"]["Variables"].items()},
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(properties["MemorySize"]),
        }
        self._role, self._build, self._aws, self._metrics, self._folder = role, build, aws, metrics, folder
        self._told = told
        self._on_end = on_end
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._running: dict[str, _Process] = {}
        self._started = 0

    def invoke(self, event: Any, *, timeout_s: float | None = None, trace: str = "") -> Invocation:
        """Run it once, and wait for the end.

        Args:
            event: As JSON.
            timeout_s: Of this invocation, instead of the function's; seconds of work.
            trace: The trace that it belongs to.

        Raises:
            ThrottledError: As many run as may.
            ValueError: The event is too large.
        """
        if len(json.dumps(event).encode()) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"{self.function_name}: the event has more than {MAX_PAYLOAD_BYTES} bytes")
        clock = self._aws.clock
        began_s, at_s = clock.work.now(), clock.now()
        with self._lock:
            if len(self._running) >= self.reserved:
                self._count("Throttles", 1)
                raise ThrottledError(self.function_name)
            process = self._idle.pop() if self._idle else self._new()
            self._running[process.name] = process
        done = Invocation(self.name, process.name, at_s, is_cold=not process.is_started)
        try:
            process.start()
            answer = process.running.invoke(
                event,
                timeout_s=timeout_s or self.timeout_s,
                ends_after_s=self.ends_after_s,
                trace=trace or new_trace(),
            )
            done.value = answer.value
            done.error = "Unhandled" if answer.is_error else ""
            if len(json.dumps(answer.value).encode()) > MAX_PAYLOAD_BYTES:
                done.error = "ResponseTooLarge"
        except FunctionTimedOutError as error:
            done.error, done.value = "Timeout", str(error)
        except FunctionDiedError as error:
            done.error, done.value = "Crash", str(error)
        done.seconds = clock.work.now() - began_s
        done.lines = process.new_lines()
        self._end(process, done)
        return done

    def deploy(self, build: Build) -> None:
        """Start processes from another build from now on. Those that are at work end with what they do."""
        with self._lock:
            self._build = build
            idle, self._idle = self._idle, []
        for process in idle:
            process.stop()

    def kill(self, caller: str) -> bool:
        """Kill a process in the middle of what it does, and tell whether there was one."""
        with self._lock:
            process = self._running.get(caller)
        if process is None or not process.is_started:
            return False
        process.running.kill()
        return True

    @property
    def running(self) -> int:
        """Return how many invocations are under way."""
        return len(self._running)

    @property
    def callers(self) -> tuple[str, ...]:
        """Return the names of the processes that are at work."""
        with self._lock:
            return tuple(self._running)

    def peak_bytes(self) -> int:
        """Return the most memory that a living process of it has had."""
        with self._lock:
            processes = [*self._idle, *self._running.values()]
        return max((each.peak_bytes() for each in processes if each.is_started), default=0)

    def cpu_s(self) -> float:
        """Return the processor time of its living processes."""
        with self._lock:
            processes = [*self._idle, *self._running.values()]
        return sum(each.running.cpu_s for each in processes if each.is_started)

    def close(self) -> None:
        """End all processes. The next invocation starts another one."""
        with self._lock:
            processes = [*self._idle, *self._running.values()]
            self._idle.clear()
        for process in processes:
            process.stop()

    def _new(self) -> "_Process":
        self._started += 1
        name = f"{self.name}-{self._started}"
        self._aws.roles[name] = self._role
        environment = {
            **self.environment,
            "AWS_ACCESS_KEY_ID": name,  # by which the door knows who asks
            "AWS_LAMBDA_FUNCTION_NAME": self.function_name,
            "AWS_ENDPOINT_URL": self._aws.endpoint,
        }
        runs = LambdaFunction(
            self._build.python,
            self._build.code(self.name),
            self._build.layers,
            environment,
            self._folder / f"{name}.log",
            options=("-c", _START.format(path=str(self._told), system=str(self._told.with_suffix(".system")))),
            timeout_s=START_TIMEOUT_S,
            clock_s=self._aws.clock.work.now,
            start=zygote(self._build.python, self._build.layers[0].resolve()).spawn,
        )
        return _Process(name, runs, self._build)

    def _end(self, process: "_Process", done: Invocation) -> None:
        ended = done.error in ("Timeout", "Crash") or process.build is not self._build
        if ended:
            process.stop()
        now_s = self._aws.clock.now()
        for line in done.lines:
            if "_aws" in line:
                self._metrics.put_emf(line, now_s)
        self._count("Invocations", 1)
        self._count("Errors", 1 if done.error else 0)
        self._count("Duration", done.seconds * 1000)
        self._on_end(done)
        with self._lock:
            del self._running[process.name]
            if not ended:
                self._idle.append(process)

    def _count(self, name: str, value: float) -> None:
        dimensions = {"FunctionName": self.function_name}
        self._metrics.put("AWS/Lambda", name, dimensions, [value], self._aws.clock.now())


class _Process:
    """One execution environment."""

    def __init__(self, name: str, running: LambdaFunction, build: Build) -> None:
        self.name = name
        self.running = running
        self.build = build
        self.is_started = False
        self._read = 0

    def start(self) -> None:
        if not self.is_started:
            self.running.__enter__()
            self.is_started = True

    def stop(self) -> None:
        if self.is_started:
            self.running.__exit__()

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.running.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))

    def new_lines(self) -> list[dict[str, Any]]:
        """Return what it printed since the last time, as far as it is JSON."""
        text = self.running.log
        complete = text.rfind("\n") + 1
        new, self._read = text[self._read : complete], max(complete, self._read)
        found = []
        for line in new.splitlines():
            try:
                document = json.loads(line)
            except ValueError:
                continue
            if isinstance(document, dict):
                found.append(document)
        return found


def new_trace() -> str:
    """Return the header of a trace that begins here."""
    return f"Root=1-{secrets.token_hex(4)}-{secrets.token_hex(12)};Parent={secrets.token_hex(8)};Sampled=0"
