"""Metadata that is cut, flipped or swapped costs no root a file, and is said plainly."""

import os
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tests.bad_bytes import damage
from tests.bad_bytes.judge import Case, judge_all
from tests.bad_bytes.worlds import BUILT, FIXTURES, World, built_world, fixture_world

FLIPS = None if os.environ.get("LAKESWEEP_BAD_BYTES") == "all" else 7
"""Bits of each file that are flipped; `make bad-bytes` flips all."""


@pytest.fixture(params=[*BUILT, *FIXTURES])
def world(request: pytest.FixtureRequest) -> World:
    if request.param in BUILT:
        return built_world(request.param)
    if "orc" in request.param:
        pytest.importorskip("pyarrow")
    return fixture_world(request.getfixturevalue("fixtures_dir"), request.param)


@pytest.mark.parametrize("cases", [damage.cuts, damage.swaps, damage.removals])
def test_damage(world: World, cases: Callable[[World], Iterable[Case]]) -> None:
    tally = judge_all(world, cases(world))
    tally.check()
    assert not tally.excused["value"]


@pytest.mark.long
def test_look_alikes() -> None:
    """What cannot be told apart may cost a file; this says that such cases were tried, and that nothing else did."""
    excused: Counter[str] = Counter()
    for name in ("appends", "changes", "deltas"):
        tally = judge_all(built_world(name), damage.look_alikes(built_world(name)))
        tally.check()
        excused += tally.excused
    assert excused.keys() == {"list", "manifest"}


def test_flips(world: World) -> None:
    judge_all(world, damage.flips(world, FLIPS)).check()
