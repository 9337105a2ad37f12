"""The undo of `delete-rows`: the run's rows come back, and nobody else's."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import MaintenanceError
from tests.support.deleting import DeletingTable
from tests.support.live_records import document_of, live_records
from tests.support.row_world import LOCKED, RowWorld, as_latest, returned
from tests.unit.cli.command_line import call
from tests.unit.operations.repair.repair_world import refusal_of


def scene(**table: Any) -> tuple[RowWorld, str]:
    """A table of three files whose rows 2, 3 and 12 a run deleted; another had deleted row 1 before."""
    world = RowWorld(**table)
    world.append(1, 2, 3, 4, 5)
    world.append(11, 12, 13)
    world.append(21, 22, dt="e")
    world.deleted("id = 1")
    return world, world.deleted("id IN (2, 3, 12)")


@pytest.mark.parametrize("wide", [False, True], ids=["32 bit", "64 bit"])
def test_the_rows_come_back(wide: bool) -> None:
    """One commit that changes no file; what others deleted, in the same vector, stays deleted."""
    world, run = scene(options={"deletion-vectors.bitmap64": str(wide).lower()})
    assert world.rows() == [4, 5, 11, 13, 21, 22]
    former, before = document_of(world.store, world.ids()[-1]), world.bodies()
    planned = world.undo(run, execute=False)
    assert (planned.status, world.bodies()) == ("planned", before)
    report = world.undo(run)
    assert report.status == "done", report
    assert world.rows() == [2, 3, 4, 5, 11, 12, 13, 21, 22]
    assert sorted(world.vectors().values()) == [[0]]
    found = returned(report)
    assert (found.rows, found.files, found.left, found.there_already) == (3, 2, (), 0)
    assert (found.run_id, found.snapshot_id, found.index_files, found.written_files) == (run, former["id"], 1, 1)
    assert (returned(planned).rows, returned(planned).files) == (3, 2)
    document = document_of(world.store, world.ids()[-1])
    same = ("totalRecordCount", "schemaId", "nextRowId", "watermark", "statistics")
    assert {key: document.get(key) for key in same} == {key: former.get(key) for key in same}
    assert (document["id"], document["commitKind"], document["deltaRecordCount"]) == (former["id"] + 1, "OVERWRITE", 0)
    assert world.records(document["deltaManifestList"]) == []
    assert live_records(world.store, document["id"]) == live_records(world.store, former["id"])
    assert all(world.store.read(path).data == body for path, body in before.items() if path != "snapshot/LATEST")


def test_the_last_vectors_leave_the_index() -> None:
    world = RowWorld()
    world.append(1, 2)
    world.undo(world.deleted("id = 1"))
    assert (world.rows(), world.vectors()) == ([1, 2], {})
    document = document_of(world.store, world.ids()[-1])
    assert world.records(document["indexManifest"]) == [], "as Paimon writes it"


def test_rows_that_others_deleted_since_stay_deleted() -> None:
    """In the same vector, in another vector of the same index file, and in another file."""
    world, run = scene()
    world.deleted("id IN (4, 13, 22)")
    world.append(31)
    assert world.undo(run).status == "done"
    assert world.rows() == [2, 3, 5, 11, 12, 21, 31]


def test_runs_are_undone_in_any_order() -> None:
    """A vector that got smaller by another undo has had the run's positions all the time."""
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)):
        world = RowWorld()
        world.append(1, 2, 3, 4, 5)
        runs = [world.deleted(f"id = {number}") for number in (1, 2, 3)]
        left = {1, 2, 3}
        for place in order:
            report = world.undo(runs[place])
            assert report.status == "done" and returned(report).rows == 1, order
            left.remove(place + 1)
            assert world.rows() == sorted({1, 2, 3, 4, 5} - left)


def test_a_second_undo_has_nothing_to_do() -> None:
    world, run = scene()
    report = world.undo(run)
    ids = world.ids()
    again = world.undo(run)
    assert (again.status, world.ids()) == ("nothing_to_do", ids)
    assert again.warnings == (f"run {run} was undone before, by run {report.run_id}",)
    assert (returned(again).rows, returned(again).there_already) == (0, 3)


def test_the_list_of_runs_says_which_can_be_undone() -> None:
    from lakesweep.operations.undo.committed import DeletedRows
    from lakesweep.operations.undo.record import load_record

    world, run = scene()
    record = load_record(world.area, run)
    assert isinstance(record, DeletedRows) and record.undone_by is None
    undoing = world.undo(run)
    assert undoing.run_id is not None
    assert load_record(world.area, run).undone_by == undoing.run_id
    refused = world.undo(undoing.run_id)
    assert refused.refusal is not None and refused.refusal.code == "not_undoable"
    assert "--as-latest --snapshot 5" in refused.refusal.message


def test_the_command(tmp_path: Path) -> None:
    """Exit code 4 says that rows are left; `runs` says what can be undone; pypaimon reads what came back."""
    table = DeletingTable(tmp_path)
    table.add("a", range(10))
    table.add("b", range(20, 30))
    place = (table.store.location, "--control", tmp_path / "control-of-cli")
    run = json.loads(
        call("delete-rows", *place, "--where", "id = 3 OR id >= 20", "--catalog-type", "filesystem",
             "--catalog-lock", "--execute", "--json").printed
    )["run_id"]  # fmt: skip
    assert [each["undoable"] for each in call("runs", *place, "--json").document["runs"]] == [True]
    planned, done = call("undo", *place, run), call("undo", *place, run, "--execute")
    assert (planned.exit_code, done.exit_code) == (0, 4)
    assert "back       1 row, in 1 data file" in planned.printed
    assert "left       10 rows of 1 data file (1 left whole)" in done.printed
    assert "rollback TABLE --as-latest --snapshot 2" in done.messages
    assert sorted(row["id"] for row in table.rows_of_pypaimon()) == table.ids() == list(range(10))
    reasons = {each["run_id"]: each["undoable_reason"] for each in call("runs", *place, "--json").document["runs"]}
    assert reasons.pop(run) == "undone" and list(reasons.values()) == ["not_undoable"]


def test_rows_of_a_compacted_file_do_not_come_back() -> None:
    """The rest does; a second call changes nothing, and says the same."""
    world, run = scene()
    names = world.live()
    world.compact(names[1])
    planned = world.undo(run, execute=False)
    report = world.undo(run)
    assert (planned.status, report.status, refusal_of(report)) == ("planned", "partial", "rows_left")
    assert world.rows() == [2, 3, 4, 5, 11, 13, 21, 22]
    found = returned(report)
    assert [(file.name, file.rows, file.why) for file in found.left] == [(names[1], 1, "gone")]
    assert report.refusal is not None and report.refusal.message in planned.warnings
    assert "1 row of 1 data file" in report.refusal.message
    assert "rollback TABLE --as-latest --snapshot 4" in report.refusal.message
    again = world.undo(run)
    assert again.status == "nothing_to_do" and report.refusal.message in again.warnings


def test_rows_of_files_that_left_with_the_run_do_not_come_back() -> None:
    """If no other row is to come back, nothing is committed. A rollback as latest has them, as the sentence says."""
    world = RowWorld()
    world.append(1, 2)
    world.append(3, 4)
    run = world.deleted("id < 3")
    ids = world.ids()
    for execute in (False, True):
        report = world.undo(run, execute=execute)
        assert (report.status, refusal_of(report), world.ids()) == ("refused", "rows_left", ids)
    assert report.refusal is not None and "2 rows of 1 data file" in report.refusal.message
    as_latest(world, 2)
    assert world.rows() == [1, 2, 3, 4]
    again = world.undo(run)
    assert (again.status, returned(again).there_already) == ("nothing_to_do", 2)


def test_rows_of_every_file_are_gone() -> None:
    world, run = scene()
    world.compact(*world.live()[:2])
    before = world.etags()
    report = world.undo(run)
    assert (report.status, refusal_of(report)) == ("refused", "rows_left")
    assert world.etags() == before


@pytest.mark.parametrize("how", ["as latest", "undo"])
def test_rows_that_came_back_and_were_deleted_again_stay_deleted(how: str) -> None:
    """They are deleted by somebody else now."""
    world, run = scene()
    if how == "undo":
        world.undo(run)
    else:
        as_latest(world, 4)
    assert world.rows() == [2, 3, 4, 5, 11, 12, 13, 21, 22]
    world.deleted("id IN (2, 12, 13)")
    before = world.rows()
    report = world.undo(run)
    assert (report.status, world.rows()) == ("nothing_to_do", before), report
    found = returned(report)
    assert [(file.rows, file.why) for file in found.left] == [(1, "unclear")] * 2
    assert found.there_already == 1


def test_a_rollback_as_latest_to_a_version_with_the_deletion() -> None:
    """Others' later deletions come back by it; the run's stays in force, and is undone."""
    world, run = scene()
    world.deleted("id = 4")
    as_latest(world, 5)
    assert world.undo(run).status == "done"
    assert world.rows() == [2, 3, 4, 5, 11, 12, 13, 21, 22]


def test_the_run_was_rolled_back() -> None:
    """Somebody may have committed the same id again, and deleted the same rows."""
    world, run = scene()
    world.run("rollback", snapshot=4, status="done")
    assert refusal_of(world.undo(run)) == "rolled_back"
    world.deleted("id = 2")
    before = world.rows()
    report = world.undo(run)
    assert (report.status, refusal_of(report), world.rows()) == ("refused", "id_reused", before)


def expire(world: RowWorld, retain: int = 1) -> None:
    world.now_ms += 3_600_000
    world.expire(retain)


@pytest.mark.parametrize(("retain", "gone"), [(1, 5), (2, 4)])
def test_the_versions_have_expired(retain: int, gone: int) -> None:
    """Nobody knows any more which rows the run deleted."""
    world, run = scene()
    if retain == 1:
        world.append(31)
    expire(world, retain=1)
    report = world.undo(run)
    assert report.refusal is not None
    assert (report.status, report.refusal.code) == ("refused", "version_gone")
    assert f"snapshot {gone} has expired, and no tag holds it" in report.refusal.message


def tagged() -> tuple[RowWorld, str]:
    """A table whose version before the run, and that of the run, only tags hold."""
    world, run = scene()
    world.run("create-tag", tag="before", snapshot=4, status="done")
    world.run("create-tag", tag="run", snapshot=5, status="done")
    return world, run


def test_tags_hold_the_versions() -> None:
    world, run = tagged()
    world.append(31)
    expire(world)
    assert world.ids() == [6]
    report = world.undo(run)
    assert report.status == "done", report
    assert world.rows() == [2, 3, 4, 5, 11, 12, 13, 21, 22, 31]


def test_snapshots_in_between_have_expired() -> None:
    """Of a vector that was written anew since, nobody can tell whether the rows came back meanwhile."""
    world, run = tagged()
    as_latest(world, 4)
    world.deleted("id IN (2, 3, 12, 13)")
    expire(world)
    before = world.rows()
    report = world.undo(run)
    assert (report.status, refusal_of(report), world.rows()) == ("refused", "rows_left", before)
    assert report.refusal is not None and "nobody can tell" in report.refusal.message
    assert "--as-latest" not in report.refusal.message


def test_a_tag_of_another_version_of_that_id() -> None:
    """The tag is of a snapshot that was rolled back before the run committed."""
    world = RowWorld()
    world.append(1, 2, 3)
    world.append(11, 12)
    world.deleted("id = 1")
    world.run("create-tag", tag="t", snapshot=3, status="done")
    tag = world.store.read("tag/tag-t").data
    world.run("rollback", snapshot=2, status="done")
    world.deleted("id = 11")
    world.store.put("tag/tag-t", tag)
    run = world.deleted("id = 2")
    world.append(21)
    world.table.remove("snapshot/snapshot-1")
    world.table.remove("snapshot/snapshot-2")
    world.table.remove("snapshot/snapshot-3")
    assert refusal_of(world.undo(run)) == "version_gone"


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"uuid": "another"}, "id_reused"), ({"snapshot_id": 4}, "id_reused"), ({"snapshot_id": 9}, "rolled_back")],
)
def test_a_report_of_another_snapshot(fields: dict[str, object], code: str) -> None:
    world, run = scene()
    edit_report(world, run, lambda report: report["commits"]["made"][0].update(fields))
    assert refusal_of(world.undo(run)) == code


@pytest.mark.parametrize(
    "change",
    [
        lambda report: report["commits"]["made"][0].update(uuid=None),
        lambda report: report["commits"]["made"][0].update(snapshot_id=-1),
        lambda report: report["commits"].update(catalog=7),
        lambda report: report.update(branch="../x"),
        lambda report: report.update(branch=None),
    ],
)
def test_a_damaged_report(change: Any) -> None:
    world, run = scene()
    edit_report(world, run, change)
    before = world.etags()
    with pytest.raises(MaintenanceError, match=f"reports/{run}.json"):
        world.undo(run)
    assert world.etags() == before


def edit_report(world: RowWorld, run: str, change: Any) -> None:
    document = json.loads(world.area.read(f"reports/{run}.json").data)
    change(document["report"])
    world.area.put(f"reports/{run}.json", json.dumps(document).encode())


def test_a_damaged_index_file() -> None:
    """Of the run's version, or of the one before."""
    for snapshot_id in (4, 5):
        world, run = scene()
        (row,) = world.records(document_of(world.store, snapshot_id)["indexManifest"])
        world.store.put(f"index/{row['_FILE_NAME']}", b"\1" + bytes(row["_FILE_SIZE"] - 1))
        before = world.etags()
        assert refusal_of(world.undo(run)) == "corrupt_vectors"
        assert world.etags() == before
        world.table.remove(f"index/{row['_FILE_NAME']}")
        assert refusal_of(world.undo(run)) == "corrupt_vectors"


def test_readers_apply_no_vectors_any_more() -> None:
    world, run = scene()
    world.table.alter(options={"deletion-vectors.enabled": "false"})
    assert refusal_of(world.undo(run)) == "no_deletion_vectors"


def test_the_catalog_of_the_run_counts() -> None:
    """Nobody declares it again. A table that commits are refused for now is only planned for."""
    world, run = scene()
    assert returned(world.undo(run, execute=False)).catalog == LOCKED.type
    world.table.alter(options={"metadata.iceberg.storage": "table-location"})
    planned = world.undo(run, execute=False)
    assert planned.status == "planned" and planned.warnings[0].startswith("this cannot be executed")
    assert refusal_of(world.undo(run)) == "needs_engine_callbacks"


@pytest.mark.parametrize("seed", range(8))
def test_random_histories(seed: int) -> None:
    """Appends, deletions, compactions, overwrites and undos against a model of who deleted each row."""
    random_ = random.Random(seed)
    world, numbers = RowWorld(), iter(range(1, 10_000))
    files: dict[str, dict[int, int | None]] = {}
    """File -> row -> the deletion that hides it."""
    runs: list[tuple[str, set[int]]] = []
    undone: set[int] = set()

    def visible() -> list[int]:
        return sorted(row for rows in files.values() for row, hidden in rows.items() if hidden is None)

    def append() -> None:
        ids = [next(numbers) for _ in range(random_.randint(1, 8))]
        files[world.append(*ids, dt=random_.choice("de"))] = dict.fromkeys(ids)

    def delete() -> None:
        seen = visible()
        chosen = set(random_.sample(seen, random_.randint(1, min(5, len(seen)))))
        runs.append((world.deleted(f"id IN ({', '.join(map(str, chosen))})"), chosen))
        for name, rows in list(files.items()):
            rows.update({row: len(runs) - 1 for row in chosen & rows.keys()})
            if chosen & rows.keys() and None not in rows.values():
                del files[name]

    def compact() -> None:
        names = random_.sample(sorted(files), 1)
        left = [row for row, hidden in files[names[0]].items() if hidden is None]
        del files[names[0]]
        files[world.compact(*names)] = dict.fromkeys(left)

    def undo() -> None:
        place = random_.randrange(len(runs))
        run, chosen = runs[place]
        back = {row for rows in files.values() for row, hidden in rows.items() if hidden == place}
        there = chosen.intersection(visible())
        left = chosen - back - there  # in a file that is gone, or deleted again by a later run
        report = world.undo(run)
        expected = "partial" if left else "done"
        if not back:
            expected = "nothing_to_do" if there or place in undone else "refused"
        assert report.status == expected, report
        if back:
            undone.add(place)
        for rows in files.values():
            rows.update(dict.fromkeys(back & rows.keys()))

    append()
    for _ in range(14):
        acts = [append, delete] if visible() else [append]
        acts += [undo, undo] if runs else []
        acts += [compact] if files else []
        random_.choice(acts)()
        assert world.rows() == visible()


def test_an_index_beside_the_data() -> None:
    """New index files lie there, too."""
    world = RowWorld(options={"index-file-in-data-file-dir": "true"})
    world.append(1, 2, 3)
    world.deleted("id = 1")
    report = world.undo(world.deleted("id = 2"))
    assert (report.status, returned(report).written_files) == ("done", 1)
    assert not world.keys("index/")
    assert world.rows() == [2, 3]


def test_the_branch_of_the_run() -> None:
    """The call need not name it. Main, which has the same files, keeps its rows."""
    world = RowWorld()
    world.append(1, 2, 3)
    world.run("create-tag", tag="t", status="done")
    world.run("create-branch", branch="b", tag="t", status="done")
    world.branch = "b"
    run = world.deleted("id = 1")
    world.branch = "main"
    world.deleted("id = 2")
    report = world.undo(run)
    assert (report.status, report.branch) == ("done", "b")
    assert world.rows() == [1, 3]
    document = document_of(world.store, world.ids("branch/branch-b/snapshot")[-1], "b")
    assert (document["commitKind"], world.records(document["indexManifest"])) == ("OVERWRITE", [])
