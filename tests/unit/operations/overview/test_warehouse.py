"""The overview of many tables: which are found, what adds up, and what a table does to the others if it is damaged."""

import os
import shutil
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from lakesweep.errors import AccessDeniedError, RefusedError, UsageError
from lakesweep.model.progress import no_progress
from lakesweep.operations.inspect.explain.table import explain_table
from lakesweep.operations.inspect.show import summarise
from lakesweep.operations.overview.warehouse import Choices, overview
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.requests import RequestCounter
from tests.support.lakehouse import LONG, Lakehouse, by_name

HOSTILE = "<script>\u202e 'quoted' $(x)"


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    found = Lakehouse(tmp_path)
    for name in ("sales.db/orders", "sales.db/clients", "web.db/visits"):
        found.add(name)
    return found


def test_tables_of_a_warehouse_a_database_a_table_and_a_list(lake: Lakehouse) -> None:
    assert set(by_name(lake.overview())) == {"sales.db/orders", "sales.db/clients", "web.db/visits"}
    assert set(by_name(lake.overview("sales.db"))) == {"sales.db/orders", "sales.db/clients"}
    assert set(by_name(lake.overview("sales.db/orders"))) == {"sales.db/orders"}
    several = lake.overview("sales.db", "sales.db/orders", "web.db/visits")
    assert [table.name for table in several.tables].count("sales.db/orders") == 1
    assert several.totals.tables == 3


def test_other_layouts_and_hostile_names(tmp_path: Path) -> None:
    lake = Lakehouse(tmp_path)
    for name in ("raw/eu/events", f"sales.db/{HOSTILE}", f"sales.db/{LONG}", "sales.db/schema", "sales.db/snapshot"):
        lake.add(name)
    lake.add("sales.db/.hidden")
    found = lake.overview()
    assert set(by_name(found)) == {
        "raw/eu/events",
        f"sales.db/{HOSTILE}",
        f"sales.db/{LONG}",
        "sales.db/schema",
        "sales.db/snapshot",
    }
    assert found.totals.failed == 0


def test_a_branch_is_no_table(tmp_path: Path) -> None:
    lake = Lakehouse(tmp_path)
    table = lake.add("sales.db/orders")
    table.tag("t", snapshot=1)
    table.branch("b", from_tag="t").commit("+B")
    bare = lake.add("plain/new", commits=1)
    bare.tag("t", snapshot=1)
    bare.branch("b", from_tag="t").commit("+B")
    shutil.rmtree(f"{lake.location}/plain/new/snapshot")
    shutil.rmtree(f"{lake.location}/plain/new/tag")
    assert set(by_name(lake.overview())) == {"sales.db/orders"}
    with pytest.raises(UsageError, match="folder of its branch 'b'"):
        lake.overview("sales.db/orders/branch/branch-b")


def test_the_control_location_is_not_searched(lake: Lakehouse) -> None:
    first = lake.overview()
    inside = Path(lake.location) / "ops"
    shutil.copytree(Path(lake.location) / "sales.db", inside / "sales.db")
    lake.control.rename(inside / "old")
    moved = Lakehouse(lake.folder)
    opening = moved.opening()
    assert overview(opening, [lake.location]).totals.tables == first.totals.tables + 2
    object.__setattr__(opening.place, "control", str(inside))
    assert overview(opening, [lake.location]).totals.tables == first.totals.tables


def test_what_is_no_table_is_skipped_and_counted(lake: Lakehouse) -> None:
    for name in ("sales.db/notes", "sales.db/more/below"):
        (Path(lake.location) / name).mkdir(parents=True)
        (Path(lake.location) / name / "x").write_text("x")
    found = lake.overview()
    assert (found.totals.tables, found.totals.failed, found.skipped) == (3, 0, 2)


def test_a_table_that_somebody_names_is_not_skipped(lake: Lakehouse) -> None:
    (Path(lake.location) / "sales.db/notes").mkdir()
    with pytest.raises(RefusedError, match="found no table there or below") as raised:
        lake.overview("sales.db/notes")
    assert raised.value.code == "not_a_table"
    found = lake.overview("sales.db/notes", "sales.db/orders", "nowhere")
    assert (found.totals.tables, found.totals.failed) == (3, 2)
    assert {table.problem_code for table in found.tables} == {"not_a_table", None}


def test_an_empty_warehouse_is_refused(tmp_path: Path) -> None:
    lake = Lakehouse(tmp_path)
    with pytest.raises(RefusedError, match="found no table there or below"):
        lake.overview()
    (Path(lake.location) / "sales.db/notes").mkdir(parents=True)
    (Path(lake.location) / "sales.db/notes/x").write_text("x")
    with pytest.raises(RefusedError, match="found 1 folders that are none") as raised:
        lake.overview()
    assert raised.value.code == "not_a_table"


def test_a_table_that_cannot_be_read_is_a_row_and_the_others_go_on(lake: Lakehouse) -> None:
    lake.tables["sales.db/orders"].corrupt("schema/schema-0")
    shutil.rmtree(f"{lake.location}/web.db/visits/schema")
    found = by_name(lake.overview(denied=["sales.db/clients"]))
    assert "schema-0" in (found["sales.db/orders"].problem or "")
    assert found["web.db/visits"].problem_code == "not_a_table"  # a table that has lost its schemas is told of
    assert found["sales.db/clients"].problem_code == "access_denied"
    lake.add("web.db/pages")
    found = by_name(lake.overview(denied=["sales.db/clients"]))
    assert found["web.db/pages"].problem is None
    assert found["web.db/pages"].bytes > 0
    totals = lake.overview(denied=["sales.db/clients"]).totals
    assert (totals.tables, totals.failed, totals.bytes) == (4, 3, found["web.db/pages"].bytes)


def test_a_database_that_may_not_be_listed_is_a_row(lake: Lakehouse) -> None:
    found = by_name(lake.overview(denied=["sales.db"]))
    assert found["sales.db"].problem_code == "access_denied"
    assert found["web.db/visits"].problem is None
    with pytest.raises(AccessDeniedError):
        overview(lake.opening(["sales.db"]), [f"{lake.location}/sales.db"])


def test_a_bug_in_one_table_does_not_end_the_overview(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakesweep.operations.overview import looking

    real = looking.measure

    def measure(table, name, *, versions):  # type: ignore[no-untyped-def]
        if name == "sales.db/orders":
            raise ZeroDivisionError("s3://user:secret@host/x")
        return real(table, name, versions=versions)

    monkeypatch.setattr(looking, "measure", measure)
    found = by_name(lake.overview())
    assert found["sales.db/orders"].problem_code == "internal"
    assert "secret" not in (found["sales.db/orders"].problem or "")
    assert found["web.db/visits"].problem is None


def test_totals_are_the_sums_and_rows_say_what_explain_and_show_say(lake: Lakehouse) -> None:
    lake.tables["sales.db/orders"].tag("t", snapshot=1)
    found = lake.overview()
    rows = found.tables
    assert found.totals.objects == sum(table.objects for table in rows)
    assert found.totals.bytes == sum(table.bytes for table in rows)
    assert found.totals.usd_month == pytest.approx(sum(table.usd_month for table in rows))
    assert found.totals.saving_bytes == sum(table.saving_bytes for table in rows)
    assert found.totals.findings == sum(len(table.findings) for table in rows)
    by_reason: Counter[str] = Counter()
    for table in rows:
        assert sum(each.bytes for each in table.reasons) == table.bytes
        assert sum(each.count for each in table.reasons) == table.objects
        by_reason.update({each.reason: each.bytes for each in table.reasons})
        opened = lake.opening().table(table.table, RequestCounter(), no_progress)
        explained, shown = explain_table(opened), summarise(opened, pinned=True)
        assert (table.objects, table.bytes) == (explained.objects, explained.bytes)
        told = [(each.reason, each.count, each.bytes) for each in explained.shares if each.reason != "missing"]
        assert [(each.reason, each.count, each.bytes) for each in table.reasons] == told
        assert table.snapshots == shown.snapshots.count
        assert shown.live is not None
        assert (table.live_files, table.live_bytes) == (shown.live.files, shown.live.bytes)
    assert {each.reason: each.bytes for each in found.totals.reasons} == by_reason
    assert sum(each.bytes for each in found.totals.reasons) == found.totals.bytes


def test_progress_and_requests(lake: Lakehouse) -> None:
    told: list[tuple[str, int, int | None]] = []
    counter = RequestCounter()
    found = overview(
        lake.opening(), [lake.location], Choices(), counter=counter, progress=lambda *words: told.append(words)
    )
    assert told[:6] == [("folders searched", done, None) for done in range(1, 7)]
    assert told[6:] == [("tables", done, 3) for done in range(4)]
    assert dict(found.requests) == counter.snapshot()


def test_a_search_can_be_stopped(lake: Lakehouse) -> None:
    """A place that is no warehouse may have very many folders."""
    for number in range(50):
        (Path(lake.location) / f"many/{number}").mkdir(parents=True)
    counter = RequestCounter()

    def progress(what: str, done: int, total: int | None) -> None:
        if done == 5:
            os.kill(os.getpid(), signal.SIGINT)  # this is not the main thread, but that gets it
        if done >= 5:
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        overview(lake.opening(), [f"{lake.location}/many", lake.location], counter=counter, progress=progress)
    assert counter.snapshot()["list"] < 30


def test_threads_that_measure_end_with_the_overview(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin no further request, and nothing is left that Python's end would meet at work."""
    for number in range(6):
        lake.add(f"more.db/t{number}")
    reads: list[int] = []
    real = LocalStore.read

    def read(self, key, max_bytes=None):  # type: ignore[no-untyped-def]
        reads.append(1)
        time.sleep(0.02)
        return real(self, key, max_bytes)

    monkeypatch.setattr(LocalStore, "read", read)

    def progress(what: str, done: int, total: int | None) -> None:
        if (what, done) == ("tables", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        overview(lake.opening(), [lake.location], progress=progress)
    assert not [thread for thread in threading.enumerate() if thread.name == "overview"]
    ended = len(reads)
    whole = lake.overview(is_fresh=True)
    assert ended < len(reads) - ended
    assert whole.totals.failed == 0
