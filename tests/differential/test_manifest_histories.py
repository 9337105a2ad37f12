"""Random histories: Lakesweep compacts manifests beside the engine, and the engine goes on.

`LAKESWEEP_MANIFEST_HISTORIES` says how many, `LAKESWEEP_DIFFERENTIAL_SEED` which one is first (`random` draws it).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.commit_acts import by_ours, draw_compaction, engine_as_maintainer
from tests.differential.commit_case import ROUNDS, run_commit_history
from tests.differential.engine import Engine
from tests.support.sampling import is_sampled
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_MANIFEST_HISTORIES") or 3)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 956)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_the_engine_goes_on_after_our_compaction(
    engine: Engine, record_property: Callable[[str, object], None], tmp_path: Path, seed: int
) -> None:
    rounds = 1 if is_sampled() else ROUNDS
    verdict = run_commit_history(engine, tmp_path, seed, by_ours, "manifests", draw_compaction, rounds)
    record_property("commits", verdict.summary())
    assert not verdict.problems, str(verdict)


@pytest.mark.long
def test_the_engine_agrees_with_itself(engine: Engine, tmp_path: Path) -> None:
    """The judges are silent where nothing differs."""
    verdict = run_commit_history(engine, tmp_path, 956, engine_as_maintainer(engine), "same", draw_compaction)
    assert not verdict.problems, str(verdict)
