"""Hostile metadata and the engines of orphan scans: one process, fan-out, and Spark as its stand-in plays it.

They say the same of each table, and none plans what a root needs. Inventories that lie: `tests/unit/inventory`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.operations.orphan_scan import OrphanArguments
from lakesweep.operations.remove_orphan_files import plan_remove_orphan_files
from lakesweep.operations.run import require_area
from tests.attack.metadata import THOROUGH, built_world
from tests.attack.test_metadata import LIES, PLACES, WORLD
from tests.bad_bytes.worlds import empty
from tests.support.engines_compared import ask, differences
from tests.support.fan_out import fan_out_plan, small_limits
from tests.support.maintenance import Maintainer
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
