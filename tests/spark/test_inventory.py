"""Inventories in place of listings, in one process and on Spark."""

from typing import TYPE_CHECKING

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.session import Table
from lakesweep.spark.scan import SparkScan
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import DeleteRequest, Store
from tests.support.engines_compared import Answer, ask, differences
from tests.support.inventories import Row, rows_of_store, rows_of_versions, write_inventory
from tests.support.orphan_scene import DAY_MS, S3Scene
from tests.support.s3_server import fresh_bucket, moto_client, moto_settings, versioned_bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDERS = ("dt=a%3Ab%2Fc%25/bucket-0/", "dt=a b+ü/bucket-0/", "dt=x/bucket-0/")


def scene_of(bucket: str | None = None) -> S3Scene:
    """Return a table with a live file, and an orphan with an extra file in each of three folders."""
    scene = S3Scene(bucket=bucket)
    scene.table.commit("+A", partition=("a:b/c%",), time_ms=1_600_000_000_000)
    for number, folder in enumerate(FOLDERS):
        orphan = scene.orphan(f"orphan {number}", folder=folder)
        scene.put(f"{orphan}.index")
    scene.age()
    return scene


def inventory_of(scene: S3Scene, rows: list[Row], file_format: str, **more: object) -> str:
    """Write an inventory into a bucket of its own, and return where its manifest lies."""
    at = open_store(f"s3://{fresh_bucket()}", settings=moto_settings())
    created_ms = scene.store.now_ms()
    key = write_inventory(at, scene.bucket, rows, file_format=file_format, created_ms=created_ms, **more)  # type: ignore[arg-type]
    return f"{at.location}/{key}"


def both(spark: "SparkSession", scene: S3Scene, **arguments: object) -> tuple[Answer, Answer]:
    """Return what both engines plan, each with a control location of its own."""
    older_than_ms = scene.store.now_ms() - 2 * DAY_MS
    asked = OrphanArguments(older_than_ms=older_than_ms, **arguments)  # type: ignore[arg-type]
    answers = []
    for engine in (None, SparkScan(spark, moto_settings())):
        counter = RequestCounter()

        def opened(location: str, counter: RequestCounter = counter) -> Store:
            return open_store(location, counter=counter, settings=moto_settings())

        location = scene.store.location
        area = ControlArea(opened(f"s3://{fresh_bucket()}"), location)
        table = Table(TableRef(location), opened(location), area, opened, counter)
        plan = plan_remove_orphan_files if engine is None else engine.plan
        answers.append(ask(lambda table=table, plan=plan: plan(table, asked), area))  # type: ignore[misc]
    return answers[0], answers[1]


def planned(spark: "SparkSession", scene: S3Scene, inventory: str | None = None) -> set[str]:
    """Return what both engines would remove."""
    local, by_spark = both(spark, scene, inventory=inventory)
    assert differences(local, by_spark) == {}
    assert local.plan is not None, local.facts
    return local.paths


@pytest.mark.long
@pytest.mark.spark4
def test_rows_32_and_48(spark: "SparkSession") -> None:
    """As from a listing; but what was written again since, and what is gone, is not planned."""
    scene = scene_of()
    rows = rows_of_store(scene.store, "db.db/t/")
    twice = [*rows, *rows[:3]]  # by several data files
    everything = planned(spark, scene)
    assert len(everything) == 2 * len(FOLDERS)
    assert planned(spark, scene, inventory_of(scene, twice, "Parquet", files=3)) == everything
    rewritten, gone = sorted(everything)[0], sorted(everything)[2]
    scene.store.put(rewritten, b"orphan")  # equal bytes, so an equal ETag
    scene.store.delete([DeleteRequest(gone)])
    assert planned(spark, scene, inventory_of(scene, rows, "CSV")) == everything - {rewritten, gone}


def test_only_current_objects(spark: "SparkSession") -> None:
    scene = scene_of(versioned_bucket())
    first, second, *_ = sorted(planned(spark, scene))
    scene.store.put(first, b"a second version")
    scene.age()
    scene.store.delete([DeleteRequest(second)])
    inventory = inventory_of(scene, rows_of_versions(moto_client(), scene.bucket), "CSV", versions=True)
    found = planned(spark, scene, inventory)
    assert first in found
    assert second not in found
    assert found == planned(spark, scene)


def test_bad_inventories(spark: "SparkSession") -> None:
    """Of another bucket, older than the roots, damaged, not whole: both engines say the same, and plan nothing."""
    scene = scene_of()
    rows = rows_of_store(scene.store, "db.db/t/")
    codes = []
    for problem in ("bucket", "age", "file", "missing", "partial"):
        at = open_store(f"s3://{fresh_bucket()}", settings=moto_settings())
        created_ms = 1000 if problem == "age" else scene.store.now_ms()
        bucket = "another" if problem == "bucket" else scene.bucket
        listed = [row for row in rows if "/dt=" in row.key] if problem == "partial" else rows
        key = write_inventory(at, bucket, listed, created_ms=created_ms)
        data = f"inventory/{bucket}/daily/data/00000001.csv.gz"
        if problem == "file":
            at.put(data, at.read(data).data[:-1])
        if problem == "missing":
            at.delete([DeleteRequest(data)])
        local, by_spark = both(spark, scene, inventory=f"{at.location}/{key}")
        assert differences(local, by_spark) == {}
        assert local.plan is None
        codes.append(local.facts["code"])
    assert codes == [
        "inventory_of_another_bucket",
        "inventory_too_old",
        "inventory_damaged",
        "inventory_incomplete",
        "inventory_is_partial",
    ]
