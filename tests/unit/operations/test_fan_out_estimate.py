"""What a scan by functions asks is what was estimated, within five per cent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.model.scans import Available, Estimate, Facts, OrphanArguments
from lakesweep.operations.orphans.backends import facts_of
from lakesweep.operations.orphans.costs import note_fan_out
from lakesweep.operations.orphans.fan_out import scan
from lakesweep.operations.orphans.fan_out.worker import work
from lakesweep.operations.orphans.rules.fan_out_estimate import fan_out_estimate
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

OFF = 0.05
START_MS = 1_800_000_000_000
LATER_MS = 10 * 24 * 3_600_000


class Scene:
    """A table and its control location, whose requests are counted together."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.counter = RequestCounter()
        self.store = MemoryStore("memory://bucket/db.db/t", self.counter, lambda: self.now_ms)
        self.control = MemoryStore("memory://control", self.counter, lambda: self.now_ms)
        self.builder = TableBuilder(self.store, start_ms=START_MS, partition_keys=("dt",))
        self._files = 0

    @property
    def table(self) -> Table:
        area = ControlArea(self.control, self.store.location)
        return Table(
            TableRef(self.store.location), self.store, area, MemoryStore, self.counter, clock_ms=self.store.now_ms
        )

    def commit(self, files: int) -> None:
        names = [f"+F{self._files + number}" for number in range(files)]
        self._files += files
        self.builder.commit(*names)

    def orphans(self, count: int) -> None:
        for number in range(count):
            name = f"data-{number * 2654435761 % 2**32:08x}-1111-2222-3333-444444444444-{number}.parquet"
            self.store.put(f"dt=v{number % 20:05d}/bucket-0/{name}", b"")

    def facts(self) -> Facts:
        return facts_of(self.table, OrphanArguments(), Available(has_fan_out=True))

    def scan(self, scan_id: str) -> tuple[Mapping[str, Any], int]:
        """Scan; return the result, and how many requests it took on S3."""
        before, outbox = sum(self.counter.snapshot().values()), _Outbox()
        scan.begin(self.table, scan_id, OrphanArguments(), outbox)
        ended = None
        while ended is None:
            while outbox.waiting:
                work(self.table, scan_id, outbox.waiting.pop(0), outbox)
            ended = scan.advance(self.table, scan_id, outbox.step, outbox)
            self.now_ms += 15_000
        clocks = 1 + outbox.step  # each turn asks S3 for its clock, which a store in memory knows
        taken = sum(self.counter.snapshot().values()) - before + clocks
        note_fan_out(self.table, ended.result, ended.plan)
        return ended.result, taken


class _Outbox:
    """Keeps messages in order, each once."""

    def __init__(self) -> None:
        self.waiting: list[Mapping[str, object]] = []
        self.step = 0

    def tasks(self, tasks: Sequence[Mapping[str, object]]) -> None:
        self.waiting += tasks

    def advance(self, step: int, delay_s: int, *, progress: bool) -> None:
        self.step = step


def assert_close(counted: int, estimate: Estimate) -> None:
    """Hold the two together."""
    assert counted == pytest.approx(estimate.request_count, rel=OFF), estimate.by_step


@pytest.mark.parametrize(
    ("commits", "files", "orphans"),
    [(3, 2, 0), (40, 5, 20), (60, 30, 300), (10, 400, 9000), (30, 100, 22_000), (150, 3, 3)],
)
def test_a_first_scan(commits: int, files: int, orphans: int) -> None:
    """By the facts that the scan itself comes to."""
    scene = Scene()
    for _ in range(commits):
        scene.commit(files)
    scene.builder.hint("LATEST", commits)
    scene.orphans(orphans)
    scene.now_ms += LATER_MS
    facts = scene.facts()
    result, counted = scene.scan("s-1")
    known = replace(
        facts,
        **{name: result[name] for name in ("objects", "roots", "manifests", "entries")},
    )
    assert_close(counted, fan_out_estimate(known))
    if orphans * 10 <= commits * files:  # which no first look knows of
        assert_close(counted, fan_out_estimate(facts))
        assert counted == pytest.approx(sum(result["estimate"]["requests"].values()), rel=OFF)


def test_a_scan_that_is_repeated() -> None:
    """The last scan says how many objects there are; which manifests are new follows from when they were written."""
    scene = Scene()
    for _ in range(50):
        scene.commit(20)
    scene.builder.hint("LATEST", 50)
    scene.orphans(9_500)
    scene.now_ms += LATER_MS
    scene.scan("s-1")
    scene.now_ms += LATER_MS
    scene.commit(20)
    scene.builder.hint("LATEST", 51)
    scene.now_ms += LATER_MS
    facts = scene.facts()
    assert facts.objects_from == "last_run"
    assert (facts.new_manifests, facts.new_entries) == (1, 20)
    result, counted = scene.scan("s-2")
    assert result["entries_decoded"] == 20
    assert result["objects"] == pytest.approx(facts.objects, rel=0.01)
    assert_close(counted, fan_out_estimate(facts))


def test_branches_and_tags() -> None:
    """Each branch is asked for a newer snapshot, and has schemas and lists of its own."""
    scene = Scene()
    for _ in range(20):
        scene.commit(10)
    for number in (5, 10, 15):
        scene.builder.tag(f"t{number}", number)
        branch = scene.builder.branch(f"b{number}", f"t{number}")
        branch.commit("+X" + str(number))
    scene.builder.hint("LATEST", 20)
    scene.now_ms += LATER_MS
    facts = scene.facts()
    assert facts.branches == 3
    _, counted = scene.scan("s-1")
    assert_close(counted, fan_out_estimate(facts))
