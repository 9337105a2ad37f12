"""Lakesweep in a process that stays, as a warm worker does: one JSON line in, one JSON line out.

    {"operation": "maintain", "table": "s3://...", "control": "s3://...", "endpoint": "http://...", "execute": true}
    {"status": "done", "seconds": 0.8, "requests": {...}, "peak_kib": 98000, "peak_before_kib": 61000}

The S3 client and its connections stay from one line to the next. Stores, control documents and what was read do not.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store


def peak_kib() -> int:
    """Return the most memory that this process had resident so far."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def run(asked: dict[str, Any]) -> dict[str, Any]:
    """Run one operation, timed from before the table is opened until its report is made."""
    before = peak_kib()
    start = time.perf_counter()
    counter = RequestCounter()
    settings = StoreSettings(endpoint_url=asked.get("endpoint"), region="us-east-1")

    def opened(location: str) -> Store:
        return open_store(parse_location(location), counter=counter, settings=settings)

    store = opened(asked["table"])
    table = Table(
        ref=TableRef(store.location),
        store=store,
        area=ControlArea(opened(asked["control"]), store.location),
        open_store=opened,
        counter=counter,
    )
    report = run_operation(table, asked["operation"], asked.get("arguments", {}), execute=asked["execute"])
    return {
        "seconds": time.perf_counter() - start,
        "status": report.status,
        "deleted": report.outcome.deleted if report.outcome else 0,
        "refusal": str(report.refusal) if report.refusal else None,
        "requests": counter.snapshot(),
        "peak_before_kib": before,
        "peak_kib": peak_kib(),
    }


def main() -> None:
    """Answer line by line until the input ends."""
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
