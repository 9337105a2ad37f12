"""A request fails while a table is measured, whichever it is: an error, never figures of a part of the table."""

from dataclasses import replace

from lakesweep.errors import StorageError
from lakesweep.operations.overview.measure import measure, remembered
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


def test_any_request_may_fail() -> None:
    """One after another, of the table's store and of the control location."""
    store, control = MemoryStore(clock=lambda: 9_000_000), MemoryStore("memory://control", clock=lambda: 9_000_000)
    table = TableBuilder(store, primary_keys=("id",), options={"snapshot.num-retained.min": "2"})
    table.commit("+A@0")
    table.tag("t")
    table.branch("b", from_tag="t").commit("+E@0")
    table.commit("-A@0", "+B@5", index={"V": b"\0\0\0\1"}, changelog=["+L"])
    table.consumer("reader", 2)
    table.remove("A")  # so that the search for missing files asks, too
    whole = measure(Maintainer(store, control=control).table, "t")
    assert "missing_files" in {each.code for each in whole.overview.findings}
    failed = 0
    for at in range(1, 1000):
        switch = Switch(at)
        broken = Maintainer(
            FaultyStore(store, switch, "table"),  # type: ignore[arg-type]
            control=FaultyStore(control, switch, "control"),  # type: ignore[arg-type]
        ).table
        try:
            found = measure(broken, "t")
        except StorageError as error:
            assert error.code == "broken"
            failed += 1
            continue
        if len(switch.calls) < at:
            assert found == whole
            break
        # Only an answer about a missing file may be lacking. Then it is not known whether the file exists.
        assert "files_not_known" in {each.code for each in found.overview.findings}, switch.calls[at - 1]
        codes = ("missing_files", "files_may_be_expiring", "files_not_known")
        rest = [each for each in found.overview.findings if each.code not in codes]
        assert rest == [each for each in whole.overview.findings if each.code not in codes]
        assert replace(found.overview, findings=()) == replace(whole.overview, findings=())
    assert failed > 30


def test_any_request_of_a_look_may_fail() -> None:
    """A remembered overview is shown only if all requests that confirm it were answered."""
    store, control = MemoryStore(clock=lambda: 9_000_000), MemoryStore("memory://control", clock=lambda: 9_000_000)
    TableBuilder(store).commit("+A")
    earlier = measure(Maintainer(store, control=control).table, "t")
    for at in range(1, 100):
        switch = Switch(at)
        broken = Maintainer(
            FaultyStore(store, switch, "table"),  # type: ignore[arg-type]
            control=FaultyStore(control, switch, "control"),  # type: ignore[arg-type]
        ).table
        try:
            found = remembered(broken, earlier)
        except StorageError:
            continue
        assert len(switch.calls) < at
        assert found is not None
        break
    assert at > 5
