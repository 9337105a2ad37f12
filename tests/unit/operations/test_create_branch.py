"""`create-branch`: what a branch consists of, what it is made of, and what is refused."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import read_root
from tests.support.table_builder import TableBuilder

FOLDER = "branch/branch-b/"


class Place:
    """A table of three snapshots under two schemas, the second of them tagged."""

    def __init__(self, **options: str) -> None:
        self.store = MemoryStore("memory://bucket/t")
        self.table = TableBuilder(self.store, options=options)
        self.table.commit("+A")
        self.table.alter(options={"x": "1"})
        self.table.commit("+B")
        self.table.tag("t", snapshot=2)
        self.table.alter(options={"x": "2"})
        self.table.commit("-A", "+C")
        self.maintainer = Maintainer(self.store)

    def run(self, *, execute: bool = True, **arguments: Any) -> RunReport:
        return self.maintainer.run("create-branch", execute=execute, **{"branch": "b", **arguments})

    def made(self) -> dict[str, bytes]:
        """Return what lies in the branch's folder."""
        return {entry.key.removeprefix(FOLDER): self.store.read(entry.key).data for entry in self.store.list("branch/")}


def code_of(report: RunReport, status: str = "refused") -> str:
    assert report.status == status, report.refusal
    assert report.refusal is not None
    return report.refusal.code


# What it consists of.


def test_from_a_tag_as_the_engine_makes_it() -> None:
    """The tag, the snapshot, and the schemas up to the snapshot's; no hint, no file."""
    place, twin = Place(), Place()
    report = place.run(tag="t")
    assert report.status == "done", report.refusal
    twin.table.branch("b", from_tag="t")
    assert place.made() == twin.made()
    assert sorted(place.made()) == ["schema/schema-0", "schema/schema-1", "snapshot/snapshot-2", "tag/tag-t"]
    read_root(place.store, f"{FOLDER}snapshot/snapshot-2")
    read_root(place.store, f"{FOLDER}tag/tag-t")


def test_files_are_looked_for_where_readers_of_the_branch_look() -> None:
    """By the schema that is the branch's newest, not by main's, whose files lie elsewhere since."""
    place = Place()
    place.table.alter(options={"data-file.path-directory": "elsewhere"})
    report = place.run(tag="t")
    assert report.status == "done", report.refusal
    read_root(place.store, f"{FOLDER}snapshot/snapshot-2")
    place.store.delete([DeleteRequest(place.table.path("B"))])
    assert code_of(place.run(branch="c", tag="t")) == "target_lost_files"


def test_an_empty_branch_has_all_schemas() -> None:
    place, twin = Place(), Place()
    assert place.run().status == "done"
    twin.table.branch("b")
    assert place.made() == twin.made()
    assert sorted(place.made()) == [f"schema/schema-{number}" for number in range(3)]


def test_an_empty_branch_of_an_empty_table() -> None:
    store = MemoryStore("memory://bucket/t")
    TableBuilder(store)
    report = Maintainer(store).run("create-branch", branch="b")
    assert report.status == "done"
    assert [entry.key for entry in store.list("branch/")] == [f"{FOLDER}schema/schema-0"]


def test_from_a_snapshot() -> None:
    """It has the snapshot's document, and no tag."""
    place = Place()
    assert place.run(snapshot="1").status == "done"
    assert sorted(place.made()) == ["schema/schema-0", "snapshot/snapshot-1"]
    assert place.made()["snapshot/snapshot-1"] == place.store.read("snapshot/snapshot-1").data


def test_from_a_tag_of_a_snapshot_that_has_expired() -> None:
    """The snapshot is written from the tag, as the engine would have copied it."""
    place = Place()
    was = place.store.read("snapshot/snapshot-2").data
    place.table.tag("short", snapshot=2, ttl=timedelta(days=1))
    place.table.remove("snapshot/snapshot-2")
    assert place.run(tag="short").status == "done"
    made = place.made()
    assert made["tag/tag-short"] == place.store.read("tag/tag-short").data
    assert json.loads(made["snapshot/snapshot-2"]) == json.loads(was)
    assert b"tagTimeRetained" in made["tag/tag-short"]


def test_from_a_snapshot_that_only_a_tag_holds() -> None:
    place = Place()
    place.table.remove("snapshot/snapshot-2")
    report = place.run(snapshot=2)
    assert report.status == "done"
    assert sorted(place.made()) == ["schema/schema-0", "schema/schema-1", "snapshot/snapshot-2"]
    assert report.to_json()["findings"]["branch"]["tag"] == "t"  # type: ignore[index]


def test_a_tag_counts_where_its_snapshot_is_another_by_now() -> None:
    """After a rollback an id comes again; the branch is what the tag says."""
    place = Place()
    tag = place.store.read("tag/tag-t").data
    place.store.put("snapshot/snapshot-2", place.store.read("snapshot/snapshot-2").data.replace(b"builder", b"another"))
    assert place.run(tag="t").status == "done"
    assert json.loads(place.made()["snapshot/snapshot-2"]) == json.loads(tag)


def test_a_schema_that_was_removed_is_not_copied() -> None:
    """As in the engine; only the snapshot's own must be there."""
    place = Place()
    place.table.remove("schema/schema-0")
    assert place.run(tag="t").status == "done"
    assert sorted(place.made()) == ["schema/schema-1", "snapshot/snapshot-2", "tag/tag-t"]


# Plan and report.


def test_the_order_and_what_is_said() -> None:
    """The snapshot before its tag, the newest schema before older ones; a dry run writes nothing."""
    place = Place(**{"write-only": "true"})
    report = place.run(tag="t", execute=False)
    assert (report.status, report.all_warnings(), place.made()) == ("planned", (), {})
    document: Any = report.to_json()
    assert [created["path"] for created in document["created"]] == [
        f"{FOLDER}snapshot/snapshot-2",
        f"{FOLDER}tag/tag-t",
        f"{FOLDER}schema/schema-1",
        f"{FOLDER}schema/schema-0",
    ]
    assert document["findings"] == {
        "branch": {"name": "b", "tag": "t", "snapshot": 2, "schemas": 2},
        "whole": [f"{FOLDER}snapshot/snapshot-2", f"{FOLDER}tag/tag-t"],
    }
    assert document["snapshots"] == {"earliest": 1, "latest": 3, "expired": []}
    assert report.plan is not None
    assert report.plan.header.roots_seen == {
        "tag/tag-t": next(entry.etag for entry in place.store.list("tag/") if entry.key == "tag/tag-t")
    }


@pytest.mark.parametrize(("source", "what"), [({"tag": "t"}, "tag t of main"), ({"snapshot": 1}, "snapshot 1 of main")])
def test_what_the_engine_would_do_to_it(source: dict[str, Any], what: str) -> None:
    """Its expiry asks no other branch, so writers that expire are warned of; an empty branch needs nothing."""
    (warning,) = Place().run(execute=False, **source).all_warnings()
    assert "Paimon does not ask what a branch needs" in warning
    assert what in warning
    assert Place().run(execute=False).all_warnings() == ()


def test_a_stored_plan_is_carried_out_once() -> None:
    place = Place()
    plan_id = str(place.run(tag="t", execute=False).to_json()["plan_id"])
    assert place.maintainer.execute(plan_id).status == "done"
    made = place.made()
    assert place.maintainer.execute(plan_id).status == "nothing_to_do"
    assert place.made() == made


def test_others_go_on_between_plan_and_execution() -> None:
    """Commits, tags and branches of others are no reason to stop."""
    place = Place()
    plan_id = str(place.run(tag="t", execute=False).to_json()["plan_id"])
    place.table.commit("+D")
    place.table.tag("u")
    place.table.branch("other").commit("+E")
    place.table.remove("snapshot/snapshot-1")
    assert place.maintainer.execute(plan_id).status == "done"


def test_a_source_that_changed_between_plan_and_execution() -> None:
    """A tag that is gone, or another one by now, is not what was asked for."""
    for change in (
        lambda place: place.table.remove("tag/tag-t"),
        lambda place: place.table.tag("t", snapshot=3),
    ):
        place = Place()
        plan_id = str(place.run(tag="t", execute=False).to_json()["plan_id"])
        change(place)
        assert code_of(place.maintainer.execute(plan_id), "stale") == "stale"
        assert place.made() == {}


def test_a_branch_that_came_between_plan_and_execution() -> None:
    """It stays as it is, whoever made it and of what."""
    for source in ({"tag": "t"}, {"snapshot": 1}, {}):
        place = Place()
        plan_id = str(place.run(**source, execute=False).to_json()["plan_id"])
        place.table.branch("b", from_tag="t").commit("+D")
        before = place.made()
        assert code_of(place.maintainer.execute(plan_id), "stale") == "stale", source
        assert place.made() == before


def test_what_came_between_plan_and_execution_is_named() -> None:
    """A document that is there; not one that the plan would have written before it."""
    place = Place()
    plan_id = str(place.run(snapshot=1, execute=False).to_json()["plan_id"])
    place.table.branch("b")
    report = place.maintainer.execute(plan_id)
    assert report.refusal is not None
    (named,) = re.findall(r"branch/branch-b/\S+", report.refusal.message)
    assert place.store.read(named)


# What is refused.

NAMES = {
    "main": "another name",
    "": "found none",
    " \t": "found none",
    "12": "digits alone",
    "\u0661\u0662": "digits alone",
    "a/b": "a slash",
    "/": "a slash",
    "..": "a meaning for file systems",
    ".": "a meaning for file systems",
    "a\nb": "control characters",
    "a\0": "control characters",
    "a\u202eb": "cannot be seen",
    "\ud800": "cannot be seen",
    "b" * 201: "200 bytes",
    "\u00e9" * 101: "200 bytes",
}


@pytest.mark.parametrize(("name", "why"), NAMES.items(), ids=ascii)
def test_bad_names(name: str, why: str) -> None:
    place = Place()
    with pytest.raises(UsageError, match=why) as raised:
        place.run(branch=name)
    assert raised.value.code == "bad_branch_name"
    str(raised.value).encode()
    assert place.made() == {}


@pytest.mark.parametrize("name", ["b1", "1b", "a.b", "a b", "caf\u00e9", "-x", "snapshot", "b" * 200, "rt$x"])
def test_names_that_are_fine(name: str) -> None:
    """What the engine takes, that is none of the above."""
    place = Place()
    assert place.run(branch=name, tag="t").status == "done"
    read_root(place.store, f"branch/branch-{name}/snapshot/snapshot-2")


@pytest.mark.parametrize(("name", "is_said"), [("a$b", True), ("$", True), ("a.b", False), ("b", False)])
def test_a_name_that_engines_cannot_open(name: str, is_said: bool) -> None:
    """The engine makes such branches, too, and reads `t$branch_a$b` as the system table `b` of branch `a`."""
    said = Place(**{"write-only": "true"}).run(branch=name, tag="t").all_warnings()
    assert [f"t$branch_{name}" in warning for warning in said] == [True] * is_said


def test_a_branch_that_is_there() -> None:
    """Whatever lies in its folder, be it no document of a branch."""
    for key in ("schema/schema-0", "snapshot/snapshot-7", "nothing-known", "snapshot/snapshot/snapshot-1"):
        place = Place()
        place.store.put(f"{FOLDER}{key}", b"{}")
        assert code_of(place.run(tag="t")) == "branch_exists"
        assert len(place.made()) == 1


def test_the_calls_words() -> None:
    """One source at most, a name, and main alone."""
    place = Place()
    with pytest.raises(UsageError, match="found both"):
        place.run(tag="t", snapshot=2)
    with pytest.raises(UsageError, match="branch: expected the name"):
        place.maintainer.run("create-branch")
    with pytest.raises(UsageError, match="create-branch works from main"):
        Maintainer(place.store, branch="x").run("create-branch", branch="b")
    assert place.made() == {}


def test_a_source_that_is_not_there() -> None:
    place = Place()
    assert code_of(place.run(tag="none")) == "no_such_tag"
    assert code_of(place.run(snapshot=9)) == "no_such_snapshot"
    assert code_of(place.run(snapshot=-1)) == "no_such_snapshot"
    assert place.made() == {}


def test_a_source_that_lacks_files() -> None:
    """A missing data file, or manifest list, is named."""
    base = json.loads(Place().store.read("tag/tag-t").data)["baseManifestList"]
    for path in (Place().table.path("A"), f"manifest/{base}"):
        place = Place()
        place.table.remove(path)
        report = place.run(tag="t")
        assert code_of(report) == "target_lost_files"
        assert report.refusal is not None
        assert path in report.refusal.message
        assert place.made() == {}


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("tag/tag-t", b"{}", "unreadable_root"),
        ("tag/tag-t", b"", "unreadable_root"),
        ("snapshot/snapshot-2", b"no JSON", "unreadable_root"),
        ("schema/schema-1", b"{}", "unreadable_schema"),
        ("schema/schema-0", b"\xff", "unreadable_schema"),
    ],
)
def test_documents_that_do_not_parse(path: str, body: bytes, code: str) -> None:
    place = Place()
    place.store.put(path, body)
    assert code_of(place.run(tag="t")) == code
    assert place.made() == {}


def test_the_schema_of_the_snapshot_is_missing() -> None:
    place = Place()
    place.table.remove("schema/schema-1")
    assert code_of(place.run(tag="t")) == "unreadable_schema"
    assert code_of(place.run(snapshot=2)) == "unreadable_schema"
    assert place.run(snapshot=1, branch="c").status == "done"
