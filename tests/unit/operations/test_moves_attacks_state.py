"""What the last pass left of a branch that is another one since: main after a fast-forward, a name used again."""

from datetime import timedelta

from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

HOUR_MS = 3_600_000
START_MS = 1_800_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


def lake(clock: Clock, **options: str) -> tuple[TableBuilder, Maintainer]:
    store = MemoryStore("memory://bucket/db.db/t", clock=clock)
    settings = {"write-only": "true", "snapshot.num-retained.min": "100", "snapshot.num-retained.max": "100"}
    table = TableBuilder(store, options=settings | options, start_ms=START_MS - HOUR_MS)
    return table, Maintainer(store, control=MemoryStore("memory://control/c", clock=clock))


def tags_of(table: TableBuilder, branch: str = "") -> list[str]:
    return [entry.key.rpartition("/")[2] for entry in table.store.list(f"{branch}tag/")]


def test_a_tag_of_the_clock_that_a_fast_forward_took_is_made_again() -> None:
    clock = Clock()
    options = {
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "daily",
        "sink.process-time-zone": "UTC",
    }
    table, maintainer = lake(clock, **options)
    table.commit("+A", time_ms=START_MS - HOUR_MS)
    assert maintainer.maintain().status == "done"
    (tag,) = tags_of(table)
    assert maintainer.run("create-branch", branch="b", snapshot=1).status == "done"
    clock.now_ms += HOUR_MS
    report = maintainer.run("fast-forward", branch="b")
    assert report.plan is not None
    lost = report.plan.header.findings["lost"]
    assert isinstance(lost, dict) and lost["tags"] == [tag.removeprefix("tag-")]
    assert tags_of(table) == []
    assert maintainer.maintain().status == "done"
    assert tags_of(table) == [tag]


def test_a_branch_that_is_made_again_does_not_inherit_what_was_known_of_its_namesake() -> None:
    clock = Clock()
    table, maintainer = lake(clock)
    table.commit("+A", time_ms=START_MS - HOUR_MS)
    table.tag("short", ttl=timedelta(hours=1))
    on_branch = Maintainer(maintainer.store, "b", maintainer.control)
    assert maintainer.run("create-branch", branch="b", snapshot=1).status == "done"
    table.store.put("branch/branch-b/snapshot/LATEST", b"1")
    on_branch.maintain()
    assert on_branch.maintain().status == "nothing_to_do"
    assert maintainer.run("delete-branch", branch="b").status == "done"
    assert maintainer.run("create-branch", branch="b", tag="short").status == "done"
    table.store.put("branch/branch-b/snapshot/LATEST", b"1")
    clock.now_ms += 30 * HOUR_MS
    assert on_branch.maintain().status == "done"
    assert tags_of(table, "branch/branch-b/") == []
