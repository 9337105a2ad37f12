"""Whole scans whose candidates come from an inventory."""

from functools import reduce

import pytest

from lakesweep.storage.listing import list_all
from lakesweep.storage.store import DeleteRequest
from lakesweep.table.inventory.manifest import read_inventory
from lakesweep.table.inventory.reach import Reach, reach_of, refuse_partial
from lakesweep.table.inventory.rows import list_inventory
from tests.support.inventories import (
    FOLDERS,
    deletes_of,
    from_inventory,
    rows_of_store,
    rows_of_versions,
    scene_of,
    write_inventory,
)
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import OPERATION
from tests.support.s3_server import moto_client, versioned_bucket

FORMATS = ["CSV", "Parquet"]


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_same_plan(file_format: str) -> None:
    """From a listing with URL encoding and from an inventory comes the same plan, action by action."""
    scene = scene_of()
    planned = deletes_of(scene)
    assert {path[: path.rindex("/") + 1] for path in planned} == set(FOLDERS)
    store = from_inventory(scene, rows_of_store(scene.store, "db.db/t/"), file_format)
    assert deletes_of(scene, store) == planned
    report = scene.maintainer(store).run(OPERATION)
    assert report.status == "done"
    assert scene.listed().isdisjoint(planned)


@pytest.mark.parametrize("file_format", FORMATS)
def test_only_current_objects(file_format: str) -> None:
    """Versions that are not current are no candidates, and what went can be taken back."""
    scene = scene_of(versioned_bucket())
    first, second, third = sorted(deletes_of(scene))
    scene.store.put(first, b"a second version")
    scene.age()
    scene.store.delete([DeleteRequest(second)])
    rows = rows_of_versions(moto_client(), scene.bucket)
    assert sum(row.key.endswith((first, second)) for row in rows) == 4
    store = from_inventory(scene, rows, file_format, versions=True)
    assert set(deletes_of(scene, store)) == {first, third}
    assert deletes_of(scene, store) == deletes_of(scene)
    before = {each.key: each for page in list_all(scene.store) for each in page}
    report = scene.maintainer(store).run(OPERATION)
    assert report.run_id is not None
    assert scene.listed().isdisjoint({first, third})
    undone = scene.maintainer().run("undo", run_id=report.run_id)
    assert undone.status == "done"
    after = {each.key: each for page in list_all(scene.store) for each in page}
    assert {key: after[key].etag for key in (first, third)} == {key: before[key].etag for key in (first, third)}


@pytest.mark.parametrize("file_format", FORMATS)
def test_rewritten_since(file_format: str) -> None:
    """An object that was written again since stays, and so does one that is gone."""
    scene = scene_of()
    rows = rows_of_store(scene.store, "db.db/t/")
    rewritten, gone, same = sorted(deletes_of(scene))
    scene.store.put(rewritten, b"orphan")  # equal bytes, so an equal ETag
    scene.store.delete([DeleteRequest(gone)])
    assert set(deletes_of(scene, from_inventory(scene, rows, file_format))) == {same}


def test_this_table_is_within_reach() -> None:
    """The keys of a table begin in different ways, so that an inventory of all of it is seen to be whole."""
    scene = scene_of()
    at = MemoryStore("memory://inventories")
    rows = rows_of_store(scene.store, "db.db/t/")
    key = write_inventory(at, scene.bucket, rows, created_ms=scene.store.now_ms(), files=3)
    inventory = read_inventory(at, key, scene.bucket)
    reach = reduce(Reach.__add__, map(reach_of, list_inventory(inventory, at, "db.db/t/")))
    assert reach.beginning == ""
    refuse_partial("t", scene.store, inventory, reach)
