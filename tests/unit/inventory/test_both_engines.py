"""Odd inventories, read by the local engine and by that of Spark on a stand-in. Both must plan the same."""

from collections.abc import Callable

import pytest

from lakesweep.control.area import area_of
from lakesweep.model.plan import Plan
from lakesweep.model.roots import TableRef
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans import judging
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from tests.support.engines_compared import Answer, ask, differences
from tests.support.inventories import rows_of_store, write_inventory
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import DAY_MS, HOUR_MS, S3Scene
from tests.support.s3_server import fresh_bucket, moto_settings
from tests.support.spark_stand_in import stand_in_plan


def planned(patch: pytest.MonkeyPatch, scene: S3Scene, arguments: OrphanArguments) -> Answer:
    """Return what both engines plan."""
    answers = []
    engines: list[Callable[[Table], Plan]] = [
        lambda table: plan_remove_orphan_files(table, arguments),
        lambda table: stand_in_plan(patch, table, arguments),
    ]
    for engine in engines:
        location = scene.store.location
        area = area_of(MemoryStore("memory://control"), scene.store)
        table = Table(
            TableRef(location),
            scene.store,
            area,
            lambda place: open_store(place, settings=moto_settings()),
            RequestCounter(),
        )
        answers.append(ask(lambda engine=engine, table=table: engine(table), area))  # type: ignore[misc]
    assert differences(*answers) == {}
    return answers[0]


def test_an_inventory_shows_fresh_files_and_not_yet_the_schema_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 may leave out what was written shortly before; when the inventory is read, all of it may be old."""
    scene = S3Scene()
    scene.table.commit("+A", time_ms=1_600_000_000_000)
    old = scene.orphan("old")
    scene.age(2 * DAY_MS)
    of_another_table = scene.orphan("of another table", folder="dt=x/bucket-0/")
    schema = scene.put("dt=x/schema/schema-0", b"{}")
    scene.age()
    begun_ms = scene.store.now_ms() - 10 * DAY_MS + HOUR_MS
    at = open_store(f"s3://{fresh_bucket()}", settings=moto_settings())
    rows = [row for row in rows_of_store(scene.store, "db.db/t/") if not row.key.endswith(schema)]
    key = write_inventory(at, scene.bucket, rows, created_ms=begun_ms)

    arguments = OrphanArguments(older_than_ms=begun_ms + 3 * DAY_MS, inventory=f"{at.location}/{key}")

    answer = planned(monkeypatch, scene, arguments)

    assert answer.plan is not None, answer.error
    assert of_another_table not in answer.paths
    assert answer.paths == {old}
    assert answer.plan.header.kept["too_young"] >= 1


@pytest.mark.parametrize("rows_at_once", [1, 2, 3])
def test_what_is_listed_twice_is_planned_once(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many candidates are looked up at once."""
    monkeypatch.setattr(judging, "PART_ROWS", rows_at_once)
    scene = S3Scene()
    scene.table.commit("+A", time_ms=1_600_000_000_000)
    orphans = {scene.orphan(f"o{number}") for number in range(8)}
    orphans |= {scene.put(f"{orphan}.index") for orphan in orphans} | {scene.orphan("o0", folder="dt=x/bucket-0/")}
    scene.age()
    at = open_store(f"s3://{fresh_bucket()}", settings=moto_settings())
    rows = rows_of_store(scene.store, "db.db/t/")
    now_ms = scene.store.now_ms()
    key = write_inventory(at, scene.bucket, [*rows, *rows], created_ms=now_ms)

    arguments = OrphanArguments(older_than_ms=now_ms - 2 * DAY_MS, inventory=f"{at.location}/{key}")

    assert planned(monkeypatch, scene, arguments).paths == orphans
