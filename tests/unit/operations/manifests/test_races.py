"""Two compactors and a writer at once: of two commits one wins, and no file is lost or doubled."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakesweep.errors import MaintenanceError, PreconditionFailedError
from lakesweep.operations.manifests.arguments import CompactManifestArguments
from lakesweep.operations.manifests.compact_manifest import compact_manifest
from lakesweep.runs.session import Table
from tests.support.live_records import document_of, entries, listed
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.raw_manifests import Made, RawManifests, deleted, entry
from tests.support.sampling import is_sampled
from tests.unit.operations.manifests.manifest_world import FILES, ManifestWorld

COMMITS = 10 if is_sampled() else 25
RETRIES = {"commit.max-retries": "1000", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "4 ms"}
EXPECTED = frozenset({"lease_held", "lease_lost", "commit_conflict"})


def write(raw: RawManifests, seed: int, live: set[str], ended: threading.Event) -> None:
    """Commit again and again: each time some files, and DELETEs of earlier ones."""
    draw = random.Random(seed)
    pause = threading.Event()
    for commit in range(COMMITS):
        gone = draw.sample(sorted(live), min(len(live), draw.randrange(3)))
        added = [f"w{commit}-{number}" for number in range(draw.randrange(1, 4))]
        records = [*(deleted(entry(name)) for name in gone), *map(entry, added)]
        while True:
            try:
                raw.append(Made(records), kind="OVERWRITE" if gone else "APPEND")
                break
            except PreconditionFailedError:
                continue
        live.difference_update(gone)
        live.update(added)
        pause.wait(draw.random() / 200)
    ended.set()


def compact(table: Table, ended: threading.Event) -> list[Any]:
    """Compact until the writer has ended, and once more."""
    made: list[Any] = []
    while True:
        is_last = ended.is_set()
        try:
            report = compact_manifest(table, CompactManifestArguments(FILES, RETRIES), execute=True)
        except MaintenanceError as error:
            assert error.code in EXPECTED, error
            continue
        assert report.refusal is None or report.refusal.code in EXPECTED, report.refusal
        if report.commits is not None:
            made += report.commits.made
        if is_last and report.refusal is None:
            return made


@pytest.mark.parametrize("control", ["shared", "apart"])
def test_two_compactors_and_a_writer(control: str) -> None:
    world = ManifestWorld()
    raw = RawManifests(world.store)
    raw.snapshot(*(Made([entry(f"f{number}")]) for number in range(12)))
    live, ended = {f"f{number}" for number in range(12)}, threading.Event()
    shared = MemoryStore("memory://control")
    pause = threading.Event()
    tables = [
        Maintainer(
            world.store, control=shared if control == "shared" else MemoryStore(f"memory://c{each}"), sleep=pause.wait
        ).table
        for each in range(2)
    ]
    with ThreadPoolExecutor(3) as pool:
        writing = pool.submit(write, raw, 7, live, ended)
        compacting = [pool.submit(compact, table, ended) for table in tables]
        writing.result()
        made = [each for future in compacting for each in future.result()]
    check(world, {each.snapshot_id: each.uuid for each in made}, live)
    assert made, "how often depends on the load of the machine"


def check(world: ManifestWorld, made: dict[int, str], live: set[str]) -> None:
    """Fail unless each compaction has the files of the snapshot before it, and the writer's commits are all there."""
    ids = world.ids()
    assert ids == list(range(1, 2 + COMMITS + len(made)))
    before: Counter[str] = Counter()
    for snapshot_id in ids:
        found = names(world, snapshot_id)
        assert set(found.values()) <= {1}, "none is doubled"
        document = document_of(world.store, snapshot_id)
        if snapshot_id in made:
            assert (document["uuid"], document["commitKind"]) == (made[snapshot_id], "COMPACT")
            assert found == before
        before = found
    assert set(before) == live
    assert len(listed(world.store, ids[-1])) == 1


def names(world: ManifestWorld, snapshot_id: int) -> Counter[str]:
    found = [
        record for line in listed(world.store, snapshot_id) for _, record in entries(world.store, line["_FILE_NAME"])
    ]
    gone = {record["_FILE"]["_FILE_NAME"] for record in found if record["_KIND"]}
    added = (record["_FILE"]["_FILE_NAME"] for record in found if not record["_KIND"])
    return Counter(name.removeprefix("data-").removesuffix(".parquet") for name in added if name not in gone)
