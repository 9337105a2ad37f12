"""Plan the removal of orphan files by fan-out: on a million objects, and once more after a commit.

    python -m benchmarks.fan_out [--objects 1000000] [--max-load 3]

A synthetic table (`benchmarks/orphan_tables.py`) lies on a local S3 server, behind a proxy that counts. The functions
of the scan are processes of their own, which handle one message after another; between them is the sending side of SQS
(`benchmarks/sqs_server.py`), with its delays. The same table is planned by one process as well, and both plans have to
say the same.

The newest snapshot is hidden from the first scan. The second scan finds it as a commit that came since.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.function_process import FunctionProcess, Invocation
from benchmarks.orphan_tables import Shape, note_etag, synthetic_table
from benchmarks.orphans import BUCKET, MAX_LOAD, PATIENCE_S, Quiet
from benchmarks.ours import command_line
from benchmarks.results import Bar, bars_json, bars_table, machine, mib, table, write
from benchmarks.servers import PROJECT, S3, SCRATCH, environment, s3_server
from benchmarks.sqs_server import ACCOUNT, Message, SqsServer, sqs_server
from benchmarks.tables import FOLDER as TABLES
from lakesweep.control.area import table_key
from lakesweep.model.prices import request_units, usd_of

OBJECTS = 1_000_000
ROOTS = 100
PARTITIONS_OF = 1000
"""A partition has so many objects."""
WORKERS = 2
"""Processes of the worker: as many as the machine has cores."""
TABLE = "warehouse/scan.db"
CONTROL = "control"
QUEUES: Mapping[str, tuple[str, int, float, float]] = {
    "scan": ("orphan_scan", 900, 1.0, 1024 / 1769),
    "orphan": ("orphan_worker", 120, 0.5, 512 / 1769),
}
"""Queue -> function, its seconds, its GB, and its share of a core."""
MAX_RECEPTIONS = 5
MAX_WALL_S = 1800
WITHIN_REQUESTS, WITHIN_COST = 0.05, 0.20
MAX_DECODED = 0.02
MAX_MIB = 512


@dataclass(slots=True)
class Scan:
    """What a scan took."""

    name: str
    objects: int
    seconds: float = 0.0
    invocations: dict[str, list[Invocation]] = field(default_factory=dict)
    wire: dict[str, int] = field(default_factory=dict)
    sqs: dict[str, int] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    local_s: float = 0.0
    local_requests: int = 0
    different: list[str] = field(default_factory=list)
    load: float = 0.0

    @property
    def requests(self) -> int:
        """Return all requests to S3, as the server's proxy counted them."""
        return sum(self.wire.values())

    @property
    def estimated(self) -> int:
        """Return as how many they were estimated."""
        return sum(self.result["estimate"]["requests"].values())

    @property
    def most(self) -> int:
        """Return how many there may be."""
        found = self.result
        return math.ceil(self.objects / 1000) + 5 * found["roots"] + found["manifests"] + found["spill_parts"]

    @property
    def decoded(self) -> float:
        """Return the share of entries that were decoded."""
        return float(self.result["entries_decoded"] / self.result["entries"])

    @property
    def usd(self) -> float:
        """Return the price of what was counted; of seconds, what they would be on Lambda's share of a core."""
        gb_s = 0.0
        for name, _, gigabytes, share in QUEUES.values():
            for each in self.invocations[name]:
                gb_s += gigabytes * (max(0.0, each.seconds - each.cpu_s) + each.cpu_s / share)
        count = sum(map(len, self.invocations.values()))
        kinds = Counter({"get": self.wire.get("GET", 0) + self.wire.get("HEAD", 0), "put": self.wire.get("PUT", 0)})
        kinds["list"] = self.wire.get("LIST", 0)
        units = {
            **request_units(kinds),
            "lambda_request": count,
            "lambda_gb_second": gb_s,
            "sqs_standard": sum(self.sqs.values()),
            "xray_trace": count,
        }
        return usd_of(units)

    def peak_kib(self, function: str) -> int:
        """Return the most that one invocation of a function had in memory."""
        return max(each.peak_kib for each in self.invocations[function])

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "name": self.name,
            "objects": self.objects,
            "wall_s": round(self.seconds, 1),
            "requests": {"all": self.requests, "estimated": self.estimated, "allowed": self.most, "wire": self.wire},
            "sqs": self.sqs,
            "functions": {
                name: {
                    "invocations": len(found),
                    "seconds": round(sum(each.seconds for each in found), 1),
                    "longest_s": round(max(each.seconds for each in found), 1),
                    "cpu_s": round(sum(each.cpu_s for each in found), 1),
                    "peak_mib": round(self.peak_kib(name) / 1024),
                }
                for name, found in self.invocations.items()
            },
            "usd": {"counted": round(self.usd, 5), "estimated": self.result["estimate"]["usd"]},
            "decoded": round(self.decoded, 5),
            "local": {"wall_s": round(self.local_s, 1), "requests": self.local_requests},
            "different": self.different,
            "load": self.load,
            "result": self.result,
        }

    def cells(self) -> list[object]:
        """Return its line of the page."""
        worker, scan = (self.invocations[name] for name in ("orphan_worker", "orphan_scan"))
        result = self.result
        return [
            self.name,
            f"{self.objects:,}",
            f"{self.seconds:.0f}",
            ", ".join(f"{kind} {count}" for kind, count in result["tasks"].items()),
            len(scan),
            self.requests,
            self.estimated,
            self.most,
            f"{result['entries_decoded']:,} of {result['entries']:,}",
            mib(self.peak_kib("orphan_worker")),
            mib(self.peak_kib("orphan_scan")),
            f"{max(each.seconds for each in worker):.0f}",
            f"{sum(each.cpu_s for each in (*worker, *scan)):.0f}",
            f"{self.usd:.4f}",
            f"{result['estimate']['usd']:.4f}",
            f"{self.local_s:.0f}",
            "equal" if not self.different else f"**different**: {', '.join(self.different)}",
            self.load,
        ]


class System:
    """The functions of the scan, their queues, and who hands messages from these to those."""

    def __init__(self, sqs: SqsServer, s3: S3) -> None:
        self._sqs = sqs
        self._s3 = s3
        self._invocations: dict[str, list[Invocation]] = {}
        self._is_over = threading.Event()
        self._problem: BaseException | None = None

    def settings(self) -> dict[str, str]:
        """Return the environment of the functions."""
        return {
            "AWS_ENDPOINT_URL_S3": self._s3.proxied,
            "AWS_ENDPOINT_URL_SQS": self._sqs.endpoint,
            "LAKESWEEP_TABLES": f"{BUCKET}/warehouse",
            "LAKESWEEP_CONTROL": f"s3://{BUCKET}/{CONTROL}",
            "LAKESWEEP_MODE": "delete",
            "LAKESWEEP_POLICY": "",
            "LAKESWEEP_ACCOUNTS": ACCOUNT,
            "LAKESWEEP_MIN_INTERVAL": "1 min",
            "LAKESWEEP_SCAN_QUEUE": self._sqs.url("scan"),
            "LAKESWEEP_ORPHAN_QUEUE": self._sqs.url("orphan"),
            "LAKESWEEP_EXECUTE_QUEUE": self._sqs.url("execute"),
            "POWERTOOLS_SERVICE_NAME": "lakesweep",
            "POWERTOOLS_METRICS_NAMESPACE": "Lakesweep",
            "POWERTOOLS_TRACE_DISABLED": "true",
        }

    def run(self, scan: Scan, location: str, scan_id: str, cutoff_ms: int) -> None:
        """Have a scan made, and note what it took."""
        self._is_over.clear()
        self._invocations = {name: [] for name, *_ in QUEUES.values()}
        self._sqs.requests.clear()
        self._s3.reset(0)
        message = {
            "format_version": 1,
            "kind": "orphan_scan",
            "hop": 0,
            "table": location,
            "branch": "main",
            "scan_id": scan_id,
            "arguments": {"engine": "lambda", "older_than": str(cutoff_ms)},
            "execute": False,
            "manual": True,
            "step": 0,
        }
        with contextlib.ExitStack() as stack:
            threads = []
            for queue in ("scan", *["orphan"] * WORKERS):
                name, seconds, *_ = QUEUES[queue]
                process = stack.enter_context(FunctionProcess(name, seconds, self.settings()))
                threads.append(threading.Thread(target=self._serve, args=(queue, process)))
            start = time.perf_counter()
            self._sqs.put("scan", json.dumps(message))
            for thread in threads:
                thread.start()
            name = f"{CONTROL}/scans/{table_key(location)}/{scan_id}/result.json"
            result: dict[str, Any] | None = None
            while result is None and self._problem is None and time.perf_counter() - start < MAX_WALL_S:
                self._is_over.wait(0.5)
                result = self._find(name)
            scan.seconds = time.perf_counter() - start
            self._is_over.set()
            for thread in threads:
                thread.join()
        if self._problem is not None or result is None or result["status"] not in ("planned", "nothing_to_do"):
            raise SystemExit(f"{scan.name}: no plan after {scan.seconds:.0f} s: {self._problem} {result}")
        scan.result, scan.invocations = result, self._invocations
        scan.wire, scan.sqs = self._s3.counts(), dict(self._sqs.requests)

    def _find(self, name: str) -> dict[str, Any] | None:
        assert self._s3.folder is not None
        path = self._s3.folder / BUCKET / name  # past the proxy, which counts
        with contextlib.suppress(FileNotFoundError, ValueError):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return None

    def _serve(self, queue: str, process: FunctionProcess) -> None:
        try:
            while not self._is_over.is_set():
                message = self._sqs.receive(queue, 0.5)
                if message is not None:
                    self._invoke(queue, process, message)
        except BaseException as error:
            self._problem = error
            self._is_over.set()

    def _invoke(self, queue: str, process: FunctionProcess, message: Message) -> None:
        record = {
            "messageId": f"m{message.number}",
            "receiptHandle": "r",
            "body": message.body,
            "attributes": {"ApproximateReceiveCount": str(message.receptions)},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}",
            "awsRegion": "us-east-1",
        }
        done = process({"Records": [record]})
        self._invocations[process.name].append(done)
        if not done.failed:
            self._sqs.delete()
            return
        if message.receptions >= MAX_RECEPTIONS:
            raise SystemExit(f"{process.name}: failed {MAX_RECEPTIONS} times\n{done.log[-3000:]}")
        self._sqs.give_back(queue, message, 5.0)


_FACTS = """
import json, sys
from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_plan
from lakesweep.storage.open import StoreSettings, open_store
table, control, endpoint, plan_id = sys.argv[1:]
settings = StoreSettings(endpoint_url=endpoint, region="us-east-1")
area = ControlArea(open_store(control, settings=settings), table)
plan = load_plan(area, plan_id)
names = ("content_hash", "action_count", "kept", "kept_bytes", "warnings", "findings", "needs_confirmation",
         "roots_seen", "snapshots", "policy", "arguments")
facts = {name: getattr(plan.header, name) for name in names}
facts["bytes"] = plan.delete_bytes
facts["actions"] = sorted((it.path, it.kind, it.phase, it.size_bytes, it.etag, it.reason) for it in plan.actions)
print(json.dumps(facts, sort_keys=True))
"""
"""What the engines have to say alike (`tests/support/engines_compared.py`). In a process that has the credentials."""


def facts_of(location: str, control: str, s3: S3, plan_id: str) -> dict[str, Any]:
    """Return what a stored plan says."""
    command = [sys.executable, "-c", _FACTS, location, control, s3.direct, plan_id]
    done = subprocess.run(command, cwd=PROJECT, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextlib.contextmanager
def hidden(folder: Path, snapshot_id: int) -> Iterator[None]:
    """Hide the newest snapshot of a table."""
    latest, document = folder / "snapshot" / "LATEST", folder / "snapshot" / f"snapshot-{snapshot_id}"
    aside = folder.parent / "hidden"
    times = latest.stat().st_mtime
    document.rename(aside)
    latest.unlink()  # it is one file with the original
    for number in (snapshot_id - 1, snapshot_id):
        latest.write_text(str(number))
        note_etag(latest)
        os.utime(latest, (times, times))
        if number < snapshot_id:
            yield
    aside.rename(document)


def measure(s3: S3, sqs: SqsServer, shape: Shape, quiet: Quiet) -> list[Scan]:
    """Scan a table, and once more when a commit came."""
    folder = s3.link(synthetic_table(TABLES, shape), BUCKET, f"{TABLE}/{shape.name}")
    location = f"s3://{BUCKET}/{TABLE}/{shape.name}"
    system = System(sqs, s3)
    cutoff_ms = int(time.time() * 1000) - 30 * 86_400_000
    scans = []
    for number, name in enumerate(("first", "again, after a commit")):
        with hidden(folder, max(ROOTS, 100)) if number == 0 else contextlib.nullcontext():
            objects = sum(1 for path in folder.rglob("*") if path.is_file())
            scan = Scan(name, objects, load=quiet.wait())
            system.run(scan, location, f"bench-{number}", cutoff_ms)
            print(f"  {name}: {scan.seconds:.0f} s, {scan.wire}, {scan.result['tasks']}", flush=True)
            _compare(s3, scan, location, number, cutoff_ms)
        scans.append(scan)
    shutil.rmtree(folder)
    return scans


def _compare(s3: S3, scan: Scan, location: str, number: int, cutoff_ms: int) -> None:
    """Plan with one process, and note what it says otherwise."""
    control = f"s3://{BUCKET}/control-local-{number}"
    words = ["remove-orphan-files", location, "--older-than", str(cutoff_ms), "--control", control]
    local = command_line([*words, "--endpoint-url", s3.direct, "--engine", "local"])
    scan.local_s, scan.local_requests = local.seconds, sum(local.document["requests"].values())
    expected = facts_of(location, control, s3, local.document["plan_id"])
    found = facts_of(location, f"s3://{BUCKET}/{CONTROL}", s3, scan.result["plan_id"])
    scan.different = [name for name in expected if expected[name] != found[name]]
    print(f"  local: {local.seconds:.0f} s; different: {scan.different or 'nothing'}", flush=True)


def judge(scans: Sequence[Scan]) -> list[Bar]:
    """Hold the figures against what was asked for."""
    bars = []
    for scan in scans:
        what = f"{scan.name}, {scan.objects:,} objects"
        bars.append(
            Bar(
                f"{what}: requests",
                f"at most K/1000 + 5 roots + manifests + spill parts = {scan.most:,}",
                f"{scan.requests:,}",
                scan.requests <= scan.most,
            )
        )
        off = scan.requests / scan.estimated - 1
        bars.append(
            Bar(
                f"{what}: requests by the estimate",
                f"{scan.estimated:,}, within {WITHIN_REQUESTS:.0%}",
                f"{off:+.1%}",
                abs(off) <= WITHIN_REQUESTS,
            )
        )
        usd = scan.result["estimate"]["usd"]
        off = scan.usd / usd - 1
        bars.append(
            Bar(
                f"{what}: USD by the estimate",
                f"{usd:.4f}, within {WITHIN_COST:.0%}",
                f"{scan.usd:.4f}, {off:+.1%}",
                abs(off) <= WITHIN_COST,
            )
        )
        for function in ("orphan_worker",):
            peak = scan.peak_kib(function) / 1024
            bars.append(Bar(f"{what}: worker's peak MiB", f"at most {MAX_MIB}", f"{peak:.0f}", peak <= MAX_MIB))
    again = scans[-1]
    bars.append(
        Bar(
            f"{again.name}: entries decoded",
            f"at most {MAX_DECODED:.0%}",
            f"{again.decoded:.2%}",
            again.decoded <= MAX_DECODED,
        )
    )
    are_equal = not any(scan.different for scan in scans)
    return [
        *bars,
        Bar("plans of functions and of one process", "equal", "equal" if are_equal else "different", are_equal),
    ]


def page(scans: Sequence[Scan], server: str) -> list[str]:
    """Return what the page tells."""
    head = ["scan", "objects", "wall s", "tasks", "turns", "requests", "estimated", "allowed", "entries decoded"]
    head += [
        "worker MiB",
        "scan MiB",
        "longest task s",
        "CPU s",
        "USD",
        "estimated USD",
        "local: wall s",
        "plans",
        "load",
    ]
    by_step = [
        table(
            ["step", "GET", "LIST", "PUT"],
            [
                [step, counts.get("get", 0), counts.get("list", 0), counts.get("put", 0)]
                for step, counts in scan.result["by_step"].items()
            ],
        )
        for scan in scans
    ]
    first = scans[0].result
    return [
        "## Scans",
        f"Planning alone: nothing is carried out. {WORKERS} processes are workers and one takes the turns, each warm "
        "from its second message on, so starts are not in the figures. Delays of messages are real, and part of the "
        "wall time. "
        "Requests are those of all functions, counted by a proxy before the S3 server, which holds nothing back "
        f"({server}, on the same two cores). Peaks are of single invocations. The price is that of requests, messages, "
        "invocations and seconds by the list; CPU seconds of this machine are turned into those of Lambda's share of a "
        "core. *Local* is `--engine local` in a fresh process. Equal plans have the same hash, and say the same of "
        "what stays, of warnings and of findings.",
        table(head, [scan.cells() for scan in scans]),
        f"The first scan finds {first['roots']} roots, {first['manifests']} manifests with {first['entries']:,} "
        f"entries, and has {first['spill_parts']} spill parts read. Its requests by step, as the functions count them:",
        by_step[0],
        "And those of the scan after the commit:",
        by_step[-1],
    ]


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=OBJECTS, help="another number writes to build/")
    parser.add_argument("--max-load", type=float, default=MAX_LOAD)
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, help="seconds to wait for a quiet machine, in all"
    )
    given = parser.parse_args()
    setting = machine()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    shape = Shape(given.objects, max(1, given.objects // PARTITIONS_OF), ROOTS)
    with s3_server() as s3, sqs_server() as sqs:
        setting["s3_server"] = s3.name
        s3.client().create_bucket(Bucket=BUCKET)
        scans = measure(s3, sqs, shape, Quiet(given.max_load, given.patience))
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    bars = judge(scans)
    document = {"scans": [scan.to_json() for scan in scans], "bars": bars_json(bars)}
    text = ["## What was asked for", bars_table(bars), *page(scans, str(setting["s3_server"]))]
    is_whole = given.objects == OBJECTS
    write("fan_out", "Orphan files by fan-out", setting, document, text, is_whole=is_whole)


if __name__ == "__main__":
    main()
