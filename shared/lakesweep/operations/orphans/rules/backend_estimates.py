"""What a scan would take in one process, and on Spark.

CPU times come from benchmarks/results/orphans.md and spark.md. There, a server without latency ran on the same cores.
The wait for S3 is an assumption that is added.
"""

from collections.abc import Mapping
from math import ceil

from lakesweep.model.prices import request_units, usd_of
from lakesweep.model.scans import Estimate, Facts, SparkFacts
from lakesweep.operations.orphans.rules.fan_out_estimate import FOLDERS, PAGE_KEYS, PAGE_S, READ_S, ROOT_CPU_S, ROUNDS

LOCAL_START_CPU_S = 0.4
LOCAL_OBJECT_CPU_S, LOCAL_ENTRY_CPU_S = 24e-6, 8e-6
"""CPU time for an object that is listed and looked up, and for an entry of a manifest. A million objects with two
entries each took 43 s, of which 100 roots took one second."""
LOCAL_RANGES = 8
LOCAL_MORE_PAGES = 0.05
"""Parallel ranges of a listing, and the share of more pages: a range often ends before its page is full
(`storage.listing`)."""
LOCAL_BASE_MIB, LOCAL_OBJECT_MIB = 80.0, 350e-6
"""Peak memory: 87 MiB for ten thousand objects, 405 to 426 for a million: 16 bytes a name, and a dictionary of
names."""

SPARK_ROOTS_CPU_S, SPARK_LIST_CPU_S, SPARK_MATCH_CPU_S = 24.8e-6, 52.2e-6, 21.3e-6
"""CPU seconds for an object in each of the three stages."""
SPARK_PUT, SPARK_GET_PARTS = 69e-6, 7e-6
"""Requests for an object: written parts, and reads other than metadata."""
SPARK_LIST_MORE = 1.06
EMR_GB_A_CORE = 3.0

INVENTORY_ROW_BYTES = 60
INVENTORY_FILE_ROWS = 3_000_000
"""Assumed when nothing says how large the inventory's files are."""
INVENTORY_ROW_CPU_S = 10e-6
REVALIDATED = 0.01
"""Share of the objects that the scan looks up again, a hundred neighbours in one page."""


def local_mib(facts: Facts) -> float:
    """Return the peak memory of one process."""
    return LOCAL_BASE_MIB + facts.objects * LOCAL_OBJECT_MIB


def local_estimate(facts: Facts, *, inventory: bool = False) -> Estimate:
    """Return what a scan in one process would take."""
    pages = ceil(facts.objects / PAGE_KEYS)
    ranges = 0 if pages == 1 or not facts.is_paid else 2 * LOCAL_RANGES + pages * LOCAL_MORE_PAGES
    requests = _looks(facts)
    requests["get"] += facts.manifests
    requests["put"] = 1 + ceil(facts.objects / 500_000) + facts.quarantine
    listing_s = pages * PAGE_S / LOCAL_RANGES
    cpu_s = (
        LOCAL_START_CPU_S
        + facts.roots * ROOT_CPU_S
        + facts.objects * LOCAL_OBJECT_CPU_S
        + facts.entries * LOCAL_ENTRY_CPU_S
    )
    if inventory:
        requests, listing_s = _with_inventory(facts, requests), 0.0
    else:
        requests["list"] += pages + round(ranges)
    seconds = cpu_s / facts.local.cores + max(listing_s - cpu_s / 2, 0.0) + sum(_looks(facts).values()) * READ_S
    units = request_units(requests) if facts.is_paid else {}
    if facts.local.is_lambda:
        units |= {
            "lambda_request": 1,
            "lambda_gb_second": seconds * facts.local.memory_mib / 1024,
            "sqs_standard": 3,
            "xray_trace": 1,
        }
    return Estimate("local", seconds, requests, _read_bytes(facts, inventory), units, usd_of(units), {}, inventory)


def spark_estimate(facts: Facts, spark: SparkFacts, *, inventory: bool = False) -> Estimate:
    """Return what a scan on Spark would take."""
    pages = ceil(facts.objects / PAGE_KEYS)
    requests = _looks(facts)
    requests["get"] += facts.manifests + round(facts.objects * SPARK_GET_PARTS)
    requests["put"] = 10 + round(facts.objects * SPARK_PUT)
    core_s = facts.objects * (SPARK_ROOTS_CPU_S + SPARK_LIST_CPU_S + SPARK_MATCH_CPU_S) + pages * PAGE_S
    if inventory:
        requests = _with_inventory(facts, requests)
        core_s += facts.objects * (INVENTORY_ROW_CPU_S - SPARK_LIST_CPU_S / 2) - pages * PAGE_S
    else:
        requests["list"] += round(pages * SPARK_LIST_MORE)
    cores = max(1, spark.executors) * spark.cores
    seconds = spark.start_s + facts.roots * ROOT_CPU_S + core_s / cores
    units = request_units(requests) if facts.is_paid else {}
    if spark.is_emr:  # The driver has as many cores as an executor; all are paid for from start to end.
        core_hours = (spark.executors + 1) * spark.cores * seconds / 3600
        units |= {"emr_vcpu_hour": core_hours, "emr_gb_hour": core_hours * EMR_GB_A_CORE}
    return Estimate("spark", seconds, requests, _read_bytes(facts, inventory), units, usd_of(units), {}, inventory)


def _looks(facts: Facts) -> dict[str, int]:
    """Return the requests for the roots and their lists."""
    look = FOLDERS + (1 if facts.branches else 0) + facts.root_pages
    return {
        "get": facts.branches_with_snapshots * ROUNDS
        + facts.schemas
        + 2  # The schema of the branch, before and after.
        + facts.roots
        + facts.lists
        + facts.index_manifests,
        "put": 0,
        "list": look * ROUNDS + 1,  # One more asks for the store's clock.
    }


def _with_inventory(facts: Facts, requests: Mapping[str, int]) -> dict[str, int]:
    files = facts.inventory.files if facts.inventory is not None else ceil(facts.objects / INVENTORY_FILE_ROWS)
    looked_up = ceil(facts.objects * REVALIDATED / 100)
    return {**requests, "get": requests["get"] + 2 + files, "list": requests["list"] + looked_up}


def _read_bytes(facts: Facts, inventory: bool) -> int:
    return facts.manifest_bytes + (facts.objects * INVENTORY_ROW_BYTES if inventory else 0)
