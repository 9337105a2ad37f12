"""The page of a simulation: the curve, a mark for each policy, and who loses what."""

import json
from typing import Any

from lakesweep.model.simulation import PRESENT, Amount, Case, CaseTotal, CurvePoint, Reader, Rules, Simulation
from lakesweep.model.simulation import TableSimulation as Table
from lakesweep.pages.simulation import SHOWN, simulation_page
from tests.support.overviews import DAY_MS, NOW_MS, PLACE
from tests.unit.pages.test_overview_page import Elements


def amount(size: int, snapshots: int = 3) -> Amount:
    return Amount(snapshots, 1, 10, 20, size, 0, size, 0.5)


def simulation(count: int = 1, *, name: str = "sales.db/orders", failed: bool = False) -> dict[str, Any]:
    """Return the document of a simulation of some tables, each with two policies."""
    reader = Reader("consumer", f"job of {name}", 7, "lost", 2, 2048)
    cases = (
        Case(PRESENT, Rules(1, None, 10 * DAY_MS), amount(5 << 30), amount(0), 1, NOW_MS - 9 * DAY_MS),
        Case(name, Rules(1, 3, 3 * DAY_MS), amount(2 << 30), amount(3 << 30), 7, NOW_MS - 2 * DAY_MS, (reader,)),
    )
    curve = tuple(CurvePoint(age * DAY_MS, age + 1, (age + 2) << 29, 0.1) for age in range(10))
    tables = [
        Table(
            f"{PLACE}/{name}{each}",
            f"{name}{each}",
            "main",
            NOW_MS,
            history_begins_ms=NOW_MS - 9 * DAY_MS,
            now=amount(5 << 30),
            cases=cases,
            curve=curve,
        )
        for each in range(count)
    ]
    if failed:
        tables.append(Table(f"{PLACE}/broken", "broken", "main", NOW_MS, "it is <damaged>", "damaged"))
    totals = tuple(
        CaseTotal(
            case.name, amount(case.kept.bytes * count), amount(case.deleted.bytes * count), len(case.readers) * count
        )
        for case in cases
    )
    return Simulation(
        PLACE,
        NOW_MS,
        None,
        "2026-11-21",
        "us-east-1",
        amount((5 << 30) * count),
        totals,
        curve,
        int(failed),
        tuple(tables),
    ).to_json()


def data_of(page: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Elements(page).texts["script"][1])
    return data


def test_the_curve_and_a_mark_for_each_policy() -> None:
    document = simulation()
    data = data_of(simulation_page(document))
    assert data["curve"] == [[point["age_ms"], point["bytes"], point["snapshots"]] for point in document["curve"]]
    assert data["cases"] == [[PRESENT, 9 * DAY_MS, 5 << 30, 3], ["sales.db/orders", 2 * DAY_MS, 2 << 30, 3]]


def test_many_tables() -> None:
    """The page has some of them, and says how many more there are. One that failed has no figures."""
    page = simulation_page(simulation(SHOWN + 50))
    assert "and 50 more" in page
    assert len(page.encode()) < 800_000
    failed = simulation_page(simulation(2, failed=True))
    assert "1 table could not be simulated" in failed
    assert "it is &lt;damaged&gt;" in failed


def test_a_reader_that_loses_its_snapshot_is_named() -> None:
    page = simulation_page(simulation())
    assert "job of sales.db/orders" in page
    assert "loses its snapshot" in page


def test_names_become_no_element() -> None:
    name = "<script>window.hacked=1</script>\u202e"
    page = simulation_page(simulation(2, name=name))
    usual = simulation_page(simulation(2))
    assert [tag for tag, _ in Elements(page).tags] == [tag for tag, _ in Elements(usual).tags]
    assert "\u202e" not in page
