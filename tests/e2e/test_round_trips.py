"""How many round trips follow one another. `tests/support/trips.py` counts them without looking at a clock."""

import re
from collections.abc import Iterator, Mapping
from hashlib import md5
from itertools import pairwise

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.store import Page, StoredObject
from tests.e2e.live_table import KEEP_50, PARTITIONS
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.support.trips import Trips, TripStore


class _Store(MemoryStore):
    """Shows the hint LATEST as S3 does: its ETag says which snapshot it names, so nobody has to read it."""

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        for page in super().list_range(prefix, after, until):
            yield tuple(each._replace(etag=self._etag_of(each)) for each in page)

    def _etag_of(self, each: StoredObject) -> str:
        return md5(self.read(each.key).data).hexdigest() if each.key.endswith("snapshot/LATEST") else each.etag


class Scene:
    """A table and a control location whose requests are followed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, commits: int, options: Mapping[str, str] = KEEP_50) -> None:
        self.trips = Trips(monkeypatch)
        self.memory, self.control = _Store("memory://bucket/t"), _Store("memory://bucket/control")
        table = TableBuilder(self.memory, partition_keys=("dt",), options=options)
        for number in range(1, commits + 1):
            gone = [f"-F{number - 1}x{index}" for index in range(20)] if number > 1 else []
            new = [f"F{number}x{index}" for index in range(20)]
            places = {name: (PARTITIONS[index],) for index, name in enumerate(new)}
            table.commit(*gone, *[f"+{name}" for name in new], partition=places, kind="OVERWRITE")

    def run(self, operation: str = "maintain", *, execute: bool = True) -> tuple[RunReport, list[list[str]]]:
        """Run an operation in a process that knows nothing; return its report and its timeline."""
        store = TripStore(self.memory, self.trips, "table")
        control = TripStore(self.control, self.trips, "control")
        table = Table(TableRef(store.location), store, ControlArea(control, store.location), lambda location: store)
        self.trips.forget()
        report = run_operation(table, operation, {}, execute=execute)
        return report, self.trips.timeline()


def say(timeline: list[list[str]]) -> str:
    return "\n".join(f"{number}: {', '.join(trip)}" for number, trip in enumerate(timeline, 1))


def test_a_pass_with_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """State and lease, then the table and the cache; the first pass also reads the schema and writes a state."""
    scene = Scene(monkeypatch, 5)
    report, first = scene.run()
    assert report.status == "nothing_to_do"
    assert (len(first), sum(map(len, first))) == (6, 10), say(first)
    _, second = scene.run()
    assert (len(second), sum(map(len, second))) == (4, 4), say(second)


@pytest.mark.parametrize(("warm", "trips"), [(True, 19), (False, 25)])
def test_an_expiry_of_50_snapshots_with_20_dead_files_each(
    monkeypatch: pytest.MonkeyPatch, warm: bool, trips: int
) -> None:
    scene = Scene(monkeypatch, 100)
    if warm:
        scene.run(execute=False)
    report, timeline = scene.run()
    assert report.status == "done"
    assert len(timeline) == trips, say(timeline)
    order = (
        "put .*header.json",
        "put .*lease.json",
        "delete 50",
        "put .*00001-intent",
        "delete 1000",
        "put .*/reports/",
    )
    trips_of = [
        [number for number, trip in enumerate(timeline) if any(re.search(what, each) for each in trip)]
        for what in order
    ]
    assert all(before[0] < after[0] for before, after in pairwise(trips_of)), say(timeline)
    assert trips_of[-1][0] < trips_of[1][-1], "the lease is released after the report"
    looks = [number for number, trip in enumerate(timeline) if "table list snapshot/" in trip]
    assert [number - 1 in looks or number - 2 in looks for what in (2, 4) for number in trips_of[what]] == [True, True]


def test_a_scan_of_a_table_of_100_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three listings of two pages each, each after the one before."""
    scene = Scene(monkeypatch, 5)
    report, timeline = scene.run("remove-orphan-files", execute=False)
    assert report.status == "nothing_to_do"
    assert (len(timeline), sum(map(len, timeline))) == (14, 32), say(timeline)
