"""The exported ledger: every result once, every object without one, whatever is damaged is said."""

import tracemalloc
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.export import COLUMNS, Span, rows_of, rows_of_all
from lakesweep.control.chain import is_object_row
from lakesweep.control.ledger import Ledger, SliceLedger
from lakesweep.control.ndjson import pack, unpack
from lakesweep.errors import StorageError
from lakesweep.model.plan import Delete
from lakesweep.storage.store import DeleteResult
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.memory_store import MemoryStore
from tests.support.paged_store import PagedStore
from tests.support.sampling import examples

NOW_MS = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
TABLES = ("memory://lake/sales.db/orders", "memory://lake/sales.db/returns")
RUNS = ("20260129T120000Z-aaaaaaaa", "20260130T120000Z-bbbbbbbb", "20260131T120000Z-cccccccc", "job-of-mine")
Row = Mapping[str, Any]


def delete(path: str) -> Delete:
    return Delete("data_files", "data", path, 10, "why")


def control() -> MemoryStore:
    return MemoryStore("memory://ops", clock=lambda: NOW_MS)


def run(area: ControlArea, run_id: str, batches: list[tuple[int, bool]], slices: list[tuple[int, bool]]) -> None:
    """Write the ledger of a run: batches of so many objects, each with or without results at the end."""
    ledger = Ledger(area, run_id, run_id)
    for number, (count, has_result) in enumerate(batches):
        deletes = [delete(f"bucket-0/{number}-{each}") for each in range(count)]
        ledger.intend(deletes)
        if not has_result:
            break  # the run died
        ledger.record(
            deletes[1:],
            {each.path: DeleteResult(each.path, "deleted", "v") for each in deletes[1:]},
            [(each, "live") for each in deletes[:1]],
        )
    else:
        ledger.flush()
    for number, (count, has_result) in enumerate(slices):
        own = SliceLedger(area, run_id, run_id, number)
        deletes = [delete(f"bucket-1/{number}-{each}") for each in range(count)]
        own.intend(deletes)
        if has_result:
            own.record(deletes, {each.path: DeleteResult(each.path, "already_gone") for each in deletes}, ())


def exported(store: Any, span: Span = Span()) -> tuple[list[Row], list[str]]:  # noqa: B008 - it is frozen
    problems: list[str] = []
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows_of_all(store, span, problems)], problems


def raw(store: MemoryStore) -> Counter[tuple[object, ...]]:
    """Count what the stored parts say, read one by one and without the exporter."""
    results: Counter[tuple[object, ...]] = Counter()
    intents: dict[tuple[object, ...], int] = {}
    for entry in store.list("tables/"):
        parts = entry.key.split("/")
        for row in unpack(store.read(entry.key).data, entry.key):
            if is_object_row(row):
                at = (parts[1], parts[4], row["batch"], row["key"])
                if "result" in row:
                    results[(*at, row["result"], row.get("version_id"), row.get("why"))] += 1
                else:
                    intents[at] = intents.get(at, 0) + 1
    answered = {row[:4] for row in results}
    results.update((*at, "unknown", None, None) for at in intents if at not in answered)
    return results


def as_counted(rows: list[Row]) -> Counter[tuple[object, ...]]:
    names = ("table_key", "run_id", "batch", "key", "result", "version_id", "why")
    return Counter(tuple(row[name] for name in names) for row in rows)


BATCHES = st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=3)


@settings(max_examples=examples(60), deadline=None)
@given(
    histories=st.dictionaries(st.tuples(st.sampled_from(TABLES), st.sampled_from(RUNS)), st.tuples(BATCHES, BATCHES))
)
def test_the_export_is_the_ledger(histories: Mapping[tuple[str, str], tuple[Any, Any]]) -> None:
    """Of random runs that ended or died, alone or in slices."""
    store = control()
    for (table, run_id), (batches, slices) in histories.items():
        run(ControlArea(store, table), run_id, batches, slices)
    rows, problems = exported(store)
    assert problems == []
    assert as_counted(rows) == raw(store)
    names = {ControlArea(store, table).prefix.split("/")[1]: table for table in TABLES}
    assert all(row["table"] == names[row["table_key"]] and row["time"] == NOW_MS for row in rows)
    for table in TABLES:
        own = list(rows_of(ControlArea(store, table), Span(), []))
        assert [dict(zip(COLUMNS, row, strict=True)) for row in own] == [row for row in rows if row["table"] == table]
    day = Span(NOW_MS - 86_400_000, NOW_MS)
    of_day, _ = exported(store, day)
    assert of_day == [row for row in rows if row["run_id"] == RUNS[1]]
    late, _ = exported(store, Span(NOW_MS))
    assert late == [row for row in rows if row["run_id"] in (RUNS[2], RUNS[3])]


def damaged(kind: str, store: MemoryStore, key: str) -> None:
    body = store.read(key).data
    if kind == "cut off":
        store.put(key, body[:-5])
    elif kind == "no gzip":
        store.put(key, b"x")
    elif kind == "another row":
        store.put(key, pack([*unpack(body, key), {"plan_id": 5}]))
    elif kind == "a row more":
        store.put(
            key,
            pack([*unpack(body, key), {"plan_id": "p", "batch": 1, "kind": "data", "key": "k", "result": "deleted"}]),
        )
    else:
        store._objects.pop(key)


@pytest.mark.parametrize(
    ("kind", "number", "words", "left"),
    [
        ("cut off", 0, "expected one whole gzip stream", 4),
        ("no gzip", 1, "gzip", 2),
        ("another row", 2, "expected key, kind, plan_id, batch and result", 2),
        ("a row more", 0, "expected the hash of the part before", 5),
        ("gone", 0, "expected part 1 of main, found 2", 4),
    ],
)
def test_damage_is_said_and_the_rest_is_there(kind: str, number: int, words: str, left: int) -> None:
    """A part that cannot be read has no rows; one that was changed has them, and breaks the chain."""
    store = control()
    area = ControlArea(store, TABLES[0])
    run(area, RUNS[0], [(2, True), (2, True)], [])
    run(area, RUNS[1], [(1, True)], [])
    keys = [entry.key for entry in store.list("") if RUNS[0] in entry.key]
    assert len(keys) == 3
    damaged(kind, store, keys[number])
    rows, problems = exported(store)
    assert any(words in each and keys[0].rpartition("/")[0] in each for each in problems), problems
    assert sum(row["run_id"] == RUNS[1] for row in rows) == 1
    assert sum(row["run_id"] == RUNS[0] and row["result"] != "unknown" for row in rows) == left


def test_a_failed_read_is_no_empty_ledger() -> None:
    """At every request: the export fails, or says which table it could not list."""
    store = control()
    for table in TABLES:
        run(ControlArea(store, table), RUNS[0], [(2, True)], [])
    whole, _ = exported(store)
    calls = Switch()
    exported(FaultyStore(store, calls, "ops"))
    for at in range(1, len(calls.calls) + 1):
        try:
            rows, problems = exported(FaultyStore(store, Switch(at), "ops"))
        except StorageError:
            continue
        assert problems, calls.calls[at - 1]
        assert len(rows) == len(whole) / 2


def test_only_the_asked_days_are_listed_and_read() -> None:
    """The requests, exactly: the folders of tables, two ranges for each table, and the parts of the runs."""
    store = control()
    for table in TABLES:
        for run_id in RUNS[:3]:
            run(ControlArea(store, table), run_id, [(2, True)], [])
    seen: list[str] = []
    rows, _ = exported(PagedStore(store, seen.append, keys=1000), Span(NOW_MS))
    keys = [ControlArea(store, table).prefix for table in TABLES]
    assert {row["run_id"] for row in rows} == {RUNS[2]}
    assert Counter(seen) == Counter(
        ["folders tables/"]
        + [f"list {key}ledger/" for key in keys for _ in range(2)]
        + [
            f"read {key}ledger/dt=2026-01-31/{RUNS[2]}/0000{n}-{kind}.ndjson.gz"
            for key in keys
            for n, kind in ((1, "intent"), (2, "result"))
        ]
    )


def test_documents_of_nobody_are_exported() -> None:
    """A folder whose parts name no table that fits has rows all the same."""
    store = control()
    area = ControlArea(store, TABLES[0])
    run(area, RUNS[0], [(1, True)], [])
    for entry in list(store.list("")):
        store.put(entry.key.replace(area.prefix, "tables/unknown/"), store.read(entry.key).data)
        store._objects.pop(entry.key)
    rows, problems = exported(store)
    assert [(row["table"], row["table_key"], row["result"]) for row in rows] == [(None, "unknown", "kept_by_recheck")]
    assert problems == []


def test_memory_does_not_grow_with_the_ledger() -> None:
    """Six times the parts, the same peak: rows leave as they are read."""
    peaks = []
    for count in (4, 24):
        store = control()
        ledger = Ledger(ControlArea(store, TABLES[0]), RUNS[0], RUNS[0])
        for number in range(count):
            deletes = [delete(f"bucket-0/{number}-{each}") for each in range(250)]
            ledger.intend(deletes)
            ledger.record(deletes, {each.path: DeleteResult(each.path, "deleted") for each in deletes}, ())
        ledger.flush()
        tracemalloc.start()
        assert sum(1 for _ in rows_of_all(store, Span(), [])) == 250 * count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
