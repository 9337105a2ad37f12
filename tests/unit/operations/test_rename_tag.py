"""Renaming tags."""

import json
from collections.abc import Sequence

import pytest

from lakesweep.control.lease import read_lease
from lakesweep.errors import ObjectNotFoundError, UsageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest, DeleteResult
from tests.support.acting import Acting
from tests.support.faulty_store import DyingSwitch, ProcessDeathError
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.support.world import World


class Told(MemoryStore):
    """Notes what is written and deleted."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.changes: list[str] = []

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        etag = super().put(key, data, if_absent=if_absent, if_match=if_match)
        self.changes.append(f"put {key}{' if absent' if if_absent else ''}")
        return etag

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        self.changes += [f"delete {request.key}{' if match' if request.etag else ''}" for request in requests]
        return super().delete(requests)


@pytest.fixture
def store() -> Told:
    return Told("memory://bucket/db.db/t")


@pytest.fixture
def table(store: Told) -> TableBuilder:
    table = TableBuilder(store)
    table.commit("+A")
    table.commit("-A", "+B")
    table.tag("t", snapshot=1)
    return table


def rename(store: MemoryStore, old: str, new: str, status: str = "done", *, execute: bool = True) -> RunReport:
    report = Maintainer(store).run("rename-tag", tag=old, target_tag=new, execute=execute)
    assert report.status == status, report
    return report


def test_the_new_name_is_written_before_the_old_one_goes(store: Told, table: TableBuilder) -> None:
    body = store.read("tag/tag-t").data
    store.changes.clear()
    report = rename(store, "t", "u")
    assert store.changes == ["put tag/tag-u if absent", "delete tag/tag-t if match"]
    assert store.read("tag/tag-u").data == body
    assert report.to_json()["created"] == [{"kind": "tag", "path": "tag/tag-u"}]


@pytest.mark.parametrize("execute", [True, False])
def test_a_name_that_is_taken(store: Told, table: TableBuilder, execute: bool) -> None:
    table.tag("u", snapshot=2)
    store.changes.clear()
    report = rename(store, "t", "u", "refused", execute=execute)
    assert report.refusal is not None
    assert report.refusal.code == "tag_exists"
    assert store.changes == []


def test_its_own_name(store: Told, table: TableBuilder) -> None:
    report = rename(store, "t", "t", "refused")
    assert report.refusal is not None
    assert report.refusal.code == "tag_exists"


def test_a_tag_that_is_not_there(store: Told, table: TableBuilder) -> None:
    report = rename(store, "nope", "u", "refused")
    assert report.refusal is not None
    assert report.refusal.code == "no_such_tag"
    assert "'nope'" in report.refusal.message


@pytest.mark.parametrize("name", ["", " ", "a/b", "a\nb", "..", "x" * 300, "success-file"])
def test_a_name_that_no_tag_should_have(store: Told, table: TableBuilder, name: str) -> None:
    store.changes.clear()
    with pytest.raises(UsageError):
        Maintainer(store).run("rename-tag", tag="t", target_tag=name)
    assert store.changes == []


def test_a_number_is_a_warning(store: Told, table: TableBuilder) -> None:
    assert any("hides" in warning for warning in rename(store, "t", "2").all_warnings())
    assert store.read("tag/tag-2").data


def test_a_tag_that_cannot_be_read_keeps_its_name(store: Told, table: TableBuilder) -> None:
    store.put("tag/tag-t", b"{")
    report = rename(store, "t", "u", "refused")
    assert report.refusal is not None
    assert report.refusal.code == "unreadable_root"
    assert store.read("tag/tag-t").data == b"{"


def test_fields_that_nobody_knows_move_along(store: Told, table: TableBuilder) -> None:
    document = json.loads(store.read("tag/tag-t").data) | {"later": {"a": [1.50, None]}, "tagTimeRetained": 1e-9}
    body = json.dumps(document).encode()
    store.put("tag/tag-t", body)
    rename(store, "t", "u")
    assert store.read("tag/tag-u").data == body


def test_the_success_file_keeps_the_old_name(store: Told, table: TableBuilder) -> None:
    table.alter(options={"tag.create-success-file": "true"})
    store.put("tag/tag-success-file/t_SUCCESS", b"{}")
    rename(store, "t", "u")
    assert [entry.key for entry in store.list("tag/")] == ["tag/tag-success-file/t_SUCCESS", "tag/tag-u"]


def test_an_expired_snapshot_is_readable_under_the_new_name(store: Told, table: TableBuilder) -> None:
    maintainer = Maintainer(store)
    assert maintainer.expire().status == "done"
    assert maintainer.run("rename-tag", tag="t", target_tag="u").status == "done"
    assert table.present() == {"A", "B"}
    assert maintainer.run("delete-tag", tag="u").status == "done"
    assert table.present() == {"B"}


def test_a_stored_plan_meets_a_name_that_was_taken_since(store: Told, table: TableBuilder) -> None:
    maintainer = Maintainer(store)
    planned = maintainer.run("rename-tag", tag="t", target_tag="u", execute=False)
    assert planned.plan is not None
    table.tag("u", snapshot=2)
    other = store.read("tag/tag-u").data
    report = maintainer.execute(planned.plan.header.plan_id)
    assert report.status == "stale"
    assert store.read("tag/tag-u").data == other
    assert store.read("tag/tag-t").data


def test_a_stored_plan_meets_a_tag_that_was_replaced_since(store: Told, table: TableBuilder) -> None:
    maintainer = Maintainer(store)
    planned = maintainer.run("rename-tag", tag="t", target_tag="u", execute=False)
    assert planned.plan is not None
    table.tag("t", snapshot=2)
    other = store.read("tag/tag-t").data
    report = maintainer.execute(planned.plan.header.plan_id)
    assert report.status == "stale"
    assert store.read("tag/tag-t").data == other
    assert [entry.key for entry in store.list("tag/")] == ["tag/tag-t"], "the new name is taken back"


def test_a_stored_plan_meets_a_tag_that_is_gone(store: Told, table: TableBuilder) -> None:
    maintainer = Maintainer(store)
    planned = maintainer.run("rename-tag", tag="t", target_tag="u", execute=False)
    assert planned.plan is not None
    store.delete([DeleteRequest("tag/tag-t")])
    report = maintainer.execute(planned.plan.header.plan_id)
    assert report.status == "stale"
    assert list(store.list("tag/")) == [], "nobody brings back what was deleted"


def test_on_a_branch(store: Told, table: TableBuilder) -> None:
    table.branch("b", from_tag="t")
    body = store.read("branch/branch-b/tag/tag-t").data
    report = Maintainer(store, "b").run("rename-tag", tag="t", target_tag="u")
    assert report.status == "done"
    assert store.read("branch/branch-b/tag/tag-u").data == body
    assert store.read("tag/tag-t").data


def test_a_callback_is_refused(store: Told, table: TableBuilder) -> None:
    table.alter(options={"tag.callbacks": "com.example.X"})
    report = rename(store, "t", "u", "refused")
    assert report.refusal is not None
    assert report.refusal.code == "needs_engine_callbacks"


def tagged() -> World:
    """Return a table whose first snapshot has a tag."""
    world = World()
    world.replace()
    world.replace()
    world.table.tag("t", snapshot=1)
    return world


def test_a_tag_that_others_delete_meanwhile_is_no_success() -> None:
    """They may have looked for other tags before the new name was there, and take the files."""
    world = tagged()
    other = Acting(
        lambda call: call.startswith("table delete"), lambda: world.store.delete([DeleteRequest("tag/tag-t")])
    )
    report = world.maintainer(other).run("rename-tag", tag="t", target_tag="u")
    assert report.status == "stale"
    assert report.refusal is not None and report.refusal.code == "overtaken"
    assert "tag/tag-u was written meanwhile and is kept; some of its files may be missing" in report.refusal.message
    assert world.store.read("tag/tag-u").data


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_run_that_died_before_the_new_name_is_not_finished_once_the_old_one_is_gone(is_replaced: bool) -> None:
    """What it was to name may have lost its files."""
    world = tagged()
    with pytest.raises(ProcessDeathError):
        world.maintainer(DyingSwitch(_names_it)).run("rename-tag", tag="t", target_tag="u")
    world.wait()
    if is_replaced:
        world.run("replace-tag", tag="t", snapshot=2, status="done")
    else:
        world.store.delete([DeleteRequest("tag/tag-t")])
    world.run("delete-tag", tag="none")
    assert not any(map(_names_it, world.switch.calls))
    with pytest.raises(ObjectNotFoundError):
        world.store.read("tag/tag-u")


def _names_it(call: str) -> bool:
    return call == "table put tag/tag-u"


def test_a_run_that_died_after_the_old_name_went_is_finished() -> None:
    world = tagged()
    dying = DyingSwitch(lambda call: call.startswith("table delete"), "death_after")
    with pytest.raises(ProcessDeathError):
        world.maintainer(dying).run("rename-tag", tag="t", target_tag="u")
    world.wait()
    world.run("delete-tag", tag="none")
    assert world.store.read("tag/tag-u").data
    assert read_lease(world.area).intent is None
