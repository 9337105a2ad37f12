"""Cleaning deletion vectors breaks or dies at every request, or others commit there: no live vector is lost."""

from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest

from lakesweep.errors import LeaseHeldError, MaintenanceError
from lakesweep.runs.committing.catalog import Catalog
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.live_records import document_of, live_records
from tests.support.reader import TableReader
from tests.unit.operations.repair.repair_world import FILES, RepairWorld, vectors_of

UNLOCKED = Catalog(FILES.type)
"""Then a run also looks whether its snapshot stays."""


def scene() -> RepairWorld:
    """A table with an index file to rewrite, one to leave out, and one that stays."""
    world = RepairWorld(options={"bucket": "-1", "deletion-vectors.enabled": "true"})
    index = {"I": {"A": [1], "B": [2]}, "J": {"C": [3]}, "K": {"D": [4], "E": [5]}}
    world.table.commit("+A", "+B", "+C", "+D", "+E", partition=("d",), index=index)
    world.table.commit("-B", "-C", kind="OVERWRITE")
    return world


def test_trouble_at_every_request(record_property: Callable[[str, object], None]) -> None:
    world, switch = scene(), Switch()
    assert world.clean(switch, catalog=UNLOCKED).status == "done"
    names = switch.calls
    assert sum("put index/" in call for call in names) == 1
    places = range(1, len(names) + 1, 1 if EVERY == 1 else 2)
    for mode in MODES:
        for at in places:
            check(at, mode, names[at - 1])
    record_property("calls", f"{len(places)} of {len(names)} requests, each in {len(MODES)} ways")


def check(at: int, mode: str, name: str) -> None:
    """Break one request, look at the table, and clean again."""
    world, where = scene(), f"{mode} at request {at}, {name}"
    committed = None
    try:
        committed = world.clean(Switch(at, mode), catalog=UNLOCKED).status == "done"
    except ProcessDeathError:
        pass
    except MaintenanceError as error:
        committed = "is committed" in str(error)
    look(world, where)
    if committed is not None:
        assert world.ids() == ([1, 2, 3] if committed else [1, 2]), where
    world.wait()
    exists = world.ids() == [1, 2, 3]
    assert world.clean().status == ("nothing_to_do" if exists else "done"), where
    look(world, where)
    assert world.ids() == [1, 2, 3], f"{where}: one commit is enough"


def look(world: RepairWorld, where: str) -> None:
    """Read each snapshot: all that it names is there, with the same files, and the same vectors of live files."""
    world.assert_reads()
    world.newest()
    assert all(live_records(world.store, each) == live_records(world.store, 2) for each in world.ids()[1:]), where
    before = vectors_of(world, 1)
    gone = {world.table.path(symbol).rpartition("/")[2] for symbol in "BC"}
    kept = {name: vector for name, vector in before.items() if name not in gone}
    assert [vectors_of(world, each) for each in world.ids()] == [before, before, kept][: len(world.ids())], where


def clean(world: RepairWorld) -> None:
    """Clean in another process, which does not commit while the first one holds the lease."""
    with suppress(LeaseHeldError):
        world.clean(Switch())


OTHERS: Mapping[str, Callable[[RepairWorld], object]] = {
    "adds a file": lambda world: world.table.commit("+F", partition=("d",)),
    "deletes rows": lambda world: world.table.commit(
        index={"I": None, "J": None, "K2": {"D": [4, 6], "E": [5]}}, partition=("d",), kind="OVERWRITE"
    ),
    "takes a file with a vector": lambda world: world.table.commit("-A", "-D", kind="OVERWRITE"),
    "commits the files again": lambda world: world.table.rollback_as_latest(1),
    "cleans": clean,
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_commits_before_every_request(other: str) -> None:
    """What it commits stays, and we commit on top of it, or have nothing to do any more."""
    world, switch = scene(), Switch()
    world.clean(switch)
    (put,) = (place for place, call in enumerate(switch.calls, 1) if call.startswith("table put snapshot/snapshot-"))
    for at in range(1, put + 1):
        world = scene()
        acting = Acting(at, lambda world=world: OTHERS[other](world))
        report = world.clean(acting)
        assert acting.has_acted and report.status in ("done", "nothing_to_do"), report
        ids = world.ids()
        assert ids == list(range(1, ids[-1] + 1))
        ours = [each for each in ids if user(world, each).startswith("lakesweep")]
        assert len(ours) == (1 if other == "cleans" or report.status == "done" else 0)
        for each in ours:
            assert live_records(world.store, each) == live_records(world.store, each - 1)
            assert vectors_of(world, each) == alive(world, each - 1), f"{other} at request {at}"
        assert vectors_of(world) == alive(world, ids[-1]), "nothing dangles"
        world.newest()


def user(world: RepairWorld, snapshot_id: int) -> str:
    return str(document_of(world.store, snapshot_id)["commitUser"])


def alive(world: RepairWorld, snapshot_id: int) -> dict[str, bytes]:
    """Return the vectors of the live files of a snapshot."""
    live = {path.rpartition("/")[2] for path in TableReader(world.store).read(f"snapshot/snapshot-{snapshot_id}").live}
    return {name: vector for name, vector in vectors_of(world, snapshot_id).items() if name in live}
