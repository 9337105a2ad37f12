"""The part of `benchmarks.compact` on S3: both sides compact copies of one table behind a proxy that holds requests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.partition_copies import BUCKET
from benchmarks.read import timed
from benchmarks.results import Bar
from benchmarks.servers import KEY, REGION, S3
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.spark.opening import open_table
from lakesweep.spark.rows.rewriting import SparkRewriting
from lakesweep.storage.open import StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.compact import Peer

LATENCY_MS = 20
MAX_TIME, MAX_REQUESTS = 0.7, 3


def use_credentials() -> None:
    """Let this process and its children reach the server here, and nothing of the user's account."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _compact(location: str, endpoint: str, session: SparkSession) -> RunReport:
    settings = StoreSettings(endpoint, REGION)
    opened = open_table(location, "main", f"{location.rpartition('/db.db')[0]}-control", settings)
    engine = SparkRewriting(lambda: session, opened, settings)
    report = compact(opened, CompactArguments(Catalog("filesystem", has_lock=True)), execute=True, engine=engine)
    if report.status != "done":
        raise SystemExit(f"compact on {location}: {report.status}, {report.refusal}")
    return report


def measure(session: SparkSession, peer: Peer, s3: S3, source: Path, runs: int) -> dict[str, Any]:
    """Let both sides take turns, and count their requests to data files that were there before."""
    s3.client().create_bucket(Bucket=BUCKET)
    times: dict[str, list[tuple[float, float]]] = {"lakesweep": [], "engine": []}
    requests: dict[str, float] = {}
    names = {path.name for path in source.rglob("data-*")}
    for number in range(1 + runs):
        for who, own in times.items():
            place = f"{who}-{number}"
            s3.upload(source, BUCKET, f"{place}/db.db/t")
            location = f"s3://{BUCKET}/{place}/db.db/t"
            s3.reset(LATENCY_MS)
            if who == "lakesweep":
                took = timed(lambda at=location: _compact(at, s3.proxied, session))  # type: ignore[misc]
            else:
                _, took = peer.compact(location)
            read = sum(path.rpartition("/")[2] in names for _, path in s3.log())
            s3.reset(0)
            requests[who] = read / len(names)
            if number:
                own.append(took)
            print(f"S3, round {number}: {who} {took[0]:.2f} s, {requests[who]:.2f} requests a file", flush=True)
            if s3.folder is not None:
                shutil.rmtree(s3.folder / BUCKET / place)
    return {"times": times, "requests": requests}


def bars(found: dict[str, Any]) -> list[Bar]:
    """Hold the figures against what was asked for."""
    wall, cpu = ({who: median(each[at] for each in found["times"][who]) for who in found["times"]} for at in (0, 1))
    ratio, requests = wall["lakesweep"] / wall["engine"], found["requests"]
    return [
        Bar(
            f"the first table on S3 + {LATENCY_MS} ms: times the engine's wall clock",
            f"at most {MAX_TIME}",
            f"{ratio:.2f} (CPU {cpu['lakesweep'] / cpu['engine']:.2f})",
            ratio <= MAX_TIME,
        ),
        Bar(
            f"the same: requests for each data file; the engine's are {requests['engine']:.2f}",
            f"at most {MAX_REQUESTS}",
            f"{requests['lakesweep']:.2f}",
            requests["lakesweep"] <= MAX_REQUESTS,
        ),
    ]
