"""A table to scan by many workers, and the scan of it."""

from dataclasses import replace
from random import Random
from typing import Any

from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.session import Table
from tests.support.fan_out import FanOut
from tests.support.orphan_scene import DAY_MS, OrphanScene
from tests.support.random_scene import OUTSIDE, fill

SEED = 7


def stage(seed: int = SEED, external: str | None = OUTSIDE) -> tuple[OrphanScene, Table, OrphanArguments]:
    """Return a table of many things; the same seed gives the same."""
    scene, random = OrphanScene(external=external), Random(seed)
    filled = fill(scene, random)
    arguments = OrphanArguments(older_than_ms=scene.now_ms - DAY_MS, **filled)
    table = replace(scene.maintainer().table, sleep=lambda _: None)
    return scene, table, arguments


def fan_out(scene: OrphanScene, table: Table, arguments: OrphanArguments, seed: int = 0, **more: Any) -> FanOut:
    def jump(by_ms: int) -> None:
        scene.now_ms += by_ms

    return FanOut(table, arguments, Random(seed), jump=jump, **more)
