"""An undo of a run whose ledger has lost rows, by a lifecycle rule or by whoever may write the control location."""

from collections.abc import Callable

import pytest

from lakesweep.control.ndjson import pack, unpack
from lakesweep.operations.undo.undo import undo
from lakesweep.storage.store import DeleteRequest
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

CHANGELOGS = {
    "changelog-producer": "input",
    "changelog.num-retained.max": "20",
    "changelog.time-retained": "100000 d",
}


def forget_documents(control: MemoryStore) -> None:
    """Take the rows of all snapshots and tags out of the ledger."""
    for entry in list(control.list("")):
        if "/ledger/" in entry.key:
            rows = list(unpack(control.read(entry.key).data, entry.key))
            control.put(entry.key, pack([row for row in rows if row.get("kind") not in ("snapshot", "tag")]))


def forget_first_part(control: MemoryStore) -> None:
    """Take the first part of the ledger away."""
    keys = sorted(entry.key for entry in control.list("") if "/ledger/" in entry.key)
    list(control.delete([DeleteRequest(keys[0])]))


@pytest.mark.parametrize("options", [{}, CHANGELOGS])
@pytest.mark.parametrize("forget", [forget_documents, forget_first_part])
def test_an_undo_is_refused_where_no_row_tells_of_a_document(
    forget: Callable[[MemoryStore], None], options: dict[str, str]
) -> None:
    store, control = MemoryStore("memory://bucket/t", versioned=True), MemoryStore("memory://control")
    table = TableBuilder(store, primary_keys=("k",), options=options)
    for number in range(6):
        gone = [f"-F{number - 1}"] if number else []
        table.commit(f"+F{number}", *gone, changelog=[f"+L{number}"] if options else ())
    maintainer = Maintainer(store, control=control)
    report = maintainer.expire(2, 2)
    assert (report.status, report.run_id is None) == ("done", False)
    forget(control)
    before = {entry.key for entry in store.list("")}
    for execute in (False, True):
        back = undo(maintainer.table, str(report.run_id), execute=execute)
        assert (back.status, back.refusal and back.refusal.code) == ("refused", "unknown_result")
        assert {entry.key for entry in store.list("")} == before
