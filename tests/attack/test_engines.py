"""Hostile metadata and the engines of orphan scans: one process, fan-out, and Spark as its stand-in plays it.

They say the same of each table, and none plans what a root needs. Inventories lie, too.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from tests.attack.metadata import THOROUGH, built_world
from tests.attack.metadata_lies import LIES, PLACES, WORLD
from tests.bad_bytes.worlds import empty
from tests.support.engines_compared import ask, differences
from tests.support.fan_out import fan_out_plan, small_limits
from tests.support.inventories import Row, deletes_of, from_inventory, rows_of_store, scene_of
from tests.support.maintenance import Maintainer
from tests.support.orphan_scene import OPERATION
from tests.support.spark_stand_in import stand_in_plan

ORPHAN = "dt=2026-01-01/bucket-0/data-11111111-2222-3333-4444-555555555555-0.parquet"
SOME = ("the newest snapshot", "a tag", "a branch")


@pytest.mark.parametrize("place", PLACES if THOROUGH else SOME)
@pytest.mark.parametrize("lie", LIES)
def test_engines_agree_on_metadata_that_lies(lie: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch)
    world = built_world(WORLD)
    files, fields = LIES[lie](world)
    changes = {**files, **PLACES[place](world, fields)}
    store, outside = world.stores({**changes, ORPHAN: b"x"})
    table = Maintainer(store, open_store=lambda _: outside, control=empty("memory://control")).table
    arguments = OrphanArguments(older_than_ms=store.now_ms() - 1, no_writers="none")
    area = require_area(table)
    engines: tuple[Callable[[], Any], ...] = (
        lambda: plan_remove_orphan_files(table, arguments),
        lambda: fan_out_plan(table, arguments),
        lambda: stand_in_plan(monkeypatch, table, arguments),
    )
    local, *others = [ask(engine, area) for engine in engines]
    for other in others:
        assert differences(local, other) == {}
    honest = world.needs.keys() & world.objects.keys() - changes.keys()
    needed = set[str]().union(*(world.needs[root] for root in honest))
    if local.plan is not None:
        assert not local.paths & needed


LYING_ROWS: dict[str, Callable[[list[Row]], list[Row]]] = {
    "all of them long ago": lambda rows: [replace(row, modified_ms=1) for row in rows],
    "all of them in the future": lambda rows: [replace(row, modified_ms=row.modified_ms + 10**12) for row in rows],
    "other sizes": lambda rows: [replace(row, size_bytes=(row.size_bytes or 0) + 1) for row in rows],
    "other ETags": lambda rows: [replace(row, etag="0" * 32) for row in rows],
    "each twice": lambda rows: [*rows, *rows],
    "each twice, once as another": lambda rows: [*rows, *(replace(row, etag="x", modified_ms=1) for row in rows)],
    "no documents": lambda rows: [row for row in rows if "/bucket-0/" in row.key],
    "data files as orphans": lambda rows: [*rows, *(replace(r, key=r.key + ".parquet") for r in rows)],
    "keys that lead elsewhere": lambda rows: [*rows, *(replace(r, key=f"db.db/t/../other/{r.key}") for r in rows)],
    "tables beside it": lambda rows: [*rows, *(replace(r, key=r.key.replace("/t/", "/t2/")) for r in rows)],
    "none": lambda rows: [],
}


@pytest.mark.parametrize("lie", LYING_ROWS)
def test_inventories_that_lie(lie: str) -> None:
    """What an inventory says is looked up again: nothing that is live, young or elsewhere is planned."""
    scene = scene_of()
    young = scene.orphan("young")
    honest = set(deletes_of(scene))
    rows = rows_of_store(scene.store, "db.db/t/")
    store = from_inventory(scene, LYING_ROWS[lie](rows), "CSV")
    planned = set(deletes_of(scene, store))
    assert planned <= honest and young not in planned
    scene.maintainer(store).run(OPERATION)
    assert scene.table.referenced("snapshot/snapshot-1") <= scene.listed()
