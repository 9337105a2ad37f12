"""A function of functions/ in a process of its own, warm from its second event on.

    python -m benchmarks.function_process NAME SECONDS

reads events as lines of JSON, and answers each with what the handler answered and what that took.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.servers import PROJECT, environment


@dataclass
class Context:
    """What Lambda hands to a handler."""

    ends_s: float
    function_name: str
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:111122223333:function:benchmark"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        """Return how long this invocation may go on."""
        return max(0, int((self.ends_s - time.monotonic()) * 1000))


@dataclass(frozen=True, slots=True)
class Invocation:
    """What one event took."""

    failed: bool
    seconds: float
    cpu_s: float
    peak_kib: int
    """The most that was resident while it was handled."""
    log: str


class FunctionProcess:
    """One process of a function."""

    def __init__(self, name: str, seconds: int, settings: dict[str, str]) -> None:
        self.name = name
        self._child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.function_process", name, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            env=environment() | settings,
        )

    def __call__(self, event: dict[str, Any]) -> Invocation:
        """Have it handle an event."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(event) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the process ended")
        return Invocation(**json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()


def _main(name: str, seconds: int) -> None:
    spec = importlib.util.spec_from_file_location("app", PROJECT / "functions" / name / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    printed = io.StringIO()
    with redirect_stdout(printed):
        spec.loader.exec_module(module)
    answers = sys.stdout
    for handler in module.runtime.telemetry.logger.handlers:
        handler.setStream(printed)
    for line in sys.stdin:
        printed.seek(0)
        printed.truncate()
        Path("/proc/self/clear_refs").write_text("5")  # from now on, the peak is that of this event
        start, cpu_s = time.monotonic(), time.process_time()
        with redirect_stdout(printed):
            answer = module.handler(json.loads(line), Context(start + seconds, name))
        invocation = {
            "failed": bool(answer["batchItemFailures"]),
            "seconds": time.monotonic() - start,
            "cpu_s": time.process_time() - cpu_s,
            "peak_kib": _peak_kib(),
            "log": printed.getvalue()[-20_000:],
        }
        print(json.dumps(invocation), file=answers, flush=True)


def _peak_kib() -> int:
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
