"""`branches`: what each began with, what it has, and what it alone keeps alive."""

from typing import Any

import pytest

from lakesweep.errors import RefusedError, UsageError
from lakesweep.operations.inspect.branches import list_branches
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


class Place:
    """A table with a tag."""

    def __init__(self) -> None:
        self.store = MemoryStore("memory://bucket/t")
        self.table = TableBuilder(self.store)
        self.table.commit("+A")
        self.table.commit("+B")
        self.table.tag("t", snapshot=2)
        self.table.commit("+C")
        self.maintainer = Maintainer(self.store)

    def document(self, *, sizes: bool = False) -> dict[str, Any]:
        return list_branches(self.maintainer.table, sizes=sizes)

    def rows(self, *, sizes: bool = False) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.document(sizes=sizes)["branches"]}


def test_a_table_without_branches() -> None:
    assert Place().document() == {"table": "memory://bucket/t", "branches": [], "warnings": []}


def test_one_row() -> None:
    """Without sizes nothing is said of files."""
    place = Place()
    branch = place.table.branch("b", from_tag="t")
    branch.commit("+D", "-A")
    branch.tag("own")
    branch.consumer("job", 4)
    branch.changelog_document(2)
    assert place.rows()["b"] == {
        "name": "b",
        "path": "branch/branch-b",
        "from": {"tag": "t", "snapshot": 2},
        "snapshots": {"count": 2, "earliest": 2, "latest": 3},
        "changelogs": 1,
        "tags": ["own", "t"],
        "consumers": 1,
        "schema_id": 0,
        "commit_time_ms": 1_200_000,
        "record_count": 20,
        "files": None,
        "bytes": None,
    }


def test_what_each_began_with() -> None:
    """A tag, a snapshot, nothing; and a branch that began with what main has no longer."""
    place = Place()
    for name, source in {"a": {"tag": "t"}, "b": {"snapshot": 3}, "c": {}}.items():
        assert place.maintainer.run("create-branch", branch=name, **source).status == "done"
    rows = place.rows()
    assert [rows[name]["from"] for name in "abc"] == [
        {"tag": "t", "snapshot": 2},
        {"tag": None, "snapshot": 3},
        None,
    ]
    place.table.remove("tag/tag-t")
    assert place.rows()["a"]["from"] == {"tag": None, "snapshot": 2}
    place.table.remove("snapshot/snapshot-2")
    assert place.rows()["a"]["from"] is None


def test_a_first_commit_is_not_mains() -> None:
    """An empty branch begins with an id that main has, too."""
    place = Place()
    place.table.branch("b").commit("+D")
    assert place.rows()["b"]["from"] is None


def test_it_is_known_after_the_first_snapshot_has_expired() -> None:
    """The tag, which the engine copies, tells."""
    place = Place()
    branch = place.table.branch("b", from_tag="t")
    branch.commit("+D")
    branch.remove("branch/branch-b/snapshot/snapshot-2")
    assert place.rows()["b"]["from"] == {"tag": "t", "snapshot": 2}


def test_what_each_alone_keeps_alive() -> None:
    """What main has expired counts for the only branch that holds it, and for none where two do."""
    place = Place()
    branch = place.table.branch("b", from_tag="t")
    branch.commit("+D")
    rows = place.rows(sizes=True)
    alone = rows["b"]["files"], rows["b"]["bytes"]
    assert alone[0] >= 4  # the file, its manifest and lists
    assert alone[1] > 0
    place.table.commit("-A", "-B", "-C", "+E")
    place.table.remove("tag/tag-t")
    place.maintainer.expire()
    more = place.rows(sizes=True)["b"]
    assert more["files"] > alone[0]
    assert {"A", "B", "D"} <= place.table.present()
    place.table.branch("twin")
    for folder in ("snapshot", "tag"):
        for entry in list(place.store.list(f"branch/branch-b/{folder}/")):
            place.store.put(entry.key.replace("branch-b", "branch-twin"), place.store.read(entry.key).data)
    rows = place.rows(sizes=True)
    assert [rows[name]["files"] for name in ("b", "twin")] == [0, 0]


def test_odd_branches_are_told() -> None:
    """One without a schema, one whose document does not parse: they are listed, with a warning."""
    place = Place()
    place.table.branch("half", from_tag="t").remove("branch/branch-half/schema/schema-0")
    place.table.branch("bad", from_tag="t")
    place.store.put("branch/branch-bad/snapshot/snapshot-2", b"{}")
    for sizes in (False, True):
        document = place.document(sizes=sizes)
        assert [row["name"] for row in document["branches"]] == ["bad", "half"]
        assert any("it has no schema" in warning for warning in document["warnings"])
        assert any("snapshot-2" in warning for warning in document["warnings"])


def test_what_a_damaged_branch_keeps_is_not_known() -> None:
    """It is not nothing: nobody can tell what the snapshot that does not parse would need."""
    place = Place()
    place.table.branch("b", from_tag="t").commit("+D")
    place.store.put("branch/branch-b/snapshot/snapshot-3", b"{")
    document = place.document(sizes=True)
    (row,) = document["branches"]
    assert (row["files"], row["bytes"]) == (None, None)
    assert any("are not known" in warning for warning in document["warnings"])
    assert all(warning.count("table memory://bucket/t") == 1 for warning in document["warnings"])


def test_no_table_and_another_branch() -> None:
    with pytest.raises(RefusedError) as raised:
        list_branches(Maintainer(MemoryStore()).table)
    assert raised.value.code == "not_a_table"
    with pytest.raises(UsageError, match="branches works from main"):
        list_branches(Maintainer(Place().store, branch="b").table)
