"""Measure the system of template.yaml at work: from a commit to its last delete, and the memory that a pass takes.

    python -m benchmarks.system [--commits N] [--latency-ms N] [--scale 0.2] [--parts latency,memory]

Functions are processes of their own, as built; S3, EventBridge and SQS are in this one (tests/support/system).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks.large_table import COMMITS_A_DAY, LIVE_FILES
from benchmarks.memory import large_table
from benchmarks.results import Bar, bars_json, bars_table, machine, summary, table, write
from tests.support.system.build import Build, build_here
from tests.support.system.deployed import System
from tests.support.system.embedded_aws import Request
from tests.support.table_builder import TableBuilder

PARTS = "latency,memory"
COMMITS = 60
UNMEASURED = 5
LATENCY_MS = 20
TAGS = 100
RETAINED = 10
FILES_A_COMMIT = 10
MERGED_EVERY = 30
"""Commits after which the manifests are merged, as the engine does by itself."""
MAX_P95_S = 2.0
SCALE = 0.2
MAX_PEAK_MIB = 200
EXPIRED_AT_ONCE = 50
"""Of `snapshot.expire.limit`, by itself."""
_OPTIONS = {
    "snapshot.num-retained.min": str(RETAINED),
    "snapshot.num-retained.max": str(RETAINED),
    "snapshot.time-retained": "1 h",
}


# --- from a commit to its last delete ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """The way of one commit; seconds."""

    to_first: float
    """From the event until the first function is invoked."""
    first: float
    """Until its message for the second has been taken."""
    to_second: float
    """Until the second function is invoked."""
    second: float
    """Until the last delete has been answered."""
    second_waits: float
    """Of that, with a request to S3 under way."""
    second_cpu: float
    """Processor time of the second function, its whole invocation."""
    requests: tuple[int, int, int]
    """To S3: of the first function, of the second until its last delete, and after that."""

    @property
    def total(self) -> float:
        """Return the time from the event to the last delete."""
        return self.to_first + self.first + self.to_second + self.second


class Commits:
    """Commits to one table of a running system, each of which expires one snapshot."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._table = TableBuilder(system.backdoor("bench.db/orders"), options=_OPTIONS)
        self._number = 0
        self._event_s = 0.0
        self._answered_s: dict[int, float] = {}
        system.aws.after.append(self._note)
        system.rules["SnapshotWrittenRule"].on_delivery = self._delivered
        mapping = system.mappings["OnSnapshotWritten"]
        mapping.window_s = 0.0  # the bar does not count it
        mapping.pause()
        for _ in range(TAGS + RETAINED):
            self._commit()
            if self._number <= TAGS:
                self._table.tag(f"release-{self._number}")
        mapping.pause(False)
        system.settle()

    def measure(self) -> Way:
        """Commit once, and wait until all is done."""
        system = self._system
        # The last pass has to be longer ago than MinInterval.
        system.clock.skip_to(system.clock.now() + 61)
        logged, invoked, cpu_s = len(system.aws.log), len(system.invocations), system.functions["Expire"].cpu_s()
        self._commit()
        system.settle(skip=False)
        cpu_s = system.functions["Expire"].cpu_s() - cpu_s
        first, second = sorted(system.invocations[invoked:], key=lambda done: done.at_s)
        if (first.function, second.function) != ("OnSnapshotWritten", "Expire") or first.error or second.error:
            raise SystemExit(f"expected two invocations that end well, found {first}, {second}")
        log = system.aws.log[logged:]
        documents = [it.key for it in log if it.operation == "DeleteObject" and "/snapshot/snapshot-" in it.key]
        if len(documents) != 1 or first.is_cold or second.is_cold:
            raise SystemExit(f"expected one snapshot to expire in warm functions, found {documents}")
        (sent,) = (it for it in log if it.operation == "SendMessage")
        of_second = [it for it in log if it.function == "Expire"]
        end_s = max(self._answered_s[it.number] for it in of_second if it.operation.startswith("Delete"))
        before = [it for it in of_second if it.at_s < end_s]
        of_first = sum(it.function == "OnSnapshotWritten" and it is not sent for it in log)
        sent_s = self._answered_s[sent.number]
        return Way(
            to_first=first.at_s - self._event_s,
            first=sent_s - first.at_s,
            to_second=second.at_s - sent_s,
            second=end_s - second.at_s,
            second_waits=_covered((it.at_s, self._answered_s[it.number]) for it in before),
            second_cpu=cpu_s,
            requests=(of_first, len(before), len(of_second) - len(before)),
        )

    def _commit(self) -> None:
        self._number += 1
        old = [f"-F{self._number - 1}-{file}" for file in range(FILES_A_COMMIT)] if self._number > 1 else []
        new = [f"+F{self._number}-{file}" for file in range(FILES_A_COMMIT)]
        self._table.commit(*new, *old, merge_base=self._number % MERGED_EVERY == 0)

    def _delivered(self, _: Mapping[str, Any]) -> bool:
        self._event_s = self._system.clock.now()
        return True

    def _note(self, request: Request) -> None:
        self._answered_s[request.number] = self._system.clock.now()


def _covered(spans: Iterator[tuple[float, float]]) -> float:
    """Return how long at least one of some spans lasts."""
    total, until = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def measure_latency(build: Build, commits: int, latency_ms: float) -> list[Way]:
    """Measure so many commits, after some that warm everything up."""
    with System(build, latency_s=latency_ms / 1000) as system:
        measured = Commits(system)
        for _ in range(UNMEASURED):
            measured.measure()
        ways = []
        for _ in range(commits):
            ways.append(measured.measure())
            print(f"  commit {len(ways)}: {ways[-1].total:.2f} s", flush=True)
        if system.backlog() or system.aws.denied:
            raise SystemExit(f"expected nothing to be left, found {system.backlog()}, {system.aws.denied[:3]}")
    return ways


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the least value that so many percent of all do not exceed."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


# --- memory -----------------------------------------------------------------------------------------------------------


def measure_memory(build: Build, scale: float, limit: int, passes: int) -> Iterator[dict[str, Any]]:
    """Let `Expire` maintain a large table until nothing is due, each pass in a process of its own.

    Args:
        build: Of the functions.
        scale: Of the table.
        limit: Its `snapshot.expire.limit`.
        passes: How many there have to be.
    """
    with System(build) as system:
        rule, events = system.rules["SnapshotWrittenRule"], system.mappings["OnSnapshotWritten"]
        latest = int((large_table(scale) / "snapshot" / "LATEST").read_text())
        # It has been there for long; only its newest commit is news.
        rule.on_delivery = lambda event: event["detail"]["object"]["key"].endswith(f"/snapshot-{latest}")
        events.pause()
        _upload(system, scale, limit)
        events.pause(False)
        for number in range(1, passes + 1):
            done = _next_pass(system)
            outcome = done["outcome"]
            if done["status"] != "done" or outcome["failed"]:
                raise SystemExit(f"expected a pass that deletes, found {done}")
            yield {
                "what": f"at most {limit} snapshots, pass {number}" + (", with its cache" if number > 1 else ", cold"),
                "peak_mib": round(system.functions["Expire"].peak_bytes() / 2**20),
                "cpu_s": round(system.functions["Expire"].cpu_s(), 1),
                "wall_s": round(done["seconds"], 1),
                "deleted": outcome["deleted"],
                "requests": sum(done["requests"].values()),
            }
            system.functions["Expire"].close()
        system.settle()
        if system.functions["ExecuteBatch"].peak_bytes():
            raise SystemExit("expected nothing to be handed over, found that execute_batch was at work")


def _upload(system: System, scale: float, limit: int) -> None:
    store, folder = system.backdoor("bench.db/large"), large_table(scale)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        body = path.read_bytes()
        if path.name == "schema-0":
            schema = json.loads(body)
            schema["options"]["snapshot.expire.limit"] = str(limit)
            body = json.dumps(schema).encode()
        store.put(path.relative_to(folder).as_posix(), body)


def _next_pass(system: System) -> dict[str, Any]:
    """Wait for the next pass that was made, and return what it told of itself."""
    told = sum(1 for _ in _passes(system))
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if len(found := list(_passes(system))) > told:
            return found[-1]
        if not system.functions["Expire"].running:
            system.clock.skip_to(system.clock.now() + 1)  # hints wait for the interval
        time.sleep(0.05)
    raise SystemExit(f"expected a pass, found none: {system.backlog()}, {system.invocations[-3:]}")


def _passes(system: System) -> Iterator[dict[str, Any]]:
    for done in system.invocations:
        if done.error:
            raise SystemExit(f"expected invocations that end well, found {done}")
        yield from ({**line["run"], "seconds": done.seconds} for line in done.lines if "run" in line)


# --- the page ---------------------------------------------------------------------------------------------------------


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="Measure the running system.")
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--latency-ms", type=float, default=LATENCY_MS)
    parser.add_argument("--scale", type=float, default=SCALE, help="of the table of a million files")
    parser.add_argument("--parts", default=PARTS)
    asked = parser.parse_args()
    parts = asked.parts.split(",")
    if "memory" in parts:
        large_table(asked.scale)  # before the load is noted
    build = build_here()
    setting = machine() | {
        "s3": f"moto {version('moto')}",
        "functions_run_in": _told(build, "import platform; print('Python', platform.python_version())"),
        "runtime_client": _told(
            build, "import importlib.metadata as m; print('awslambdaric', m.version('awslambdaric'))"
        ),
    }
    ways, rows = [], []
    if "latency" in parts:
        print(f"commits, {asked.latency_ms:g} ms added to each request", flush=True)
        ways = measure_latency(build, asked.commits, asked.latency_ms)
        setting["load_after_the_commits"] = [round(load, 1) for load in os.getloadavg()]
    if "memory" in parts:
        print(f"memory, {int(LIVE_FILES * asked.scale):,} files", flush=True)
        rows = [
            *measure_memory(build, asked.scale, EXPIRED_AT_ONCE, COMMITS_A_DAY // EXPIRED_AT_ONCE),
            *measure_memory(build, asked.scale, COMMITS_A_DAY, 1),
        ]
        setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    bars = [*_latency_bars(ways), *_memory_bars(rows, asked.scale)]
    figures = {name: summary([getattr(way, name) for way in ways]) for name in ("total", *_NAMES)} if ways else {}
    document = {"commits": len(ways), "seconds": figures, "memory": rows, "bars": bars_json(bars)}
    text = [bars_table(bars), *_latency_text(ways, asked.latency_ms), *_memory_text(rows, asked.scale)]
    is_whole = asked.commits >= COMMITS and (asked.latency_ms, asked.scale, asked.parts) == (LATENCY_MS, SCALE, PARTS)
    write("system", "The system at work", setting, document, text, is_whole=is_whole)


_NAMES = {
    "to_first": "the event, until `on_snapshot_written` is invoked",
    "first": "`on_snapshot_written`, until its message is taken",
    "to_second": "until `expire` is invoked",
    "second": "`expire`, until its last delete is answered",
    "second_waits": "of that, with a request under way",
    "second_cpu": "processor time of `expire`, to its end",
}


def _latency_bars(ways: Sequence[Way]) -> Iterator[Bar]:
    if ways:
        found = percentile([way.total for way in ways], 95)
        yield Bar("commit event to last delete, p95", f"at most {MAX_P95_S:g} s", f"{found:.2f} s", found <= MAX_P95_S)


def _memory_bars(rows: Sequence[Mapping[str, Any]], scale: float) -> Iterator[Bar]:
    for row in rows:
        peak = row["peak_mib"]
        what = f"`expire`, {int(LIVE_FILES * scale):,} live files, {row['what']}"
        yield Bar(what, f"at most {MAX_PEAK_MIB} MiB", f"{peak} MiB", peak <= MAX_PEAK_MIB)


def _latency_text(ways: Sequence[Way], latency_ms: float) -> Iterator[str]:
    if not ways:
        return
    yield (
        f"## From a commit to its last delete\n\n{len(ways)} commits, one after the other, to a table with {TAGS} tags "
        f"and {RETAINED} snapshots retained. Each adds {FILES_A_COMMIT} files and deletes {FILES_A_COMMIT}, and one "
        f"snapshot expires; manifests are merged every {MERGED_EVERY} commits. Functions are warm: {UNMEASURED} "
        f"commits go before. {latency_ms:g} ms are added to each request to S3, in which moto answers from memory; "
        "none to SQS. The time begins when EventBridge hands the event to its queue, and ends when the last "
        "DeleteObjects is answered. The batch window of 10 s is not counted: it was set to nothing here, and so "
        "every batch has one event. The time between commits is skipped, so that `MinInterval` holds none of them "
        "back. S3, SQS and the functions share this machine's processors."
    )
    rows = [("all", *_times([way.total for way in ways]))]
    rows += [(label, *_times([getattr(way, name) for way in ways])) for name, label in _NAMES.items()]
    yield table(("", "p50, s", "p95, s", "least, s", "most, s"), rows)
    counts = Counter(way.requests for way in ways)
    first, second, after = (statistics.median(way.requests[place] for way in ways) for place in range(3))
    yield (
        f"Requests to S3: {first:g} of `on_snapshot_written`, {second:g} of `expire` until the last delete and "
        f"{after:g} after it, which are its ledger, report, lease, cache and state. By number of commits: "
        + ", ".join(f"{' + '.join(map(str, kind))} {count} times" for kind, count in counts.most_common())
        + "."
    )


def _times(values: Sequence[float]) -> tuple[str, ...]:
    chosen = (percentile(values, 50), percentile(values, 95), min(values), max(values))
    return tuple(f"{value:.3f}" for value in chosen)


def _memory_text(rows: Sequence[Mapping[str, Any]], scale: float) -> Iterator[str]:
    if not rows:
        return
    yield (
        f"## Memory\n\nA table of {int(LIVE_FILES * scale):,} live files, 1,000 snapshots and 30 tags, of which a day "
        f"expires: {COMMITS_A_DAY} snapshots, in passes of {EXPIRED_AT_ONCE} (what `snapshot.expire.limit` is by "
        "itself), and all at once. Each pass is made by `expire` in a fresh process, within its timeout; nothing is "
        "handed over. *Cold* is without anything remembered, *with its cache* with what the pass before has left. "
        "The peak is what the kernel says of the process (`VmHWM`). The function has 1024 MB."
    )
    yield table(
        ("", "peak MiB", "wall s", "CPU s", "objects deleted", "requests"),
        [[row[name] for name in ("what", "peak_mib", "wall_s", "cpu_s", "deleted", "requests")] for row in rows],
    )


def _told(build: Build, code: str) -> str:
    return subprocess.run([build.python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
