"""Break the pass after a commit at every storage call in turn: a forgotten consumer, snapshots that become changelogs,
changelogs that go. Afterwards every root reads, and the next pass or the one after it reaches the normal end.

Without changelog files every call is broken in every mode; with them every third call in each mode, and not the same.
"""

import pytest

from lakesweep.control.lease import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.errors import MaintenanceError
from lakesweep.storage.memory import MemoryStore
from tests.fault.test_every_call import MODES, World
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import assert_roots_readable
from tests.support.table_builder import TableBuilder

DAY_MS = 86_400_000
OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1000 d",
    "changelog.num-retained.max": "4",
    "consumer.expiration-time": "2 d",
}


class PassWorld(World):
    """Changelogs 1 and 2 from an earlier pass, snapshots 3 to 7, a tag, a branch, two consumers."""

    producer = "none"
    every = 1

    def build(self, store: MemoryStore) -> TableBuilder:
        options = OPTIONS | {"changelog-producer": self.producer}
        table = TableBuilder(store, options=options, start_ms=self.now_ms - DAY_MS)
        logged = iter(f"+L{number}" for number in range(1, 10))

        def commit(*entries: str, kind: str = "APPEND", statistics: str | None = None) -> None:
            changelog = [next(logged)] if self.producer != "none" and kind == "APPEND" else ()
            source = {entry[1:]: int(kind == "COMPACT") for entry in entries if entry.startswith("+")}
            table.commit(*entries, kind=kind, changelog=changelog, file_source=source, statistics=statistics)

        commit("+A", "+B", statistics="s1")
        commit("-A", "+C", kind="COMPACT")
        for number in (1, 2):
            table.changelog_document(number)
        commit("-B", "+D")
        table.tag("kept", snapshot=3)
        table.branch("b", from_tag="kept").commit("+X", "-C")
        commit("-C", "-D", "+E", kind="COMPACT")
        commit("-E", "+F", statistics="s2")
        commit("+G")
        commit("-F", "+H")
        for number in (1, 2):
            table.remove(f"snapshot/snapshot-{number}")
        table.hint("EARLIEST", 3)
        store.set_modified(table.consumer("gone", 4), self.now_ms - 3 * DAY_MS)
        table.consumer("reader", 7)
        return table


class PassWorldWithFiles(PassWorld):
    producer = "lookup"
    every = 3


WORLDS = (PassWorld, PassWorldWithFiles)


def _normal(world_type: type[PassWorld]) -> tuple[PassWorld, int]:
    world = world_type()
    switch = Switch()
    report = world.maintainer(switch).maintain()
    assert report.steps is not None
    assert [step.status for step in report.steps] == ["done", "done", "done"]
    assert_roots_readable(world.table)
    return world, len(switch.calls)


NORMAL = {world_type: _normal(world_type) for world_type in WORLDS}


@pytest.mark.parametrize("world_type", WORLDS)
def test_the_normal_pass_is_worth_breaking(world_type: type[PassWorld]) -> None:
    world, calls = NORMAL[world_type]
    assert calls > 100
    documents = {file for file in world.files() if file.startswith(("snapshot/snap", "changelog/change", "consumer/"))}
    assert documents == {
        "snapshot/snapshot-6",
        "snapshot/snapshot-7",
        "changelog/changelog-4",
        "changelog/changelog-5",
        "consumer/consumer-reader",
    }


@pytest.mark.parametrize("world_type", WORLDS)
@pytest.mark.parametrize("mode", MODES)
def test_any_call_may_break(world_type: type[PassWorld], mode: str) -> None:
    normal, calls = NORMAL[world_type]
    for at in range(1 + MODES.index(mode) % world_type.every, calls + 1, world_type.every):
        world = world_type()
        switch = Switch(at, mode)
        try:
            world.maintainer(switch).maintain()
        except (MaintenanceError, ProcessDeathError):
            pass
        where = f"{mode} call {at}: {switch.calls[at - 1]}"
        try:
            assert_roots_readable(world.table)
            world.now_ms += LEASE_MS + DELETE_MARGIN_MS
            for _ in range(2):
                report = world.maintainer(Switch()).maintain()
                assert report.status in ("done", "nothing_to_do"), report.refusal
                if world.files() == normal.files():
                    break
            assert_roots_readable(world.table)
            assert world.files() == normal.files()
            assert set(world.ledger()) >= set(normal.ledger())
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
