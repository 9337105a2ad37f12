"""Tables with primary keys that are compacted between what the engine, pypaimon and our maintenance do to them.

`LAKESWEEP_KEYED_HISTORIES` says how many random histories.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.engine import Engine
from tests.differential.keyed_history import play
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_KEYED_HISTORIES") or 6)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED", 1)
SEEDS = range(FIRST_SEED, FIRST_SEED + COUNT)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_engine_compacts(
    engine: Engine, record_property: Callable[[str, object], None], tmp_path: Path, seed: int
) -> None:
    """The judges agree about what the engine does by itself."""
    record_property("keyed", dict(play(engine, tmp_path, seed, ours=False)))


@pytest.mark.parametrize("seed", SEEDS)
def test_histories(engine: Engine, record_property: Callable[[str, object], None], tmp_path: Path, seed: int) -> None:
    """Tables of many kinds, others between our compactions, and the engine on top of the last one."""
    record_property("keyed", dict(play(engine, tmp_path, seed)))
