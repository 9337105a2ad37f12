"""A Spark that loses rows: a live name that no task saw would make its file look like an orphan. On a stand-in."""

from typing import Any

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.execution import require_area
from lakesweep.spark.shuffle import LISTED, LIVE
from lakesweep.table.metadata import MetadataReader
from tests.support.orphan_scene import OrphanScene
from tests.support.spark_stand_in import StandInRDD, stand_in_plan


def scene() -> OrphanScene:
    """Return a table in which each stage has something to do, a match by owner included."""
    made = OrphanScene()
    made.table.commit("+A", "+B")
    made.put(f"{made.orphan('o')}.index")
    made.age()
    return made


def refuse(patch: pytest.MonkeyPatch, made: OrphanScene) -> None:
    table = made.maintainer().table
    with pytest.raises(MaintenanceError) as error:
        stand_in_plan(patch, table, OrphanArguments(), "s")
    assert error.value.code == "spark_failed"
    assert not [name for name in require_area(table).names("plans/") if name.endswith("header.json")]


@pytest.mark.parametrize("lost", [LIVE, LISTED], ids=["live", "listed"])
@pytest.mark.parametrize("number", [1, 2], ids=["by name", "by owner"])
def test_rows_of_a_match(lost: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = StandInRDD.partitionBy, []

    def losing(self: StandInRDD, count: int, place: Any) -> StandInRDD:
        calls.append(count)
        if len(calls) == number:
            rows = self.collect()
            rows.remove(next(row for row in rows if row[1][0] == lost))
            self = StandInRDD(self.session, [rows])
        return whole(self, count, place)

    monkeypatch.setattr(StandInRDD, "partitionBy", losing)
    refuse(monkeypatch, scene())
    assert len(calls) == number


def test_rows_in_the_wrong_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = StandInRDD.partitionBy
    monkeypatch.setattr(StandInRDD, "partitionBy", lambda self, count, place: whole(self, count, lambda _: 0))
    refuse(monkeypatch, scene())


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5], ids=["probes", "manifests", "listings", "splits", "matches"])
def test_answers_of_tasks(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = StandInRDD.mapPartitionsWithIndex, []

    def losing(self: StandInRDD, function: Any) -> StandInRDD:
        calls.append(len(self.partitions))
        found = whole(self, function)
        if len(calls) == number:
            found = StandInRDD(found.session, [*found.partitions[:-1], []])
        return found

    monkeypatch.setattr(StandInRDD, "mapPartitionsWithIndex", losing)
    refuse(monkeypatch, scene())
    assert len(calls) == number + (number == 4)


def test_a_manifest_that_no_task_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its names, its files would look like orphans."""
    whole = MetadataReader.scan_manifests

    def losing(self: MetadataReader, metas: Any, reduce: Any) -> Any:
        return list(whole(self, metas, reduce))[:-1]

    monkeypatch.setattr(MetadataReader, "scan_manifests", losing)
    refuse(monkeypatch, scene())
