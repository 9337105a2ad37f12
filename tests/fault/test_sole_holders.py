"""A request that fails is never an answer: each file here is held by one root alone, so one that is missed costs it.

In the table of `test_every_call.py` several roots hold each file, and a failed read of one of them would go unnoticed.
"""

import pytest

from lakesweep.errors import MaintenanceError
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, assert_all_readable
from tests.support.table_builder import TableBuilder

SOLE = {"tag/tag-t1": "A", "branch/branch-b/snapshot/snapshot-2": "B", "branch/branch-c/tag/tag-t3": "C"}
HOLDERS = {*SOLE, "snapshot/snapshot-5", "snapshot/snapshot-6", "snapshot/snapshot-7"}


def build() -> TableBuilder:
    """Return a table of which each retained root has a file for itself; the consumer keeps snapshots 5 and 6."""
    table = TableBuilder(MemoryStore("memory://bucket/t"))
    table.commit("+A", index={"i1": {"A": (1,)}}, statistics="s1")
    table.tag("t1")
    table.commit("-A", "+B", index={"i2": {"B": (1,)}}, statistics="s2")
    table.tag("t2")
    table.branch("b", from_tag="t2")
    table.remove("tag/tag-t2")
    table.remove("branch/branch-b/tag/tag-t2")
    table.commit("-B", "+C", index={"i3": {"C": (1,)}}, statistics="s3")
    table.tag("t3")
    table.branch("c", from_tag="t3")
    table.remove("tag/tag-t3")
    table.remove("branch/branch-c/snapshot/snapshot-3")
    table.commit("-C", "+D", index={"i4": {"D": (1,)}}, merge_base=True)
    table.commit("-D", "+E", index={"i5": {"E": (1,)}}, merge_base=True)
    table.commit("-E", "+F", index={"i6": {"F": (1,)}}, merge_base=True)
    table.commit("-F", "+G", index={"i7": {"G": (1,)}}, merge_base=True)
    table.consumer("reader", 5)
    return table


def run(table: TableBuilder, at: int | None) -> list[str]:
    """Expire with the request number `at` failing, and return what was asked of the table."""
    switch = Switch(at)
    try:
        report = Maintainer(FaultyStore(table.store, switch, "table")).expire()
        assert at is not None or report.status == "done"
    except MaintenanceError:
        assert at is not None
    return switch.calls


def test_each_file_has_one_holder() -> None:
    """Else this proves nothing: without the root its file goes."""
    normal = build()
    run(normal, None)
    assert set(all_roots(normal.store)) == HOLDERS
    for holder, symbol in SOLE.items():
        table = build()
        table.remove(holder)
        run(table, None)
        assert symbol in normal.present() - table.present()


@pytest.mark.parametrize("kind", ["list", "folders", "read"])
def test_a_request_that_fails_is_no_answer(kind: str) -> None:
    calls = run(build(), None)
    numbers = [number for number, call in enumerate(calls, 1) if call.split()[1] == kind]
    assert len(numbers) >= (2 if kind == "folders" else 8)
    for number in numbers:
        table = build()
        run(table, number)
        where = f"request {number}, {calls[number - 1]}"
        assert set(all_roots(table.store)) >= HOLDERS, where
        try:
            assert_all_readable(table)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
