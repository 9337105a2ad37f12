"""One command of Lakesweep in a process that has its Spark session already: figures as a JSON line on standard output.

python -m benchmarks.spark_worker MASTER DRIVER_MEMORY SCRATCH remove-orphan-files s3://... --engine spark
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.support.spark import environment, settings


def main() -> None:
    """Start a session, run the command, and print what both took."""
    master, memory, scratch, *arguments = sys.argv[1:]
    # Tests start their JVM with settings for short lives, a benchmark with those of every Spark.
    chosen = settings(Path(scratch), {"spark.driver.memory": memory})
    chosen = {name: value for name, value in chosen.items() if "JavaOptions" not in name and "shuffle" not in name}
    os.environ.update(environment(Path(scratch)))
    from pyspark.sql import SparkSession

    from lakesweep.cli.main import main as command

    begin = time.perf_counter()
    session = SparkSession.builder.master(master).config(map=dict(chosen)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    ready, cpu_before = time.perf_counter(), _cpu_s(os.getpid())
    printed = io.StringIO()
    with Workers() as workers:
        with contextlib.redirect_stdout(printed):
            exit_code = command([*arguments, "--json", "--scan-id", "first"])
        done, cpu_after = time.perf_counter(), _cpu_s(os.getpid())
        if exit_code != 0:
            raise SystemExit(f"lakesweep {' '.join(arguments)}: exit code {exit_code}\n{printed.getvalue()[:2000]}")
        # Once more, now that the JVM has compiled what it runs and workers have imported what they need.
        begin_again = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            exit_code = command([*arguments, "--json", "--scan-id", "again"])
        again, cpu_again = time.perf_counter() - begin_again, _cpu_s(os.getpid()) - cpu_after
        if exit_code != 0:
            raise SystemExit(f"the second scan of the session: exit code {exit_code}")
    figures = {
        "session_s": ready - begin,
        "seconds": done - ready,
        "again_s": again,
        "cpu_s": cpu_after - cpu_before,
        "again_cpu_s": cpu_again,
        "driver_kib": _peak_kib(os.getpid()),
        "jvm_kib": max(_peak_kib(pid) for pid in _children(os.getpid()) if _name(pid) == "java"),
        "worker_kib": workers.peak_kib,
        "spark": session.version,
        "document": json.loads(printed.getvalue()),
    }
    session.stop()
    print(json.dumps(figures))


class Workers(threading.Thread):
    """Looks now and then what the largest Python worker has had in memory: they leave before anybody could ask them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_kib = 0
        self._done = threading.Event()

    def run(self) -> None:
        """Look until told to stop."""
        while not self._done.wait(0.2):
            for jvm in _children(os.getpid()):
                for daemon in _children(jvm):
                    self.peak_kib = max([self.peak_kib, *map(_peak_kib, _children(daemon))])

    def __enter__(self) -> Workers:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._done.set()
        self.join()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it may have left
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process and all that it started: driver, JVM, and workers, gone ones too."""
    with contextlib.suppress(OSError):
        # The second field is the program's name in parentheses, and may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(_cpu_s, _children(pid)))
    return 0.0


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _peak_kib(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
