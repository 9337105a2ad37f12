"""What a scan for orphan files on EMR Serverless would take and cost, projected from benchmarks/results/spark.json.

Every stage does the same for each object or entry of a manifest, and the shuffle sorts partitions of a bounded size, so
the time of a stage is taken as linear in the objects. What was measured is a second scan of a session on two cores that
had nothing else to do, against a server without latency on the same two cores: its share is in the figures, and the
wait for S3 is not. It is added for LIST, which goes page after page in each task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.usage import Usage, dollars, requests

RESULTS = Path(__file__).resolve().parent / "results" / "spark.json"
MEASURED = 1_000_000
CORES = 2
"""Of the machine that it was measured on."""
SIZES = ((100_000_000, 16, 4), (1_000_000_000, 64, 4))
"""Objects, executors, and cores of each: those of docs/spark.md."""
GB_A_CORE = 3.0
"""8 GiB and 4 GiB of overhead for four cores."""
LIST_WAIT_S = 0.03
"""Assumed: until a page of S3 begins to come."""
START_S = 120
"""Assumed: until executors are there."""
STAGES = {"roots": "roots and manifests", "listing": "listing", "match": "match and plan"}


@dataclass(frozen=True, slots=True)
class Projection:
    """A scan of so many objects."""

    objects: int
    executors: int
    cores: int
    stage_core_s: Mapping[str, float]
    requests: Mapping[str, int]

    @property
    def wall_s(self) -> float:
        """Return how long it takes with all executors busy."""
        return START_S + sum(self.stage_core_s.values()) / (self.executors * self.cores)

    @property
    def usage(self) -> Usage:
        """Return what is paid for. The driver has four cores, too; all are paid for from start to end."""
        core_hours = (self.executors + 1) * self.cores * self.wall_s / 3600
        emr = Usage({"emr_vcpu_hour": core_hours, "emr_gb_hour": core_hours * GB_A_CORE})
        return emr + requests(self.requests)


def measured() -> dict[str, Any]:
    """Return the scan of a million objects."""
    scans = json.loads(RESULTS.read_text(encoding="utf-8"))["scans"]
    found: dict[str, Any] = next(scan for scan in scans if scan["objects"] == MEASURED)
    return found


def project(scan: Mapping[str, Any], objects: int, executors: int, cores: int) -> Projection:
    """Return what so many objects would take."""
    times = objects / scan["objects"]
    spark = scan["spark"]
    core_s = {stage: spark["stages_ms"][stage] / 1000 * CORES * times for stage in STAGES}
    requests = {kind: round(count * times) for kind, count in spark["requests"].items()}
    core_s["listing"] += requests["list"] * LIST_WAIT_S
    return Projection(objects, executors, cores, core_s, requests)


def table() -> str:
    """Return the table of docs/cost.md."""
    scan = measured()
    found = [project(scan, *size) for size in SIZES]
    local = scan["spark"]["stages_ms"]
    rows = [("", "measured: 10^6 objects, 2 cores", *(f"10^{len(str(each.objects)) - 1} objects" for each in found))]
    rows += [
        (f"{name}: core hours", f"{local[stage] / 1000 * CORES / 3600:.3f}", *(_hours(each, stage) for each in found))
        for stage, name in STAGES.items()
    ]
    rows.append(("executors of 4 cores", "none", *(str(each.executors) for each in found)))
    rows.append(
        ("wall time", f"{sum(local.values()) / 1000:.0f} s", *(f"{each.wall_s / 60:.0f} min" for each in found))
    )
    for kind in ("list", "get", "put"):
        made = scan["spark"]["requests"].get(kind, 0)
        rows.append((f"{kind.upper()} requests", _count(made), *(_count(each.requests.get(kind, 0)) for each in found)))
    rows.append(("EMR Serverless, USD", "", *(f"{_part(each, 'emr'):.2f}" for each in found)))
    rows.append(("S3 requests, USD", "", *(f"{_part(each, 's3'):.2f}" for each in found)))
    rows.append(("**in all, USD a scan**", "", *(f"**{dollars(each.usage):.2f}**" for each in found)))
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"| --- |{' ---: |' * (len(rows[0]) - 1)}", *body])


def _hours(each: Projection, stage: str) -> str:
    return f"{each.stage_core_s[stage] / 3600:.1f}"


def _count(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _part(each: Projection, kind: str) -> float:
    units = {name: count for name, count in each.usage.units.items() if name.startswith(kind)}
    return dollars(Usage(units))
