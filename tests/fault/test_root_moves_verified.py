"""What is looked for when a branch has moved, and what returns when something of that is gone."""

import json
from contextlib import suppress

import pytest

from lakesweep.model.report import RunReport
from lakesweep.table.discover import discover
from tests.support.acting import Acting
from tests.support.fast_forwards import ForwardWorld
from tests.support.fast_forwards import calls as forward_calls
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.world import World


class TwoSchemas(World):
    """Four snapshots of two schemas, and a rollback to the second, which is of the first schema."""

    def __init__(self) -> None:
        super().__init__()
        self.table.commit("+A")
        self.table.commit("+B")
        self.table.alter(types={"more": "INT"})
        self.table.commit("+C")
        self.table.commit("+D")

    def rolls_back(self, switch: Switch) -> RunReport:
        return self.maintainer(switch).run("rollback", snapshot=2)

    def documents(self) -> dict[str, bytes]:
        return {key: body for key, body in self.bodies().items() if "LATEST" not in key}


def verification() -> tuple[list[str], int]:
    """Return the calls of that rollback, and the number of the one that begins to look for files."""
    switch = Switch()
    assert TwoSchemas().rolls_back(switch).status == "done"
    deletes = [number for number, call in enumerate(switch.calls, 1) if call.startswith("table delete")]
    looks = (
        n for n, call in enumerate(switch.calls, 1) if n > deletes[-1] and call == "table read snapshot/snapshot-2"
    )
    return switch.calls, next(looks)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (["snapshot/snapshot-2"], "snapshot/snapshot-2"),
        (["schema/schema-0"], "schema 0 of branch main"),
        (["schema/schema-0", "schema/schema-1"], "schema"),
    ],
)
def test_what_is_gone_when_it_is_looked_for_is_named(lost: list[str], said: str) -> None:
    """Be it the root itself or the schema that it was written with."""
    _, number = verification()
    lake = TwoSchemas()
    before = lake.documents()
    # Schemas are listed before the roots are read.
    first = number if "snapshot" in lost[0] else number - 6
    report = lake.rolls_back(Acting(first, lambda: [lake.table.remove(path) for path in lost]))
    assert report.status == "stale" and report.refusal is not None
    assert report.refusal.code == "target_lost_files"
    assert said in report.refusal.message
    if "schema" in lost[0]:  # who takes the target rolls back further, and that holds
        assert lake.documents() == {path: body for path, body in before.items() if path not in lost}


def test_a_tag_that_came_and_is_gone_is_named() -> None:
    """A plan promises the roots that it brings; somebody has deleted one before it is looked for."""
    world, made = ForwardWorld("tagged"), forward_calls("tagged")
    last = max(number for number, call in enumerate(made, 1) if call.startswith(("table put", "table delete")))
    path = next(path for path in world.expected() if path.startswith("tag/") and path not in world.before)
    report = world.forward(Acting(last + 1, lambda: world.table.remove(path)))
    assert report.status == "stale" and report.refusal is not None
    assert report.refusal.code == "target_lost_files" and path in report.refusal.message


def test_a_damaged_snapshot_returns_with_the_others() -> None:
    """It was there before, and that nobody can read it is no sign of an expiry."""
    probe = Switch()
    assert TwoSchemas().rolls_back(probe).status == "done"
    last = max(number for number, call in enumerate(probe.calls, 1) if call.startswith("table delete"))
    lake = TwoSchemas()
    newest = json.loads(lake.store.read("snapshot/snapshot-4").data)
    lake.store.put("snapshot/snapshot-3", b"{")
    before = lake.documents()
    with suppress(ProcessDeathError):
        lake.rolls_back(Switch(last, "death_after"))
    assert "snapshot/snapshot-3" not in lake.documents()
    lake.store.put("snapshot/snapshot-5", json.dumps(newest | {"id": 5}).encode())
    lake.now_ms += 3_600_000
    Maintainer(lake.store, control=lake.control).run("delete-tag", tag="nothing")
    assert before.items() <= lake.documents().items()
    assert [ref.id for ref in discover(lake.store).branches["main"].snapshots] == [1, 2, 3, 4, 5]
