"""What a scan by fan-out would take: counted step by step, as it goes.

It begins with one look at the roots, sends tasks that list and decode, gathers what they found and looks at the roots
until they stand still, and sends tasks that match. In between, turns wait. What is counted here is what a scan takes
when nothing is lost or doubled; tests hold it against the requests of real ones. Where most tasks are short, the time
of a scan is that of its turns.
"""

from collections import Counter
from dataclasses import dataclass
from math import ceil

from lakesweep.model.prices import request_units, usd_of
from lakesweep.plan.engine_facts import Estimate, Facts

PAGE_KEYS = 1000
FIRST_PAGES, LIST_PAGES, FILL = 8, 256, 0.6
"""Pages of the first task of a place, and of any other that lists: those of `lakesweep.fan_out.limits`, as the next."""
DECODE_ENTRIES, DECODE_MANIFESTS = 250_000, 2_000
MATCH_ROWS = 600_000
WAYS = 4
"""Pieces into which a task splits what it leaves."""

SLOTS = 256

ROUNDS = 3
"""Looks at the roots when tasks have ended: one takes what the beginning has read, and two show nothing new."""
FOLDERS = 5
"""That a look at the roots lists: `branch/` once more where there is something in it."""
TURN = {"get": 3, "list": 1}
"""What each turn asks before all else: whether there is a result, the scan, its state; and the store's clock."""
SPLIT_PAGES = 1.5 * LIST_PAGES
"""Tasks that list leave something for others once for each so many pages. It goes to `WAYS` tasks, of which some find
nothing and most of the rest less than they may list. For seven layouts of keys (one folder, days, hours, hundreds of
partitions) with 20 000 to 2 000 000 objects this is right within two splits."""
IN_A_ROW = 0.75
"""Of the splits come one after another, since most keys lie in one of the pieces."""
ENDS = 0.5
"""Of a page more for each task that lists: the end of a range seldom is the end of a page."""
WITH_ROWS = 0.55
"""Of the tasks that list find something."""
MESSAGE_REQUESTS = 2
"""Requests to SQS for a message that has been sent: it is received and deleted."""
BATCH = 10
"""Messages that are sent together."""

WORKER_GB, WORKER_SHARE = 0.5, 512 / 1769
"""Memory of a worker, and its share of a core."""
SCAN_GB, SCAN_SHARE = 1.0, 1024 / 1769
START_S = 1.0
"""Of a task, until it works."""
TURN_DELAY_S = 15.0
"""Between two turns."""
PAGE_S = 0.04
"""Wait for a page of a listing: 30 ms until it begins to come."""
READ_S = 0.03 / 16
"""Wait for one of many small reads that go at once."""
OBJECT_CPU_S, ENTRY_CPU_S, ROW_CPU_S, ROOT_CPU_S = 12e-6, 13e-6, 1.2e-6, 13e-3
"""CPU time, of one core as in benchmarks/results: an object to list, an entry to decode, a row to match, a root."""
NAME_BYTES, OBJECT_BYTES = 29, 60
"""Of a row in what tasks write."""


@dataclass(frozen=True, slots=True)
class _Tasks:
    """What a scan is divided into."""

    pages: int
    listing: int
    with_rows: int
    """Tasks that list and find something."""
    decoding: int
    matching: int
    waits: int
    """Turns that only find that tasks are still under way."""
    work_s: float
    """Of all workers together."""


def fan_out_estimate(facts: Facts) -> Estimate:
    """Return what a scan by fan-out would take."""
    tasks = _tasks(facts)
    steps = _requests(facts, tasks)
    requests: Counter[str] = Counter()
    for each in steps.values():
        requests.update(each)
    count = tasks.listing + tasks.decoding + tasks.matching
    turns = tasks.waits + 3
    looks_s = facts.roots * ROOT_CPU_S / SCAN_SHARE + steps["begin"]["get"] * READ_S
    units = {
        **request_units(requests),
        "lambda_request": count + turns,
        "lambda_gb_second": tasks.work_s * WORKER_GB + (2 * looks_s + turns * START_S) * SCAN_GB,
        "sqs_standard": (count + turns) * MESSAGE_REQUESTS + ceil(count / BATCH) + turns,
        "xray_trace": count + turns,
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
    # Where there are no folders to cut between, the first task sees where keys go on.
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
    # Segments of earlier scans are held against listings of them, and of the manifests.
    held = 1 + ceil(metadata / PAGE_KEYS) if facts.segments else 0
    sources = tasks.with_rows + tasks.decoding + facts.segments + 1
    begin = Counter(
        get=3 + facts.branches_with_snapshots + facts.schemas + facts.roots + facts.lists + facts.index_manifests,
        list=look + 1 + held + (tasks.pages > LIST_PAGES * FILL),
        put=2,
    )
    listing = Counter(get=tasks.listing, list=tasks.pages + round(tasks.listing * ENDS), put=tasks.listing)
    decode = Counter(get=tasks.decoding + facts.undecoded, put=tasks.decoding)
    wait = Counter({kind: tasks.waits * count for kind, count in TURN.items()})
    wait.update(list=tasks.waits, put=tasks.waits)
    gather = Counter(
        get=TURN["get"]
        + tasks.listing
        + tasks.decoding
        + facts.segments
        + ROUNDS * facts.branches_with_snapshots
        + 3,  # what was read, a hint, and the names that are written here
        list=TURN["list"] + 1 + bool(tasks.decoding) + ROUNDS * look,
        put=3,
    )
    match = Counter(get=tasks.matching * (2 + sources + facts.quarantine), put=tasks.matching * (2 + facts.quarantine))
    finish = Counter(
        get=TURN["get"] + tasks.matching * (1 + facts.quarantine) + 4, list=TURN["list"] + 1, put=3 + facts.quarantine
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
