"""A Spark that loses rows: a live name that no task saw would make its file look like an orphan. On a stand-in."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.execution import require_area
from lakesweep.spark.parts import Part
from lakesweep.spark.tasks import Access, Row
from tests.support import spark_stand_in
from tests.support.orphan_scene import OrphanScene
from tests.support.spark_stand_in import StandIn, stand_in_plan


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


@pytest.mark.parametrize("lost", ["live", "listed"])
@pytest.mark.parametrize("number", [1, 2], ids=["by name", "by owner"])
def test_scans_of_a_match(lost: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    match, calls = spark_stand_in._match, []

    def losing(session: Any, access: Access, live: Sequence[Part], listed: Sequence[Part], *rest: Any) -> Iterator[Row]:
        calls.append(len(live))
        if len(calls) == number:
            live, listed = (live[1:], listed) if lost == "live" else (live, listed[1:])
        return match(session, access, live, listed, *rest)

    monkeypatch.setattr(spark_stand_in, "_match", losing)
    refuse(monkeypatch, scene())
    assert len(calls) == number


@pytest.mark.parametrize("job", [1, 2, 3], ids=["probes", "manifests", "listings"])
def test_answers_of_tasks(job: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, jobs = StandIn.range, []

    def losing(self: StandIn, start: int, end: int, step: int, partitions: int) -> Any:
        jobs.append(end)
        return whole(self, start, end - (len(jobs) == job), step, partitions)

    monkeypatch.setattr(StandIn, "range", losing)
    refuse(monkeypatch, scene())
    assert len(jobs) == job
