"""`delete-branch`: what goes, in which order, what is lost with it, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.errors import StorageError, UsageError
from lakesweep.model.report import RunReport
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import read_all
from tests.support.table_builder import TableBuilder

FOLDER = "branch/branch-b/"
UUID = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"


class Place:
    """A table whose branch began with a tag of main and has two commits of its own."""

    def __init__(self, **options: str) -> None:
        self.store = MemoryStore("memory://bucket/t")
        self.table = TableBuilder(self.store, options=options)
        self.table.commit("+A")
        self.table.alter(options={"x": "1"})
        self.table.commit("+B")
        self.table.tag("t", snapshot=2)
        self.branch = self.table.branch("b", from_tag="t")
        self.branch.commit("+C", "-A")
        self.branch.commit("+D")
        self.maintainer = Maintainer(self.store)

    def fill(self) -> None:
        """Let the branch have every kind of document."""
        self.branch.tag("own", snapshot=3)
        self.branch.hint("LATEST", 4)
        self.branch.hint("EARLIEST", 2)
        self.branch.changelog_document(2)
        self.branch.changelog_document(3)
        self.branch.hint("EARLIEST", 2, folder="changelog")
        self.branch.consumer("job", 4)
        self.store.put(f"{FOLDER}tag/tag-success-file/own_SUCCESS", b"{}")
        self.store.put(f"{FOLDER}snapshot/snapshot-9{UUID}.tmp", b"half")
        self.store.put(f"{FOLDER}schema/.schema-2.{UUID}.tmp", b"")

    def run(self, *, execute: bool = True, branch: str = "b") -> RunReport:
        return self.maintainer.run("delete-branch", execute=execute, branch=branch)

    def objects(self) -> dict[str, bytes]:
        return {entry.key: self.store.read(entry.key).data for entry in self.store.list("")}

    def left(self) -> list[str]:
        return [entry.key for entry in self.store.list("branch/")]


def code_of(report: RunReport, status: str = "refused") -> str:
    assert report.status == status, report.refusal
    assert report.refusal is not None
    return report.refusal.code


# What goes.


def test_all_documents_go_and_nothing_else() -> None:
    place = Place()
    place.fill()
    before = place.objects()
    report = place.run()
    assert report.status == "done", report.refusal
    assert place.objects() == {key: body for key, body in before.items() if not key.startswith(FOLDER)}
    read_all(place.store)


def test_the_order() -> None:
    """Tags, snapshots from the newest on, hints and schemas at the end, the newest schema last of all."""
    place = Place()
    place.fill()
    report = place.run(execute=False)
    assert report.plan is not None
    assert [(action.phase, action.path.removeprefix(FOLDER)) for action in report.plan.actions] == [
        ("withdraw_tags", "tag/tag-own"),
        ("withdraw_tags", "tag/tag-t"),
        ("withdraw_tags", "tag/tag-success-file/own_SUCCESS"),
        ("withdraw", "snapshot/snapshot-4"),
        ("withdraw", "snapshot/snapshot-3"),
        ("withdraw", "snapshot/snapshot-2"),
        ("withdraw", "consumer/consumer-job"),
        ("withdraw", f"schema/.schema-2.{UUID}.tmp"),
        ("withdraw", f"snapshot/snapshot-9{UUID}.tmp"),
        ("withdraw_changelogs", "changelog/EARLIEST"),
        ("withdraw_changelogs", "changelog/LATEST"),
        ("withdraw_changelogs", "changelog/changelog-3"),
        ("withdraw_changelogs", "changelog/changelog-2"),
        ("publish_hints", "snapshot/EARLIEST"),
        ("publish_hints", "snapshot/LATEST"),
        ("clean", "schema/schema-0"),
        ("clean", "schema/schema-1"),
    ]
    assert all(delete.body is not None and delete.etag for delete in report.plan.deletes)


def test_ids_are_numbers() -> None:
    """Snapshot 10 goes before snapshot 9."""
    place = Place()
    for number in range(6):
        place.branch.commit(f"+F{number}")
    report = place.run(execute=False)
    assert report.plan is not None
    ids = [int(d.path.rpartition("-")[2]) for d in report.plan.deletes if d.kind == "snapshot"]
    assert ids == list(range(10, 1, -1))
    assert place.run().status == "done"


def test_a_dry_run_changes_nothing() -> None:
    place = Place()
    before = place.objects()
    report = place.run(execute=False)
    assert (report.status, place.objects()) == ("planned", before)


def test_an_empty_branch_goes() -> None:
    place = Place()
    place.table.branch("empty")
    assert place.run(branch="empty").status == "done"
    assert all(key.startswith(FOLDER) for key in place.left())


def test_other_branches_stay() -> None:
    """Also one whose name begins alike."""
    place = Place()
    for name in ("b2", "b.x", "a"):
        place.table.branch(name, from_tag="t").commit("+E")
    before = place.objects()
    assert place.run().status == "done"
    assert place.objects() == {key: body for key, body in before.items() if not key.startswith(FOLDER)}


def test_a_branch_that_others_made_with_an_odd_name() -> None:
    """Such a one can be removed, although it could not be made here."""
    for name in ("7", " x", "a\nb", "b" * 240, "\u202e"):
        place = Place()
        place.table.branch(name, from_tag="t").commit("+E")
        assert place.run(branch=name).status == "done"
        assert all(key.startswith(FOLDER) for key in place.left())


def test_a_branch_that_cannot_be_read_goes() -> None:
    """That it is damaged may be why; what it held is then not told exactly."""
    place = Place()
    place.store.put(f"{FOLDER}snapshot/snapshot-3", b"\xff no JSON")
    place.store.put(f"{FOLDER}tag/tag-t", b"{}")
    place.store.put(f"{FOLDER}schema/schema-1", b"")
    report = place.run()
    assert report.status == "done", report.refusal
    assert place.left() == []
    assert sum("it is deleted all the same" in warning for warning in report.all_warnings()) == 2


def test_a_branch_of_which_schemas_or_snapshots_alone_are_there() -> None:
    """As another engine leaves one when it dies in the middle."""
    for folders in (("schema",), ("snapshot", "tag")):
        place = Place()
        for folder in folders:
            for entry in list(place.store.list(f"{FOLDER}{folder}/")):
                place.branch.remove(entry.key)
        assert place.run().status == "done"
        assert place.left() == []


def test_making_it_again() -> None:
    place = Place()
    assert place.run().status == "done"
    assert place.maintainer.run("create-branch", branch="b", tag="t").status == "done"
    assert place.run().status == "done"
    assert place.left() == []


# What is lost, and what is said.


def test_what_is_lost_and_stranded() -> None:
    """What no other branch has; files that no other root names. An orphan scan finds those."""
    place = Place()
    place.branch.tag("own", snapshot=3)
    document: Any = place.run(execute=False).to_json()
    findings = document["findings"]
    assert findings["branch"] == {"name": "b", "tags": ["own", "t"], "objects": 8}
    assert findings["lost"] == {
        "snapshots": [3, 4],
        "changelogs": [],
        "tags": ["own"],
        "rows": 10,
        "commit_users": ["builder"],
    }
    assert findings["newly_orphaned"]["by_kind"]["data"] == 2
    size = sum(entry.size_bytes for entry in place.store.list("") if entry.key in map(place.table.path, ("C", "D")))
    assert findings["newly_orphaned"]["bytes"] > size
    assert document["snapshots"] == {"earliest": 2, "latest": 4, "expired": []}


def test_a_branch_without_commits_loses_nothing() -> None:
    place = Place()
    place.table.branch("new", from_tag="t")
    document: Any = place.maintainer.run("delete-branch", branch="new", execute=False).to_json()
    assert document["findings"]["lost"] == {
        "snapshots": [],
        "changelogs": [],
        "tags": [],
        "rows": 0,
        "commit_users": [],
    }
    assert document["findings"]["newly_orphaned"] == {"files": 0, "bytes": 0, "by_kind": {}}


def test_what_it_strands_cannot_be_told() -> None:
    """Where a root of main does not parse; no file goes, so the branch may."""
    place = Place()
    place.store.put("snapshot/snapshot-1", b"{}")
    report = place.run()
    assert report.status == "done"
    assert report.to_json()["findings"]["newly_orphaned"] is None  # type: ignore[index]
    assert any("are not known" in warning for warning in report.all_warnings())


def test_its_files_are_orphans_afterwards() -> None:
    """They stay until a scan comes, and those that main needs stay then as well."""
    place = Place()
    assert place.run().status == "done"
    assert {"C", "D"} <= place.table.present()


def test_what_people_should_know() -> None:
    """Writers, and readers with a place in it."""
    place = Place()
    place.branch.consumer("job", 3)
    readers, writers = place.run(execute=False).all_warnings()
    assert "has consumers: job; their readers will fail" in readers
    assert "stop the writers of branch 'b'" in writers


# What is refused.


def test_no_such_branch() -> None:
    """The sentence names those that are there."""
    place = Place()
    report = place.run(branch="c")
    assert code_of(report) == "no_such_branch"
    assert report.refusal is not None
    assert report.refusal.message.endswith("expected one of the existing branches (b)")
    assert place.run().status == "done"
    assert code_of(place.run()) == "no_such_branch"


@pytest.mark.parametrize("name", ["main", "", "  ", "a/b", "..", ".", "b/", "a\0", "\ud800"], ids=ascii)
def test_names_of_no_branch(name: str) -> None:
    place = Place()
    before = place.objects()
    with pytest.raises(UsageError) as raised:
        place.run(branch=name)
    assert raised.value.code == "bad_branch_name"
    str(raised.value).encode()
    assert place.objects() == before


def test_from_another_branch() -> None:
    place = Place()
    with pytest.raises(UsageError, match="delete-branch works from main"):
        Maintainer(place.store, branch="b").run("delete-branch", branch="b")


@pytest.mark.parametrize(
    "option",
    ["scan.fallback-branch", "scan.primary-branch", "scan.fallback-snapshot-branch", "scan.fallback-delta-branch"],
)
def test_a_branch_that_readers_of_another_fall_back_to(option: str) -> None:
    """Main, or any other branch; not itself, and not once the option is unset."""
    place = Place()
    place.table.alter(options={option: "b"})
    report = place.run()
    assert code_of(report) == "branch_in_use"
    assert report.refusal is not None
    assert f"{option} of the table" in report.refusal.message
    place.table.alter(options={option: ""})
    other = place.table.branch("other")
    other.alter(options={option: "b"})
    assert code_of(place.run()) == "branch_in_use"
    other.alter(options={option: "other"})
    place.branch.alter(options={option: "b"})
    assert place.run().status == "done"


def test_chain_tables_take_no_notice_of_case() -> None:
    place = Place()
    place.table.alter(options={"scan.fallback-delta-branch": "B"})
    assert code_of(place.run()) == "branch_in_use"
    place.table.alter(options={"scan.fallback-delta-branch": "", "scan.fallback-branch": "B"})
    assert place.run().status == "done"


def test_a_schema_that_cannot_be_read_may_name_it() -> None:
    place = Place()
    place.store.put("schema/schema-1", b"{}")
    assert code_of(place.run()) == "unreadable_schema"


@pytest.mark.parametrize(
    "key",
    [
        "data-1.parquet",
        "bucket-0/data-1.parquet",
        "manifest/manifest-1",
        "snapshot/folder/x",
        "snapshot/tag-x",
        "consumer/consumer-a/b",
        "schema/old/schema-1",
        "tag/tag-success-file/a/b_SUCCESS",
    ],
)
def test_objects_that_are_no_documents(key: str) -> None:
    """The engine would remove them unseen."""
    place = Place()
    place.store.put(f"{FOLDER}{key}", b"x")
    before = place.objects()
    report = place.run()
    assert code_of(report) == "unknown_objects"
    assert report.refusal is not None
    assert f"{FOLDER}{key}" in report.refusal.message
    assert place.objects() == before


def test_a_branch_in_the_folder_of_another() -> None:
    """One called `b/snapshot` has its snapshots where those of `b` would have theirs, one folder down."""
    for name in ("b/snapshot", "b/x", "b/tag/tag-y"):
        place = Place()
        place.table.branch(name, from_tag="t").commit("+E")
        report = place.run()
        assert code_of(report) == "unknown_objects"
        assert report.refusal is not None
        assert name in report.refusal.message


def test_a_document_beyond_reading() -> None:
    """It could not be put back."""
    place = Place()
    place.store.put(f"{FOLDER}snapshot/large.tmp", b"x" * ((16 << 20) + 1))
    assert code_of(place.run()) == "unknown_objects"


# Between plan and execution.


def test_what_others_do_meanwhile() -> None:
    """A commit to the branch or a tag in it ends the plan; what happens elsewhere does not."""
    changes: dict[str, Any] = {
        "commit": lambda place: place.branch.commit("+E"),
        "tag": lambda place: place.branch.tag("own"),
        "expiry": lambda place: place.branch.remove(f"{FOLDER}snapshot/snapshot-2"),
    }
    for name, change in changes.items():
        place = Place()
        plan_id = str(place.run(execute=False).to_json()["plan_id"])
        change(place)
        before = place.objects()
        assert code_of(place.maintainer.execute(plan_id), "stale") == "stale", name
        assert place.objects() == before, name
    place = Place()
    plan_id = str(place.run(execute=False).to_json()["plan_id"])
    place.table.commit("+E")
    place.table.tag("u")
    place.table.branch("other").commit("+F")
    assert place.maintainer.execute(plan_id).status == "done"
    assert not [key for key in place.left() if key.startswith(FOLDER)]


def test_a_consumer_and_a_hint_that_move_meanwhile() -> None:
    """They decide nothing, and go as they are."""
    place = Place()
    place.fill()
    plan_id = str(place.run(execute=False).to_json()["plan_id"])
    place.branch.consumer("job", 5)
    place.branch.hint("EARLIEST", 3)
    assert place.maintainer.execute(plan_id).status == "done"
    assert place.left() == []


@pytest.mark.parametrize("name", ["snapshot/snapshot-4", "schema/schema-1"])
def test_a_document_that_changes_while_the_plan_is_made(name: str) -> None:
    """The plan would take what nobody has seen; it is made again."""
    place = Place()
    path, other = f"{FOLDER}{name}", place.store.read(f"{FOLDER}{name}").data + b" "

    class Changing(Switch):
        listed = False

        def _run(self, call_name: str, call: Callable[[], object]) -> object:
            found = super()._run(call_name, call)
            if call_name == f"table list {FOLDER}" and not self.listed:
                self.listed = True
                place.store.put(path, other)
            return found

    maintainer = Maintainer(FaultyStore(place.store, Changing(), "table"), control=place.maintainer.control)
    plan = maintainer.run("delete-branch", execute=False, branch="b").plan
    assert plan is not None
    (action,) = (action for action in plan.actions if action.path == path)
    assert (action.etag, action.body) == (place.store.read(path).etag, other.decode())


def test_a_request_that_fails_is_no_unknown_object() -> None:
    """Nothing is said about the branch; the call may be made again."""
    place = Place()
    switch = Switch()
    stored = Maintainer(FaultyStore(place.store, switch, "table"), control=place.maintainer.control)
    assert stored.run("delete-branch", execute=False, branch="b").status == "planned"
    listed = switch.calls.index(f"table list {FOLDER}")
    number = switch.calls.index(f"table read {FOLDER}snapshot/snapshot-4", listed) + 1
    failing = Maintainer(FaultyStore(place.store, Switch(number), "table"), control=place.maintainer.control)
    with pytest.raises(StorageError, match="broken on purpose"):
        failing.run("delete-branch", execute=False, branch="b")
