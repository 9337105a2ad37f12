"""What a scan by fan-out would take: counted step by step, as it goes.

It begins with one look at the roots, sends tasks that list and decode, looks at the roots until they stand still, and
sends tasks that match. Between them a fold looks which tasks are done. What is counted here is what a scan takes when
nothing is lost or doubled; tests hold it against the requests of real ones.
"""

from collections import Counter
from math import ceil

from lakesweep.model.prices import request_units, usd_of
from lakesweep.plan.engine_facts import Estimate, Facts

PAGE_KEYS = 1000
FIRST_PAGES, LIST_PAGES = 8, 128
"""Pages of the first task of a place, and of any other that lists: those of `lakesweep.fan_out.limits`, as the next."""
DECODE_ENTRIES, DECODE_MANIFESTS = 150_000, 2_000
MATCH_ROWS = 600_000
WAYS = 8
"""Pieces into which a task splits what it leaves (`lakesweep.operations.orphan_listing`)."""

ROUNDS = 3
"""Looks at the roots: one to begin with, and two that show nothing new. The first reads them."""
FOLDERS = 5
"""That a look at the roots lists: `branch/` once more where there is something in it."""
ENDS = 0.5
"""Of a page more for each task that lists: the end of a range seldom is the end of a page."""
TASK_MESSAGES = 3
"""Requests to SQS for a message: it is sent, received and deleted."""
BATCH = 10
"""Messages that are sent together."""

WORKER_GB, WORKER_SHARE = 0.5, 512 / 1769
"""Memory of a worker, and its share of a core."""
SCAN_GB, SCAN_SHARE = 1.0, 1024 / 1769
START_S = 1.0
"""Of a task, until it works."""
FOLD_DELAY_S = 15.0
"""Between two turns of a fold."""
PAGE_S = 0.04
"""Wait for a page of a listing: 30 ms until it begins to come."""
READ_S = 0.03 / 16
"""Wait for one of many small reads that go at once."""
OBJECT_CPU_S, ENTRY_CPU_S, ROW_CPU_S, ROOT_CPU_S = 30e-6, 25e-6, 4e-6, 13e-3
"""CPU time, of one core as in benchmarks/results: an object to list, an entry to decode, a row to match, a root."""
NAME_BYTES, OBJECT_BYTES = 29, 60
"""Of a row in what tasks write."""


def fan_out_estimate(facts: Facts) -> Estimate:
    """Return what a scan by fan-out would take."""
    listing, decoding, matching = _tasks(facts)
    steps = _requests(facts, listing, decoding, matching)
    requests: Counter[str] = Counter()
    for each in steps.values():
        requests.update(each)
    tasks = listing + decoding + matching
    pages = ceil(facts.objects / PAGE_KEYS)
    rows = facts.objects + facts.entries
    work_s = (
        tasks * START_S
        + (facts.objects * OBJECT_CPU_S + facts.undecoded_entries * ENTRY_CPU_S + rows * ROW_CPU_S) / WORKER_SHARE
        + pages * PAGE_S
    )
    looks_s = facts.roots * ROOT_CPU_S / SCAN_SHARE + (steps["begin"]["get"] + steps["fold"]["get"]) * READ_S
    turns = _turns(facts, tasks)
    messages = tasks + turns + 1
    units = {
        **request_units(requests),
        "lambda_request": messages,
        "lambda_gb_second": work_s * WORKER_GB + (2 * looks_s + messages * 0.1) * SCAN_GB,
        "sqs_standard": messages * (TASK_MESSAGES - 1) + tasks / BATCH + turns + 1,
        "xray_trace": messages,
    }
    return Estimate(
        engine="lambda",
        seconds=_wall_s(facts, work_s, looks_s),
        requests={kind: requests[kind] for kind in ("get", "put", "list")},
        read_bytes=facts.manifest_bytes * facts.undecoded // max(1, facts.manifests)
        + facts.objects * OBJECT_BYTES
        + facts.entries * NAME_BYTES,
        units=units,
        usd=usd_of(units),
        by_step={step: dict(counts) for step, counts in steps.items()},
    )


def _tasks(facts: Facts) -> tuple[int, int, int]:
    """Return how many tasks list, decode and match."""
    pages = ceil(facts.objects / PAGE_KEYS)
    # The first task of a place sees where keys go on, and leaves the rest to others, of which some find little.
    listing = facts.places + (0 if pages <= FIRST_PAGES else max(WAYS, ceil((pages - FIRST_PAGES) / LIST_PAGES * 1.5)))
    decoding = max(ceil(facts.undecoded_entries / DECODE_ENTRIES), ceil(facts.undecoded / DECODE_MANIFESTS))
    matching = max(1, ceil((facts.objects + facts.entries) / MATCH_ROWS))
    return listing, decoding, min(matching, 256)


def _turns(facts: Facts, tasks: int) -> int:
    """Return how many turns the fold takes: most of them only find that tasks are still under way."""
    waves = ceil(tasks / facts.workers)
    return 2 + ceil(waves * 20 / FOLD_DELAY_S)


def _requests(facts: Facts, listing: int, decoding: int, matching: int) -> dict[str, Counter[str]]:
    """Return the requests of each step, by kind."""
    pages = ceil(facts.objects / PAGE_KEYS)
    look = FOLDERS + (1 if facts.branches else 0) + facts.root_pages
    segments = facts.segments + decoding + 1
    parts = listing + segments
    begin = Counter(
        list=look + 1,  # and one asks for the store's clock
        get=2 + facts.branches_with_snapshots + facts.schemas + 1 + facts.roots + facts.lists + facts.index_manifests,
        put=2,
    )
    lists = Counter(list=pages + round(listing * ENDS), get=listing, put=listing)
    decodes = Counter(get=decoding + facts.undecoded, put=2 * decoding)
    turns = _turns(facts, listing + decoding + matching)
    fold = Counter(
        list=look * (ROUNDS - 1) + turns,
        get=turns * 2 + listing + decoding + matching + facts.branches_with_snapshots * (ROUNDS - 1) + facts.schemas,
        put=turns + 4,
    )
    matches = Counter(get=matching * (2 + parts), put=2 * matching)
    return {"begin": begin, "list": lists, "decode": decodes, "fold": fold, "match": matches}


def _wall_s(facts: Facts, work_s: float, looks_s: float) -> float:
    """Return how long it takes: tasks go side by side, looks and folds one after another."""
    return 2 * looks_s + max(work_s / facts.workers, 2 * START_S + LIST_PAGES * PAGE_S) + 2 * FOLD_DELAY_S
