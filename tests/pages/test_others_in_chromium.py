"""The pages of plans, runs and simulations in Chromium."""

from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.pages.deletions import plan_page, run_page
from lakesweep.pages.simulation import simulation_page
from tests.pages.conftest import SCREENS, Open
from tests.pages.looking import faults, unfold
from tests.unit.pages.deletions import action, planned, report, stored
from tests.unit.pages.simulations import simulation

_NAME = "<script>window.hacked=1</script>"


def deletions() -> list[dict[str, Any]]:
    kinds = ("data", "manifest", "snapshot")
    partitions = [f"dt=2026-01-{day:02}" for day in range(1, 31)] + [f"dt={_NAME.replace('/', '')}", f"dt={'x' * 1000}"]
    return [
        action(f"{partition}/bucket-0/{kind}-1", (place + 3) << 20, kind, f"left the table at snapshot {place}")
        for place, partition in enumerate(partitions)
        for kind in kinds
    ]


def run() -> str:
    failed = [{"path": f"dt={_NAME}/a", "code": "AccessDenied"}]
    outcome = {"deleted": 95, "already_gone": 0, "failed": failed, "kept_by_recheck": 0, "bytes": 10}
    words = {"kept": {"live": 4, "too_young": 2}, "kept_bytes": {"live": 2048}, "outcome": outcome, "status": "partial"}
    return run_page(stored(report(*deletions(), **words)), ["a line", _NAME])


def plan() -> str:
    return plan_page(planned(report(*deletions())), deletions(), [_NAME])


PAGES: dict[str, tuple[Callable[[], str], dict[str, int]]] = {
    "run": (run, {"#bars .bars-marks path": 21 * 3, "#legend li": 3}),
    "plan": (plan, {"#bars .bars-marks path": 21 * 3}),
    "simulation": (lambda: simulation_page(simulation(3, name=_NAME)), {"#curve .cases-marks path": 2}),
}


NAMES = ["run", "simulation", pytest.param("plan", marks=pytest.mark.long)]
"""The page of a plan has the template of the page of a run."""


@pytest.mark.parametrize("name", NAMES)
def test_marks_widths_and_names(open_page: Open, name: str) -> None:
    """Each chart has its data, no page is wider than the screen, and names are text."""
    make, marks = PAGES[name]
    page = make()
    SCREENS.mkdir(parents=True, exist_ok=True)
    for width, theme in ((360, "dark"), (1440, "light")):
        opened = open_page(page, width=width, theme=theme)
        assert {selector: opened.count(selector) for selector in marks} == marks
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
        assert opened.page.evaluate("window.hacked") is None
        assert "<script" in opened.page.evaluate("document.body.innerText")
        opened.page.screenshot(path=SCREENS / f"{name}-{width}-{theme}.png", full_page=True)


@pytest.mark.parametrize(
    "name", ["run", *(pytest.param(each, marks=pytest.mark.long) for each in ("simulation", "plan"))]
)
def test_no_serious_fault(open_page: Open, name: str) -> None:
    opened = open_page(PAGES[name][0](), theme="dark", bypass_csp=True)
    unfold(opened)
    assert faults(opened) == []
