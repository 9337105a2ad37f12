"""A look lies before every batch of files, not only before the first. Batches are small here instead of tables big."""

import contextlib
from collections.abc import Callable, Sequence

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.ledger_rows import run_rows, runs_of_ledger
from lakesweep.errors import StorageError
from lakesweep.execute import batches
from lakesweep.storage.store import DeleteRequest, DeleteResult
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import assert_all_readable
from tests.support.table_builder import TableBuilder

BATCH_KEYS = 2


class Late(Switch):
    """Does something right before one request, and notes what was there then."""

    def __init__(self, store: MemoryStore, act: Callable[[], None], at: int) -> None:
        super().__init__()
        self.there: set[str] = set()
        self._store, self._act, self._late_at = store, act, at

    def _run(self, name: str, call: object) -> object:
        if len(self.calls) + 1 == self._late_at:
            self.there = {entry.key for entry in self._store.list("")}
            self._act()
        return super()._run(name, call)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_rolled_back", [False, True], ids=["goes on", "salvages"])
def test_what_a_late_root_needs_stays_as_far_as_it_is_there(
    is_rolled_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag that is copied from an old document comes when some files are gone: no more of its files go.

    It comes before each request in turn, so what goes is at most the batch whose look had just been. A rollback at the
    same moment makes the plan stale, and what of it is still done asks the tag as well.
    """
    monkeypatch.setattr(batches, "BATCH_KEYS", BATCH_KEYS)
    kept_late = at = 0
    while True:
        at += 1
        store = MemoryStore("memory://bucket/t")
        table = TableBuilder(store)
        table.commit(*(f"+A{number}" for number in range(8)), index={"i1": {"A1": (1,)}}, statistics="s1")
        document = store.read("snapshot/snapshot-1").data
        needs = table.referenced("snapshot/snapshot-1")
        table.commit(*(f"-A{number}" for number in range(8)), "+B", merge_base=True)
        table.commit("+C", index={}, statistics="s3")
        table.commit("+D")

        def act(store: MemoryStore = store, table: TableBuilder = table, document: bytes = document) -> None:
            store.put("tag/tag-late", document)
            if is_rolled_back:
                table.hint("LATEST", 3)
                table.remove("snapshot/snapshot-4")

        switch = Late(store, act, at)
        report = Maintainer(FaultyStore(store, switch, "table")).expire(2, 2)
        assert report.status in ("done", "stale"), report.refusal
        if not switch.there:
            break
        left = {entry.key for entry in store.list("")}
        where = f"before request {at}, {switch.calls[at - 1]}"
        lost = (needs & switch.there) - left - {"snapshot/snapshot-1"}
        assert len(lost) <= BATCH_KEYS, f"{where}: {sorted(lost)}"
        data = {path for path in needs & switch.there if "/data-" in path}
        if 0 < len(data) < 8 and data <= left:
            kept_late += 1
            assert (report.status == "stale") is is_rolled_back, where
        table.remove("tag/tag-late")
        assert_all_readable(table)
    assert kept_late > 5, "it never came between two batches of data files"


class Ending(Late):
    """Once it has acted, the second deletion is the last thing that the store does."""

    def _run(self, name: str, call: object) -> object:
        if sum(each.startswith("table delete") for each in self.calls[self._late_at - 1 :]) > 1:
            raise StorageError(f"{name}: broken on purpose", code="broken")
        return super()._run(name, call)  # type: ignore[arg-type]


class Asked(MemoryStore):
    """Notes what it is to delete. A bucket with versions lays a marker each time, also where nothing is."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.asked: list[str] = []

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        self.asked += [request.key for request in requests]
        return super().delete(requests)


def test_a_salvage_deletes_nothing_twice_and_writes_down_what_it_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback makes the plan stale between two batches; then the store breaks, so that salvage does not end."""
    monkeypatch.setattr(batches, "BATCH_KEYS", BATCH_KEYS)
    salvaged = at = 0
    while True:
        at += 1
        store, control = Asked("memory://bucket/t"), MemoryStore("memory://control")
        table = TableBuilder(store)
        table.commit(*(f"+A{number}" for number in range(8)))
        table.commit(*(f"-A{number}" for number in range(8)), "+B", merge_base=True)
        table.commit("+C")
        table.commit("+D")
        there = {entry.key for entry in store.list("")}

        def act(table: TableBuilder = table) -> None:
            table.hint("LATEST", 3)
            table.remove("snapshot/snapshot-4")

        switch = Ending(store, act, at)
        with contextlib.suppress(StorageError):
            Maintainer(FaultyStore(store, switch, "table"), control=control).expire(2, 2)
        if not switch.there:
            break
        where = f"before request {at}"
        assert len(store.asked) == len(set(store.asked)), where
        area = ControlArea(control, store.location)
        rows = [row for run_id in runs_of_ledger(area, 9) for row in run_rows(area, run_id)]
        booked = [str(row["key"]) for row in rows if row.get("result") == "deleted"]
        gone = there - {entry.key for entry in store.list("")} - {"snapshot/snapshot-4"}
        assert gone <= set(booked), f"{where}: {sorted(gone.difference(booked))}"
        assert len(booked) == len(set(booked)), where
        salvaged += len(gone) > 6
    assert salvaged > 2
