"""Random tables of every kind: the Spark engine, on a stand-in for Spark, says what the local engine says."""

import os
from dataclasses import replace
from random import Random

import pytest

from lakesweep.control.quarantine import read_quarantine
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from tests.support.engines_compared import ask, differences
from tests.support.orphan_scene import DAY_MS, OrphanScene
from tests.support.random_scene import OUTSIDE, fill
from tests.support.spark_stand_in import stand_in_plan
from tests.support.walk import referenced_names

SEEDS = int(os.environ.get("LAKESWEEP_SPARK_SEEDS") or 60)


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_engines_agree_on_random_tables(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 10):
        random = Random(seed)
        scene = OrphanScene(external=random.choice((None, OUTSIDE)))
        arguments = OrphanArguments(
            quarantine_ms=random.choice((None, None, DAY_MS)), older_than_ms=None, **fill(scene, random)
        )
        table = replace(scene.maintainer().table, sleep=lambda _: None)
        for _ in range(1 if arguments.quarantine_ms is None else 3):
            # The local engine writes the quarantine first, then Spark, each from what the other wrote in the last scan.
            local = ask(lambda: plan_remove_orphan_files(table, arguments), require_area(table))  # noqa: B023
            spark = ask(lambda: stand_in_plan(monkeypatch, table, arguments, seed=seed), require_area(table))  # noqa: B023
            assert differences(local, spark) == {}, seed
            if spark.plan is not None:
                needed = referenced_names(scene.store)
                assert not {path for path in spark.paths if path.rpartition("/")[2] in needed}, seed
            scene.now_ms += DAY_MS
        if arguments.quarantine_ms is not None and spark.plan is not None:
            assert {seen for *_, seen in read_quarantine(require_area(table)).first_seen_ms} or not spark.paths
