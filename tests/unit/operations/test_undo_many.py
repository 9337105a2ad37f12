"""The expiry of many snapshots is undone: more objects than one request takes, and every byte comes back."""

from lakesweep.operations.undo.undo import undo
from lakesweep.storage.store import DeleteRequest
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, read_all
from tests.support.table_builder import TableBuilder

SNAPSHOTS, FILES = 60, 20


def many() -> tuple[MemoryStore, TableBuilder, Maintainer]:
    """Each commit replaces all files of the one before."""
    store = MemoryStore("memory://bucket/t", clock=lambda: 1_800_000_000_000, versioned=True)
    table = TableBuilder(store)
    before: list[str] = []
    for number in range(1, SNAPSHOTS + 1):
        files = [f"F{number}_{place}" for place in range(FILES)]
        table.commit(*(f"-{name}" for name in before), *(f"+{name}" for name in files), changelog=[f"+L{number}"])
        before = files
    table.hint("EARLIEST", 1)
    table.hint("LATEST", SNAPSHOTS)
    return store, table, Maintainer(store, control=MemoryStore("memory://control", clock=lambda: 1_800_000_000_000))


def test_an_expiry_of_many_snapshots_is_undone() -> None:
    """The listing and the bytes are the same, every snapshot reads, and ids that are used again refuse."""
    store, table, maintainer = many()
    before = {entry.key: store.read(entry.key).data for entry in store.list("")}
    report = maintainer.expire(retain_max=2, retain_min=2, max_deletes=100)
    if report.refusal is not None and report.plan is not None:
        report = maintainer.execute(report.plan.header.plan_id, confirm=report.plan.header.plan_id)
    assert report.status == "done", report.refusal
    assert report.outcome is not None and report.run_id is not None
    assert report.outcome.deleted > 1000
    assert len(all_roots(store)) == 2
    assert undo(maintainer.table, report.run_id, execute=True).status == "done"
    assert {entry.key: store.read(entry.key).data for entry in store.list("")} == before
    assert len(read_all(store)) == SNAPSHOTS
    assert_roots_readable(table)


def test_it_is_refused_once_an_id_is_used_again() -> None:
    """A snapshot of the same id is somebody else's; all or nothing comes back."""
    store, _, maintainer = many()
    newest = store.read("snapshot/snapshot-60").data
    report = maintainer.expire(retain_max=50, retain_min=50)
    assert report.status == "done" and report.run_id is not None
    store.put("snapshot/snapshot-7", newest.replace(b'"id": 60', b'"id": 7'))
    before = {entry.key: entry.etag for entry in store.list("")}
    refused = undo(maintainer.table, report.run_id, execute=True)
    assert refused.status == "refused"
    assert {entry.key: entry.etag for entry in store.list("")} == before
    store.delete([DeleteRequest("snapshot/snapshot-7")])
