"""Random tables, expired by the engine and by Lakesweep: snapshots by hand, changelogs by hand, or both by options.

`LAKESWEEP_DIFFERENTIAL_COUNT` says how many, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first (`random` draws it). To
them come a quarter as many with everything that a table can have: branches, changelogs, external paths, wrong hints.
Every other table was planned for once before, in the middle of its history, so that what is remembered between runs is
old when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential import ours
from tests.differential.case import run_case
from tests.differential.engine import Engine
from tests.differential.history import BASE, FULL, Space, make_history
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_DIFFERENTIAL_COUNT") or 50)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED")


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("differential")


def expire(location: Path, call: ours.Call, control: Path) -> ours.Answer:
    return ours.expire(location, call, control=control)


def plan(location: Path, control: Path) -> None:
    """Read the table as it is, and remember it."""
    argv = ["expire-snapshots", str(location), "--json", "--control", str(control), "--retain-max=1", "--retain-min=1"]
    ours.run(argv)


CASES = [
    pytest.param(space, seed, id=f"{space.name}-{seed}")
    for space, count in ((BASE, COUNT), (FULL, -(-COUNT // 4)))
    for seed in range(FIRST_SEED, FIRST_SEED + count)
]


@pytest.mark.parametrize(("space", "seed"), CASES)
def test_the_same_files_survive(
    engine: Engine, record_property: Callable[[str, object], None], work: Path, space: Space, seed: int
) -> None:
    verdict = run_case(engine, work, make_history(seed, space), expire, plan if seed % 2 else None)
    record_property("verdict", verdict.summary())
    assert not verdict.problems, str(verdict)
