"""Measure the functions as they are built, under Lambda's own runtime client: starts, and what one event costs.

python -m benchmarks.functions [--starts N] [--warm N]
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.results import Bar, bars_json, bars_table, machine, summary, table, write
from benchmarks.servers import PROJECT
from lakesweep.control.state import STATE_FORMAT_VERSION, BranchState
from lakesweep.model.identity import number_of
from tests.support.lambda_runtime import ACCOUNT, LambdaFunction

PYTHON = PROJECT / "build" / "lambda-runtime" / "bin" / "python"
BUILT = PROJECT / "build" / "lambda-functions"
LAYERS = (BUILT / "BaseLayer", BUILT / "PackageLayer")
STARTS = 9
WARM = 50
MAX_INIT_S = 0.18
MAX_TOGETHER_S = 0.35
MAX_WARM_S = 0.015
OWNERS = ("awslambdaric", "aws_lambda_powertools", "botocore", "lakesweep")

ETAG = "x"


def state() -> dict[str, Any]:
    """Return what a pass leaves that has seen snapshot 41 an hour ago."""
    seen = BranchState(
        latest_id=41,
        schema_id=0,
        first_id=1,
        first_old_from_ms=1 << 50,
        retain_min=1,
        retain_max=1000,
        limit=50,
        checked_ms=int(time.time() * 1000) - 3_600_000,
        latest_number=number_of(ETAG),
    )
    return {"format_version": STATE_FORMAT_VERSION, "branches": {"main": dataclasses.asdict(seen)}}


EVENT = {
    "version": "0",
    "detail-type": "Object Created",
    "source": "aws.s3",
    "account": ACCOUNT,
    "detail": {
        "bucket": {"name": "lake"},
        "object": {"key": "warehouse/sales.db/orders/snapshot/snapshot-41", "size": 1, "etag": ETAG},
        "reason": "PutObject",
    },
}
HINT = {
    "format_version": 1,
    "kind": "hint",
    "table": "s3://lake/warehouse/sales.db/orders",
    "branch": "main",
    "snapshot_id": 41,
    "etag": ETAG,
    "hop": 0,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One function with one event."""

    name: str
    function: str
    """Its logical id in the template."""
    body: Mapping[str, Any]
    """Of the message."""
    has_state: bool
    """An earlier pass has left word that nothing is to be done."""
    requests: tuple[str, ...]
    """What is asked of AWS for it."""


CASES = (
    Case("a doubled event", "OnSnapshotWritten", EVENT, True, ("GetObject",)),
    Case("a commit that needs a pass", "OnSnapshotWritten", EVENT, False, ("GetObject", "SendMessage")),
    Case("a doubled hint", "Expire", HINT, True, ("GetObject",)),
)
OTHERS = ("ExecuteBatch", "Sweep", "OnDemand")


class Aws:
    """S3 and SQS that answer at once: the state of the last pass, and that a message was taken."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.has_state = True
        self.requests: list[str] = []

    def environment(self) -> dict[str, str]:
        """Return what a function finds in its environment."""
        return {
            "LAKESWEEP_TABLES": "lake/warehouse",
            "LAKESWEEP_CONTROL": "s3://control/lakesweep",
            "LAKESWEEP_MODE": "delete",
            "LAKESWEEP_POLICY": "",
            "LAKESWEEP_ACCOUNTS": ACCOUNT,
            "LAKESWEEP_MIN_INTERVAL": "1 min",
            "LAKESWEEP_COMMITS_QUEUE": f"{self.url}/{ACCOUNT}/commits",
            "LAKESWEEP_EXPIRE_QUEUE": f"{self.url}/{ACCOUNT}/expire.fifo",
            "LAKESWEEP_EXECUTE_QUEUE": f"{self.url}/{ACCOUNT}/execute",
            "LAKESWEEP_SWEEP_QUEUE": f"{self.url}/{ACCOUNT}/sweep",
            "POWERTOOLS_SERVICE_NAME": "lakesweep",
            "POWERTOOLS_METRICS_NAMESPACE": "Lakesweep",
            "POWERTOOLS_LOG_LEVEL": "INFO",
            # So named, the client is made once, as for AWS; for another S3 it is made again with other settings.
            "AWS_ENDPOINT_URL_S3": f"{self.url}/s3.amazonaws.com",
            "AWS_ENDPOINT_URL_SQS": self.url,
        }


@contextmanager
def aws() -> Iterator[Aws]:
    """Serve it until the end of the block."""

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def do_GET(self) -> None:
            served.requests.append("GetObject")
            if served.has_state:
                self.answer(200, json.dumps(state()), ETag='"1"')
            else:
                self.answer(404, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["MessageBody"]
            served.requests.append(str(self.headers["X-Amz-Target"]).rpartition(".")[2])
            digest = hashlib.md5(message.encode(), usedforsecurity=False).hexdigest()
            self.answer(200, json.dumps({"MessageId": "1", "MD5OfMessageBody": digest, "SequenceNumber": "1"}))

        def answer(self, status: int, body: str, **headers: str) -> None:
            self.send_response(status)  # with the date, which is the clock of the store
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served = Aws(server.server_port)
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()


def batch(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return one message as Lambda gets it from SQS."""
    return {
        "Records": [
            {
                "messageId": "059f36b4-87a3-44ab-83d2-000000000000",
                "receiptHandle": "r",
                "body": json.dumps(body),
                "attributes": {"ApproximateReceiveCount": "1"},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:us-east-1:{ACCOUNT}:queue",
                "awsRegion": "us-east-1",
            }
        ]
    }


def start(function: str, served: Aws, scratch: Path, *options: str) -> LambdaFunction:
    """Return a process of a function, not yet started."""
    return LambdaFunction(PYTHON, BUILT / function, LAYERS, served.environment(), scratch / "log", options=options)


def measure(case: Case, served: Aws, scratch: Path, starts: int, warm: int) -> dict[str, Any]:
    """Start a function so often, and each time hand it the event once and then `warm` times more."""
    found: dict[str, list[float]] = defaultdict(list)
    event = batch(case.body)
    served.has_state = case.has_state
    for number in range(starts + 1):
        with start(case.function, served, scratch) as running:
            served.requests.clear()
            first = running.invoke(event)
            if first.value != {"batchItemFailures": []} or tuple(served.requests) != case.requests:
                raise SystemExit(f"{case}: found {first.value}, requests {served.requests}\n{running.log}")
            first_cpu_s = running.cpu_s - running.init.cpu_s
            before_s = running.cpu_s
            times = [running.invoke(event).seconds for _ in range(warm)]
            warm_cpu_s = (running.cpu_s - before_s) / warm
        if number:  # the first one has the files read from disk
            found["init_s"].append(running.init.seconds)
            found["init_cpu_s"].append(running.init.cpu_s)
            found["first_s"].append(first.seconds)
            found["together_s"].append(running.init.seconds + first.seconds)
            found["first_cpu_s"].append(first_cpu_s)
            found["warm_s"].append(statistics.median(times))
            found["warm_cpu_s"].append(warm_cpu_s)
    return _row(case.function, found) | {"event": case.name, "requests": list(case.requests)}


def measure_start(function: str, served: Aws, scratch: Path, starts: int) -> dict[str, Any]:
    """Start a function so often, without an event."""
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(starts + 1):
        with start(function, served, scratch) as running:
            if number:
                found["init_s"].append(running.init.seconds)
                found["init_cpu_s"].append(running.init.cpu_s)
    return _row(function, found)


def _row(function: str, found: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    # Milliseconds count here, and `summary` rounds to three places.
    figures = {f"{name[:-2]}_ms": summary([value * 1000 for value in values]) for name, values in found.items()}
    return {"function": function, **figures}


def parts_of_start(function: str, served: Aws, scratch: Path, starts: int) -> dict[str, Any]:
    """Tell what a start imports: milliseconds and modules by the package that asked for them, and the dearest modules.

    A module of the standard library belongs to the first package that imports it. Each module's time is the median of
    all starts, so that one that was interrupted does not count.
    """
    times: dict[str, list[float]] = defaultdict(list)
    owners: dict[str, str] = {}
    for _ in range(starts):
        with start(function, served, scratch, "-Ximporttime") as running:
            for name, owner, own_ms in _imports(running.init.log):
                times[name].append(own_ms)
                owners[name] = owner
    medians = {name: statistics.median(values) for name, values in times.items()}
    by_owner: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for name, own_ms in medians.items():
        total, count = by_owner[owners[name]]
        by_owner[owners[name]] = (total + own_ms, count + 1)
    dearest = sorted(medians.items(), key=lambda item: -item[1])[:12]
    return {
        "function": function,
        "packages": {
            owner: {"ms": round(total, 1), "modules": count}
            for owner, (total, count) in sorted(by_owner.items(), key=lambda item: -item[1][0])
        },
        "dearest": {name: round(own_ms, 1) for name, own_ms in dearest},
    }


def _imports(log: str) -> Iterator[tuple[str, str, float]]:
    """Yield each module with the package that asked for it and its own milliseconds."""
    lines = re.findall(r"^import time: +(\d+) \| +\d+ \| ( *)(\S+)$", log, re.MULTILINE)
    above: list[str] = []
    # A module's line comes after those of what it imports, which are indented further; backwards it comes before them.
    for own_us, indent, name in reversed(lines):
        package = name.split(".")[0]
        depth = len(indent) // 2
        del above[depth:]
        owner = package if package in OWNERS else above[-1] if above else "Python itself"
        above += [owner] * (depth + 1 - len(above))
        yield name, owner, int(own_us) / 1000


def _ms(figure: Mapping[str, Any]) -> str:
    def short(value: float) -> str:
        return f"{value:.0f}" if value >= 20 else f"{value:.1f}"

    return f"{short(figure['median'])} ({short(min(figure['values']))} to {short(max(figure['values']))})"


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="Start the built functions and hand them events.")
    parser.add_argument("--starts", type=int, default=STARTS)
    parser.add_argument("--warm", type=int, default=WARM, help="invocations after the first")
    asked = parser.parse_args()
    if not PYTHON.exists() or not BUILT.is_dir():
        raise SystemExit("benchmarks: expected the built functions; run `make bench-functions`")
    setting = machine() | {
        "runtime": _told("import platform; print('Python', platform.python_version())"),
        "runtime_client": _told("import importlib.metadata as m; print('awslambdaric', m.version('awslambdaric'))"),
        "priority": _priority(),
    }
    with tempfile.TemporaryDirectory() as folder, aws() as served:
        scratch = Path(folder)
        rows = []
        for case in CASES:
            print(f"{case.function}: {case.name}", flush=True)
            rows.append(measure(case, served, scratch, asked.starts, asked.warm))
        others = [measure_start(function, served, scratch, asked.starts) for function in OTHERS]
        parts = [
            parts_of_start(function, served, scratch, asked.starts) for function in ("OnSnapshotWritten", "Expire")
        ]
    setting["load_at_end"] = [round(load, 1) for load in os.getloadavg()]
    bars = [
        *(_bar(f"start of {row['function']}", MAX_INIT_S, row["init_ms"]) for row in (rows[0], rows[2])),
        *(
            _bar(f"{row['function']}, {row['event']}, with its start", MAX_TOGETHER_S, row["together_ms"])
            for row in rows
            if row["requests"] == ["GetObject"]
        ),
        *(_bar(f"{row['function']}, {row['event']}, warm", MAX_WARM_S, row["warm_ms"]) for row in rows),
    ]
    document = {"starts": rows + others, "parts": parts, "bars": bars_json(bars)}
    is_whole = asked.starts >= 7 and asked.warm >= WARM
    write(
        "functions",
        "Start the functions",
        setting,
        document,
        _text(rows, others, parts, bars, asked),
        is_whole=is_whole,
    )


def _bar(what: str, most_s: float, figure: Mapping[str, Any]) -> Bar:
    median = figure["median"]
    return Bar(what, f"at most {most_s * 1000:.0f} ms", f"{median:.1f} ms", median <= most_s * 1000)


def _priority() -> str:
    """Tell how this is preferred to the other load. Linux may weigh whole sessions, and niceness only within one."""
    group = Path("/proc/self/autogroup")
    return f"nice {os.nice(0)}, session " + (
        group.read_text().split(maxsplit=1)[1].strip() if group.exists() else "any"
    )


def _told(code: str) -> str:
    return subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _text(
    rows: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
    parts: Sequence[Mapping[str, Any]],
    bars: Sequence[Bar],
    asked: argparse.Namespace,
) -> Iterator[str]:
    yield (
        "The layers and functions as `make build` leaves them, compiled, in a Python that has awslambdaric and boto3 "
        f"and nothing else. Medians of {asked.starts} processes, with the range, in milliseconds. One more goes "
        "before them, so that the files are in memory. CPU is the processor time of the process; other load on the "
        "machine changes it less than wall time."
    )
    yield bars_table(bars)
    yield (
        "## Starts\n\nFrom the start of the process until it asks for its first event. On Lambda the sandbox is made "
        "and the layers are fetched before that."
    )
    yield table(
        ("function", "wall ms", "CPU ms"),
        [(row["function"], _ms(row["init_ms"]), _ms(row["init_cpu_ms"])) for row in (rows[0], rows[2], *others)],
    )
    yield (
        "## Events\n\nFrom handing over the event to its answer. S3 and SQS are a server in another process that "
        "answers at once, and nothing is subtracted: signing, sending and parsing the requests is in them, and so "
        "is the runtime client. The first event also imports Powertools' batches, and what sends the requests. "
        f"Warm is the median of the {asked.warm} events after it. There is no TLS here: on Lambda the "
        "first request to each service loads certificates too."
    )
    yield table(
        ("function", "event", "requests", "first, wall ms", "first, CPU ms", "warm, wall ms", "warm, CPU ms"),
        [
            (
                row["function"],
                row["event"],
                ", ".join(row["requests"]),
                *(_ms(row[name]) for name in ("first_ms", "first_cpu_ms", "warm_ms", "warm_cpu_ms")),
            )
            for row in rows
        ],
    )
    yield (
        "## What a start is made of\n\nWall time by `-X importtime`, which itself makes imports slower, each module's "
        "median. What a package imports of the standard library counts as its own, unless another had imported it "
        "before."
    )
    for part in parts:
        packages = table(
            (part["function"], "ms", "modules"),
            [(name, found["ms"], found["modules"]) for name, found in part["packages"].items()],
        )
        dearest = ", ".join(f"`{name}` {ms}" for name, ms in part["dearest"].items())
        yield f"{packages}\n\nThe dearest modules, without what they import: {dearest}."


if __name__ == "__main__":
    main()
