"""A rollback ends where the engine's ends, says what is lost before, and refuses what would lose more."""

import dataclasses
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lakesweep.control.intent import Intent
from lakesweep.errors import UsageError
from lakesweep.model.plan import Delete, Put
from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from lakesweep.runs.expiry_conflict import may_conflict
from lakesweep.runs.session import Table
from lakesweep.storage.store import DeleteRequest
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import assert_all_readable, read_root
from tests.support.table_builder import TableBuilder
from tests.support.world import World

Build = Callable[[TableBuilder], None]


class RollbackWorld(World):
    def __init__(self, build: Build, **options: str) -> None:
        super().__init__(options=options)
        build(self.table)

    def rollback(self, *, execute: bool = True, on: str = "main", **arguments: Any) -> RunReport:
        return self.run("rollback", on=on, execute=execute, **arguments)

    def refused(self, code: str, **arguments: Any) -> str:
        """Return the sentence of a refusal; nothing is planned or changed."""
        before = self.bodies()
        for execute in (False, True):
            report = self.rollback(execute=execute, **arguments)
            assert report.status == "refused" and report.refusal is not None, report
            assert report.refusal.code == code, report.refusal
        assert self.bodies() == before
        return report.refusal.message

    def documents(self) -> dict[str, Any]:
        """Return every object that is no file: documents as JSON, hints as text."""
        found = {}
        for key, data in self.bodies().items():
            if key.startswith(("snapshot/", "changelog/", "tag/", "branch/", "consumer/", "schema/")):
                text = data.decode()
                parsed = json.loads(text)
                found[key] = {k: v for k, v in parsed.items() if v is not None} if isinstance(parsed, dict) else parsed
        return found


def ten(table: TableBuilder) -> None:
    """Build ten snapshots with tags 4 and 8."""
    for number in range(1, 11):
        table.commit(f"+F{number}", user=f"user-{number // 6}")
    table.hint("LATEST", 10)
    table.hint("EARLIEST", 1)
    table.tag("t4", snapshot=4)
    table.tag("t8", snapshot=8)


def later(table: TableBuilder, earliest: int = 6, newest: int = 9) -> None:
    """Build a table whose snapshot 3 has expired and is tagged."""
    for number in range(1, newest + 1):
        table.commit(f"+F{number}")
    table.tag("t3", snapshot=3, ttl=timedelta(days=2))
    table.tag("t7", snapshot=7)
    for number in range(1, earliest):
        table.remove(table.root(number))
    table.hint("EARLIEST", earliest)
    table.hint("LATEST", newest)


def decoupled(table: TableBuilder, first: int = 1) -> None:
    """Build snapshots 7 to 10 and changelogs up to 6; snapshot 4 is tagged."""
    for number in range(1, 11):
        table.commit(f"+F{number}")
    table.tag("t4", snapshot=4)
    for number in range(first, 7):
        table.changelog_document(number)
    for number in range(1, 7):
        table.remove(table.root(number))
    table.hint("EARLIEST", 7)
    table.hint("LATEST", 10)
    table.hint("EARLIEST", first, folder="changelog")


CASES: dict[str, tuple[Build, dict[str, Any], int | str]] = {
    "B1: to a snapshot": (ten, {"snapshot": 5}, 5),
    "B1: by a tag of a snapshot that is there": (ten, {"tag": "t4"}, 4),
    "B2: to a tag of an expired snapshot": (later, {"tag": "t3"}, "t3"),
    "B4: to an expired snapshot that a tag holds": (later, {"snapshot": 3}, "t3"),
    "B5: changelogs stay up to the target": (decoupled, {"tag": "t4"}, "t4"),
    "B5: no changelog stays": (lambda table: decoupled(table, 5), {"tag": "t4"}, "t4"),
    "to the snapshot above all changelogs": (decoupled, {"snapshot": 8}, 8),
    "to the first snapshot": (ten, {"snapshot": 1}, 1),
    "by a version text": (ten, {"version": "t8"}, 8),
    "by a version text that is a number": (ten, {"version": "6"}, 6),
}


@pytest.mark.parametrize("case", CASES)
def test_it_ends_as_the_engine_ends(case: str) -> None:
    """Document by document and hint by hint; every root that is left reads, and no file went."""
    build, arguments, target = CASES[case]
    world, twin = RollbackWorld(build), RollbackWorld(build)
    files = {key for key in world.bodies() if key.startswith(("manifest/", "bucket-"))}
    report = world.rollback(**arguments)
    assert report.status == "done", report.refusal
    twin.table.rollback(target)
    assert world.documents() == twin.documents()
    assert files <= set(world.bodies())
    assert_all_readable(twin.table, world.store)
    assert world.rollback(**arguments).status == "nothing_to_do"


def test_the_next_commit_has_the_next_id() -> None:
    """After a rollback to 5 it is 6, of another content than before."""
    world = RollbackWorld(ten)
    assert world.rollback(snapshot=5).status == "done"
    for number in range(10, 5, -1):
        world.store.put(f"snapshot/snapshot-{number}", b"")
        world.table.remove(f"snapshot/snapshot-{number}")
    world.store.put("tag/tag-t8", b"")
    world.table.remove("tag/tag-t8")
    assert world.table.commit("+New") == 6
    assert world.table.path("New") in read_root(world.store, "snapshot/snapshot-6").live
    assert_all_readable(world.table)


def test_what_is_lost_is_said_before() -> None:
    """Snapshots, changelogs, tags, rows and who committed; and what belongs to no version then."""
    world = RollbackWorld(ten)
    report = world.rollback(execute=False, snapshot=5)
    findings = report.to_json()["findings"]
    assert isinstance(findings, dict)
    assert findings["target"] == {"snapshot": 5, "tag": None, "time_ms": 4 * 600_000}
    assert findings["lost"] == {
        "snapshots": [6, 7, 8, 9, 10],
        "changelogs": [],
        "tags": ["t8"],
        "rows": 50,
        "commit_users": ["user-1"],
    }
    assert findings["whole"] == ["snapshot/snapshot-5"]
    newly_orphaned = findings["newly_orphaned"]
    assert isinstance(newly_orphaned, dict)
    assert newly_orphaned["by_kind"]["data"] == 5
    assert newly_orphaned["files"] == sum(newly_orphaned["by_kind"].values())


def test_the_order_of_the_requests() -> None:
    """Tags first, then the target, then LATEST, then snapshots from the newest down, then changelogs."""
    world = RollbackWorld(decoupled)
    world.table.tag("t8", snapshot=8)
    plan = world.rollback(execute=False, tag="t4").plan
    assert plan is not None
    assert [action.path for action in plan.actions] == [
        "tag/tag-t8",
        "snapshot/snapshot-4",
        "snapshot/EARLIEST",
        "snapshot/LATEST",
        *(f"snapshot/snapshot-{number}" for number in (10, 9, 8, 7)),
        "changelog/LATEST",
        "changelog/changelog-6",
        "changelog/changelog-5",
    ]
    for action in plan.actions:
        if isinstance(action, Delete):
            assert action.etag and action.body
            assert action.body.encode() == world.store.read(action.path).data
        else:
            assert isinstance(action, Put)
            assert action.if_absent or (action.etag and action.former is not None)
    assert json.loads(plan.actions[1].body or "")["id"] == 4
    assert "tagTimeRetained" not in (plan.actions[1].body or "")


def test_success_files_go_with_their_tags() -> None:
    """Where the table has them: they say that a tag is there."""
    world = RollbackWorld(ten, **{"tag.create-success-file": "true"})
    for name in ("t4", "t8"):
        world.store.put(f"tag/tag-success-file/{name}_SUCCESS", b"{}")
    assert world.rollback(snapshot=5).status == "done"
    left = {key for key in world.bodies() if key.startswith("tag/")}
    assert left == {"tag/tag-t4", "tag/tag-success-file/t4_SUCCESS"}


def test_a_branch_is_rolled_back_alone() -> None:
    """Main and its tags stay as they are."""

    def build(table: TableBuilder) -> None:
        ten(table)
        branch = table.branch("b", from_tag="t4")
        for number in range(3):
            branch.commit(f"+B{number}")
        branch.tag("late")

    world = RollbackWorld(build)
    before = {key: data for key, data in world.bodies().items() if not key.startswith("branch/")}
    assert world.rollback(on="b", snapshot=5).status == "done"
    after = world.bodies()
    assert before.items() <= after.items()
    assert sorted(key for key in after if key.startswith(("branch/branch-b/snapshot/s", "branch/branch-b/tag/"))) == [
        "branch/branch-b/snapshot/snapshot-4",
        "branch/branch-b/snapshot/snapshot-5",
        "branch/branch-b/tag/tag-t4",
    ]


def times(table: TableBuilder) -> None:
    for number, time_ms in enumerate((100, 200, 200, 300), 1):
        table.commit(f"+F{number}", time_ms=time_ms)


@pytest.mark.parametrize(("timestamp", "target"), [(200, 2), (99, None), (250, 3), (100, 1), (10_000, 4)])
def test_a_rollback_by_timestamp(timestamp: int, target: int | None) -> None:
    """The last snapshot of then or earlier; of several with one time the one that halving meets."""
    world = RollbackWorld(times)
    if target is None:
        assert "no snapshot was committed" in world.refused("no_such_version", timestamp=timestamp)
        return
    report = world.rollback(timestamp=str(timestamp))
    assert report.status == ("done" if target < 4 else "nothing_to_do"), report.refusal
    assert max(int(key.rpartition("-")[2]) for key in world.bodies() if key.startswith("snapshot/s")) == target


def watermarks(table: TableBuilder) -> None:
    for number, mark in enumerate((None, 10, -(1 << 63), 30), 1):
        table.commit(f"+F{number}", document={"watermark": mark})


@pytest.mark.parametrize(("watermark", "target"), [(25, 2), (5, None), (10, 2), (30, 4), (99, 4)])
def test_a_rollback_by_watermark(watermark: int, target: int | None) -> None:
    """The last snapshot with this watermark or a lower one; one without is never the target."""
    world = RollbackWorld(watermarks)
    if target is None:
        assert "watermark" in world.refused("no_such_version", watermark=watermark)
        return
    report = world.rollback(watermark=watermark)
    assert report.status == ("done" if target < 4 else "nothing_to_do"), report.refusal
    assert max(int(key.rpartition("-")[2]) for key in world.bodies() if key.startswith("snapshot/s")) == target


@pytest.mark.parametrize(
    "arguments",
    [
        {"snapshot": 3},
        {"snapshot": 77},
        {"snapshot": 0},
        {"snapshot": -1},
        {"tag": "nope"},
        {"tag": ""},
        {"version": "nope"},
        {"version": "watermark-x"},
        {"version": "99"},
    ],
)
def test_there_has_to_be_such_a_version(arguments: dict[str, Any]) -> None:
    """A snapshot that is gone, and no tag of it."""
    world = RollbackWorld(later)
    world.table.remove("tag/tag-t3")
    assert "expected" in world.refused("no_such_version", **arguments)


@pytest.mark.parametrize(
    "text",
    ["\ud800", "\0", "9" * 30, "watermark-" + "9" * 30, "-1", " 5", "5\n", "../t4", "t4/", "*", "x" * 5000],
)
@pytest.mark.parametrize("argument", ["version", "tag"])
def test_hostile_texts(argument: str, text: str) -> None:
    """They name no version, and are nothing to fall over."""
    world = RollbackWorld(ten)
    assert len(world.refused("no_such_version", **{argument: text})) < 6000
    assert world.rollback(execute=False, snapshot=5, lose_tag=text).status == "planned"


@pytest.mark.parametrize("number", [10**18, -(10**18), 2**63 - 1, -(2**63)])
def test_numbers_beyond_all_snapshots(number: int) -> None:
    """As ids and watermarks; as times those before the first snapshot."""
    world = RollbackWorld(ten)
    world.refused("no_such_version", snapshot=number)
    world.refused("no_such_version", watermark=number)
    if number < 0:
        with pytest.raises(UsageError):
            world.rollback(timestamp=str(number))
    else:
        assert world.rollback(execute=False, timestamp=str(number)).status == "nothing_to_do"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"snapshot": 5, "tag": "t4"},
        {"timestamp": "2026-01-01T00:00:00"},
        {"timestamp": "yesterday"},
        {"snapshot": "five"},
        {"watermark": "w"},
        {"lose_tag": [7], "snapshot": 5},
        {"branch": "x", "snapshot": 5},
        {"options": {"a": "b"}, "snapshot": 5},
        {"retain_max": 5, "snapshot": 5},
    ],
)
def test_words_that_mean_nothing(arguments: dict[str, Any]) -> None:
    """Not one target, or one that does not parse."""
    world = RollbackWorld(ten)
    before = world.bodies()
    for execute in (False, True):
        with pytest.raises(UsageError):
            world.maintainer().run("rollback", execute=execute, **arguments)
    assert world.bodies() == before


def test_an_empty_table_has_nothing_to_go_back_to() -> None:
    """It has a schema and no snapshot."""
    world = RollbackWorld(lambda table: None)
    for arguments in ({"snapshot": 1}, {"tag": "t"}, {"timestamp": "5"}, {"watermark": 5}):
        world.refused("no_such_version", **arguments)


def test_a_branch_that_is_not_there() -> None:
    """Nor a table."""
    world = RollbackWorld(ten)
    report = world.rollback(on="nope", snapshot=5)
    assert report.refusal is not None and report.refusal.code == "no_such_branch"


def test_a_target_that_has_lost_files_is_refused() -> None:
    """They are named, up to ten, and counted."""

    def build(table: TableBuilder) -> None:
        ten(table)
        table.commit(*(f"+G{number}" for number in range(12)))
        table.commit("+H")

    world = RollbackWorld(build)
    world.table.remove("F3")
    message = world.refused("target_lost_files", snapshot=5)
    assert "1 file" in message and world.table.path("F3") in message
    world.refused("target_lost_files", tag="t4")
    for number in range(12):
        world.table.remove(f"G{number}")
    message = world.refused("target_lost_files", snapshot=11)
    assert "13 files" in message and message.count("bucket-") == 10 and "and 3 more" in message
    assert world.rollback(execute=False, snapshot=2).status == "planned"


def test_a_target_whose_schema_is_gone_is_refused() -> None:
    """Nobody could read it."""

    def build(table: TableBuilder) -> None:
        table.commit("+A")
        table.alter(options={"a": "b"})
        table.commit("+B")

    world = RollbackWorld(build)
    world.table.remove("schema/schema-0")
    assert "schema/schema-0" in world.refused("target_lost_files", snapshot=1)


def test_a_damaged_target_is_refused() -> None:
    """Its list is there and does not parse; a target document that does not parse, likewise."""
    world = RollbackWorld(ten)
    name = world.table.document("snapshot/snapshot-5")["baseManifestList"]
    world.table.corrupt(f"manifest/{name}")
    assert name in world.refused("target_lost_files", snapshot=5)
    world = RollbackWorld(ten)
    world.table.corrupt("snapshot/snapshot-5", b"{")
    assert "snapshot-5" in world.refused("unreadable_root", snapshot=5)


def test_damage_above_the_target_does_not_hold_it_up() -> None:
    """It may be what the rollback is for: the newest snapshot does not parse, or has lost files."""
    for harm in (
        lambda world: world.table.corrupt("snapshot/snapshot-10", b"{ half a docu"),
        lambda world: world.table.remove("F9"),
        lambda world: world.table.remove(
            f"manifest/{world.table.document('snapshot/snapshot-9')['deltaManifestList']}"
        ),
        lambda world: world.table.corrupt(
            f"manifest/{world.table.document('snapshot/snapshot-8')['baseManifestList']}"
        ),
    ):
        world = RollbackWorld(ten)
        harm(world)
        planned = world.rollback(execute=False, snapshot=5)
        assert planned.status == "planned" and planned.plan is not None
        assert planned.plan.header.findings["lost"]["snapshots"] == [6, 7, 8, 9, 10]
        report = world.rollback(snapshot=5)
        assert report.status == "done", report.refusal
        for number in range(1, 6):
            assert read_root(world.store, f"snapshot/snapshot-{number}").paths


def test_a_tag_that_cannot_be_read_stays_and_is_named() -> None:
    """Nobody knows whether it is above the target."""
    world = RollbackWorld(ten)
    world.store.put("tag/tag-odd", b"?")
    report = world.rollback(snapshot=5)
    assert report.status == "done", report.refusal
    assert any("tag odd cannot be read" in warning for warning in report.all_warnings())
    assert world.store.read("tag/tag-odd").data == b"?"


def test_tags_with_odd_names() -> None:
    """They go as others do."""
    names = ["a/b", "a b", "ü", "9", "-", "a?b#c", "x" * 190, "success-file"]

    def build(table: TableBuilder) -> None:
        ten(table)
        for name in names:
            table.tag(name, snapshot=9)

    world = RollbackWorld(build, **{"tag.create-success-file": "true"})
    report = world.rollback(snapshot=5)
    assert report.status == "done", report.refusal
    assert {key for key in world.bodies() if key.startswith("tag/")} == {"tag/tag-t4"}


def test_an_earliest_above_the_target_is_mended() -> None:
    """It hid the target already, and would again as soon as the branch comes to that id."""

    def hidden(table: TableBuilder) -> None:
        ten(table)
        table.hint("EARLIEST", 6)

    world = RollbackWorld(hidden)
    assert world.rollback(snapshot=3).status == "done"
    assert world.bodies()["snapshot/EARLIEST"] == b"1"


def test_a_tag_beats_a_number() -> None:
    """As a version text; a snapshot's id is asked for by name."""

    def build(table: TableBuilder) -> None:
        ten(table)
        table.tag("3", snapshot=7)

    for arguments, newest in (({"version": "3"}, 7), ({"snapshot": 3}, 3)):
        world = RollbackWorld(build)
        assert world.rollback(**arguments).status == "done"
        assert f"snapshot/snapshot-{newest}" in world.bodies()
        assert f"snapshot/snapshot-{newest + 1}" not in world.bodies()


def test_files_outside_the_table_count() -> None:
    """A target that has lost one is refused."""
    outside = MemoryStore("memory://outside/files")
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store, externals={"memory://outside/files": outside})
    table.commit("+A", external={"A": "memory://outside/files/a.parquet"})
    table.commit("+B")
    maintainer = Maintainer(store, open_store=lambda location: outside)
    assert maintainer.run("rollback", execute=False, snapshot=1).status == "planned"
    table.remove("A")
    report = maintainer.run("rollback", snapshot=1)
    assert report.refusal is not None and report.refusal.code == "target_lost_files"
    assert "memory://outside/files/a.parquet" in report.refusal.message


def test_a_tag_that_a_branch_was_made_from_is_protected() -> None:
    """Unless the caller gives it up by name."""

    def build(table: TableBuilder) -> None:
        ten(table)
        table.branch("b", from_tag="t8").commit("+B")
        table.tag("t9", snapshot=9)

    world = RollbackWorld(build)
    message = world.refused("tag_protected", snapshot=5)
    assert "'t8'" in message and "branch b" in message
    world.refused("tag_protected", snapshot=5, lose_tag="t9")
    plan = world.rollback(execute=False, snapshot=8).plan
    assert plan is not None and plan.header.findings["lost"]["tags"] == ["t9"]
    report = world.rollback(snapshot=5, lose_tag=["t8"])
    assert report.status == "done", report.refusal
    for root in ("branch/branch-b/snapshot/snapshot-8", "branch/branch-b/snapshot/snapshot-9"):
        assert read_root(world.store, root).paths


def test_a_branch_that_begins_with_the_tags_snapshot_protects_it() -> None:
    """Its own copy of the tag may be gone."""

    def build(table: TableBuilder) -> None:
        ten(table)
        table.branch("b", from_tag="t8").remove("branch/branch-b/tag/tag-t8")

    assert "branch b" in RollbackWorld(build).refused("tag_protected", snapshot=5)


def test_another_state_of_the_same_id_on_a_branch_protects_nothing() -> None:
    """The branch was made from an earlier tag, and has a snapshot 8 of its own."""

    def build(table: TableBuilder) -> None:
        ten(table)
        branch = table.branch("b", from_tag="t4")
        for number in range(6):
            branch.commit(f"+B{number}")
        branch.tag("t8", snapshot=8)

    assert RollbackWorld(build).rollback(snapshot=5).status == "done"


def test_a_copy_that_cannot_be_read_protects() -> None:
    """It may be the one that the branch was made from."""

    def build(table: TableBuilder) -> None:
        ten(table)
        table.branch("b", from_tag="t8").remove("branch/branch-b/snapshot/snapshot-8")
        table.corrupt("branch/branch-b/tag/tag-t8", b"?")

    assert "branch b" in RollbackWorld(build).refused("tag_protected", snapshot=5)


def test_a_tag_that_main_has_from_the_branch_is_protected() -> None:
    """After a fast-forward both need its files, and the engine asks for tags of the branch that it expires alone."""

    def build(table: TableBuilder) -> None:
        ten(table)
        branch = table.branch("b", from_tag="t4")
        for number in range(3):
            branch.commit(f"+B{number}")
        branch.tag("late")
        table.fast_forward("b")

    world = RollbackWorld(build)
    for execute in (False, True):
        report = world.rollback(on="b", snapshot=5, execute=execute)
        assert report.refusal is not None and report.refusal.code == "tag_protected"
        assert "'late' (main has it as well)" in report.refusal.message
    assert world.rollback(on="b", snapshot=5, lose_tag="late").status == "done"
    assert read_root(world.store, "tag/tag-late").paths


def test_another_tag_of_that_snapshot_is_not_protected() -> None:
    """As long as the one that the branch was made from is there; else they all are."""

    def build(table: TableBuilder) -> None:
        ten(table)
        table.tag("other", snapshot=8)
        table.branch("b", from_tag="t8")

    message = RollbackWorld(build).refused("tag_protected", snapshot=5)
    assert "'t8'" in message and "'other'" not in message
    world = RollbackWorld(build)
    world.table.remove("tag/tag-t8")
    assert "'other' (branch b" in world.refused("tag_protected", snapshot=5)


def under_policy(world: RollbackWorld, *tags: dict[str, Any], **rule: Any) -> Table:
    """Return the table as a fleet policy with calendar rules governs it."""
    policies = MemoryStore("memory://policies")
    rules = [{"tables": "memory://bucket/", "mode": "delete", "tags": list(tags), **rule}]
    policies.put("policy.json", json.dumps({"version": 1, "rules": rules}).encode())
    maintainer = Maintainer(world.store, control=world.control, open_store=lambda location: policies)
    return dataclasses.replace(maintainer.table, policy="memory://policies/policy.json")


def days(table: TableBuilder) -> None:
    """Build snapshots of three days, each with a tag of the day."""
    for day in range(1, 4):
        table.commit(f"+F{day}", time_ms=1_700_000_000_000 + day * 86_400_000)
        table.tag(f"2023-11-{14 + day}", snapshot=day)
    table.tag("load", snapshot=3)


def test_a_tag_that_a_calendar_rule_keeps_is_protected() -> None:
    """One that no rule keeps is not."""
    world = RollbackWorld(days)
    table = under_policy(world, {"pattern": "20*", "keep_daily": 30}, {"pattern": "*", "keep_tags": ["nothing"]})
    arguments: dict[str, Any] = {"snapshot": 1}
    for execute in (False, True):
        report = run_operation(table, "rollback", arguments, execute=execute)
        assert report.status == "refused" and report.refusal is not None
        assert report.refusal.code == "tag_protected"
        says = "'2023-11-16' (policy memory://policies/policy.json keeps it (keep_daily; rule for memory://"
        assert says in report.refusal.message
        assert "'2023-11-17'" in report.refusal.message and "'load'" not in report.refusal.message
    arguments["lose_tag"] = ["2023-11-16", "2023-11-17"]
    assert run_operation(table, "rollback", arguments, execute=True).status == "done"
    assert [key for key in world.bodies() if key.startswith("tag/")] == ["tag/tag-2023-11-15"]


def test_rules_that_do_not_keep_it_protect_nothing() -> None:
    """Nor does a policy about other tables."""
    world = RollbackWorld(days)
    table = under_policy(world, {"pattern": "20*", "keep_last": 1, "keep_tags": ["*-15"]})
    report = run_operation(table, "rollback", {"snapshot": 2, "lose_tag": "2023-11-17"}, execute=True)
    assert report.status == "done", report.refusal
    table = under_policy(RollbackWorld(days), {"pattern": "*", "keep_last": 9}, tables="memory://elsewhere/")
    assert run_operation(table, "rollback", {"snapshot": 1}, execute=False).status == "planned"


def test_a_table_that_is_paused_stays() -> None:
    """A policy says so; a plan is made, and not carried out."""
    world = RollbackWorld(days)
    table = under_policy(world, pause=True)
    before = world.bodies()
    report = run_operation(table, "rollback", {"snapshot": 1}, execute=True)
    assert report.refusal is not None and report.refusal.code == "paused"
    assert world.bodies() == before
    assert run_operation(table, "rollback", {"snapshot": 1}, execute=False).status == "planned"


KEEPS = {"snapshot.num-retained.min": "99", "snapshot.num-retained.max": "99", "write-only": "true"}


def recommit(world: RollbackWorld, target: int, newest: int, count: int) -> None:
    """Let the builder know of a rollback, and commit other snapshots of the same ids."""
    for number in range(newest, target, -1):
        world.store.put(f"snapshot/snapshot-{number}", b"")
        world.table.remove(f"snapshot/snapshot-{number}")
    for number in range(count):
        world.table.commit(f"+New{number}", time_ms=world.now_ms)
        world.table.hint("LATEST", target + number + 1)


def test_maintenance_after_a_rollback_goes_by_what_is_there() -> None:
    """Ids come again with another content: nothing that was remembered of the old ones may count."""

    def build(table: TableBuilder) -> None:
        for number in range(1, 9):
            gone = [f"-F{number - 1}"] if number > 1 else []
            table.commit(*gone, f"+F{number}", time_ms=1_799_990_000_000 + number)
        table.hint("LATEST", 8)

    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "6", "snapshot.time-retained": "1 d"}
    world = RollbackWorld(build, **options)
    assert world.maintainer().maintain().status == "done"
    assert world.maintainer().maintain().status == "nothing_to_do"
    assert world.rollback(snapshot=4).status == "done"
    for number in (1, 2):
        world.store.put(f"snapshot/snapshot-{number}", b"")
        world.table.remove(f"snapshot/snapshot-{number}")
    recommit(world, 4, 8, 6)
    for _ in range(2):
        world.now_ms += 3_600_000
        report = world.maintainer().maintain()
        for path in [path for path in world.table.roots() if path not in world.bodies()]:
            world.store.put(path, b"")
            world.table.remove(path)
        assert_all_readable(world.table)
    assert report.status == "nothing_to_do"
    ids = sorted(int(key.rpartition("-")[2]) for key in world.bodies() if key.startswith("snapshot/s"))
    assert ids == [5, 6, 7, 8, 9, 10]


def test_automatic_tags_after_a_rollback() -> None:
    """The tag of a snapshot that went is made again from the one that took its place."""
    day_ms = 86_400_000

    def build(table: TableBuilder) -> None:
        for day in range(1, 5):
            table.commit(f"+F{day}", time_ms=1_799_539_200_000 + day * day_ms)
        table.hint("LATEST", 4)

    options = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"} | KEEPS
    world = RollbackWorld(build, **options)
    assert world.maintainer().maintain().status == "done"
    made = {key: data for key, data in world.bodies().items() if key.startswith("tag/")}
    assert len(made) == 4
    assert world.rollback(snapshot=2).status == "done"
    assert len([key for key in world.bodies() if key.startswith("tag/")]) == 2
    recommit(world, 2, 4, 2)
    assert world.maintainer().maintain().status == "done"
    again = {key: data for key, data in world.bodies().items() if key.startswith("tag/")}
    assert len(again) > 2 and again != made
    for key in again:
        assert read_root(world.store, key).paths


def test_what_a_rollback_strands_is_what_the_orphan_scan_takes() -> None:
    """To the file, a day later."""
    world = RollbackWorld(ten)
    plan = world.rollback(execute=False, snapshot=5).plan
    assert plan is not None
    newly_orphaned = plan.header.findings["newly_orphaned"]
    assert world.rollback(snapshot=5).status == "done"
    world.now_ms += 3 * 86_400_000
    report = world.maintainer().run("remove-orphan-files", execute=False)
    assert report.plan is not None and report.status == "planned"
    assert isinstance(newly_orphaned, dict)
    kinds = dict(report.plan.delete_kinds)
    assert sum(kinds.values()) == newly_orphaned["files"]
    assert kinds["data"] == newly_orphaned["by_kind"]["data"]
    assert report.plan.delete_bytes == newly_orphaned["bytes"]


def test_lose_tag_that_is_not_needed_is_said() -> None:
    """A slip, maybe."""
    world = RollbackWorld(ten)
    warnings = world.rollback(execute=False, snapshot=5, lose_tag=["t4", "t44"]).all_warnings()
    assert any("no tag 't44'" in warning for warning in warnings)
    assert any("'t4' need not" in warning for warning in warnings)


@pytest.mark.parametrize("value", ["table-location", "HADOOP-CATALOG", "hive-catalog"])
def test_iceberg_metadata_is_rolled_back_by_the_engine_alone(value: str) -> None:
    """It has snapshots of its own for ours."""
    world = RollbackWorld(ten, **{"metadata.iceberg.storage": value})
    assert "metadata.iceberg.storage" in world.refused("needs_engine_callbacks", snapshot=5)


@pytest.mark.parametrize(
    "options",
    [{"metadata.iceberg.storage": "disabled"}, {"tag.callbacks": "a.B"}, {"metastore.tag-to-partition": "dt"}],
)
def test_callbacks_that_a_rollback_does_not_call(options: dict[str, str]) -> None:
    """The engine tells nobody of tags that go with a rollback."""
    assert RollbackWorld(ten, **options).rollback(snapshot=5).status == "done"


def test_readers_that_have_come_further_are_named() -> None:
    """Those that need the next snapshot, or an earlier one, go on."""

    def build(table: TableBuilder) -> None:
        ten(table)
        for name, next_id in (("behind", 3), ("next", 6), ("ahead", 7), ("far", 11)):
            table.consumer(name, next_id)

    world = RollbackWorld(build)
    (warning,) = [each for each in world.rollback(execute=False, snapshot=5).all_warnings() if "consumer" in each]
    assert "ahead, far" in warning and "behind" not in warning and "next" not in warning
    world.store.put("consumer/consumer-bad", b"?")
    report = world.rollback(snapshot=5)
    assert report.status == "done"
    assert any("a consumer cannot be read" in warning for warning in report.all_warnings())


def test_warnings_about_writers_and_schemas() -> None:
    """Writers are to be stopped; schemas stay."""

    def build(table: TableBuilder) -> None:
        table.commit("+A")
        table.alter(options={"a": "b"})
        table.commit("+B")

    warnings = RollbackWorld(build).rollback(execute=False, snapshot=1).all_warnings()
    assert any("stop the writers" in warning for warning in warnings)
    assert any("may expire its snapshots themselves" in warning for warning in warnings)
    assert any(
        "schemas do not change" in warning and "schema 0" in warning and "schema 1" in warning for warning in warnings
    )
    warnings = RollbackWorld(build, **{"write-only": "true"}).rollback(execute=False, snapshot=1).all_warnings()
    assert not any("may expire its snapshots themselves" in warning for warning in warnings)


def test_snapshots_below_a_hole_that_a_tag_fills_are_hidden() -> None:
    """As by the engine: EARLIEST names the target."""

    def build(table: TableBuilder) -> None:
        ten(table)
        for number in (3, 4):
            table.remove(table.root(number))

    world, twin = RollbackWorld(build), RollbackWorld(build)
    report = world.rollback(tag="t4")
    assert report.status == "done", report.refusal
    twin.table.rollback("t4")
    assert world.documents() == twin.documents()
    assert any("2 older snapshots (1 to 2)" in warning for warning in report.all_warnings())


def test_a_tag_without_its_changelog() -> None:
    """Expiry has taken that: the table is whole without, and the tag says that this is no damage."""

    def build(table: TableBuilder) -> None:
        for number in range(1, 7):
            table.commit(f"+F{number}", changelog=[f"+c{number}"])
        table.tag("t2", snapshot=2)

    world = RollbackWorld(build, **{"changelog-producer": "input"})
    warned = [False, True]
    for is_gone in warned:
        warnings = world.rollback(execute=False, tag="t2").all_warnings()
        assert any("keep tag t2" in warning for warning in warnings) == is_gone
        if not is_gone:
            assert world.maintainer().expire().status == "done"
    assert world.rollback(tag="t2").status == "done"
    assert read_root(world.store, "snapshot/snapshot-2").paths
    world.now_ms += 3 * 86_400_000
    assert world.maintainer().run("remove-orphan-files").status == "done"
    assert read_root(world.store, "snapshot/snapshot-2").paths


def test_a_tag_of_another_state_is_refused() -> None:
    """Its snapshot's id was used again: neither of the two is what the caller means for sure."""
    world = RollbackWorld(ten)
    odd = json.loads(world.store.read("tag/tag-t4").data)
    odd["baseManifestList"] = world.table.document("snapshot/snapshot-2")["baseManifestList"]
    world.store.put("tag/tag-odd", json.dumps(odd).encode())
    world.refused("id_reused", tag="odd")


def test_leftovers_of_a_rollback_of_the_engine_go() -> None:
    """It died after the snapshots: later changelogs and tags are there still."""

    def build(table: TableBuilder) -> None:
        decoupled(table)
        table.tag("t8", snapshot=8)

    world, twin = RollbackWorld(build), RollbackWorld(build)
    for number in range(10, 6, -1):
        world.store.delete([_request(f"snapshot/snapshot-{number}")])
    world.store.put("snapshot/LATEST", b"4")
    report = world.rollback(tag="t4")
    assert report.status == "done", report.refusal
    twin.table.rollback("t4")
    assert world.documents() == twin.documents()


def _request(path: str) -> DeleteRequest:
    return DeleteRequest(path)


def test_a_branch_with_another_in_its_folder() -> None:
    """Others may have made one whose name has a slash: it stays, and does not look like a change of the first."""

    def build(table: TableBuilder) -> None:
        ten(table)
        for name in ("a", "a/b"):
            branch = table.branch(name, from_tag="t4")
            for number in range(3):
                branch.commit(f"+{name[-1]}{number}")

    world = RollbackWorld(build)
    before = world.bodies()
    report = world.rollback(on="a", snapshot=5)
    assert report.status == "done", report.refusal
    assert not any("a/b" in warning for warning in report.all_warnings())
    gone = before.keys() - world.bodies().keys()
    assert gone == {f"branch/branch-a/snapshot/snapshot-{number}" for number in (6, 7)}


@pytest.mark.parametrize("path", ["snapshot/snapshot-10", "snapshot/snapshot-7"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_document_that_changes_while_the_plan_is_made(path: str, is_gone: bool) -> None:
    """The plan would take what nobody has seen; it is made again."""
    world = RollbackWorld(ten)

    class Changing(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if name == f"table read {path}" and name not in self.calls:
                world.table.remove(path) if is_gone else world.store.put(path, b'{"id": 1}')
            return super()._run(name, call)

    switch = Changing()
    maintainer = Maintainer(FaultyStore(world.store, switch, "table"), control=world.control)
    plan = maintainer.run("rollback", execute=False, snapshot=5).plan
    assert plan is not None
    found = [(action.etag, action.body) for action in plan.actions if action.path == path]
    there = world.store.read(path) if not is_gone else None
    assert found == ([] if there is None else [(there.etag, '{"id": 1}')])
    assert switch.calls.count("table list snapshot/") == 2


def test_a_plan_that_cannot_be_loaded_is_no_conflict() -> None:
    """Who finishes it says what is wrong with it."""
    world = RollbackWorld(ten)
    area = world.maintainer().table.area
    assert area is not None
    begun = Intent("20270115T080000Z-00000000", "main", 9, ("run",), 0)
    assert not may_conflict(area, begun, "main")
    assert not may_conflict(area, None, "main")


@pytest.mark.parametrize(("said", "becomes"), [(1, 1), (3, 3), (5, 5), (6, 1), (10, 1)])
def test_earliest_is_written_only_where_it_would_hide_the_target(said: int, becomes: int) -> None:
    """Up to the target it stays as others wrote it."""
    world = RollbackWorld(ten)
    world.table.hint("EARLIEST", said)
    plan = world.rollback(execute=False, snapshot=5).plan
    assert plan is not None
    assert [action.body for action in plan.actions if action.path == "snapshot/EARLIEST"] == (
        [] if said == becomes else [str(becomes)]
    )


def test_success_files_of_a_table_that_has_none_are_not_ours() -> None:
    """Whoever wrote them, the engine would leave them."""
    world = RollbackWorld(ten)
    world.store.put("tag/tag-success-file/t8_SUCCESS", b"{}")
    assert world.rollback(snapshot=5).status == "done"
    assert world.bodies()["tag/tag-success-file/t8_SUCCESS"] == b"{}"
    assert "tag/tag-t8" not in world.bodies()
