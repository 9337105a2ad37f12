"""The engine and Lakesweep at work on one table at once, each in processes of its own, and ours killed now and then.

`LAKESWEEP_LIVE_PLAYS` says how many plays: none unless told (`make differential-live`), since what happens is a matter
of luck. `LAKESWEEP_DIFFERENTIAL_SEED` says which one is first (`random` draws it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.differential.engine import Engine
from tests.differential.live_cli import Forks
from tests.differential.live_play import run_play
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_LIVE_PLAYS") or 0)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 700)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def forks(work: Path) -> Iterator[tuple[Forks, Forks]]:
    """Where the command lines run: two at once."""
    made = Forks(work / "one"), Forks(work / "two")
    yield made
    for each in made:
        each.close()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_everything_reads_whoever_was_there_at_once(
    engine: Engine,
    forks: tuple[Forks, Forks],
    work: Path,
    record_property: Callable[[str, object], None],
    seed: int,
) -> None:
    """Every root reads what it read when it was committed, and the engine goes on."""
    play = run_play(engine, forks, work, seed)
    record_property("live", {"seed": seed, "windows": dict(play.windows), "facts": dict(play.facts)})
    assert not play.problems, str(play)
