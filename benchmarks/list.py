"""List 100 000 keys one page after another and in ranges at once, beside boto3's own paginator, from one server.

python -m benchmarks.list [--runs N] [--keys N]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.parsers import create_parser
from obstore import list as obstore_list
from obstore.store import S3Store

from benchmarks.list_server import BUCKET, PREFIX, Bucket, ListServer, list_server
from benchmarks.results import Bar, bars_json, bars_table, machine, seconds, summary, table, write
from benchmarks.servers import KEY, REGION, environment
from lakesweep.storage.list_page import parse_carefully, parse_page
from lakesweep.storage.listing import FIRST_RANGES, PAGES_OF_RANGE, list_all
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.store import StoredObject

KEYS = 100_000
LATENCY_MS = 20
AT_ONCE = (1, 2, 4, 8, 16)
KEYS_A_SECOND = 200_000
PARSED = 20


@dataclass(frozen=True, slots=True)
class Way:
    """A way to list everything, and under which latency it is measured."""

    name: str
    run: Callable[[], int]
    latency_ms: int = 0
    at_once: int = 1


def ways(server: ListServer, client: Any) -> list[Way]:
    """Return all that is measured."""
    settings = StoreSettings(endpoint_url=server.endpoint, region=REGION)
    store = open_store(f"s3://{BUCKET}/{PREFIX}", settings=settings)
    rust = S3Store(
        BUCKET,
        endpoint=server.endpoint,
        region=REGION,
        access_key_id=KEY,
        secret_access_key=KEY,
        client_options={"allow_http": True},
    )

    def in_ranges(parallel: int) -> Callable[[], int]:
        return lambda: sum(len(page) for page in list_all(store, parallel=parallel))

    def through_boto3() -> int:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{PREFIX}/")
        return sum(1 for page in pages for _ in page.get("Contents", ()))

    def through_obstore() -> int:
        pages = obstore_list(rust, prefix=PREFIX, chunk_size=1000)
        return sum(1 for page in pages for _ in map(_stored, page))

    return [
        Way("Lakesweep, `list`", lambda: sum(1 for _ in store.list(""))),
        Way("Lakesweep, `list_all`", in_ranges(8), at_once=8),
        Way("boto3's paginator", through_boto3),
        Way("obstore, as the same objects", through_obstore),
        *(Way(f"{number} at once", in_ranges(number), LATENCY_MS, number) for number in AT_ONCE),
    ]


def _stored(found: Any) -> StoredObject:
    modified_ms = int(found["last_modified"].timestamp() * 1000)
    key = found["path"].removeprefix(f"{PREFIX}/")
    return StoredObject(key, found["size"], found["e_tag"].strip('"'), modified_ms)


def measure(way: Way, server: ListServer, keys: int, runs: int) -> dict[str, Any]:
    """Run one way some times, after once that opens connections."""
    walls, cpus = [], []
    for number in range(runs + 1):
        server.reset(way.latency_ms)
        start, cpu = time.perf_counter(), time.process_time()
        count = way.run()
        if number:
            walls.append(time.perf_counter() - start)
            cpus.append(time.process_time() - cpu)
        if count != keys:
            raise SystemExit(f"{way.name}: expected {keys} keys, found {count}")
    return {"who": way.name, "wall_s": summary(walls), "cpu_s": summary(cpus), "requests": server.count()}


def parse_ms(parse: Callable[[], object]) -> float:
    """Return what it costs to parse one page, the least of some tries."""
    found = []
    for _ in range(PARSED):
        start = time.process_time()
        parse()
        found.append(time.process_time() - start)
    return round(min(found) * 1000, 2)


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="List many keys beside boto3.")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--keys", type=int, default=KEYS, help=f"other than {KEYS} writes to build/")
    asked = parser.parse_args()
    os.environ.update({name: value for name, value in environment().items() if name.startswith("AWS_")})
    setting = machine()
    with list_server(asked.keys) as server:
        client = plain_client(server.endpoint)
        rows = [measure(way, server, asked.keys, asked.runs) for way in ways(server, client)]
        shape = client.meta.service_model.operation_model("ListObjectsV2").output_shape
    setting |= {"load_at_end": [round(load, 1) for load in os.getloadavg()]}
    body = Bucket(1000).page(0)
    botocore = create_parser("rest-xml")
    page_ms = {
        "ours": parse_ms(lambda: parse_page(body)),
        "expat": parse_ms(lambda: parse_carefully(body)),
        "botocore": parse_ms(lambda: botocore.parse({"body": body, "headers": {}, "status_code": 200}, shape)),
    }
    for row in rows:
        row["keys_per_cpu_s"] = round(asked.keys / row["cpu_s"]["median"])
    plain, beside = rows[:4], rows[4:]
    pages = -(-asked.keys // 1000)
    most = pages + FIRST_RANGES * max(AT_ONCE) + pages // PAGES_OF_RANGE
    requests = max(row["requests"] for row in rows)
    bars = [
        Bar(
            f"keys a second of client CPU, `{way}`",
            f"at least {KEYS_A_SECOND:,}",
            f"{row['keys_per_cpu_s']:,}",
            row["keys_per_cpu_s"] >= KEYS_A_SECOND,
        )
        for way, row in zip(("list", "list_all"), plain, strict=False)
    ]
    bars.append(Bar("requests of any way", f"at most {most}", str(requests), requests <= most))
    gain = beside[0]["wall_s"]["median"] / beside[3]["wall_s"]["median"]
    text = (
        f"{asked.keys:,} keys below one prefix, listed to the end by one process, in turn, from a server that answers "
        "from memory with what AWS would say. CPU is that of the client alone.",
        bars_table(bars),
        table(
            ("", "runs", "wall s", "CPU s", "keys a CPU second", "requests"),
            [
                (
                    row["who"],
                    asked.runs,
                    seconds(row["wall_s"]),
                    seconds(row["cpu_s"]),
                    f"{row['keys_per_cpu_s']:,}",
                    row["requests"],
                )
                for row in plain
            ],
        ),
        f"With {LATENCY_MS} ms before each answer, `list_all` with so many ranges at once ({gain:.1f} times as fast "
        "with 8 as with 1). One thread parses at a time, so the CPU time of all pages is the least that it can take:",
        table(
            ("", "wall s", "CPU s", "requests"),
            [(row["who"], seconds(row["wall_s"]), seconds(row["cpu_s"]), row["requests"]) for row in beside],
        ),
        f"To parse a page of 1 000 keys took {page_ms['ours']} ms of CPU, {page_ms['expat']} ms by expat alone, and "
        f"{page_ms['botocore']} ms by botocore's own parser (the least of {PARSED} tries; botocore reads the whole "
        "page twice, ours once).",
        "Lakesweep does not list with obstore: it drops the last slash of a folder's marker and "
        "refuses keys with `//`, and it does not show the end of a page (so requests cannot be counted) or the Date "
        "header.",
    )
    document = {"keys": asked.keys, "latency_ms": LATENCY_MS, "rows": rows, "page_ms": page_ms, "bars": bars_json(bars)}
    write("list", "List many keys", setting, document, text, is_whole=asked.keys == KEYS)


def plain_client(endpoint: str) -> Any:
    """Return a client of boto3 as it comes."""
    import boto3

    return boto3.client(
        "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=KEY
    )


if __name__ == "__main__":
    main()
