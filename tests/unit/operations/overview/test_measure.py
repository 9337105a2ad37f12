"""One table in the overview: the same figures as the commands about one table, in few requests."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.operations.inspect.explain.table import explain_table
from lakesweep.operations.inspect.show import summarise
from lakesweep.operations.overview.measure import measure, remembered
from lakesweep.operations.overview.measured import Measured
from tests.support.histories import Commit, build, histories
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.sampling import examples

DAY_MS = 86_400_000
NOW_MS = 400 * DAY_MS
UUID = "00000000-0000-4000-8000-000000000000"


def store_at(now_ms: int = NOW_MS, **words: Any) -> MemoryStore:
    return MemoryStore(clock=lambda: now_ms, **words)


def measured(store: MemoryStore, **words: Any) -> Measured:
    return measure(Maintainer(store, **words).table, "db/table")


PLANTED = (
    f"bucket-0/data-{UUID}-0.parquet",
    f"manifest/manifest-{UUID}-0",
    f"snapshot/.snapshot-9.{UUID}.tmp",
    "README",
    "other/schema/schema-0",
    f"other/bucket-0/data-{UUID}-0.parquet",
    "temp/job/task_0.preCommit",
)


@settings(max_examples=examples(40))
@given(histories, st.sets(st.sampled_from(PLANTED)), st.integers(0, 1))
def test_the_figures_of_any_history(steps: list[Commit], planted: set[str], age: int) -> None:
    """Bytes by reason are those of `explain` and add up to the listing; the rest is what `show` says."""
    store = store_at()
    build(store, steps)
    for key in planted:
        store.put(key, b"planted")
    for entry in list(store.list("")):
        store.set_modified(entry.key, NOW_MS - age * 2 * DAY_MS)
    table = Maintainer(store).table
    found = measure(table, "db/table").overview
    explained = explain_table(table)
    shares = [(each.reason, each.count, each.bytes) for each in explained.shares]
    assert [(each.reason, each.count, each.bytes) for each in found.reasons] == [
        each for each in shares if each[0] != "missing"
    ]
    entries = list(store.list(""))
    assert (found.objects, found.bytes) == (len(entries), sum(entry.size_bytes for entry in entries))
    assert sum(each.bytes for each in found.reasons) == found.bytes
    shown = summarise(table, pinned=True)
    assert shown.live is not None
    assert (found.live_files, found.live_bytes) == (shown.live.files, shown.live.bytes)
    assert [(pin.kind, pin.name, pin.snapshot_id, pin.bytes) for pin in found.pins] == [
        (pin.kind, pin.name, pin.snapshot_id, pin.bytes) for pin in shown.pins
    ]
    assert (found.snapshots, found.branches, found.tags) == (shown.snapshots.count, shown.branches, len(shown.tags))


def test_a_remembered_measure() -> None:
    """It holds until something changes."""
    store = store_at()
    table = build(store, [Commit(2, (), None, False, False, False, None, False)] * 3)
    first = measured(store)
    again = remembered(Maintainer(store).table, first)
    assert again is not None
    assert again.overview.is_remembered
    table.commit("+New")
    assert remembered(Maintainer(store).table, first) is None


@pytest.mark.parametrize("name", ["<script>", "\u202eevil", "x" * 1000])
def test_a_hostile_name(name: str) -> None:
    """It is carried as it is."""
    store = store_at()
    build(store, [Commit(1, (), None, False, False, False, None, False)])
    assert measure(Maintainer(store).table, name).overview.name == name
