"""A store that answers a request to delete, and leaves one of its objects where it is: a policy denies that one."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.storage.store import DeleteRequest, DeleteResult
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import assert_all_readable
from tests.support.table_builder import TableBuilder

DECOUPLED = {"changelog-producer": "input", "changelog.num-retained.max": "20", "snapshot.num-retained.min": "1"}


class Denying(MemoryStore):
    """Deletes everything but some keys."""

    denied: frozenset[str] = frozenset()

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        done = iter(super().delete([request for request in requests if request.key not in self.denied]))
        return [
            DeleteResult(request.key, "access_denied") if request.key in self.denied else next(done)
            for request in requests
        ]


@dataclass
class World:
    """Five snapshots, of which the first four are to go."""

    options: dict[str, str]
    now_ms: int = 1_800_000_000_000

    def __post_init__(self) -> None:
        self.store = Denying("memory://bucket/t", clock=lambda: self.now_ms)
        self.control = MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.table = TableBuilder(self.store, options=self.options)
        for number in range(1, 6):
            gone = [f"-F{number - 1}"] if number > 1 else []
            self.table.commit(f"+F{number}", *gone, changelog=[f"+L{number}"], index={f"i{number}": {}})

    def expire(self) -> RunReport:
        self.now_ms += LEASE_MS + DELETE_MARGIN_MS
        return Maintainer(self.store, control=self.control).expire()

    def keys(self) -> set[str]:
        return {entry.key for entry in self.store.list("")}


def problem_of(world: World) -> tuple[str, str]:
    """Expire, and return what is wrong: reported where something was deleted, raised where nothing was."""
    try:
        report = world.expire()
    except MaintenanceError as error:
        return error.code, str(error)
    assert report.status == "partial" and report.refusal is not None
    return report.refusal.code, report.refusal.message


@pytest.mark.parametrize("options", [{}, DECOUPLED], ids=["plain", "changelogs"])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_document_that_stays_keeps_every_file(number: int, options: dict[str, str]) -> None:
    """Its files would be gone under a snapshot that readers still open. The next run tries again."""
    normal, world = World(options), World(options)
    assert normal.expire().status == "done"
    document = f"snapshot/snapshot-{number}"
    world.store.denied = frozenset({document})
    for _ in range(2):
        before = world.keys()
        code, message = problem_of(world)
        assert (code, document in message) == ("access_denied", True)
        assert {key.partition("/")[0] for key in before - world.keys()} <= {"snapshot"}
        assert_all_readable(world.table)
    world.store.denied = frozenset()
    world.expire()
    world.expire()
    assert world.keys() == normal.keys()
    assert_all_readable(world.table)


def test_a_file_that_stays_is_said_and_stops_nothing_else() -> None:
    normal, world = World({}), World({})
    assert normal.expire().status == "done"
    path = world.table.path("F2")
    world.store.denied = frozenset({path})
    report = world.expire()
    assert report.status == "partial"
    assert report.outcome is not None and [failed.path for failed in report.outcome.failed] == [path]
    assert world.keys() == normal.keys() | {path}
    assert_all_readable(world.table)
