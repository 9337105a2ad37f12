"""The page of a simulation: the curve, a mark for each policy, and who loses what."""

import json
from typing import Any

from lakesweep.model.simulation import PRESENT
from lakesweep.pages.simulation import SHOWN, simulation_page
from tests.support.overviews import DAY_MS
from tests.unit.pages.elements import Elements
from tests.unit.pages.simulations import simulation


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
