"""Documents of simulations, for pages."""

from typing import Any

from lakesweep.model.simulation import PRESENT, Amount, Case, CaseTotal, CurvePoint, Reader, Rules, Simulation
from lakesweep.model.simulation import TableSimulation as Table
from tests.support.overviews import DAY_MS, NOW_MS, PLACE


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
