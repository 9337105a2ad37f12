"""Compactions of `benchmarks.merge` in processes of their own: their start counts, or their memory.

    python -m benchmarks.merge_processes local|spark FULL|MINOR LOCATION

This compacts a table, and prints the peak of the process and what else held memory, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.delete_rows import copied
from benchmarks.engine import HEAP
from benchmarks.merge_tables import compact_by_ours
from benchmarks.read import THREADS, spark_session
from benchmarks.servers import PROJECT
from benchmarks.tables import FOLDER


def starts(classpath: str, source: Path, runs: int) -> dict[str, float]:
    """Return the seconds of a full compaction in a new process, with its start; medians."""
    work = FOLDER / "MergePeer"
    java = ["java", f"-Xmx{HEAP}", "-cp", f"{work}{os.pathsep}{classpath}", "MergePeer", str(THREADS)]
    ours = [sys.executable, "-m", "lakesweep", "compact", "--full", "--execute", "--catalog-type", "filesystem"]
    took: dict[str, list[float]] = {"local": [], "spark": [], "engine": []}
    for _ in range(runs):
        for who, seconds in took.items():
            with copied(source) as location:
                command = {
                    "local": [
                        *ours,
                        "--catalog-lock",
                        "--control",
                        str(location.parents[1] / "control"),
                        str(location),
                    ],
                    "spark": _command("spark", location, full=True),
                    "engine": java,
                }[who]
                order = f"compact {location} FULL\n" if who == "engine" else None
                begin = time.perf_counter()
                done = subprocess.run(command, cwd=PROJECT, capture_output=True, input=order, text=True, check=False)
                seconds.append(time.perf_counter() - begin)
                if done.returncode or (who == "engine" and not done.stdout):
                    raise SystemExit(f"{source.name}, {who}: exit code {done.returncode}\n{done.stderr}")
    print(f"new processes, {source.name}: {took}", flush=True)
    return {who: median(seconds) for who, seconds in took.items()}


def memory(source: Path, engine: str, *, full: bool) -> dict[str, float]:
    """Compact a table in a new process, and return what it had in memory."""
    with copied(source) as location:
        command = _command(engine, location, full=full)
        done = subprocess.run(command, check=True, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"memory, {source.name}, {engine}: {found}", flush=True)
    return found


def _command(engine: str, location: Path, *, full: bool) -> list[str]:
    return [sys.executable, "-m", "benchmarks.merge_processes", engine, "FULL" if full else "MINOR", str(location)]


def main() -> None:
    """Compact, and print the peak of this process in MiB; with Spark also of a worker, and the heap after it."""
    engine, how, location = sys.argv[1:]
    full = how == "FULL"
    if engine == "local":
        compact_by_ours(Path(location), None, full=full)
        print(json.dumps({"python_mib": _peak_mib(os.getpid())}))
        return
    with spark_session() as session:
        jvm: Any = session._jvm
        with peak_of_workers(jvm.java.lang.ProcessHandle.current().pid()) as peaks:
            compact_by_ours(Path(location), session, full=full)
        jvm.System.gc()
        heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
        found = {"python_mib": _peak_mib(os.getpid()), "worker_mib": peaks[0], "heap_mib": heap / 2**20}
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


@contextmanager
def peak_of_workers(jvm: int) -> Iterator[list[float]]:
    """Watch the processes below a JVM, and yield a list that gets the largest peak of one of them, MiB."""
    peaks, is_over = [0.0], threading.Event()

    def watch() -> None:
        is_last = False
        while not is_last:
            is_last = is_over.wait(0.02)
            left = [jvm]
            while left:
                pid = left.pop()
                try:
                    left += [int(child) for each in Path(f"/proc/{pid}/task").glob("*/children")
                             for child in each.read_text().split()]  # fmt: skip
                    if pid != jvm:
                        peaks[0] = max(peaks[0], _peak_mib(pid))
                except (OSError, StopIteration):  # it has just ended
                    continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        is_over.set()
        thread.join()


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
