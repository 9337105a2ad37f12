"""What an overview remembers of earlier ones."""

import gzip
import json
import random
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lakesweep.control import overviews
from lakesweep.control.area import ControlArea
from lakesweep.control.overviews import Remembered, merged, read_overviews, write_overviews
from lakesweep.errors import StorageError
from lakesweep.model.overview import Overview, TableOverview
from lakesweep.operations.overview import warehouse
from tests.support.lakehouse import Lakehouse, figures
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

DAY_MS = 24 * 3600 * 1000
PER_UNCHANGED = {"list": 4, "get": 3}
"""Requests: what is in the folders of documents, and the state, the last scan and the lease in the control location."""


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    found = Lakehouse(tmp_path)
    for name in ("sales.db/orders", "sales.db/clients", "web.db/visits"):
        found.add(name)
    return found


def remembered(found: Overview) -> set[str]:
    return {table.name for table in found.tables if table.is_remembered}


def documents(lake: Lakehouse) -> list[Path]:
    return sorted(lake.control.glob("overviews/*/tables.ndjson.gz"))


def test_only_changed_tables_are_measured_again(lake: Lakehouse) -> None:
    assert remembered(lake.overview()) == set()
    lake.tables["sales.db/orders"].commit("+G")
    lake.add("web.db/pages")
    found = lake.overview()
    assert remembered(found) == {"sales.db/clients", "web.db/visits"}
    assert figures(found) == figures(lake.overview(is_fresh=True))
    assert remembered(lake.overview(is_fresh=True)) == set()
    assert len(remembered(lake.overview())) == 4


def test_all_places_share_what_is_remembered(lake: Lakehouse) -> None:
    lake.overview("sales.db/orders")
    assert len(documents(lake)) == 1
    found = lake.overview("sales.db", "web.db/visits")
    assert remembered(found) == {"sales.db/orders"}
    assert remembered(lake.overview()) == {"sales.db/orders", "sales.db/clients", "web.db/visits"}


def test_requests_of_an_unchanged_table(lake: Lakehouse) -> None:
    """One document is read for each folder with tables; nothing is written."""
    lake.overview()
    requests = lake.overview().requests
    walk = {"list": 4}  # is it a table? its folders, and those of two databases
    assert requests == {
        "get": 2 + 3 * PER_UNCHANGED["get"],
        "list": walk["list"] + 3 * PER_UNCHANGED["list"],
        "head": 0,
        "put": 0,
        "delete": 0,
    }


def test_a_warehouse_without_control_location_is_measured_each_time(lake: Lakehouse, tmp_path: Path) -> None:
    opening = lake.opening(control=False)

    class Nowhere:
        def __getattr__(self, name: str) -> object:
            return getattr(opening, name)

        def area(self, folder: str, counter: object) -> None:
            return None

    for _ in range(2):
        found = warehouse.overview(Nowhere(), [lake.location])
        assert remembered(found) == set()
        assert found.warnings == ("no control location is known, so the next overview measures all tables again",)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_remembered_is_what_is_measured(tmp_path: Path, seed: int) -> None:
    """After random changes, the overview says the same as one that measures all tables."""
    chance = random.Random(seed)
    lake = Lakehouse(tmp_path)
    for number in range(4):
        lake.add(f"db{number % 2}.db/t{number}", commits=chance.randint(1, 4))
    lake.overview()
    for step in range(3):
        for name in chance.sample(sorted(lake.tables), k=min(2, len(lake.tables))):
            _change(lake, lake.tables[name], name, chance, f"{step}")
        found = lake.overview()
        assert figures(found) == figures(lake.overview(is_fresh=True))
        assert found.totals == lake.overview(is_fresh=True).totals


def _change(lake: Lakehouse, table: TableBuilder, name: str, chance: random.Random, step: str) -> None:
    kind = chance.choice(("commit", "tag", "branch", "consumer", "alter", "damage", "vanish", "recreate", "expire"))
    if kind == "commit":
        table.commit(f"+G{step}")
    elif kind == "tag":
        table.tag(f"t{step}", snapshot=table.ids("snapshot")[-1])
    elif kind == "branch":
        table.tag(f"b{step}", snapshot=table.ids("snapshot")[-1])
        table.branch(f"branch{step}", from_tag=f"b{step}").commit(f"+H{step}")
    elif kind == "consumer":
        table.consumer(f"c{step}", table.ids("snapshot")[0])
    elif kind == "alter":
        table.alter(options={"snapshot.num-retained.max": str(chance.randint(1, 3)), "snapshot.num-retained.min": "1"})
    elif kind == "damage":
        Path(f"{lake.location}/{name}/snapshot/snapshot-{table.ids('snapshot')[-1]}").write_text("{")
        del lake.tables[name]
    elif kind == "expire":
        Path(f"{lake.location}/{name}/snapshot/snapshot-{table.ids('snapshot')[0]}").unlink()
        del lake.tables[name]
    else:
        shutil.rmtree(f"{lake.location}/{name}")
        del lake.tables[name]
        if kind == "recreate":
            lake.add(name, commits=2)
    if not lake.tables:
        lake.add("db0.db/last")


def test_figures_that_time_changes_are_measured_again(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.overview()
    (document,) = [path for path in documents(lake) if "web" in str(path)]
    head, row = gzip.decompress(document.read_bytes()).splitlines()
    content = json.loads(row)
    now_ms = content["seen_ms"]
    assert now_ms < content["holds_until_ms"] <= content["overview"]["measured_ms"] + DAY_MS
    for change in (
        {"holds_until_ms": now_ms - 1},
        {"overview": {**content["overview"], "measured_ms": now_ms + DAY_MS}},
    ):
        text = json.dumps({**content, **change}).encode()
        document.write_bytes(gzip.compress(head + b"\n" + text + b"\n"))
        assert "web.db/visits" not in remembered(lake.overview())


def test_a_damaged_document_counts_as_absent(lake: Lakehouse) -> None:
    lake.overview()
    (document,) = [path for path in documents(lake) if "web" in str(path)]
    whole = document.read_bytes()
    head, row = gzip.decompress(whole).splitlines()
    other = json.dumps({**json.loads(head), "format_version": 0}).encode()
    lines = [
        [other, row],
        [json.dumps({**json.loads(head), "folder": "/elsewhere"}).encode(), row],
        [head, b"{}"],
        [head, b"[1]"],
        [head, json.dumps({**json.loads(row), "overview": {}}).encode()],
        [row],
        [],
    ]
    damaged = [b"", b"x", whole[:-9], whole + b"x", *(gzip.compress(b"\n".join(each) + b"\n") for each in lines)]
    for data in damaged:
        document.write_bytes(data)
        found = lake.overview()
        assert "web.db/visits" not in remembered(found), data
        assert found.warnings == ()
        assert "web.db/visits" in remembered(lake.overview())


def test_a_sealed_document_of_somebody_else_is_not_used(
    lake: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.overview()
    key = tmp_path / "key"
    key.write_text("k1:" + "ab" * 32 + "\n")
    monkeypatch.setenv("LAKESWEEP_PLAN_KEY_FILE", str(key))
    assert remembered(lake.overview()) == set()
    assert len(remembered(lake.overview())) == 3


def test_a_place_that_cannot_be_written_is_told_of_once(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("no room")

    monkeypatch.setattr("lakesweep.operations.overview.memory.write_overviews", refuse)
    found = lake.overview()
    assert found.totals.failed == 0
    assert found.warnings == ("what this overview measured cannot be stored: no room",)


def test_two_overviews_at_once(lake: Lakehouse) -> None:
    """Each says what it measured, and what is left is right."""
    for number in range(6):
        lake.add(f"more.db/t{number}")
    both: list[Overview] = []
    threads = [threading.Thread(target=lambda: both.append(lake.overview())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert figures(both[0]) == figures(both[1])
    assert figures(lake.overview()) == figures(both[0])
    assert remembered(lake.overview()) == {table.name for table in both[0].tables}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_stopped_overview_keeps_what_it_has_measured(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    def progress(what: str, done: int, total: int | None) -> None:
        if (what, done) == ("tables", 2):
            raise stop

    with pytest.raises(stop):
        warehouse.overview(lake.opening(), [lake.location], progress=progress)
    found = lake.overview()
    assert len(remembered(found)) >= 1
    assert figures(found) == figures(lake.overview(is_fresh=True))


def test_what_is_measured_is_stored_meanwhile(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed has no time to store anything."""
    monkeypatch.setattr("lakesweep.operations.overview.memory.SAVED_AFTER_S", 0.0)
    monkeypatch.setattr("lakesweep.operations.overview.memory.MOST_SAVING", 1e9)
    stored: list[int] = []

    def progress(what: str, done: int, total: int | None) -> None:
        areas = [
            read_overviews(lake.opening().area(f"{lake.location}/{name}", None)) for name in ("sales.db", "web.db")
        ]
        if what == "tables":
            stored.append(sum(map(len, areas)))

    warehouse.overview(lake.opening(), [lake.location], progress=progress)
    assert stored == [0, 0, 1, 2]


def row(table: str, measured_ms: int, seen_ms: int) -> Remembered:
    return Remembered("mark", measured_ms + DAY_MS, seen_ms, TableOverview(table, table, measured_ms))


def test_of_two_rows_the_later_one_stays_and_old_ones_go() -> None:
    ours = {"a": row("a", 5, 100), "b": row("b", 9, 100)}
    theirs = {"a": row("a", 7, 50), "b": row("b", 8, 50), "c": row("c", 1, 60)}
    assert merged(theirs, ours, 100) == {"a": theirs["a"], "b": ours["b"], "c": theirs["c"]}
    assert merged(theirs, ours, 60 + overviews.KEPT_MS).keys() == {"b"}


def test_the_document_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    area = ControlArea(MemoryStore("memory://control"), "/lake/sales.db", "overviews")
    rows = {f"t{number}": row(f"t{number}", number, number) for number in range(10)}
    rows["long"] = replace(row("long", 50, 50), overview=TableOverview("long", "x" * overviews.MAX_ROW_BYTES, 50))
    monkeypatch.setattr(overviews, "MAX_TABLES", 4)
    write_overviews(area, rows)
    assert read_overviews(area).keys() == {"t9", "t8", "t7"}
    monkeypatch.setattr(overviews, "MAX_TEXT_BYTES", 1500)
    write_overviews(area, rows)
    assert 0 < len(read_overviews(area)) < 3
    monkeypatch.setattr(overviews, "MAX_BYTES", 10)
    assert read_overviews(area) == {}
