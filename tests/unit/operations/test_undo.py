"""`undo`: all of a run comes back, or nothing changes."""

import contextlib
import json
from collections.abc import Callable

import pytest

from lakesweep.control.chain import is_object_row
from lakesweep.control.ndjson import pack, unpack
from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.operations.registry import run_operation
from lakesweep.operations.undo.undo import undo
from lakesweep.storage.store import DeleteRequest, UndeleteRequest, delete_all
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.reader import all_roots, read_all
from tests.support.table_builder import TableBuilder
from tests.support.world import HOUR_MS, World

Listing = dict[str, tuple[int, str]]


class ExpiredWorld(World):
    """The table of `history`, an hour later."""

    def __init__(self, *, versioned: bool = True, options: dict[str, str] | None = None) -> None:
        super().__init__(versioned=versioned)
        self.table = history(self.store, options)
        self.now_ms += HOUR_MS

    def expired(self, retain_max: int = 2) -> str:
        report = self.expire(retain_max)
        assert report.run_id is not None
        return report.run_id

    def expired_again(self) -> str:
        """Return the run that finishes what an earlier one began."""
        report = self.maintainer().expire(retain_max=2, retain_min=2)
        assert report.status in ("done", "nothing_to_do"), report.refusal
        assert report.run_id is not None
        return report.run_id

    def listing(self) -> Listing:
        return {entry.key: (entry.size_bytes, entry.etag) for entry in self.store.list("")}


def history(store: MemoryStore, options: dict[str, str] | None = None) -> TableBuilder:
    """A table whose expiry takes objects of every kind."""
    table = TableBuilder(store, partition_keys=("dt",), options=options)
    table.commit("+A", "+B", partition=("d1",), statistics="s1", extra={"A": ["index"]})
    table.commit("-A", "+C", partition=("d1",), index={"i1": {"B": (1,)}}, changelog=["+L2"])
    table.tag("kept", snapshot=2)
    table.commit("-C", "+D", partition=("d2",), index={"i2": {"B": (1, 2)}}, changelog=["+L3"], statistics="s3")
    table.branch("b", from_tag="kept")
    table.on_branch("b").commit("+E", partition=("d3",))
    table.commit("-B", "+F", partition=("d1",), index={"i3": {}}, changelog=["+L4"])
    table.merge_manifests()
    table.commit("-D", "+G", partition=("d2",))
    table.commit("+H", partition=("d2",), statistics="s7")
    table.hint("EARLIEST", 1)
    table.hint("LATEST", 7)
    return table


def refusal(world: ExpiredWorld, run_id: str) -> str:
    """Return the code with which an undo is refused, dry and executed, and make sure that it changed nothing."""
    before = world.bodies()
    dry, report = world.undo(run_id, execute=False), world.undo(run_id)
    assert world.bodies() == before
    assert (dry.status, report.status) == ("refused", "refused")
    assert dry.refusal is not None
    assert report.refusal is not None
    assert dry.refusal.code == report.refusal.code
    assert "cannot be undone" in report.refusal.message or "expected" in report.refusal.message
    return report.refusal.code


def ledger_rows(world: ExpiredWorld, run_id: str) -> list[tuple[str, list[dict[str, object]]]]:
    """Return the parts of a run's ledger."""
    return [
        (entry.key, list(filter(is_object_row, unpack(world.control.read(entry.key).data, entry.key))))
        for entry in world.control.list("")
        if f"/{run_id}/" in entry.key and entry.key.endswith(".ndjson.gz")
    ]


@pytest.mark.parametrize("retain_max", [1, 2, 4])
def test_everything_comes_back(retain_max: int) -> None:
    """The table is what it was, byte for byte, and every root reads."""
    world = ExpiredWorld()
    before, etags = world.bodies(), world.listing()
    run_id = world.expired(retain_max)
    gone = set(before) - set(world.bodies())
    assert len(gone) > 8

    dry = world.undo(run_id, execute=False).to_json()
    assert (dry["status"], dry["operation"], dry["executed"]) == ("planned", "undo", False)
    assert {each["path"] for each in dry["created"]} == gone | {"snapshot/EARLIEST"}  # type: ignore[attr-defined, index]
    assert set(world.bodies()) & gone == set()

    report = world.undo(run_id)
    assert report.status == "done", report.refusal
    assert world.bodies() == before
    now = world.listing()
    assert {key for key in etags if etags[key] != now[key]} == {"snapshot/EARLIEST"}
    assert_roots_readable(world.table)
    assert len(read_all(world.store)) == len(all_roots(world.store))
    document = report.to_json()
    assert document["outcome"] == {
        "deleted": 0, "already_gone": 0, "failed": [], "kept_by_recheck": 0, "bytes": 0, "restored": len(gone),
    }  # fmt: skip
    assert document["run_id"] not in (None, run_id)


def test_every_kind_comes_back() -> None:
    """Expiry to one snapshot takes every kind that an expiry can take."""
    world = ExpiredWorld()
    report = world.undo(world.expired(1), execute=False)
    assert {each.kind for each in report.restores or ()} == {
        "snapshot", "data", "extra", "changelog", "index", "index_manifest", "manifest", "manifest_list", "statistics",
    }  # fmt: skip


def test_files_before_documents_and_documents_downwards() -> None:
    """The order that no reader can be harmed by."""
    world = ExpiredWorld()
    run_id = world.expired(1)
    switch = Switch()
    kinds = [each.kind for each in world.undo(run_id, execute=False).restores or ()]
    first = kinds.index("snapshot")
    assert set(kinds[first:]) == {"snapshot"}
    assert kinds[:first][0] == "statistics"
    report = world.undo(run_id, switch=switch)
    paths = [each.path for each in report.restores or () if each.kind == "snapshot"]
    assert paths == [f"snapshot/snapshot-{number}" for number in range(6, 0, -1)]
    changes = [call for call in switch.calls if call.startswith(("table undelete", "table put"))]
    assert changes == ["table undelete " + str(first), *["table undelete 1"] * 6, "table put snapshot/EARLIEST"]


def test_twice_is_harmless() -> None:
    """The second undo finds nothing to do, and an undo cannot be undone."""
    world = ExpiredWorld()
    run_id = world.expired()
    first = world.undo(run_id)
    before = world.listing()
    for execute in (False, True):
        again = world.undo(run_id, execute=execute)
        assert (again.status, again.run_id, again.executed) == ("nothing_to_do", None, False)
    assert world.listing() == before
    assert first.run_id is not None
    assert refusal(world, first.run_id) == "not_undoable"


@pytest.mark.parametrize("kind", ["data", "manifest_list", "index", "snapshot"])
def test_what_is_gone_again_comes_back_again(kind: str) -> None:
    """A request of the run came late, and no ledger names the marker that it left."""
    world = ExpiredWorld()
    before = world.bodies()
    run_id = world.expired(1)
    key = marker(world, run_id, kind).key
    assert world.undo(run_id).status == "done"
    world.store.delete(delete_all([key]))
    dry = world.undo(run_id, execute=False)
    assert [each.path for each in dry.restores or ()] == [key]
    assert world.undo(run_id).status == "done"
    assert world.bodies() == before
    again = world.undo(run_id)
    assert (again.status, again.run_id) == ("nothing_to_do", None)
    assert "nothing is left to restore" in again.warnings[0]


def test_what_a_later_run_deleted_stays_deleted() -> None:
    """The table has expired again since the undo: that run is to be undone, and not the first once more."""
    world = ExpiredWorld()
    before = world.bodies()
    first = world.expired()
    assert world.undo(first).status == "done"
    world.now_ms += 1000
    second = world.expired()
    assert refusal(world, first) == "later_run"
    assert world.undo(second).status == "done"
    assert world.bodies() == before


def test_expire_undo_and_again() -> None:
    """What came back can expire again, and come back again."""
    world = ExpiredWorld()
    before = world.bodies()
    for _ in range(3):
        run_id = world.expired()
        after = world.bodies()
        assert world.undo(run_id).status == "done"
        assert world.bodies() == before
        world.now_ms += 1000
    world.expired()
    assert world.bodies() == after


def test_last_in_first_out() -> None:
    """Two runs come back in the opposite order, and in no other."""
    world = ExpiredWorld()
    before = world.bodies()
    first = world.expired(4)
    second = world.expired(2)
    assert refusal(world, first) == "later_run"
    assert world.undo(second).status == "done"
    assert world.undo(first).status == "done"
    assert world.bodies() == before
    assert_roots_readable(world.table)


def test_commits_since_then_stay() -> None:
    """Writers go on while a run is undone."""
    world = ExpiredWorld()
    run_id = world.expired()
    world.table.commit("-F", "+J", partition=("d1",))
    world.table.tag("new")
    assert world.undo(run_id).status == "done"
    assert_roots_readable(world.table)
    assert len([root for root in all_roots(world.store) if root.startswith("snapshot/")]) == 8


def test_changelog_documents_become_snapshots_again() -> None:
    """Where changelogs outlive snapshots, the documents that the run wrote go when the snapshots are back."""
    world = ExpiredWorld(options={"changelog-producer": "input", "changelog.time-retained": "100000 d"})
    before = world.bodies()
    run_id = world.expired(2)
    assert "changelog/changelog-1" in world.bodies()
    assert world.undo(run_id).status == "done"
    assert world.bodies() == before
    assert_roots_readable(world.table)


def test_changelogs_that_are_read_by_their_delta() -> None:
    """Writers without changelog files: the documents share lists and files with the snapshots."""
    world = ExpiredWorld(options={"changelog.time-retained": "100000 d"})
    before = world.bodies()
    run_id = world.expired(2)
    assert "changelog/changelog-1" in world.bodies()
    assert world.undo(run_id).status == "done"
    assert world.bodies() == before
    assert_roots_readable(world.table)


def test_older_changelogs_stay_with_their_hints() -> None:
    """Two runs wrote changelogs; undoing the second leaves those of the first."""
    world = ExpiredWorld(options={"changelog-producer": "input", "changelog.time-retained": "100000 d"})
    first = world.expired(4)
    before = world.bodies()
    assert world.undo(world.expired(2)).status == "done"
    assert world.bodies() == before
    assert world.undo(first).status == "done"
    assert_roots_readable(world.table)


def test_expired_changelogs_come_back() -> None:
    """Changelog documents are roots too."""
    world = ExpiredWorld(options={"changelog-producer": "input", "changelog.time-retained": "100000 d"})
    world.expired(2)
    before = world.bodies()
    for arguments in ({"delete_all": True}, {"retain_max": 3}):
        table = world.maintainer().table
        report = run_operation(table, "expire-changelogs", arguments, execute=True)
        assert report.status == "done", report.refusal
        assert report.run_id is not None
        assert world.bodies() != before
        report = world.undo(report.run_id)
        assert report.status == "done", report.refusal
        now = world.bodies()
        now.pop("changelog/EARLIEST", None)
        assert now == before


def test_cleared_consumers_come_back() -> None:
    world = ExpiredWorld()
    world.table.consumer("c", 3)
    before = world.bodies()
    report = run_operation(world.maintainer().table, "clear-consumers", {}, execute=True)
    assert report.run_id is not None
    assert world.undo(report.run_id).status == "done"
    assert world.bodies() == before


def test_a_branch_comes_back() -> None:
    """The branch is the run's, whatever the caller has open."""
    world = ExpiredWorld()
    branch = world.table.on_branch("b")
    for number in range(4):
        branch.commit(f"+M{number}", *([f"-M{number - 1}"] if number else []), partition=("d3",))
    branch.hint("EARLIEST", 2)
    before = world.bodies()
    report = Maintainer(world.store, branch="b", control=world.control).expire()
    assert report.run_id is not None
    back = world.undo(report.run_id)
    assert (back.status, back.branch) == ("done", "b")
    assert world.bodies() == before


def test_files_outside_the_table_come_back() -> None:
    outside = MemoryStore("memory://outside/root", versioned=True)
    store = MemoryStore("memory://bucket/t", versioned=True)
    table = TableBuilder(store, externals={"memory://outside/root": outside})
    table.commit(
        "+A", external={"A": "memory://outside/root/bucket-0/data-11111111-2222-3333-4444-555555555555-0.parquet"}
    )
    table.commit("-A", "+B")
    table.commit("+C")
    maintainer = Maintainer(store, open_store=opener(outside), external_roots=(outside.location,))
    before = [entry.key for entry in outside.list("")]
    run_id = maintainer.expire().run_id
    assert run_id is not None
    assert [entry.key for entry in outside.list("")] == []
    assert undo(maintainer.table, run_id, execute=True).status == "done"
    assert [entry.key for entry in outside.list("")] == before


# Refusals.


def test_without_versions() -> None:
    """A store that keeps nothing gives nothing back."""
    world = ExpiredWorld(versioned=False)
    assert refusal(world, world.expired()) == "not_versioned"


def test_versions_that_are_no_more() -> None:
    """The ledger has markers, and the store is not versioned any more."""
    world = ExpiredWorld()
    run_id = world.expired()
    world.store._versioned = False
    assert refusal(world, run_id) == "not_versioned"


def marker(world: ExpiredWorld, run_id: str, kind: str) -> UndeleteRequest:
    for _, rows in ledger_rows(world, run_id):
        for row in rows:
            if row["kind"] == kind and "result" in row:
                return UndeleteRequest(str(row["key"]), str(row["version_id"]))
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["data", "manifest_list", "index", "snapshot"])
def test_a_marker_that_is_gone(kind: str) -> None:
    """A lifecycle rule has removed a file for good."""
    world = ExpiredWorld()
    run_id = world.expired(1)
    del world.store._versions[marker(world, run_id, kind).key]
    assert refusal(world, run_id) == "marker_gone"


@pytest.mark.parametrize("kind", ["data", "manifest", "statistics"])
def test_an_object_that_is_there_again(kind: str) -> None:
    """What somebody wrote since is never touched."""
    world = ExpiredWorld()
    run_id = world.expired(1)
    world.store.put(marker(world, run_id, kind).key, b"new")
    assert refusal(world, run_id) == "marker_not_current"


def test_an_object_that_was_deleted_twice() -> None:
    """The newest marker is another one."""
    world = ExpiredWorld()
    run_id = world.expired(1)
    key = marker(world, run_id, "data").key
    world.store.put(key, b"new")
    world.store.delete(delete_all([key]))
    assert refusal(world, run_id) == "marker_not_current"


def test_nothing_below_the_marker() -> None:
    world = ExpiredWorld()
    run_id = world.expired(1)
    found = marker(world, run_id, "data")
    world.store._versions[found.key] = [(found.version_id, None)]
    assert refusal(world, run_id) == "nothing_below"


def test_another_document_below_the_marker() -> None:
    """What the marker hides is not what was deleted."""
    world = ExpiredWorld()
    run_id = world.expired(1)
    found = marker(world, run_id, "snapshot")
    older = (world.store.read("snapshot/snapshot-7").data, "other", 0)
    world.store._versions[found.key][-2] = ("other", older)
    assert refusal(world, run_id) == "id_reused"


@pytest.mark.parametrize("at", [1, 5])
def test_a_snapshot_id_that_was_used_again(at: int) -> None:
    world = ExpiredWorld()
    run_id = world.expired()
    world.store.put(f"snapshot/snapshot-{at}", world.store.read("snapshot/snapshot-7").data)
    assert refusal(world, run_id) == "id_reused"


def roll_back(store: MemoryStore, tag: str, snapshot_id: int) -> None:
    """Go back to a tag of an expired snapshot, as the engine does: every snapshot goes, and one comes from the tag."""
    store.put("snapshot/LATEST", str(snapshot_id).encode())
    store.delete(delete_all([entry.key for entry in store.list("snapshot/") if entry.key[-1].isdecimal()]))
    store.put(f"snapshot/snapshot-{snapshot_id}", store.read(f"tag/tag-{tag}").data)
    store.put("snapshot/EARLIEST", str(snapshot_id).encode())


def test_a_rollback_to_a_tag_below() -> None:
    """The history that the run shortened is not the table's any more."""
    world = ExpiredWorld()
    run_id = world.expired()
    roll_back(world.store, "kept", 2)
    assert refusal(world, run_id) == "id_reused"  # the rollback wrote snapshot 2 again
    world.store.delete([DeleteRequest("snapshot/snapshot-2")])
    assert refusal(world, run_id) == "rolled_back"


def test_new_commits_after_a_rollback_to_a_tag() -> None:
    """The ids above exist again, and are others."""
    world = ExpiredWorld()
    run_id = world.expired()
    document = world.store.read("snapshot/snapshot-6").data
    roll_back(world.store, "kept", 2)
    for number in (6, 7, 8):
        world.store.put(f"snapshot/snapshot-{number}", document)
    world.store.delete([DeleteRequest("snapshot/snapshot-2")])
    assert refusal(world, run_id) == "id_reused"


def test_a_rollback_above_is_no_obstacle() -> None:
    world = ExpiredWorld()
    run_id = world.expired(3)
    world.table.rollback(6)
    assert world.undo(run_id).status == "done"
    assert_roots_readable(world.table)


@pytest.mark.parametrize("where", ["live", "manifest", "index"])
def test_a_file_that_would_stay_absent(where: str) -> None:
    """A file that the run left alone, since something needed it then, is gone now."""
    world = ExpiredWorld()
    needed = world.table.referenced("snapshot/snapshot-2") | world.table.referenced("snapshot/snapshot-3")
    run_id = world.expired(4)
    needed &= set(world.bodies())
    gone = {
        "live": world.table.path("B"),
        "manifest": next(key for key in sorted(needed) if key.startswith("manifest/manifest-") and "list" not in key),
        "index": next(key for key in sorted(needed) if key.startswith("index/")),
    }[where]
    world.store.delete(delete_all([gone]))
    assert refusal(world, run_id) == "would_stay_absent"


def test_a_later_run_took_a_file() -> None:
    """B left the table at snapshot 4, which a later run expired."""
    world = ExpiredWorld()
    first = world.expired(5)
    world.expired(1)
    assert refusal(world, first) == "later_run"


def test_a_run_that_has_not_ended() -> None:
    """It is finished first, by whoever maintains the table next, who finds out what nobody answered."""
    world = ExpiredWorld()
    before = world.bodies()
    switch = Switch()
    world.maintainer(switch).expire(retain_max=2, retain_min=2)
    at = next(
        number
        for number, call in enumerate(switch.calls, 1)
        if call.startswith("control put") and "00002-result" in call
    )
    world = ExpiredWorld()
    with pytest.raises(ProcessDeathError):
        world.maintainer(Switch(at, "death")).expire(retain_max=2, retain_min=2)
    run_id = next(entry.key for entry in world.control.list("") if "-intent" in entry.key).split("/")[-2]
    assert refusal(world, run_id) == "run_unfinished"
    world.now_ms += LEASE_MS + DELETE_MARGIN_MS
    finished = world.expired_again()
    assert world.undo(finished).status == "done"
    assert world.bodies() == before
    assert world.undo(run_id).status == "nothing_to_do"


def test_runs_of_one_plan_are_undone_together() -> None:
    """The first died between two batches; what the ledger says of both is whole."""
    world = ExpiredWorld()
    before = world.bodies()
    switch = Switch()
    world.maintainer(switch).expire(retain_max=2, retain_min=2)
    at = [number for number, call in enumerate(switch.calls, 1) if call.startswith("table delete")][-1]
    world = ExpiredWorld()
    with pytest.raises(ProcessDeathError):
        world.maintainer(Switch(at, "death")).expire(retain_max=2, retain_min=2)
    world.now_ms += LEASE_MS + DELETE_MARGIN_MS
    finished = world.expired_again()
    assert world.undo(finished).status == "done"
    assert world.bodies() == before


def test_a_plan_that_ended_stale() -> None:
    world = ExpiredWorld()
    run_id = world.expired()
    key = next(entry.key for entry in world.control.list("") if f"/reports/{run_id}" in entry.key)
    document = json.loads(world.control.read(key).data)
    world.control.put(key, json.dumps({**document, "ended": "stale"}).encode())
    assert refusal(world, run_id) == "plan_stale"


@pytest.mark.parametrize("run_id", ["20260131T120000Z-00000000", "", "../x", "a/b", "x" * 300])
def test_no_such_run(run_id: str) -> None:
    assert refusal(ExpiredWorld(), run_id) == "no_such_run"


def test_a_run_of_another_table() -> None:
    """Also when somebody copied its documents."""
    world, other = ExpiredWorld(), MemoryStore("memory://bucket/u", versioned=True)
    run_id = world.expired()
    elsewhere = Maintainer(other, control=world.control)
    history(other)
    report = undo(elsewhere.table, run_id, execute=True)
    assert report.refusal is not None
    assert report.refusal.code == "no_such_run"
    area, theirs = elsewhere.table.area, world.maintainer().table.area
    assert area is not None
    assert theirs is not None
    for entry in list(world.control.list(theirs.prefix)):
        world.control.put(area.prefix + entry.key.removeprefix(theirs.prefix), world.control.read(entry.key).data)
    report = undo(elsewhere.table, run_id, execute=True)
    assert report.refusal is not None
    assert report.refusal.code in ("plan_of_another_table", "lease_held")


def test_a_moved_consumer_stays_where_it_is() -> None:
    """Nobody knows where it was."""
    world = ExpiredWorld()
    world.table.consumer("c", 3)
    arguments = {"consumer_id": "c", "next_snapshot_id": 5}
    report = run_operation(world.maintainer().table, "reset-consumer", arguments, execute=True)
    assert report.run_id is not None
    assert refusal(world, report.run_id) in ("not_undoable", "nothing_to_undo")


def test_a_forged_ledger_restores_nothing_else() -> None:
    """A ledger whose chain is broken brings nothing back."""
    world = ExpiredWorld()
    run_id = world.expired()
    before = world.bodies()
    world.table.store.put("other/object", b"x")
    (result,) = world.store.delete(delete_all(["other/object"]))
    for key, rows in ledger_rows(world, run_id):
        world.control.put(key, pack([*rows, {**rows[0], "key": "other/object", "version_id": result.version_id}]))
    assert refusal(world, run_id) == "unknown_result"
    assert world.bodies() == before


def test_the_registry_wants_a_run() -> None:
    with pytest.raises(UsageError):
        run_operation(ExpiredWorld().maintainer().table, "undo", {}, execute=False)


# Broken on the way.


def normal() -> tuple[dict[str, bytes], int]:
    world = ExpiredWorld()
    before = world.bodies()
    run_id = world.expired()
    switch = Switch()
    assert world.undo(run_id, switch=switch).status == "done"
    assert world.bodies() == before
    return before, len(switch.calls)


BEFORE, CALLS = normal()


@pytest.mark.parametrize("mode", ["before", "after", "death", "death_after"])
def test_any_call_may_break(mode: str) -> None:
    """Every root reads at every moment, no id is missing between others, and asking again does the rest."""
    assert CALLS > 40
    for at in range(1, CALLS + 1):
        world = ExpiredWorld()
        run_id = world.expired()
        after = set(world.bodies())
        switch = Switch(at, mode)
        with contextlib.suppress(MaintenanceError, ProcessDeathError):
            world.undo(run_id, switch=switch)
        where = f"{mode} call {at}: {switch.calls[at - 1]}"
        assert after <= set(world.bodies()), where
        assert_readable_without_holes(world, where)
        world.now_ms += LEASE_MS + DELETE_MARGIN_MS
        report = world.undo(run_id)
        assert report.status in ("done", "nothing_to_do"), (where, report.refusal)
        assert world.bodies() == BEFORE, where


@pytest.mark.parametrize("mode", ["death", "death_after"])
def test_maintenance_after_a_broken_undo(mode: str) -> None:
    """An undo that nobody finishes leaves a table that expires as any other."""
    for at in range(1, CALLS + 1):
        world = ExpiredWorld()
        run_id = world.expired()
        with contextlib.suppress(ProcessDeathError):
            world.undo(run_id, switch=Switch(at, mode))
        world.now_ms += LEASE_MS + DELETE_MARGIN_MS
        world.maintainer().expire(retain_max=2, retain_min=2)
        assert_readable_without_holes(world, f"{mode} call {at}")


def assert_readable_without_holes(world: ExpiredWorld, where: str) -> None:
    try:
        assert_roots_readable(world.table)
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error
    ids = sorted(int(root.rsplit("-", 1)[1]) for root in all_roots(world.store) if root.startswith("snapshot/"))
    assert ids == list(range(ids[0], 8)), where
    hint = int(world.store.read("snapshot/EARLIEST").data)
    assert hint in ids, where


class _Interfering(MemoryStore):
    """Calls `interfere` before each request that brings something back."""

    interfere: Callable[[int], None] = staticmethod(lambda count: None)  # type: ignore[assignment]
    count = 0

    def undelete(self, requests, *, only_check=False):  # type: ignore[no-untyped-def]
        if not only_check:
            self.count += 1
            self.interfere(self.count)
        return super().undelete(requests, only_check=only_check)


def test_a_rollback_in_the_middle_stops_it() -> None:
    """Nothing comes back above what the rollback left."""
    store = _Interfering("memory://bucket/t", versioned=True)
    history(store)
    maintainer = Maintainer(store)
    run_id = maintainer.expire(retain_max=2, retain_min=2).run_id
    assert run_id is not None
    store.interfere = lambda count: roll_back(store, "kept", 2) if count == 1 else None  # type: ignore[method-assign]
    report = undo(maintainer.table, run_id, execute=True)
    assert report.status == "partial"
    assert report.refusal is not None
    assert report.refusal.code in ("id_reused", "rolled_back")
    assert [root for root in all_roots(store) if root.startswith("snapshot/")] == ["snapshot/snapshot-2"]
    read_all(store)
