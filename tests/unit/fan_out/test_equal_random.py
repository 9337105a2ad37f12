"""Random tables of every kind: the fan-out says what the local engine says, whatever becomes of its messages."""

import os
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lakesweep.control.quarantine import read_quarantine
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from tests.support.engines_compared import Answer, ask, differences
from tests.support.fan_out import ANY, CALM, fan_out_plan, small_limits
from tests.support.orphan_scene import DAY_MS, OrphanScene
from tests.support.random_scene import OUTSIDE, fill
from tests.support.sampling import is_sampled
from tests.support.walk import referenced_names

SEEDS = int(os.environ.get("LAKESWEEP_FAN_OUT_SEEDS") or 40)


def compared(table: Table, arguments: OrphanArguments, where: object, seed: int, **more: Any) -> Answer:
    """Plan with both, the local engine first, and fail unless they say the same."""
    area = require_area(table)
    local = ask(lambda: plan_remove_orphan_files(table, arguments), area)
    fan_out = ask(lambda: fan_out_plan(table, arguments, seed=seed, **more), area)
    assert differences(local, fan_out) == {}, where
    if fan_out.plan is not None:
        needed = referenced_names(table.store)
        assert not {path for path in fan_out.paths if path.rpartition("/")[2] in needed}, where
    return fan_out


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_engines_agree_on_random_tables(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans with a quarantine come three times, so that the later ones use the segments of the earlier.

    The local engine writes the quarantine first, then the fan-out, each from what the other wrote before.
    """
    for seed in range(first, first + (4 if is_sampled() else 10)):
        random = Random(seed)
        scene = OrphanScene(external=random.choice((None, OUTSIDE)))
        arguments = OrphanArguments(
            quarantine_ms=random.choice((None, None, DAY_MS)), older_than_ms=None, **fill(scene, random)
        )
        table = replace(scene.maintainer().table, sleep=lambda _: None)
        small_limits(
            monkeypatch,
            LIST_PAGES=random.choice((2, 5)),
            DECODE_ENTRIES=random.choice((1, 6, 1000)),
            MATCH_ROWS=random.choice((20, 1000)),
        )
        trouble = random.choice((CALM, ANY))
        for number in range(1 if arguments.quarantine_ms is None else 3):

            def jump(by_ms: int, scene: OrphanScene = scene) -> None:
                scene.now_ms += by_ms

            found = compared(
                table, arguments, (seed, number), seed, trouble=trouble, jump=jump, scan_id=f"scan-{number}"
            )
            scene.now_ms += DAY_MS
        if arguments.quarantine_ms is not None and found.plan is not None:
            assert {seen for *_, seen in read_quarantine(require_area(table)).first_seen_ms} or not found.paths
