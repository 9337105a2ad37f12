"""What a scan by fan-out would take, counted step by step.

The scan reads the roots once, and sends tasks that list and decode. It gathers their results and reads the roots again
until these no longer change. Then it sends tasks that match. Between these, scan steps only wait. The count is exact
for a scan in which no task is lost or doubled; tests compare it with the requests of real scans. Where most tasks are
short, the scan steps alone determine the duration.
"""

from collections import Counter
from dataclasses import dataclass
from math import ceil

from lakesweep.model.prices import request_units, usd_of
from lakesweep.model.scans import Estimate, Facts

PAGE_KEYS = 1000
FIRST_PAGES, LIST_PAGES, FILL = 8, 256, 0.6
"""Pages of the first task of a place, and of every other listing task, as in
`lakesweep.operations.orphans.fan_out.limits` (also the next constants)."""
DECODE_ENTRIES, DECODE_MANIFESTS = 250_000, 2_000
MATCH_ROWS = 600_000
WAYS = 4
"""Pieces into which a task splits the rest of its work."""

SLOTS = 256

ROUNDS = 3
"""Rechecks of the roots after the tasks: one takes over what the beginning read, and two find nothing new."""
FOLDERS = 5
"""Folders that a recheck of the roots lists. If `branch/` is not empty, the recheck lists it once more."""
STEP = {"get": 3, "list": 1}
"""Requests that begin each scan step: whether a result exists, the scan, its state; and the store's clock."""
SPLIT_PAGES = 1.5 * LIST_PAGES
"""A listing task leaves work for others once in so many pages. `WAYS` tasks take it over. Some of them find nothing,
and most others list less than they may. For seven layouts of keys (one folder, days, hours, hundreds of partitions)
with 20 000 to 2 000 000 objects, this estimate is right within two splits."""
IN_A_ROW = 0.75
"""Share of the splits that run one after another, since most keys lie in one of the pieces."""
ENDS = 0.5
"""Additional pages for each listing task: a range seldom ends where a page ends."""
WITH_ROWS = 0.55
"""Share of the listing tasks that find something."""
MESSAGE_REQUESTS = 2
"""Requests to SQS for a sent message: it is received and deleted."""
BATCH = 10
"""Messages in one request to SQS."""

WORKER_GB, WORKER_SHARE = 0.5, 512 / 1769
"""Memory of a worker in GB, and its share of a core."""
SCAN_GB, SCAN_SHARE = 1.0, 1024 / 1769
START_S = 1.0
"""Time until a task works."""
TURN_DELAY_S = 15.0
"""Time between two scan steps."""
PAGE_S = 0.04
"""Wait for a page of a listing. S3 takes 30 ms until the page begins to arrive."""
READ_S = 0.03 / 16
"""Wait for one of many small concurrent reads."""
OBJECT_CPU_S, ENTRY_CPU_S, ROW_CPU_S, ROOT_CPU_S = 12e-6, 13e-6, 1.2e-6, 13e-3
"""CPU time on one core of benchmarks/results: to list an object, decode an entry, match a row, read a root."""
NAME_BYTES, OBJECT_BYTES = 29, 60
"""Size of a row in the results of tasks."""


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The tasks of a scan."""

    pages: int
    listing: int
    with_rows: int
    """Listing tasks that find something."""
    decoding: int
    matching: int
    waits: int
    """Scan steps that find tasks still running."""
    work_s: float
    """Time of all workers together."""


def fan_out_estimate(facts: Facts) -> Estimate:
    """Return what a scan by fan-out would take."""
    tasks = _tasks(facts)
    steps = _requests(facts, tasks)
    requests: Counter[str] = Counter()
    for each in steps.values():
        requests.update(each)
    count = tasks.listing + tasks.decoding + tasks.matching
    step_count = tasks.waits + 3
    looks_s = facts.roots * ROOT_CPU_S / SCAN_SHARE + steps["begin"]["get"] * READ_S
    units = {
        **request_units(requests),
        "lambda_request": count + step_count,
        "lambda_gb_second": tasks.work_s * WORKER_GB + (2 * looks_s + step_count * START_S) * SCAN_GB,
        "sqs_standard": (count + step_count) * MESSAGE_REQUESTS + ceil(count / BATCH) + step_count,
        "xray_trace": count + step_count,
    }
    return Estimate(
        engine="lambda",
        seconds=2 * looks_s + TURN_DELAY_S * (tasks.waits + 2) + START_S,
        requests={kind: requests[kind] for kind in ("get", "put", "list")},
        read_bytes=facts.manifest_bytes * facts.undecoded // max(1, facts.manifests)
        + facts.objects * OBJECT_BYTES
        + facts.entries * NAME_BYTES,
        units=units,
        usd=usd_of(units),
        by_step={step: dict(counts) for step, counts in steps.items()},
    )


def _tasks(facts: Facts) -> _Tasks:
    pages = ceil(facts.objects / PAGE_KEYS)
    wanted = max(1, ceil(pages / (LIST_PAGES * FILL)))
    shards = wanted if facts.shards is None else facts.shards
    # Without folders as borders of the first ranges, the first task must discover where keys continue.
    splits = 0 if shards >= wanted else 1 + int((pages - FIRST_PAGES) / SPLIT_PAGES + 0.3)
    listing = shards + facts.places - 1 + splits * WAYS
    decoding = max(ceil(facts.undecoded_entries / DECODE_ENTRIES * 1.05), ceil(facts.undecoded / DECODE_MANIFESTS))
    rows = facts.objects + facts.entries
    slots = max(1, int(MATCH_ROWS * SLOTS / max(1, rows)))
    matching = min(SLOTS, ceil(SLOTS / slots))
    page_s = PAGE_S + PAGE_KEYS * OBJECT_CPU_S / WORKER_SHARE
    listing_s = pages * page_s + listing * START_S
    decoding_s = facts.undecoded_entries * ENTRY_CPU_S / WORKER_SHARE + decoding * START_S
    matching_s = rows * ROW_CPU_S / WORKER_SHARE + matching * START_S
    in_a_row_s = (START_S + min(pages, LIST_PAGES) * page_s) * (1 + splits * IN_A_ROW)
    gathered_s = max((listing_s + decoding_s) / facts.workers, in_a_row_s)
    waits = [int(seconds / TURN_DELAY_S) for seconds in (gathered_s, matching_s / facts.workers)]
    return _Tasks(
        pages=pages,
        listing=listing,
        with_rows=shards + facts.places - 1 + int(splits * WAYS * WITH_ROWS),
        decoding=decoding,
        matching=matching,
        waits=sum(waits),
        work_s=listing_s + decoding_s + matching_s,
    )


def _requests(facts: Facts, tasks: _Tasks) -> dict[str, Counter[str]]:
    """Return the requests of each step, by kind."""
    look = FOLDERS + (1 if facts.branches else 0) + facts.root_pages
    metadata = facts.manifests + facts.lists + facts.index_manifests
    # The scan compares segments of earlier scans with listings of the segments and of the manifests.
    held = 1 + ceil(metadata / PAGE_KEYS) if facts.segments else 0
    sources = tasks.with_rows + tasks.decoding + facts.segments + 1
    begin = Counter(
        get=3 + facts.branches_with_snapshots + facts.schemas + facts.roots + facts.lists + facts.index_manifests,
        list=look + 1 + held + (tasks.pages > LIST_PAGES * FILL),
        put=2,
    )
    listing = Counter(get=tasks.listing, list=tasks.pages + round(tasks.listing * ENDS), put=tasks.listing)
    decode = Counter(get=tasks.decoding + facts.undecoded, put=tasks.decoding)
    wait = Counter({kind: tasks.waits * count for kind, count in STEP.items()})
    wait.update(list=tasks.waits, put=tasks.waits)
    gather = Counter(
        get=STEP["get"]
        + tasks.listing
        + tasks.decoding
        + facts.segments
        + ROUNDS * facts.branches_with_snapshots
        + 3,  # The results so far, a hint, and the names that this step writes.
        list=STEP["list"] + 1 + bool(tasks.decoding) + ROUNDS * look,
        put=3,
    )
    match = Counter(get=tasks.matching * (2 + sources + facts.quarantine), put=tasks.matching * (2 + facts.quarantine))
    finish = Counter(
        get=STEP["get"] + tasks.matching * (1 + facts.quarantine) + 4, list=STEP["list"] + 1, put=3 + facts.quarantine
    )
    return {
        "begin": begin,
        "list": listing,
        "decode": decode,
        "wait": wait,
        "gather": gather,
        "match": match,
        "finish": finish,
    }
