"""Consumers: what they hold back, when they are forgotten, and how they are cleared and reset."""

import json
from collections.abc import Callable

import pytest

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from tests.support.maintenance import assert_roots_readable
from tests.support.table_builder import TableBuilder
from tests.support.world import World

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000
OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "1000 d",
    "consumer.expiration-time": "1 d",
}
DECOUPLED = {"changelog.num-retained.max": "3"}


class ConsumedWorld(World):
    """Ten snapshots of which one stays, and a clock."""

    def __init__(self, options: dict[str, str] = OPTIONS, *, commits: int = 10) -> None:
        super().__init__(now_ms=NOW_MS, options=options, start_ms=NOW_MS - DAY_MS)
        self.replace_each(commits, changelogs=False)
        self.now_ms = NOW_MS

    def consumer(self, name: str, next_snapshot: int, idle_ms: int = 0, table: TableBuilder | None = None) -> None:
        """Write a consumer that was moved `idle_ms` ago."""
        path = (table or self.table).consumer(name, next_snapshot)
        self.store.set_modified(path, self.now_ms - idle_ms)

    def after_run(self) -> None:
        assert_roots_readable(self.table)

    def names(self, folder: str = "consumer") -> dict[str, int]:
        """Return each consumer with its next snapshot."""
        return {
            entry.key.removeprefix(f"{folder}/consumer-"): json.loads(self.store.read(entry.key).data)["nextSnapshot"]
            for entry in self.store.list(f"{folder}/")
        }


@pytest.fixture
def scene() -> ConsumedWorld:
    return ConsumedWorld()


# What they hold back.


def test_the_slowest_consumer_holds_back_snapshots(scene: ConsumedWorld) -> None:
    scene.consumer("fast", 9)
    scene.consumer("slow", 4)
    report = scene.run("expire-snapshots")
    assert scene.ids() == list(range(4, 11))
    assert report.plan is not None and report.plan.header.kept["consumer"] == 6
    assert scene.names() == {"fast": 9, "slow": 4}


def test_a_consumer_before_everything_holds_back_everything(scene: ConsumedWorld) -> None:
    scene.consumer("slow", 1)
    assert scene.run("expire-snapshots").status == "nothing_to_do"
    assert scene.ids() == list(range(1, 11))


def test_consumers_of_another_branch_do_not_count(scene: ConsumedWorld) -> None:
    scene.table.tag("t", snapshot=2)
    branch = scene.table.branch("b", from_tag="t")
    branch.commit("+B")
    scene.consumer("slow", 2, table=branch)
    scene.run("expire-snapshots")
    assert scene.ids() == [10]
    scene.run("expire-snapshots", on="b")
    assert scene.ids("branch/branch-b/snapshot") == [2, 3]
    scene.run("reset-consumer", on="b", consumer_id="slow")
    assert scene.names("branch/branch-b/consumer") == {}
    assert scene.run("expire-snapshots", on="b").status == "done"
    assert scene.ids("branch/branch-b/snapshot") == [3]


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'{"nextSnapshot": "x"}', b'{"nextSnapshot": -1}'])
@pytest.mark.parametrize("operation", ["expire-snapshots", "expire-changelogs"])
def test_a_consumer_that_does_not_parse_refuses(operation: str, body: bytes) -> None:
    scene = ConsumedWorld(OPTIONS | DECOUPLED)
    scene.run("expire-snapshots", retain_max=5)
    scene.store.put("consumer/consumer-odd", body)
    before = {entry.key for entry in scene.store.list("")}
    report = scene.run(operation, retain_max=2)
    assert report.refusal is not None and report.refusal.code == "unreadable_consumer"
    assert "consumer/consumer-odd" in report.refusal.message
    assert {entry.key for entry in scene.store.list("")} == before


@pytest.mark.parametrize("operation", ["expire-snapshots", "expire-changelogs"])
def test_a_consumer_that_appears_before_the_execution_ends_the_plan(operation: str) -> None:
    scene = ConsumedWorld(OPTIONS | DECOUPLED)
    scene.run("expire-snapshots", retain_max=3)
    planned = scene.run(operation, execute=False, retain_max=2)
    assert planned.plan is not None and planned.status == "planned"
    scene.consumer("late", 1)
    report = scene.maintainer().execute(planned.plan.header.plan_id)
    assert report.status == "stale"
    assert report.outcome is not None and report.outcome.deleted == 0
    assert (scene.ids(), scene.ids("changelog")) == ([8, 9, 10], list(range(1, 8)))


# Forgotten ones.


@pytest.mark.parametrize(("idle_ms", "stays"), [(DAY_MS - 1, True), (DAY_MS, True), (DAY_MS + 1, False)])
def test_a_consumer_is_forgotten_strictly_after_the_time(scene: ConsumedWorld, idle_ms: int, stays: bool) -> None:
    scene.consumer("reader", 4, idle_ms)
    report = scene.maintain()
    assert report.status == "done"
    assert ("reader" in scene.names()) is stays
    assert scene.ids() == (list(range(4, 11)) if stays else [10])


def test_without_the_option_nobody_is_forgotten() -> None:
    scene = ConsumedWorld({key: value for key, value in OPTIONS.items() if key != "consumer.expiration-time"})
    scene.consumer("reader", 4, 1000 * DAY_MS)
    report = scene.maintain()
    assert report.steps is not None and [step.operation for step in report.steps] == ["expire-snapshots"]
    assert scene.names() == {"reader": 4}


def test_expiry_by_hand_forgets_nobody(scene: ConsumedWorld) -> None:
    scene.consumer("reader", 4, 2 * DAY_MS)
    scene.run("expire-snapshots")
    assert scene.names() == {"reader": 4}
    assert scene.ids() == list(range(4, 11))


def test_nobody_is_forgotten_where_no_retention_is_stated() -> None:
    """The pass after a commit deletes nothing there, consumers included."""
    scene = ConsumedWorld({"consumer.expiration-time": "1 d"})
    scene.consumer("reader", 4, 2 * DAY_MS)
    report = scene.maintain()
    assert report.refusal is not None and report.refusal.code == "retention_not_stated"
    assert scene.names() == {"reader": 4}


@pytest.mark.parametrize("key", ["consumer.expiration-time", "changelog.time-retained", "snapshot.time-retained"])
def test_an_option_that_does_not_parse_stops_the_pass_before_it_begins(key: str) -> None:
    scene = ConsumedWorld(OPTIONS | {key: "soon"})
    scene.consumer("reader", 4, 2 * DAY_MS)
    report = scene.maintain()
    assert report.refusal is not None and report.refusal.code == "bad_option"
    assert scene.names() == {"reader": 4}
    if key != "consumer.expiration-time":
        assert scene.ids() == list(range(1, 11))


def test_forgotten_changes_with_the_option_of_a_call(scene: ConsumedWorld) -> None:
    scene.consumer("reader", 4, 2 * DAY_MS)
    scene.run("maintain", options={"consumer.expiration-time": "3 d"})
    assert scene.names() == {"reader": 4}


def test_a_reader_that_comes_back_is_not_removed(scene: ConsumedWorld) -> None:
    """Its document is another one than was planned: the condition of the delete fails, and snapshots wait for it."""
    scene.consumer("back", 4, 2 * DAY_MS)
    planned = scene.maintain(execute=False)
    assert planned.steps is not None and planned.steps[0].plan is not None
    scene.consumer("back", 5)
    report = scene.maintainer().execute(planned.steps[0].plan.header.plan_id)
    assert report.status == "stale"
    assert report.refusal is not None and "consumer/consumer-back" in report.refusal.message
    assert scene.names() == {"back": 5}


def test_a_reader_that_comes_back_during_the_pass_is_not_removed(scene: ConsumedWorld) -> None:
    scene.consumer("back", 4, 2 * DAY_MS)
    scene.consumer("gone", 3, 2 * DAY_MS)
    _before_delete(scene, lambda: scene.consumer("back", 5))
    report = scene.maintain()
    assert report.steps is not None
    assert [step.status for step in report.steps] == ["stale", "done"]
    assert scene.names() == {"back": 5}
    assert scene.ids() == list(range(5, 11))


@pytest.mark.parametrize(
    "options", [OPTIONS, OPTIONS | DECOUPLED, OPTIONS | DECOUPLED | {"changelog-producer": "input"}]
)
@pytest.mark.parametrize("idle_ms", [0, 2 * DAY_MS])
def test_a_dry_run_of_the_pass_shows_what_the_pass_does(options: dict[str, str], idle_ms: int) -> None:
    scene = ConsumedWorld(dict(options))
    scene.consumer("reader", 4, idle_ms)
    scene.consumer("other", 7)
    before = {entry.key: entry.etag for entry in scene.store.list("")}
    planned = scene.maintain(execute=False)
    assert {entry.key: entry.etag for entry in scene.store.list("")} == before
    executed = scene.maintain()
    assert executed.status == "done"
    assert planned.steps is not None and executed.steps is not None
    assert [_what(step) for step in planned.steps] == [_what(step) for step in executed.steps]
    assert scene.ids() == list(range(4 if idle_ms == 0 else 7, 11))


def _what(step: RunReport) -> object:
    assert step.plan is not None
    actions = [(type(a).__name__, a.phase, a.kind, a.path, a.reason) for a in step.plan.actions]
    return step.operation, actions, dict(step.plan.header.kept), dict(step.plan.header.snapshots)


def test_only_the_plan_of_the_first_step_that_changes_something_is_stored(scene: ConsumedWorld) -> None:
    scene.consumer("reader", 4, 2 * DAY_MS)
    planned = scene.maintain(execute=False)
    assert planned.steps is not None
    first, second = (step.plan for step in planned.steps)
    assert first is not None and second is not None
    refused = scene.maintainer().execute(second.header.plan_id)
    assert refused.refusal is not None and refused.refusal.code == "no_such_plan"
    assert scene.maintainer().execute(first.header.plan_id).status == "done"


# By hand.


@pytest.mark.parametrize(
    ("including", "excluding", "gone"),
    [
        (None, None, {"a", "ab", "b-1", "b-2"}),
        ("a", None, {"a"}),
        ("a.*", None, {"a", "ab"}),
        (".*", "b-.", {"a", "ab"}),
        (None, "b", {"a", "ab", "b-1", "b-2"}),
        ("b", None, set()),
        ("", None, set()),
        ("b-1|a", "a", {"b-1"}),
    ],
)
def test_patterns_match_whole_names(
    scene: ConsumedWorld, including: str | None, excluding: str | None, gone: set[str]
) -> None:
    names = {"a", "ab", "b-1", "b-2"}
    for name in names:
        scene.consumer(name, 5)
    planned = scene.run("clear-consumers", execute=False, including_consumers=including, excluding_consumers=excluding)
    assert set(scene.names()) == names
    report = scene.run("clear-consumers", including_consumers=including, excluding_consumers=excluding)
    assert report.status == ("done" if gone else "nothing_to_do")
    assert set(scene.names()) == names - gone
    assert report.plan is not None and planned.plan is not None
    assert [d.path for d in planned.plan.deletes] == [d.path for d in report.plan.deletes]
    assert report.plan.header.kept == ({"consumer_stays": len(names - gone)} if names - gone else {})


def test_a_pattern_that_does_not_compile_is_a_usage_error(scene: ConsumedWorld) -> None:
    with pytest.raises(UsageError, match="expected a regular expression"):
        scene.run("clear-consumers", including_consumers="a(")


def test_a_table_without_snapshots_may_have_consumers() -> None:
    """They are cleared all the same; only expiries look for snapshots."""
    scene = ConsumedWorld(commits=0)
    scene.consumer("early", 1)
    assert scene.run("clear-consumers").status == "done"
    assert scene.names() == {}


def test_a_damaged_consumer_can_be_cleared(scene: ConsumedWorld) -> None:
    """It is the way out where it blocks everything else."""
    scene.store.put("consumer/consumer-odd", b"{")
    assert scene.run("clear-consumers", including_consumers="odd").status == "done"
    assert scene.run("expire-snapshots").status == "done"


def test_reset_moves_a_consumer(scene: ConsumedWorld) -> None:
    scene.consumer("reader", 4)
    assert scene.run("reset-consumer", consumer_id="reader", next_snapshot_id=7).status == "done"
    assert scene.names() == {"reader": 7}
    scene.run("expire-snapshots")
    assert scene.ids() == list(range(7, 11))


def test_reset_makes_a_consumer_that_is_not_there(scene: ConsumedWorld) -> None:
    scene.run("reset-consumer", consumer_id="new", next_snapshot_id="6")
    assert scene.names() == {"new": 6}


def test_reset_writes_what_the_engine_writes(scene: ConsumedWorld) -> None:
    scene.run("reset-consumer", consumer_id="new", next_snapshot_id=6)
    assert scene.store.read("consumer/consumer-new").data == b'{\n  "nextSnapshot" : 6\n}'


def test_reset_without_a_snapshot_removes(scene: ConsumedWorld) -> None:
    scene.consumer("reader", 4)
    scene.consumer("other", 5)
    assert scene.run("reset-consumer", consumer_id="reader").status == "done"
    assert scene.names() == {"other": 5}


@pytest.mark.parametrize("next_snapshot", [0, 11, 3])
def test_reset_to_a_missing_snapshot_is_refused(scene: ConsumedWorld, next_snapshot: int) -> None:
    scene.run("expire-snapshots", retain_max=5)
    scene.consumer("reader", 8)
    report = scene.run("reset-consumer", consumer_id="reader", next_snapshot_id=next_snapshot)
    assert report.refusal is not None and report.refusal.code == "no_such_snapshot"
    assert scene.names() == {"reader": 8}


def test_reset_of_a_missing_consumer_is_refused(scene: ConsumedWorld) -> None:
    report = scene.run("reset-consumer", consumer_id="nobody")
    assert report.refusal is not None and report.refusal.code == "no_such_consumer"


@pytest.mark.parametrize("name", [None, "", "a/b", "..", "a\0b"])
def test_reset_wants_a_name(scene: ConsumedWorld, name: str | None) -> None:
    with pytest.raises(UsageError):
        scene.run("reset-consumer", consumer_id=name, next_snapshot_id=5)


def _before_delete(scene: ConsumedWorld, act: Callable[[], None]) -> None:
    """Let something happen right before the first delete."""
    delete = scene.store.delete

    def acting(requests: object) -> object:
        scene.store.delete = delete  # type: ignore[method-assign]
        act()
        return delete(requests)  # type: ignore[arg-type]

    scene.store.delete = acting  # type: ignore[method-assign, assignment]
