"""Awkward shapes on a real Spark: nothing at all, ten thousand partitions, one folder with nearly everything."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakesweep.spark.listing as listing
import lakesweep.spark.match as matching
from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.spark.scan import SparkScan
from lakesweep.storage.open import StoreSettings, open_store
from tests.support.engines_compared import Answer, ask, differences
from tests.support.metadata_files import stable_uuid
from tests.support.orphan_scene import DAY_MS
from tests.support.random_scene import FolderScene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def both(spark: "SparkSession", scene: FolderScene) -> Answer:
    """Plan with both engines, which must agree."""
    location = scene.store.location
    table = Table(
        ref=TableRef(location),
        store=open_store(location),
        area=ControlArea(open_store(scene.control.location), location),
        open_store=open_store,
        sleep=lambda _: None,
    )
    arguments = OrphanArguments(older_than_ms=int(time.time() * 1000) - 2 * DAY_MS)
    local = ask(lambda: plan_remove_orphan_files(table, arguments), require_area(table))
    other = ask(lambda: SparkScan(spark, StoreSettings()).plan(table, arguments), require_area(table))
    assert differences(local, other) == {}
    return other


def fill(scene: FolderScene, paths: list[str]) -> None:
    """Write many small old files past the store."""
    long_ago = time.time() - 10 * DAY_MS / 1000
    for path in paths:
        full = Path(scene.store.location, path)
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(b"x")
        os.utime(full, (long_ago, long_ago))


@pytest.mark.parametrize("shape", ["only a snapshot", "lost its lists", "no root"])
def test_a_table_without_files(spark: "SparkSession", tmp_path: Path, shape: str) -> None:
    scene = FolderScene(tmp_path)
    if shape != "no root":
        scene.table.commit()
    if shape == "lost its lists":
        scene.drop(*(key for key in scene.listed() if key.startswith("manifest/")))
    scene.age()
    answer = both(spark, scene)
    if shape == "no root":
        assert answer.facts["code"] == "no_roots"
    else:
        assert answer.paths == set()


@pytest.mark.slow
@pytest.mark.long
def test_ten_thousand_partitions(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One orphan in each, and of the match's hundred tasks most have little to do."""
    monkeypatch.setattr(matching, "ROWS_OF_TASK", 100)
    scene = FolderScene(tmp_path)
    scene.table.commit("+A", "+B")
    orphans = [f"dt={number}/bucket-0/data-{stable_uuid(str(number))}-0.parquet" for number in range(10_000)]
    fill(scene, orphans)
    scene.age()
    assert both(spark, scene).paths == set(orphans)


@pytest.mark.long
@pytest.mark.slow
def test_one_folder_with_nearly_everything(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is listed by several tasks, in several rounds, and each file once."""
    monkeypatch.setattr(listing, "FIRST_PAGES", 2)
    monkeypatch.setattr(listing, "GROWTH", 2)
    scene = FolderScene(tmp_path)
    scene.table.commit(*(f"+F{number}" for number in range(50)))
    orphans = [f"dt=v00000/bucket-0/data-{stable_uuid(str(number))}-0.parquet" for number in range(18_000)]
    orphans += [f"dt={number}/bucket-0/data-{stable_uuid(f'e{number}')}-0.parquet" for number in range(2000)]
    fill(scene, orphans)
    scene.age()
    assert both(spark, scene).paths == set(orphans)
