"""When the listing that a plan was made from serves as the first look, and when the roots are listed once more."""

import pytest

from tests.support.faulty_store import Switch
from tests.support.world import World

SINGLE_DELETES, FRESH_MS = 16, 10_000
"""As `docs/safety.md` says: so few documents go one by one, and so old may a listing be."""


class Clocked(Switch):
    """Each read of the table takes a while."""

    def __init__(self, stage: World, each_ms: int) -> None:
        super().__init__()
        self._stage, self._each_ms = stage, each_ms

    def _run(self, name: str, call: object) -> object:
        if name.startswith("table read"):
            self._stage.now_ms += self._each_ms
        return super()._run(name, call)  # type: ignore[arg-type]


def listings(stage: World) -> int:
    """Expire, and return how often the snapshots were listed before anything was deleted."""
    assert stage.maintainer().expire().status == "done"
    first = next(number for number, call in enumerate(stage.switch.calls) if call.startswith("table delete"))
    return stage.switch.calls[:first].count("table list snapshot/")


@pytest.mark.parametrize(("expired", "looks"), [(1, 1), (SINGLE_DELETES, 1), (SINGLE_DELETES + 1, 2)])
def test_more_documents_than_go_one_by_one_are_looked_at(expired: int, looks: int) -> None:
    stage = World()
    stage.replace_each(expired + 1)
    assert listings(stage) == looks


@pytest.mark.parametrize(("each_ms", "looks"), [(0, 1), (FRESH_MS // 100, 1), (FRESH_MS, 2)])
def test_an_old_listing_is_made_again(each_ms: int, looks: int) -> None:
    stage = World()
    stage.replace_each(4)
    stage.switch = Clocked(stage, each_ms)
    assert listings(stage) == looks


@pytest.mark.parametrize(("says", "looks"), [(None, 2), (3, 2), (4, 1), (9999, 2)])
def test_a_table_that_may_be_rolled_back_is_looked_at(says: int | None, looks: int) -> None:
    """LATEST names the newest snapshot, another one, or is not there."""
    stage = World()
    stage.replace_each(4)
    if says is not None:
        stage.table.hint("LATEST", says)
    elif stage.table.exists("snapshot/LATEST"):
        stage.table.remove("snapshot/LATEST")
    stage.now_ms += 3_600_000
    assert listings(stage) == looks


def test_a_plan_that_was_stored_is_looked_at() -> None:
    """Once to ask the roots of its time for its files, and once for those that appeared since."""
    stage = World()
    stage.replace_each(4)
    plan = stage.maintainer().plan().plan
    assert plan is not None
    stage.switch.calls.clear()
    assert stage.maintainer().execute(plan.header.plan_id).status == "done"
    first = next(number for number, call in enumerate(stage.switch.calls) if call.startswith("table delete"))
    assert stage.switch.calls[:first].count("table list snapshot/") == 2
