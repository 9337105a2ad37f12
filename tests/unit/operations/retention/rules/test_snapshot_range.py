"""Which snapshots go: one row a case, each asked of the planner and then of a whole run on a real table.

Unless a row says otherwise: ids 1 to n, snapshot i committed at (i - 1) * 600 s, now is the time of the newest, one
hour retained, at least 10 kept, no ceiling, at most 50 a run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakesweep.errors import RefusedError
from lakesweep.model.policy import INT_MAX, SnapshotRetention
from lakesweep.operations.retention.rules.snapshot_range import SnapshotRange, select_range
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

HOUR_MS = 3_600_000
SECOND_MS = 1000
FAR_FUTURE_MS = 1000 * HOUR_MS
EPOCH_MS = 1_700_000_000_000
"""Whole runs take place at a believable time."""


def grid(ids: Iterable[int]) -> dict[int, int]:
    """Return the usual commit times."""
    return {i: (i - 1) * 600 * SECOND_MS for i in ids}


@dataclass(frozen=True)
class Row:
    """A table, a policy and a moment, and what goes."""

    time_ms: Mapping[int, int]
    """Id -> commit time of every snapshot that exists."""
    expired: Iterable[int]
    policy: SnapshotRetention = field(default_factory=SnapshotRetention)
    consumer: int | None = None
    now_ms: int | None = None

    @property
    def now(self) -> int:
        return max(self.time_ms.values()) if self.now_ms is None else self.now_ms

    def select(self) -> SnapshotRange:
        return select_range(sorted(self.time_ms), self.time_ms, self.policy, self.consumer, self.now)


def retain(minimum: int = 10, maximum: int = INT_MAX, *, time_ms: int = HOUR_MS, limit: int = 50) -> SnapshotRetention:
    return SnapshotRetention(minimum, maximum, time_ms, limit)


NOTHING = range(0)
ONE_AT_A_TIME = {1: 0, 2: 100 * SECOND_MS, 3: 200 * SECOND_MS}
SKEWED = {i: at * SECOND_MS for i, at in {1: 0, 2: 5000, 3: 100, 4: 200, 5: 9000}.items()}

ROWS = {
    "as-many-as-the-minimum": Row(grid(range(1, 11)), NOTHING, now_ms=FAR_FUTURE_MS),
    "the-minimum-stays": Row(grid(range(1, 16)), range(1, 6)),
    "thirty-snapshots": Row(grid(range(1, 31)), range(1, 21)),
    "one-run-advances-by-the-limit": Row(grid(range(1, 31)), range(1, 6), retain(limit=5)),
    "a-consumer-keeps-what-it-has-not-read": Row(grid(range(1, 31)), range(1, 7), consumer=7),
    "a-consumer-behind-everything-keeps-all": Row(grid(range(9, 31)), NOTHING, consumer=4),
    "the-ceiling-beats-the-age": Row(grid(range(1, 11)), range(1, 8), retain(1, 3)),
    "the-limit-beats-the-ceiling": Row(grid(range(1, 11)), range(1, 3), retain(1, 3, limit=2)),
    "the-newest-survives-any-age": Row(grid(range(1, 11)), range(1, 10), retain(1), now_ms=FAR_FUTURE_MS),
    "all-at-once": Row(dict.fromkeys(range(1, 11), 0), NOTHING, retain(1)),
    "a-hole-is-no-obstacle": Row(
        grid([1, 2, 3, *range(5, 11)]), [1, 2, 3, *range(5, 10)], retain(1), now_ms=FAR_FUTURE_MS
    ),
    "a-successor-at-the-cutoff-protects": Row(ONE_AT_A_TIME, NOTHING, retain(1), now_ms=3700 * SECOND_MS),
    "a-successor-1-ms-before-it-does-not": Row(ONE_AT_A_TIME, range(1, 2), retain(1), now_ms=3700 * SECOND_MS + 1),
    "a-second-past-the-cutoff": Row(ONE_AT_A_TIME, range(1, 2), retain(1), now_ms=3701 * SECOND_MS),
    "a-young-snapshot-shields-all-after-it": Row(SKEWED, NOTHING, retain(1), now_ms=7600 * SECOND_MS),
    "no-time-retained": Row(grid(range(1, 6)), range(1, 4), retain(1, time_ms=0)),
    "the-first-young-successor-decides": Row(
        {1: 0, 2: 0, 3: 0, 4: 2000, 5: 0, 6: 0}, range(1, 3), retain(1, time_ms=5000), now_ms=6000
    ),
    "a-single-snapshot": Row({1: 0}, NOTHING, retain(1), now_ms=FAR_FUTURE_MS),
    # Where a range would end in a hole, the engine takes the data and leaves the documents. These go by what exists.
    "a-young-snapshot-after-a-hole-shields-the-one-before": Row(
        {1: 0, 2: 0, 4: 2000}, range(1, 2), retain(1, time_ms=1000), now_ms=3000
    ),
    "a-young-snapshot-past-the-limit-shields-too": Row(
        {1: 0, 4: 2000, 5: 2000}, NOTHING, retain(1, time_ms=1000, limit=1), now_ms=3000
    ),
    "a-limit-that-ends-in-a-hole": Row({1: 0, 3: 0, 5: 0}, range(1, 2), retain(1, limit=1), now_ms=FAR_FUTURE_MS),
    "a-consumer-that-waits-in-a-hole": Row({1: 0, 3: 0, 5: 0}, range(1, 2), retain(1), 2, now_ms=FAR_FUTURE_MS),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_the_range(row: Row) -> None:
    chosen = row.select()
    assert chosen.expired == tuple(row.expired)
    assert sum(chosen.kept.values()) == len(row.time_ms) - len(chosen.expired)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_run_drops_the_range(row: Row) -> None:
    store = store_at(row.now)
    table = build(store, row)
    report = maintain(store)
    assert report["snapshots"]["expired"] == list(row.expired)
    survivors = sorted(set(row.time_ms) - set(row.expired))
    assert table.symbols(documents(store)) == {f"snapshot/snapshot-{i}" for i in survivors}
    assert report["status"] == ("done" if tuple(row.expired) else "nothing_to_do")
    assert store.read("snapshot/LATEST").data == str(survivors[-1]).encode()
    assert store.read("snapshot/EARLIEST").data == str(survivors[0]).encode()


def test_the_run_counts_documents_and_reads_every_delta() -> None:
    """The snapshot that is missing is not counted; what its successor deleted goes all the same."""
    store = store_at(FAR_FUTURE_MS)
    table = TableBuilder(store, options={"snapshot.num-retained.min": "1"}, start_ms=EPOCH_MS)
    table.commit("+A")
    for _ in range(3):
        table.commit()
    table.commit("-A", "+B")
    for _ in range(5):
        table.commit()
    table.remove(table.root(4))
    report = maintain(store)
    assert len(report["snapshots"]["expired"]) == 8
    assert report["delete"]["by_kind"]["snapshot"] == 8
    assert table.present() == {"B"}


def test_snapshots_after_the_first_young_one_are_not_asked_for() -> None:
    row = ROWS["the-first-young-successor-decides"]
    known = {i: row.time_ms[i] for i in (1, 2, 3, 4)}
    assert select_range(range(1, 7), known, row.policy, None, row.now).expired == (1, 2)


def test_a_first_snapshot_that_is_young_by_its_own_time_stays() -> None:
    """Clocks ran backwards. Engines before 2.0 ask its own time, so that counts as well; equality protects."""
    policy = SnapshotRetention(retain_min=1, time_retained_ms=1_000)
    times = {1: 5_000, 2: 100, 3: 200, 4: 9_000}
    assert select_range(range(1, 5), times, policy, None, 6_000).expired == ()
    assert select_range(range(1, 5), times, policy, None, 6_001).expired == (1, 2)


def test_a_missing_earliest_hint_is_written() -> None:
    store = store_at(FAR_FUTURE_MS)
    table = TableBuilder(store, start_ms=EPOCH_MS)
    table.commit("+A")
    table.remove("snapshot/EARLIEST")
    report = maintain(store)
    assert report["snapshots"]["expired"] == []
    assert store.read("snapshot/EARLIEST").data == b"1"
    assert maintain(store)["status"] == "nothing_to_do"


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (SnapshotRetention(retain_min=0), "retain_min_below_one"),
        (SnapshotRetention(retain_min=3, retain_max=2), "retain_max_below_min"),
        (SnapshotRetention(limit=0), "limit_below_one"),
        (SnapshotRetention(time_retained_ms=-1), "cutoff_in_future"),
    ],
)
def test_rules_that_could_empty_a_table_are_refused(policy: SnapshotRetention, code: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        policy.check()
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"retain_min": 0, "retain_max": None}, "retain_min_below_one"),
        ({"retain_min": 0, "retain_max": 0}, "retain_min_below_one"),
        ({"retain_min": 3, "retain_max": 2}, "retain_max_below_min"),
        ({"max_deletes": 0}, "limit_below_one"),
    ],
)
def test_a_run_with_such_arguments_changes_nothing(arguments: dict[str, Any], code: str) -> None:
    store = store_at(FAR_FUTURE_MS)
    table = build(store, ROWS["thirty-snapshots"])
    before = {found.key: found.etag for found in store.list("")}
    report = Maintainer(store).expire(**arguments)
    assert report.status == "refused"
    assert report.refusal is not None
    assert report.refusal.code == code
    assert {found.key: found.etag for found in store.list("")} == before
    assert len(table.present()) == 30


def test_the_walk_through_of_the_documentation() -> None:
    """At least 2, at most 5, one hour; an expiry right after each commit.

    The published table drops snapshot 1 at step 5, going by its own age; the engine goes by its successor's.
    """
    minutes = {1: 0, 2: 20, 3: 40, 4: 60, 5: 80, 6: 90, 7: 95, 8: 96}
    first_survivor = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 2, 7: 3, 8: 4}
    present: list[int] = []
    for latest, minute in minutes.items():
        present.append(latest)
        times = {i: minutes[i] * 60 * SECOND_MS for i in present}
        chosen = select_range(present, times, retain(2, 5), None, minute * 60 * SECOND_MS)
        present = [i for i in present if i not in chosen.expired]
        assert present == list(range(first_survivor[latest], latest + 1)), f"after snapshot {latest}"


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        (Row(grid(range(1, 16)), range(1, 6)), {"retain_min": 10}),
        (Row(grid(range(1, 31)), range(1, 6), retain(limit=5)), {"retain_min": 10, "limit": 15}),
        (Row(grid(range(1, 31)), range(1, 7), consumer=7), {"retain_min": 10, "consumer": 14}),
        (Row(grid(range(1, 11)), range(1, 8), retain(1, 3)), {"retain_min": 1, "too_young": 2}),
    ],
)
def test_what_stays_stays_for_a_reason(row: Row, kept: dict[str, int]) -> None:
    assert row.select().expired == tuple(row.expired)
    assert dict(row.select().kept) == kept


def store_at(now_ms: int) -> MemoryStore:
    return MemoryStore("memory://tables/ranges", clock=lambda: EPOCH_MS + now_ms)


def build(store: MemoryStore, row: Row) -> TableBuilder:
    """Build a table whose own options are the policy of the row."""
    options = {
        "snapshot.num-retained.min": str(row.policy.retain_min),
        "snapshot.num-retained.max": str(row.policy.retain_max),
        "snapshot.time-retained": f"{row.policy.time_retained_ms} ms",
        "snapshot.expire.limit": str(row.policy.limit),
    }
    table = TableBuilder(store, options=options)
    first = min(row.time_ms)
    for i in range(first, max(row.time_ms) + 1):
        table.commit(f"+F{i}", snapshot_id=i, time_ms=EPOCH_MS + row.time_ms.get(i, 0))
    for i in set(range(first, max(row.time_ms))) - set(row.time_ms):
        table.remove(table.root(i))
    if row.consumer is not None:
        table.consumer("reader", row.consumer)
    return table


def maintain(store: MemoryStore) -> dict[str, Any]:
    """Run by the table's own options and return the report."""
    return Maintainer(store).expire(retain_max=None, retain_min=None).to_json()


def documents(store: MemoryStore) -> set[str]:
    return {found.key for found in store.list("snapshot/") if found.key.startswith("snapshot/snapshot-")}
