"""Passes over a table that pypaimon writes, which merges no manifests: its rows are read by pypaimon each time."""

import time
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pypaimon import CatalogFactory, Schema

from lakesweep.control.area import ControlArea
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.inspect.show import summarise
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import triage
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter

COLUMNS = pyarrow.schema([("id", pyarrow.int64())])
KEEP = {"bucket": "-1", "snapshot.num-retained.min": "100", "snapshot.num-retained.max": "100"}
HOUR_MS = 3_600_000


class Log:
    """A table of numbers, and passes over it."""

    def __init__(self, folder: Path, **options: str) -> None:
        self._catalog = CatalogFactory.create({"warehouse": str(folder / "lake")})
        self._catalog.create_database("db", True)
        schema = Schema.from_pyarrow_schema(COLUMNS, options={**KEEP, **options})
        self._catalog.create_table("db.log", schema, False)
        self._location, self._control = str(folder / "lake" / "db.db" / "log"), str(folder / "control")
        self.ahead_ms = 0
        """How much later it is in the passes."""
        self.rows = 0

    def append(self, commits: int = 1) -> None:
        """Commit one row at a time."""
        table = self._catalog.get_table("db.log")
        for _ in range(commits):
            builder = table.new_batch_write_builder()
            write, commit = builder.new_write(), builder.new_commit()
            write.write_arrow(pyarrow.table({"id": [self.rows]}, schema=COLUMNS))
            commit.commit(write.prepare_commit())
            write.close()
            commit.close()
            self.rows += 1

    def table(self) -> Table:
        """Return what a new process works on."""
        counter = RequestCounter()
        store = open_store(self._location, counter=counter)
        area = ControlArea(open_store(self._control, counter=counter), store.location)
        now_ms = int(time.time() * 1000) + self.ahead_ms
        return Table(TableRef(store.location), store, area, open_store, counter, clock_ms=lambda: now_ms)

    def pass_(self) -> RunReport:
        arguments = MaintainArguments(catalog=Catalog("filesystem", has_lock=True))
        report = maintain(self.table(), arguments, execute=True)
        builder = self._catalog.get_table("db.log").new_read_builder()
        found: Any = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        assert sorted(found["id"].to_pylist()) == list(range(self.rows))
        return report


def compacted(report: RunReport) -> int | None:
    """Return the snapshot that a pass committed to compact manifests."""
    step = next((each for each in report.steps or () if each.operation == "compact-manifest"), None)
    return None if step is None or step.commits is None else step.commits.made[-1].snapshot_id


def test_31_small_manifests_are_too_many(tmp_path: Path) -> None:
    """Paimon's thresholds: the list is due, compacted once, and then nothing happens for 31 commits."""
    log = Log(tmp_path)
    log.append(31)
    assert compacted(log.pass_()) is None
    log.append()
    shown = summarise(log.table())
    assert shown.live is not None and shown.manifests is not None
    assert (shown.live.manifests, shown.manifests.small, shown.manifests.is_due) == (32, 31, True)
    report = log.pass_()
    assert compacted(report) == 33 and report.status == "done"
    shown = summarise(log.table())
    assert shown.live is not None and shown.manifests is not None
    assert (shown.live.manifests, shown.live.rows, shown.manifests.is_due) == (1, 32, False)
    for ahead_ms in (0, 2 * HOUR_MS):
        log.ahead_ms = ahead_ms
        assert not triage(log.table(), 33, 0).is_due
        again = log.pass_()
        assert again.status == "nothing_to_do" and again.requests["put"] == 0 and sum(again.requests.values()) <= 4
    log.append(30)
    assert not triage(log.table(), 63, 0).is_due
    log.append()
    assert triage(log.table(), 64, 0).is_due
    assert compacted(log.pass_()) == 65


@pytest.mark.parametrize("hours", [0, 2])
def test_a_list_that_grows_again(tmp_path: Path, hours: int) -> None:
    """It is compacted again, but not within the hour."""
    log = Log(tmp_path, **{"manifest.merge-min-count": "2"})
    log.append(4)
    assert compacted(log.pass_()) == 5
    log.append(3)
    log.ahead_ms = hours * HOUR_MS
    assert triage(log.table(), 8, 0).is_due == (hours > 0)
    assert compacted(log.pass_()) == (9 if hours else None)
