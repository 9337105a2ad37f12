"""What runs cost and freed by month: the sums in the lease, and what becomes of them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import acquire, read_lease
from lakesweep.control.month_sums import MONTHS, Ended, Meter, added, month_of, sums_of
from lakesweep.control.receipts import receipts_of
from lakesweep.model.overview import Receipt
from lakesweep.operations.overview.rules.totals import by_month
from lakesweep.storage.requests import RequestCounter, Used
from tests.support.memory_store import MemoryStore

NOVEMBER, DECEMBER = 1_794_000_000_000, 1_796_500_000_000
"""A time of each month in 2026."""
SOUND = {
    "since_ms": None,
    "runs": 3,
    "requests": {"get": 7, "put": 2},
    "usd": 0.5,
    "freed_bytes": 1 << 30,
    "unknown": 0,
}


def area_of(table: str = "s3://lake/db.db/t") -> tuple[ControlArea, MemoryStore, RequestCounter]:
    counter = RequestCounter()
    store = MemoryStore("memory://control", counter=counter)
    return ControlArea(store, table, meter=Meter(counter)), store, counter


def run(area: ControlArea, run_id: str, freed: int | None = 0) -> None:
    lease = acquire(area, run_id)
    lease.freed_bytes = freed
    lease.release(ended=True)


def test_each_run_adds_what_it_used() -> None:
    """Every request is in one share: the sums of all runs are the count of all, up to the last put."""
    area, _, counter = area_of()
    assert receipts_of(area) == ()
    for number in range(3):
        area.put(f"plans/p{number}", b"x")
        run(area, f"run-{number}", freed=100)
    used = counter.snapshot()
    (receipt,) = receipts_of(area) or ()
    assert receipt.requests == used
    assert (receipt.runs, receipt.freed_bytes, receipt.unknown) == (3, 300, 0)
    assert receipt.since_ms is not None
    assert receipt.usd == pytest.approx(used["get"] * 0.4e-6 + (used["put"] + used["list"]) * 5e-6)


def test_no_request_more() -> None:
    """Runs that sum send exactly the requests of runs that do not."""
    area, _, counter = area_of()
    silent, _, other = area_of()
    for number in range(3):
        run(area, f"run-{number}")
        run(replace(silent, meter=None), f"run-{number}")
    assert counter.snapshot() == other.snapshot()
    assert receipts_of(silent) == ()


def test_a_run_of_many_leases_counts_once() -> None:
    """A run that commits takes the lease for each commit."""
    area, _, _ = area_of()
    for run_id in ("one", "one", "two"):
        run(area, run_id)
    (receipt,) = receipts_of(area) or ()
    assert receipt.runs == 2


def test_a_run_that_died_is_not_counted() -> None:
    """It released no lease. The next one counts only what it used itself."""
    area, store, _ = area_of()
    acquire(area, "dead")
    next_area = replace(area, meter=Meter(counter := RequestCounter()))
    counter.add("get", 5)
    document = json.loads(store.read(f"{area.prefix}lease.json").data)
    store.put(f"{area.prefix}lease.json", json.dumps({**document, "expires_at_ms": 0}).encode())
    run(next_area, "next", freed=7)
    (receipt,) = receipts_of(area) or ()
    assert (receipt.runs, receipt.requests["get"], receipt.freed_bytes) == (1, 5, 7)


def test_what_is_not_known_is_said() -> None:
    """The part that is known is in the sums."""
    area, _, counter = area_of()
    run(area, "one", freed=None)
    run(replace(area, meter=Meter(counter, usd_per_second=None)), "two", freed=5)
    run(area, "three", freed=6)
    (receipt,) = receipts_of(area) or ()
    assert (receipt.runs, receipt.unknown, receipt.freed_bytes) == (3, 2, 11)


def test_seconds_cost_what_a_function_costs() -> None:
    ended = Ended(Used({"get": 1}, 2000), 0.25, is_run=True, freed_bytes=0)
    assert added({}, ended, NOVEMBER)["2026-11"].usd == pytest.approx(0.5 + 0.4e-6)


@pytest.mark.parametrize(
    "damage",
    [
        5,
        [],
        {"2026-11": 5},
        *({"2026-11": SOUND | {name: value}} for name in SOUND for value in (-1, "x", [], True)),
        *({"2026-11": SOUND | {name: 1 << 80}} for name in ("since_ms", "runs", "freed_bytes", "unknown")),
        *({"2026-11": SOUND | {"usd": value}} for value in (float("nan"), float("inf"), None)),
        *({"2026-11": {key: SOUND[key] for key in SOUND if key != name}} for name in SOUND if name != "since_ms"),
        {"2026-11": SOUND | {"requests": {"other": 1}}},
        {"2026-11": SOUND | {"requests": {"get": -1}}},
        {str(number): SOUND for number in range(MONTHS + 1)},
    ],
)
def test_damaged_sums_are_unknown_and_stop_no_run(damage: Any) -> None:
    """Never zero. The next run begins anew, and says since when."""
    area, store, _ = area_of()
    run(area, "one")
    path = f"{area.prefix}lease.json"
    document = json.loads(store.read(path).data)
    store.put(path, json.dumps({**document, "receipts": damage}).encode())
    assert sums_of(damage) is None
    assert receipts_of(area) is None
    run(area, "two")
    (receipt,) = receipts_of(area) or ()
    assert receipt.runs == 1
    assert receipt.since_ms is not None


def test_months_follow_each_other() -> None:
    """The first one began in its middle; the twelve newest stay."""
    sums = added({}, Ended(Used({}, 0), 0.0, is_run=True, freed_bytes=1), NOVEMBER)
    sums = added(sums, Ended(Used({}, 0), 0.0, is_run=True, freed_bytes=2), DECEMBER)
    assert [(month, each.since_ms) for month, each in sums.items()] == [("2026-11", NOVEMBER), ("2026-12", None)]
    for number in range(1, 20):
        sums = added(sums, Ended(Used({}, 0), 0.0, is_run=True, freed_bytes=1), DECEMBER + number * 31 * 86_400_000)
    assert len(sums) == MONTHS
    assert min(sums) > "2026-12"


def test_a_clock_without_a_date_loses_nothing() -> None:
    sums = added({}, Ended(Used({}, 0), 0.0, is_run=True, freed_bytes=1), NOVEMBER)
    assert added(sums, Ended(Used({}, 0), 0.0, is_run=True, freed_bytes=1), 1 << 62) == sums


def test_a_lease_of_an_earlier_version_has_none() -> None:
    area, _, _ = area_of()
    run(replace(area, meter=None), "one")
    assert read_lease(area).receipts == {}
    assert receipts_of(area) == ()


def test_tables_are_summed_by_month() -> None:
    """Of two tables that began at different times, the later time is the one from which all is known."""
    one = Receipt("2026-11", 1, {"get": 1}, 0.5, 10, 0.1, since_ms=5, unknown=1)
    other = Receipt("2026-11", 2, {"get": 2, "put": 1}, 0.25, 20, 0.2, since_ms=9)
    older = Receipt("2026-10", 1, {}, 1.0, 0, 0.0)
    total = by_month((one, older, other))
    assert [each.month for each in total] == ["2026-11", "2026-10"]
    assert total[0] == Receipt("2026-11", 3, {"get": 3, "put": 1}, 0.75, 30, pytest.approx(0.3), since_ms=9, unknown=1)


def test_files_of_a_local_table_cost_nothing() -> None:
    area, _, _ = area_of("/data/t")
    run(area, "one", freed=1 << 40)
    (receipt,) = receipts_of(area) or ()
    assert (receipt.freed_bytes, receipt.freed_usd_month) == (1 << 40, 0.0)
    assert month_of(NOVEMBER) == "2026-11"
