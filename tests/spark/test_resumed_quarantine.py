"""The quarantine, and scans that go on hours after they were begun. On a stand-in for Spark."""

import json

import pytest

from lakesweep.control.quarantine import read_quarantine
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from tests.support.orphan_scene import DAY_MS, HOUR_MS, OrphanScene
from tests.support.spark_stand_in import stand_in_plan

ARGUMENTS = OrphanArguments(quarantine_ms=DAY_MS)


def test_what_became_an_orphan_meanwhile_waits_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback takes a snapshot between two attempts. Its lists were there before, and no orphans then."""
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.table.commit("+d")
    orphan = scene.orphan("o")
    scene.age()
    table = scene.maintainer().table
    area = require_area(table)
    began_ms = scene.now_ms
    base = f"manifest/{json.loads(scene.store.read('snapshot/snapshot-2').data)['baseManifestList']}"
    stand_in_plan(monkeypatch, table, ARGUMENTS, "s")
    scene.now_ms += 20 * HOUR_MS
    scene.table.rollback(1)

    stand_in_plan(monkeypatch, table, ARGUMENTS, "s")

    seen = {key: seen_ms for (key, *_), seen_ms in read_quarantine(area).first_seen_ms.items()}
    assert seen[orphan] == began_ms
    assert seen[base] == scene.now_ms
    scene.now_ms += 5 * HOUR_MS
    assert {delete.path for delete in plan_remove_orphan_files(table, ARGUMENTS).deletes} == {orphan}
