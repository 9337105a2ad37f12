"""Automatic tags of snapshots that the table's writers may be removing: said, as of those made by hand."""

import pytest

from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

OPTIONS = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly", "sink.process-time-zone": "UTC"}


@pytest.mark.parametrize("is_write_only", [False, True])
def test_only_writers_that_expire_snapshots_themselves_may_break_it(is_write_only: bool) -> None:
    now_ms = 1_800_000_000_000
    store = MemoryStore("memory://bucket/t", clock=lambda: now_ms)
    table = TableBuilder(store, options={**OPTIONS, "write-only": str(is_write_only).lower()})
    table.commit("+A", time_ms=now_ms - 600_000)
    table.commit("+B", time_ms=now_ms - 300_000)
    report = Maintainer(store).run("tag-schedule")
    assert report.status == "done"
    assert [entry.key for entry in store.list("tag/")], "of snapshot 1, and the newest is 2"
    assert any("files of tag" in warning for warning in report.all_warnings()) != is_write_only


def test_of_the_newest_snapshot_it_is_promised() -> None:
    now_ms = 1_800_000_000_000
    store = MemoryStore("memory://bucket/t", clock=lambda: now_ms)
    TableBuilder(store, options=OPTIONS).commit("+A", time_ms=now_ms - 600_000)
    report = Maintainer(store).run("tag-schedule")
    assert report.status == "done"
    assert not report.all_warnings()
