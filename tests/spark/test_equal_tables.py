"""Both engines plan the same tables in folders and on S3, on a real Spark, and must agree in everything they say."""

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakesweep.control.quarantine import read_quarantine
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from lakesweep.spark.scan import SparkScan
from lakesweep.storage.open import StoreSettings, open_store
from tests.support import compared_tables as tables
from tests.support.compared_tables import SETTINGS, Compare, long_ago, table_at
from tests.support.engines_compared import Answer, ask, differences
from tests.support.fixture_tables import TABLE_NAMES
from tests.support.metadata_files import stable_uuid
from tests.support.random_scene import FolderScene
from tests.support.walk import referenced_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def compare(spark: "SparkSession", tmp_path: Path) -> Compare:
    def compared(
        location: str, arguments: OrphanArguments, settings: StoreSettings = SETTINGS, control: str | None = None
    ) -> Answer:
        """Plan with both, first with the one that is not tested."""
        arguments = dataclasses.replace(arguments, older_than_ms=long_ago())
        table = table_at(location, open_store(control or str(tmp_path / "control"), settings=settings), settings)
        area = require_area(table)
        local = ask(lambda: plan_remove_orphan_files(table, arguments), area)
        other = ask(lambda: SparkScan(spark, settings).plan(table, arguments), area)
        assert differences(local, other) == {}, location
        if other.plan is not None:
            needed = referenced_names(table.store)
            assert not {path for path in other.paths if path.rpartition("/")[2] in needed}
        return other

    return compared


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE_NAMES)
def test_tables_of_real_engines(name: str, compare: Compare, fixtures_dir: Path, tmp_path: Path) -> None:
    tables.fixture_table(name, compare, fixtures_dir, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1004))
def test_random_tables_in_folders(seed: int, compare: Compare, tmp_path: Path) -> None:
    tables.random_table(seed, compare, tmp_path)


@pytest.mark.long
def test_one_name_in_a_thousand_folders_and_in_many_manifests(compare: Compare, tmp_path: Path) -> None:
    """A thousand listed rows and sixty live ones are one group."""
    tables.one_name(1000, compare, tmp_path)


@pytest.mark.spark4
def test_names_that_are_hostile(compare: Compare, tmp_path: Path) -> None:
    tables.hostile_names(compare, tmp_path)


def test_each_engine_goes_by_the_quarantine_that_the_other_wrote(
    spark: "SparkSession", compare: Compare, tmp_path: Path
) -> None:
    scene = FolderScene(tmp_path, external="outside")
    scene.table.commit("+A", extra={"A": ["index"]})
    assert scene.external is not None
    scene.age()
    orphans = {scene.orphan("a"), scene.orphan("b", "-0.parquet.row")}
    outside = f"dt=v/bucket-0/data-{stable_uuid('outside')}-0.parquet"
    scene.external.put(outside, b"outside")
    scene.put(f"{scene.table.path('A')}-7.index")  # its owner is live
    scene.age()
    orphans.add(f"{scene.external.location}/{outside}")
    arguments = OrphanArguments(quarantine_ms=1, owned_external=(scene.external.location,))
    table = table_at(scene.store.location, open_store(str(tmp_path / "control")))
    area = require_area(table)
    planners = [
        lambda: plan_remove_orphan_files(table, arguments),
        lambda: SparkScan(spark, SETTINGS).plan(table, arguments),
    ]
    for first, second in (planners, planners[::-1]):
        area.put("orphans.ndjson.gz", b"damaged: it knows nothing")
        assert ask(first, area).paths == set()
        known = read_quarantine(area)
        assert {path for path, *_ in known.first_seen_ms} == orphans
        time.sleep(0.01)
        assert ask(second, area).paths == orphans
        assert read_quarantine(area) == known, "when each was first seen"


@pytest.mark.slow
@pytest.mark.spark4
def test_tables_on_s3(compare: Compare) -> None:
    tables.tables_on_s3(compare)


@pytest.mark.long
@pytest.mark.slow
def test_tables_that_pypaimon_wrote(compare: Compare, tmp_path: Path) -> None:
    tables.pypaimon_tables(compare, tmp_path)
