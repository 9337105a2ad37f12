"""Lakesweep as it is measured: a command line in a fresh process, or a worker process that is warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from benchmarks.installed import installed
from benchmarks.results import cpu_seconds
from benchmarks.servers import PROJECT, environment


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended."""

    seconds: float
    """From before it was started until it was gone."""
    cpu_seconds: float
    """Processor time, all threads together."""
    peak_kib: int
    """The most memory it had resident (its ru_maxrss)."""
    document: dict[str, Any]
    """What it printed with `--json`."""


def command_line(arguments: Sequence[str]) -> Finished:
    """Run `lakesweep` with some arguments and `--json` in a fresh process."""
    python, variables = installed()
    command = [python, "-m", "lakesweep", *arguments, "--json"]
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=variables)
    assert child.stdout is not None
    with child.stdout as printed:
        text = printed.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"lakesweep {' '.join(arguments)}: exit code {child.returncode}\n{text[:2000]}")
    return Finished(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, json.loads(text))


class Worker:
    """A process that runs one operation after another."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            env=environment(),
        )

    def __call__(self, **asked: Any) -> dict[str, Any]:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps(asked) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"the worker process ended at {asked}")
        answer: dict[str, Any] = json.loads(line)
        if answer["refusal"]:
            raise SystemExit(f"{asked}: {answer['refusal']}")
        return answer

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has used so far."""
        return cpu_seconds(self._child.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait(timeout=30)
        self._child.stdout.close()
