"""A store that answers a request to delete, and leaves one of its objects where it is: a policy denies that one."""

from collections.abc import Sequence

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest, DeleteResult
from tests.support.memory_store import MemoryStore
from tests.support.reader import assert_all_readable
from tests.support.world import World

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


class DeniedWorld(World):
    """Five snapshots, of which the first four are to go."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(store=Denying, options=options)
        for number in range(1, 6):
            gone = [f"-F{number - 1}"] if number > 1 else []
            self.table.commit(f"+F{number}", *gone, changelog=[f"+L{number}"], index={f"i{number}": {}})

    def expire_later(self) -> RunReport:
        self.wait()
        return self.maintainer().expire()


def problem_of(world: World) -> tuple[str, str]:
    """Expire, and return what is wrong: reported where something was deleted, raised where nothing was."""
    try:
        report = world.expire_later()
    except MaintenanceError as error:
        return error.code, str(error)
    assert report.status == "partial" and report.refusal is not None
    return report.refusal.code, report.refusal.message


@pytest.mark.parametrize("options", [{}, DECOUPLED], ids=["plain", "changelogs"])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_document_that_stays_keeps_every_file(number: int, options: dict[str, str]) -> None:
    """Its files would be gone under a snapshot that readers still open. The next run tries again."""
    normal, world = DeniedWorld(options), DeniedWorld(options)
    assert normal.expire_later().status == "done"
    document = f"snapshot/snapshot-{number}"
    world.store.denied = frozenset({document})
    for _ in range(2):
        before = world.keys()
        code, message = problem_of(world)
        assert (code, document in message) == ("access_denied", True)
        assert {key.partition("/")[0] for key in before - world.keys()} <= {"snapshot"}
        assert_all_readable(world.table)
    world.store.denied = frozenset()
    world.expire_later()
    world.expire_later()
    assert world.keys() == normal.keys()
    assert_all_readable(world.table)


def test_a_file_that_stays_is_said_and_stops_nothing_else() -> None:
    normal, world = DeniedWorld({}), DeniedWorld({})
    assert normal.expire_later().status == "done"
    path = world.table.path("F2")
    world.store.denied = frozenset({path})
    report = world.expire_later()
    assert report.status == "partial"
    assert report.outcome is not None and [failed.path for failed in report.outcome.failed] == [path]
    assert world.keys() == normal.keys() | {path}
    assert_all_readable(world.table)
