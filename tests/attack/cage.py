"""A cage: functions run in processes of their own, under limits of memory and time, and their memory is measured.

One process imports what is needed, once; it forks a child for each call. A child that exceeds its limits is ended by
the kernel, and not the tests.

    with Cage() as cage:
        answer = cage.run("tests.attack.test_memory:decode", "deflate")
        assert answer.peak_mb < 100
"""

import base64
import contextlib
import importlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MAX_ADDRESSES = 3 << 30
"""Of a child: far above what it may take, so that it is its memory that is measured and not what it reserves."""
MAX_CPU_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Caged:
    """What a call came to."""

    said: Any
    """What the function returned, or `None` where its process was ended."""
    ended_by: int
    """The signal that ended the process, 0 where none did."""
    grown_mb: float
    """How much its memory had grown at its peak."""
    cpu_seconds: float


class Cage:
    """The process that forks."""

    def __init__(self) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.cage"],
            cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, function: str, *arguments: Any) -> Caged:
        """Call a function, named as `module:name`, with arguments that JSON holds, or bytes."""
        assert self._process.stdin and self._process.stdout
        packed = [
            {"bytes": base64.b64encode(word).decode()} if isinstance(word, bytes) else {"value": word}
            for word in arguments
        ]
        self._process.stdin.write(json.dumps([function, packed]) + "\n")
        self._process.stdin.flush()
        return Caged(*json.loads(self._process.stdout.readline()))

    def __enter__(self) -> "Cage":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


def _memory_mb(name: str) -> float:
    # Not ru_maxrss: a child inherits that of its parent.
    match = re.search(name + r":\s+([0-9]+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def _main() -> None:
    """Answer each line of the standard input."""
    for line in sys.stdin:
        function, packed = json.loads(line)
        arguments = [base64.b64decode(word["bytes"]) if "bytes" in word else word["value"] for word in packed]
        module, _, name = function.partition(":")
        call = getattr(importlib.import_module(module), name)
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(receive)
            _child(call, arguments, send)
        os.close(send)
        with os.fdopen(receive) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(pid, 0)
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        print(json.dumps(json.loads(answer) if answer else [None, ended_by or -1, 1e9, 1e9]), flush=True)


def _child(call: Any, arguments: list[Any], send: int) -> None:
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
        before, started = _memory_mb("VmRSS"), time.process_time()
        try:
            said = call(*arguments)
        except MemoryError:
            said = "MemoryError"
        answer = [said, 0, max(_memory_mb("VmHWM") - before, 0.0), time.process_time() - started]
        with os.fdopen(send, "w") as pipe:
            pipe.write(json.dumps(answer))
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    _main()
