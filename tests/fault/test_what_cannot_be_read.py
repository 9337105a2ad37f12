"""What a root needs and nobody can read keeps every file of its kind, row by row of the table in `docs/safety.md`.

A root that is damaged when the plan is made, and one that appears only when the plan is carried out.
"""

from collections.abc import Callable

import pytest

from lakesweep.model.plan import Delete
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import assert_all_readable
from tests.support.table_builder import TableBuilder

KINDS = {"data", "extra", "changelog", "index", "index_manifest", "manifest", "manifest_list", "statistics"}


def build() -> tuple[TableBuilder, bytes]:
    """Return a table whose first four snapshots are to go, with a tag of the second; and the tag's document."""
    table = TableBuilder(MemoryStore("memory://bucket/t"))
    table.commit("+A", "+B", changelog=["+L1"], index={"i1": {"A": (1,)}}, statistics="s1")
    table.commit("+C", changelog=["+L2"], index={"i2": {"A": (1, 2)}}, statistics="s2")
    table.tag("t")
    table.commit("-A", "-B", "-C", "+D", changelog=["+L3"], index={"i3": {"D": (1,)}}, extra={"D": ["index"]})
    table.merge_manifests(changelog=["+L4"])
    table.commit("-D", "+E", changelog=["+L5"], index={"i5": {"E": (1,)}}, statistics="s5")
    table.commit("+F", changelog=["+L6"])
    return table, table.store.read("tag/tag-t").data


def manifest_of_the_tag(table: TableBuilder) -> str:
    return table.model("tag/tag-t").base[0].name


def base_list_of_the_tag(table: TableBuilder) -> str:
    return str(table.document("tag/tag-t")["baseManifestList"])


def delta_list_of_the_tag(table: TableBuilder) -> str:
    return str(table.document("tag/tag-t")["deltaManifestList"])


def index_manifest_of_the_tag(table: TableBuilder) -> str:
    return str(table.document("tag/tag-t")["indexManifest"])


def changelog_list_of_a_snapshot(table: TableBuilder) -> str:
    return str(table.document("snapshot/snapshot-5")["changelogManifestList"])


def changelog_manifest_of_a_snapshot(table: TableBuilder) -> str:
    return table.model("snapshot/snapshot-5").changelog[0].name


ROWS: dict[Callable[[TableBuilder], str], set[str]] = {
    manifest_of_the_tag: {"data", "extra", "changelog"},
    base_list_of_the_tag: {"data", "extra", "changelog", "manifest"},
    delta_list_of_the_tag: {"data", "extra", "changelog", "manifest"},
    index_manifest_of_the_tag: {"index"},
    changelog_list_of_a_snapshot: {"changelog", "manifest"},
    changelog_manifest_of_a_snapshot: {"changelog"},
}


CASES = [
    *(pytest.param(row, False, id=f"{row.__name__}, at planning") for row in ROWS),
    # The snapshot is one of the newest; it does not appear during a run.
    *(pytest.param(row, True, id=f"{row.__name__}, at the look") for row in ROWS if "snapshot" not in row.__name__),
]


@pytest.mark.parametrize("damage", ["cut", "missing"])
@pytest.mark.parametrize(("row", "is_late"), CASES)
def test_every_file_of_its_kind_stays(row: Callable[[TableBuilder], str], is_late: bool, damage: str) -> None:
    table, document = build()
    maintainer = Maintainer(table.store)
    path = f"manifest/{row(table)}"
    body = table.store.read(path).data
    if is_late:
        table.remove("tag/tag-t")
    plan = maintainer.plan(2, 2).plan
    assert plan is not None
    kinds = {action.path: action.kind for action in plan.actions if isinstance(action, Delete)}
    assert set(kinds.values()) == KINDS | {"snapshot"}

    if is_late:
        table.store.put("tag/tag-t", document)
    before = {entry.key for entry in table.store.list("")} - {path}
    if damage == "missing":
        table.remove(path)
    else:
        table.corrupt(path, body[: len(body) // 2])
    if is_late:
        assert maintainer.execute(plan.header.plan_id).status == "done"
    else:
        assert Maintainer(table.store).expire(2, 2).status == "done"
    gone = before - {entry.key for entry in table.store.list("")}
    assert {kinds[path] for path in gone} == (KINDS - ROWS[row]) | {"snapshot"}
    table.store.put(path, body)
    assert_all_readable(table)
