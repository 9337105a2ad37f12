"""List 100 000 keys through the store, beside boto3's own paginator, on the same server.

python -m benchmarks.list [--runs N] [--keys N]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.results import Bar, bars_json, bars_table, machine, seconds, summary, table, write
from benchmarks.servers import REGION, S3, SCRATCH, environment, s3_server
from lakesweep.storage.open import StoreSettings, open_store

KEYS = 100_000
BUCKET = "bench"
PREFIX = "table"


def through_store(s3: S3) -> int:
    """List through `storage.s3`; return how many keys came."""
    store = open_store(f"s3://{BUCKET}/{PREFIX}", settings=StoreSettings(endpoint_url=s3.proxied, region=REGION))
    return sum(1 for _ in store.list(""))


def through_boto3(client: Any) -> int:
    """List with the paginator of boto3; return how many keys came."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{PREFIX}/")
    return sum(1 for page in pages for _ in page.get("Contents", ()))


def names(count: int) -> list[str]:
    """Return keys as a table has them: partitions, buckets, names of 51 characters."""
    return [
        f"dt=2026-{n % 12 + 1:02}-01/bucket-0/data-{n * 2654435761 % 2**32:08x}-{n:027}-0.parquet" for n in range(count)
    ]


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="List many keys beside boto3.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keys", type=int, default=KEYS, help=f"other than {KEYS} writes to build/")
    asked = parser.parse_args()
    os.environ.update({name: value for name, value in environment().items() if name.startswith("AWS_")})
    setting = machine()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch, s3_server() as s3:
        s3.client().create_bucket(Bucket=BUCKET)
        print(f"putting {asked.keys:,} objects", flush=True)
        for name in names(asked.keys):
            path = Path(scratch) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        s3.upload(Path(scratch), BUCKET, PREFIX)
        client = s3.client(s3.proxied)
        ways: dict[str, Callable[[], int]] = {
            "Lakesweep's store": lambda: through_store(s3),
            "boto3's paginator": lambda: through_boto3(client),
        }
        rows: list[dict[str, Any]] = []
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        requests: dict[str, int] = {}
        for number in range(asked.runs + 1):
            for name, way in ways.items():
                s3.reset(0)
                start, cpu = time.perf_counter(), time.process_time()
                count = way()
                if number:  # the first opens connections
                    times[name].append((time.perf_counter() - start, time.process_time() - cpu))
                requests[name] = sum(s3.counts().values())
                if count != asked.keys:
                    raise SystemExit(f"{name}: expected {asked.keys} keys, found {count}")
        setting |= {"s3_server": s3.name}
    for name in ways:
        wall, cpu_s = (summary([pair[side] for pair in times[name]]) for side in (0, 1))
        rows.append({"who": name, "wall_s": wall, "cpu_s": cpu_s, "requests": requests[name]})
    ratio = rows[1]["cpu_s"]["median"] / rows[0]["cpu_s"]["median"]
    pages = -(-asked.keys // 1000)
    bars = [
        Bar("processor time of boto3 over ours", "at least 1", f"{ratio:.2f}", ratio >= 1),
        Bar("requests", f"at most {pages + 1}", str(rows[0]["requests"]), rows[0]["requests"] <= pages + 1),
    ]
    text = (
        f"{asked.keys:,} keys below one prefix, listed to the end in one process, in turn. CPU is that of the client "
        "alone; wall time is mostly the server's.",
        bars_table(bars),
        table(
            ("", "runs", "wall s", "CPU s", "requests"),
            [(row["who"], asked.runs, seconds(row["wall_s"]), seconds(row["cpu_s"]), row["requests"]) for row in rows],
        ),
    )
    document = {"keys": asked.keys, "rows": rows, "bars": bars_json(bars)}
    write("list", "List many keys", setting, document, text, is_whole=asked.keys == KEYS)


if __name__ == "__main__":
    main()
