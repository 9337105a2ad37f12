"""Rules that keep a file, each where no other rule would keep it: so that nobody breaks one without noticing."""

from collections.abc import Sequence

import pytest

from lakesweep.errors import StalePlanError
from lakesweep.execute import batches
from lakesweep.execute.recheck import RootRecheck, references_of
from lakesweep.model.plan import Delete, Plan
from lakesweep.model.roots import Freed, References, base_name
from lakesweep.operations.undo.undo import undo
from lakesweep.storage.store import UndeleteRequest, UndeleteResult
from lakesweep.table.discover import ROOT_FOLDERS, discover
from tests.support.acting import Acting
from tests.support.faulty_store import FaultyStore
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots
from tests.support.table_builder import TableBuilder

BATCH_KEYS = 2
FILES = 8


def table_in(store: MemoryStore) -> TableBuilder:
    """A table whose expiry to the newest two snapshots deletes eight data files, in several batches."""
    table = TableBuilder(store)
    table.commit(*(f"+A{number}" for number in range(FILES)))
    table.commit(*(f"-A{number}" for number in range(FILES)), "+B", merge_base=True)
    table.commit("+C")
    table.commit("+D")
    return table


def keys_of(store: MemoryStore) -> set[str]:
    return {entry.key for entry in store.list("")}


# --- what a root needs ---


def test_an_extra_file_stays_with_its_data_file() -> None:
    """The root that needs the data file may name no extra file of it, as before an index was added."""
    extra = Freed("extra", "bucket-0/data-1.parquet.index", None, "why", owner="data-1.parquet")
    assert References(names={"data-1.parquet": "tagged"}).reason_to_keep(extra) == "tagged"
    assert References(names={"data-2.parquet": "tagged"}).reason_to_keep(extra) is None


def test_an_extra_file_is_asked_for_although_its_data_file_is_not() -> None:
    """What is left of a plan may be extra files alone."""
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store)
    table.commit("+A", extra={"A": ["index"]})
    path = table.path("A", "index")
    pending = [Delete("data", "extra", path, None, "why", owner=None)]
    refs = list(discover(store, ROOT_FOLDERS).roots())
    assert references_of(store, store, refs, pending, "main").names == {base_name(path): "live"}


def test_a_damaged_list_stays_when_its_snapshot_expires() -> None:
    """Nobody knows what it named, so it is kept for who may find out."""
    store = MemoryStore("memory://bucket/t")
    table = table_in(store)
    path = f"manifest/{table.document('snapshot/snapshot-2')['baseManifestList']}"
    table.corrupt(path)
    assert Maintainer(store).expire(2, 2).status == "done"
    assert not table.exists("snapshot/snapshot-2")
    assert table.exists(path)


# --- what a recheck finds ---


def recheck(store: MemoryStore) -> tuple[RootRecheck, Plan]:
    plan = Maintainer(store).plan(2, 2).plan
    assert plan is not None
    return RootRecheck(store, plan.header, store), plan


def test_a_root_that_returns_is_a_new_one() -> None:
    """Byte for byte the same: it needs its files again, which the plan deletes."""
    store = MemoryStore("memory://bucket/t")
    table_in(store)
    looks, plan = recheck(store)
    assert not looks.look(plan.deletes).names
    looks.forget(["snapshot/snapshot-1"])
    assert sum("/data-" in f"/{name}" for name in looks.look(plan.deletes).names) == FILES


def test_a_newest_snapshot_that_vanished_makes_a_plan_stale() -> None:
    """Even if LATEST still names it: a rollback that died, or somebody else, removed it."""
    store = MemoryStore("memory://bucket/t")
    table = table_in(store)
    looks, plan = recheck(store)
    table.remove("snapshot/snapshot-4")
    with pytest.raises(StalePlanError, match="snapshot 4, the newest when the plan was made, vanished"):
        looks.look(plan.deletes)


# --- how a stale plan ends ---


def test_a_table_that_lost_all_its_roots_loses_no_more_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """No root needs any file then, which proves nothing: somebody may bring the roots back."""
    monkeypatch.setattr(batches, "BATCH_KEYS", BATCH_KEYS)
    at, salvaged = 0, 0
    while True:
        at += 1
        store = MemoryStore("memory://bucket/t")
        table = table_in(store)
        there: set[str] = set()

        def act(store: MemoryStore = store, table: TableBuilder = table, there: set[str] = there) -> None:
            for root in all_roots(store):
                table.remove(root)
            there |= keys_of(store)

        switch = Acting(at, act)
        report = Maintainer(FaultyStore(store, switch, "table")).expire(2, 2)
        if not switch.has_acted:
            break
        lost = {key for key in there - keys_of(store) if "/data-" in f"/{key}"}
        assert len(lost) <= BATCH_KEYS, f"before request {at}: {sorted(lost)}"
        files = sum("/data-" in f"/{key}" for key in there)
        salvaged += report.refusal is not None and files < FILES + 3
    assert salvaged > 2, "it never came between two batches of data files"


def test_documents_do_not_return_once_a_file_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that is reset makes a plan stale at any time, between two batches of files too."""
    monkeypatch.setattr(batches, "BATCH_KEYS", BATCH_KEYS)
    at, late = 0, 0
    while True:
        at += 1
        store = MemoryStore("memory://bucket/t")
        table = table_in(store)
        files: list[int] = []

        def act(store: MemoryStore = store, table: TableBuilder = table, files: list[int] = files) -> None:
            files.append(sum("/data-" in f"/{key}" for key in keys_of(store)))
            table.consumer("reset", 1)

        switch = Acting(at, act)
        report = Maintainer(FaultyStore(store, switch, "table")).expire(2, 2)
        if not switch.has_acted:
            break
        assert_roots_readable(table)
        late += report.status == "stale" and files[0] < FILES + 3
    assert late > 2, "it never came between two batches of data files"


# --- how an undo ends ---


class Reluctant(MemoryStore):
    """Finds, when it comes to it, that somebody has written one of the data files."""

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        answers = list(super().undelete(requests, only_check=only_check))
        if not only_check:
            number = next((n for n, each in enumerate(answers) if "/data-" in f"/{each.key}"), None)
            if number is not None:
                answers[number] = UndeleteResult(answers[number].key, "marker_not_current")
        return answers


def test_no_document_returns_when_a_file_did_not() -> None:
    """It could lack that file."""
    store, control = Reluctant("memory://bucket/t", versioned=True), MemoryStore("memory://control")
    table = table_in(store)
    run_id = Maintainer(store, control=control).expire(2, 2).run_id
    assert run_id is not None
    before = set(all_roots(store))
    report = undo(Maintainer(store, control=control).table, run_id, execute=True)
    assert report.status == "partial", report.refusal
    assert set(all_roots(store)) == before
    assert_roots_readable(table)
