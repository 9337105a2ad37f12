"""Show a warehouse: every table measured, then again with a few tables changed. Wall time and memory of all processes.

    python -m benchmarks.overview [--tables 200] [--changed 5] [--latency-ms 20] [--runs 1]

One table is written (`benchmarks/orphan_tables.py`): 20 snapshots and 2 000 data files. The warehouse has copies of it
under other names on a local S3 server, behind a proxy that counts requests and holds back each of them. Server and
proxy share the cores with what is measured.

The first overview remembers nothing. Before the second one, a few tables get another snapshot. Memory is the resident
memory of the command and of its processes together, every 20 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.installed import installed
from benchmarks.large_table import File
from benchmarks.orphan_tables import ScannedTable, Shape
from benchmarks.results import Bar, bars_json, bars_table, machine, table, write
from benchmarks.servers import PROJECT, S3, environment, s3_server
from benchmarks.tables import FOLDER

TABLES, CHANGED, LATENCY_MS = 200, 5, 20.0
SHAPE = Shape(2000, 10, 20)
FILE_BYTES = 10 << 20
DATABASES = 10
FIRST_S, AGAIN_S, ALL_MIB = 60.0, 10.0, 400
BUCKET, CONTROL = "lake", "ops"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SAMPLED_S = 0.02


class SizedTable(ScannedTable):
    """The files of a scanned table, each as long as its manifest says. They are sparse, so they take no disk."""

    def _file(self, day: str) -> File:
        file = super()._file(day)
        file["_FILE"]["_FILE_SIZE"] = FILE_BYTES
        return file

    def _create(self, partition: int, name: str) -> None:
        super()._create(partition, name)
        (path,) = self._folder.glob(f"*/bucket-0/{name}")
        times = path.stat()
        os.truncate(path, FILE_BYTES)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@dataclass(slots=True)
class Run:
    """One overview."""

    name: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mib: int = 0
    processes: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)

    @property
    def remembered(self) -> int:
        """Return how many tables were not measured."""
        return sum(each["is_remembered"] for each in self.document["tables"])

    def to_json(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            "what": self.name,
            "wall_s": round(self.seconds, 2),
            "cpu_s": round(self.cpu_seconds, 2),
            "peak_mib_of_all_processes": self.peak_mib,
            "processes": self.processes,
            "requests": self.requests,
            "tables": len(self.document["tables"]),
            "remembered": self.remembered,
            "objects": self.document["totals"]["objects"],
            "bytes": self.document["totals"]["bytes"],
        }


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--changed", type=int, default=CHANGED)
    parser.add_argument("--latency-ms", type=float, default=LATENCY_MS)
    parser.add_argument("--write", metavar="FOLDER", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        SizedTable(Path(asked.write), SHAPE).write()
        return
    where = machine()
    with s3_server() as s3:
        where |= {"server": s3.name, "added_latency_ms": asked.latency_ms, "tables": asked.tables}
        _fill(s3, asked.tables)
        runs = [_run(s3, "first", asked.latency_ms)]
        _change(s3, asked.changed)
        runs.append(_run(s3, f"again, {asked.changed} tables changed", asked.latency_ms))
        fresh = _run(s3, "again, with --fresh", asked.latency_ms, "--fresh")
        runs.append(fresh)
        _compare(runs[1].document, fresh.document)
    first, again = runs[0], runs[1]
    is_whole = (asked.tables, asked.changed, asked.latency_ms) == (TABLES, CHANGED, LATENCY_MS)
    peak = max(run.peak_mib for run in runs)
    bars = [
        Bar("first overview", f"<= {FIRST_S:g} s", f"{first.seconds:.1f} s", first.seconds <= FIRST_S),
        Bar("again, few tables changed", f"<= {AGAIN_S:g} s", f"{again.seconds:.1f} s", again.seconds <= AGAIN_S),
        Bar("memory of all processes", f"<= {ALL_MIB} MiB", f"{peak} MiB", peak <= ALL_MIB),
    ]
    head = ("overview", "wall s", "CPU s", "processes", "peak MiB, all", "requests", "remembered")
    rows = [
        (
            run.name,
            f"{run.seconds:.1f}",
            f"{run.cpu_seconds:.1f}",
            run.processes,
            run.peak_mib,
            sum(run.requests.values()),
            run.remembered,
        )
        for run in runs
    ]
    text = [
        f"{asked.tables} tables, each with 20 snapshots and {SHAPE.objects:,} data files, of which {SHAPE.orphans} are "
        f"orphans, on S3 with {asked.latency_ms:g} ms added to each request. The server and the proxy run on the same "
        "cores. The last two overviews say the same of each table.",
        bars_table(bars),
        table(head, rows),
    ]
    document = {"bars": bars_json(bars), "runs": [run.to_json() for run in runs]}
    write("overview", "Overview of a warehouse", where, document, text, is_whole=is_whole)


def _fill(s3: S3, tables: int) -> None:
    folder = FOLDER / f"overview-{SHAPE.objects}-{SHAPE.partitions}-{SHAPE.roots}"
    if not folder.is_dir():
        work = folder.with_name(f"{folder.name}.new")
        subprocess.run(["rm", "-rf", str(work)], check=True)
        work.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.overview", "--write", str(work)]
        subprocess.run(command, check=True, cwd=PROJECT, env=environment())
        work.rename(folder)
    for bucket in (BUCKET, CONTROL):
        s3.client().create_bucket(Bucket=bucket)
    for number in range(tables):
        s3.link(folder, BUCKET, _table(number))


def _table(number: int) -> str:
    return f"warehouse/db{number % DATABASES}.db/table{number:03}"


def _change(s3: S3, count: int) -> None:
    """Give some tables another snapshot, with the same files."""
    client = s3.client()
    for number in range(count):
        names = [key for key in s3.keys(BUCKET, f"{_table(number)}/snapshot") if key.startswith("snapshot-")]
        newest = max(int(name.removeprefix("snapshot-")) for name in names)
        key = f"{_table(number)}/snapshot/snapshot-"
        document = json.loads(client.get_object(Bucket=BUCKET, Key=f"{key}{newest}")["Body"].read())
        document |= {"id": newest + 1, "timeMillis": document["timeMillis"] + 1}
        client.put_object(Bucket=BUCKET, Key=f"{key}{newest + 1}", Body=json.dumps(document).encode())


def _run(s3: S3, name: str, latency_ms: float, *more: str) -> Run:
    """Run the command in a fresh process, and watch it."""
    python, variables = installed()
    place = [f"s3://{BUCKET}/warehouse", "--control", f"s3://{CONTROL}/lakesweep", "--endpoint-url", s3.proxied]
    command = [python, "-m", "lakesweep", "overview", *place, "--json", *more]
    s3.reset(latency_ms)
    run = Run(name)
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=variables)
    assert child.stdout is not None
    with _watched(child.pid, run), child.stdout as printed:
        text = printed.read()
        _, status, usage = os.wait4(child.pid, 0)
    run.seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    run.cpu_seconds = usage.ru_utime + usage.ru_stime
    run.requests = s3.counts()
    if child.returncode != 0:
        raise SystemExit(f"overview: exit code {child.returncode}\n{text[:2000]}")
    run.document = json.loads(text)
    s3.reset(0)
    print(f"  {name}: {run.seconds:.1f} s, {run.cpu_seconds:.1f} s of CPU, {run.peak_mib} MiB", flush=True)
    return run


@contextlib.contextmanager
def _watched(pid: int, run: Run) -> Iterator[None]:
    """Note the memory of a process and its children, together."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_SAMPLED_S):
            pids = list(_family(pid))
            run.processes = max(run.processes, len(pids))
            run.peak_mib = max(run.peak_mib, sum(map(_resident_bytes, pids)) >> 20)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                for child in (task / "children").read_text().split():
                    yield from _family(int(child))


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def _compare(again: dict[str, Any], fresh: dict[str, Any]) -> None:
    """Stop if what was remembered differs from what is measured."""
    passing = ("measured_ms", "is_remembered")
    both = [
        sorted(({k: v for k, v in each.items() if k not in passing} for each in document["tables"]), key=_place)
        for document in (again, fresh)
    ]
    different = [one["table"] for one, other in zip(*both, strict=True) if one != other]
    if different:
        raise SystemExit(f"overview: {len(different)} tables differ from what was remembered, such as {different[0]}")


def _place(each: dict[str, Any]) -> str:
    return str(each["table"])


if __name__ == "__main__":
    main()
