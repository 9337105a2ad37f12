"""`erase`: no file of the newest version has the rows then, and the report names every root that has them."""

import json
from dataclasses import replace

import pytest

from lakesweep.control.erasures import erasure_ids
from lakesweep.control.reports import load_report
from lakesweep.errors import LeaseHeldError, UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from lakesweep.storage.store import delete_all
from tests.support.acting import Acting
from tests.support.faulty_store import DyingSwitch, ProcessDeathError, Switch
from tests.unit.operations.erasure.erasing import CATALOG, MARK, PERSON, WHERE, Erasing, erasure_of, found, there

_SCENE: list[Erasing] = []


@pytest.fixture
def world() -> Erasing:
    if not _SCENE:
        _SCENE.append(Erasing())
    copied = _SCENE[0].copy()
    assert isinstance(copied, Erasing)
    return copied


def operations(report: RunReport) -> list[tuple[str, str]]:
    return [(step.operation, step.status) for step in report.steps or ()]


def test_the_report_names_exactly_the_roots_that_have_the_row(world: Erasing) -> None:
    plan = world.erase(execute=False)
    assert (plan.status, found(plan).rows, there(plan)) == ("planned", 2, {1, 2, 3})
    assert len(world.ids()) == 3 and not world.keys("erasures/"), "a plan changes nothing"
    report = world.erase()
    assert operations(report) == [("delete-rows", "done"), ("compact", "done"), ("compact-manifest", "done")]
    assert world.rows() == [1, 2, 3, 4] and len(world.ids()) == 6
    assert there(report) == world.showing() == {1, 2, 3, 4}
    assert report.status == "partial" and report.refusal is not None and report.refusal.code == "rows_remain"
    assert report.run_id == erasure_of(report) and report.run_id in report.refusal.message
    assert load_report(world.area, report.run_id)["report"]["commits"]["there"] == found(report).to_json()["there"]
    assert not any(key.startswith("control/") for key in world.marked())


def test_after_finish_no_byte_has_the_row(world: Erasing) -> None:
    erasure = erasure_of(world.erase())
    assert world.finish(erasure).status == "partial", "the snapshots are too young to expire"
    world.later()
    plan = world.finish(erasure, execute=False)
    assert (plan.status, operations(plan)) == ("planned", [("expire-snapshots", "planned")])
    report = world.finish(erasure)
    assert operations(report) == [("expire-snapshots", "done")]
    assert (report.status, world.marked()) == ("done", set()), found(report).places
    proof = world.proof(erasure)
    assert (proof["state"], proof["rows"], len(proof["files"])) == ("erased", 2, 2)
    did = ["delete-rows", "compact", "compact-manifest", "expire-snapshots"]
    assert [each["operation"] for each in proof["changes"]] == did
    assert MARK not in str(world.proof(erasure)) and proof["there"] == []
    assert world.finish(erasure).status == "done"


def test_a_tag_is_named_and_kept(world: Erasing) -> None:
    world.run("create-tag", tag="month-end", snapshot=2)
    erasure = erasure_of(world.erase())
    world.later()
    report = world.finish(erasure)
    (place,) = (each for each in found(report).places if (each.kind, each.state) == ("tag", "there"))
    assert report.status == "partial" and (place.words, place.ends) == ("tag month-end", "delete-tag")
    assert [each.ends for each in found(report).places if (each.kind, each.state) == ("data_file", "there")] == [
        "delete-tag"
    ]
    world.run("delete-tag", tag="month-end")
    assert world.finish(erasure).status == "done" and world.marked() == set()


@pytest.mark.parametrize("part", [1, 2, 3, 4, 5])
def test_a_run_that_dies_between_two_steps_is_continued(world: Erasing, part: int) -> None:
    """Each step ends with a part of the record; the process dies right before it."""
    with pytest.raises(ProcessDeathError):
        world.erase(DyingSwitch(lambda name: name.endswith(f"/{part:05}.json") and " put " in name))
    world.wait()
    if part == 1:
        assert len(world.ids()) == 3, "nothing is changed before the record"
        report = world.erase()
    else:
        (erasure,) = {key.split("/")[3] for key in (each.key for each in world.control.list("")) if "/erasures/" in key}
        refusal = world.finish(erasure).refusal
        assert part == 5 or (refusal is not None and refusal.code == "erasure_unfinished")
        report = world.finish(erasure, where=WHERE)
    assert world.rows() == [1, 2, 3, 4] and there(report) == world.showing()
    proof = world.proof(erasure_of(report))
    made = [each for change in proof["changes"] for each in change["snapshots"]]
    assert (proof["state"], made) == ("rows_remain", [4, 5, 6]), "no commit is missing in the proof"
    again = world.erase()
    assert (again.status, len(world.ids())) == ("partial", 6), "a repeat finds nothing to commit"


@pytest.mark.parametrize(("what", "mode"), [("/reports/", "death"), ("snapshot/snapshot-4", "death_after")])
def test_a_run_that_dies_after_a_commit_without_a_report(world: Erasing, what: str, mode: str) -> None:
    """The lease knows of the commit."""
    with pytest.raises(ProcessDeathError):
        world.erase(DyingSwitch(lambda name: what in name and " put " in name, mode))
    world.wait()
    (erasure,) = {key.split("/")[3] for key in (each.key for each in world.control.list("")) if "/erasures/" in key}
    assert world.proof(erasure)["state"] == "unfinished" and world.ids()[-1] == 4
    report = world.finish(erasure, where=WHERE)
    changes = [(each["operation"], each["status"], each["snapshots"]) for each in world.proof(erasure)["changes"]]
    assert changes[0] == ("delete-rows", "partial", [4]) and [each[2] for each in changes[1:]] == [[], [5], [6]]
    assert there(report) == world.showing() and world.rows() == [1, 2, 3, 4]


def test_a_report_that_cannot_be_written(world: Erasing) -> None:
    """The commit is made, and the record says so."""
    switch = Switch()
    world.copy().erase(switch)
    at = next(number for number, name in enumerate(switch.calls, 1) if " put " in name and name.endswith("-4.json"))
    report = world.erase(Switch(at, "before"))
    assert (report.status, report.refusal and report.refusal.code) == ("partial", "broken")
    assert [each["snapshots"] for each in world.proof(erasure_of(report))["changes"]] == [[4], [5], [6]]
    again = world.finish(erasure_of(report), where=WHERE)
    assert there(again) == world.showing() and len(world.ids()) == 6


@pytest.mark.parametrize("part", [2, 3, 4])
def test_a_writer_brings_the_row_back_between_two_steps(world: Erasing, part: int) -> None:
    """It is the writer's row then, as if it had come later; and the report says that the newest version has it."""
    switch = Acting(lambda name: name.endswith(f"/{part:05}.json"), lambda: world.append(PERSON, 9))
    report = world.erase(switch)
    assert switch.has_acted and report.status == "partial"
    assert there(report) == world.showing()
    assert PERSON in world.rows() and there(report) >= {world.ids()[-1]}
    again = world.finish(erasure_of(report), where=WHERE)
    assert PERSON not in world.rows() and there(again) == world.showing()


def test_a_copy_that_a_compaction_made_meanwhile_is_erased_too(world: Erasing) -> None:
    """After the search, before the rows are deleted."""
    report = world.erase(Acting(lambda name: name.endswith("/00001.json"), lambda: world.compact(*world.live()[:2])))
    assert world.rows() == [1, 2, 3, 4] and there(report) == world.showing()
    world.later()
    assert world.finish(erasure_of(report)).status == "done" and world.marked() == set()


def test_files_with_rows_that_were_deleted_before(world: Erasing) -> None:
    """Vectors of an earlier run hide them, and the files still have them."""
    world.deleted(WHERE)
    report = world.erase()
    assert operations(report)[:2] == [("delete-rows", "nothing_to_do"), ("compact", "done")]
    assert there(report) == world.showing() == {1, 2, 3, 4}


def test_a_table_without_vectors() -> None:
    """Its rows are deleted by rewriting data files, so no file is left to rewrite."""
    world = Erasing(options={"deletion-vectors.enabled": "false"})
    report = world.erase()
    steps = [("delete-rows", "done"), ("compact", "nothing_to_do"), ("compact-manifest", "done")]
    assert operations(report) == steps and world.rows() == [1, 2, 3, 4]
    assert there(report) == world.showing() == {1, 2, 3}
    world.later()
    assert (world.finish(erasure_of(report)).status, world.marked()) == ("done", set())


def test_old_versions_of_a_bucket_remain() -> None:
    """No command of Lakesweep ends them, so the erasure never counts as done."""
    world = Erasing(versioned=True)
    erasure = erasure_of(world.erase())
    world.later()
    report = world.finish(erasure)
    old = [each for each in found(report).places if (each.kind, each.state) == ("noncurrent", "there")]
    assert report.status == "partial" and old and there(report) == set() and world.marked() == set()
    assert world.proof(erasure)["state"] == "rows_remain"


def test_a_branch_is_named_and_left_alone(world: Erasing) -> None:
    world.run("create-tag", tag="base", snapshot=2)
    world.run("create-branch", branch="b", tag="base")
    report = world.erase()
    said = [each.words for each in found(report).places if each.state == "there" and each.kind == "snapshot"]
    assert any("of branch b" in words for words in said), said
    before = world.keys("branch/")
    world.later()
    assert world.finish(erasure_of(report)).status == "partial" and world.keys("branch/") >= before
    assert world.maintainer(branch="b").run("erase", execute=True, where=WHERE, **CATALOG).status == "partial"
    assert PERSON not in world.rows()


def test_nothing_to_erase(world: Erasing) -> None:
    before = {each.key for each in world.control.list("")}
    report = world.erase(where="id = 4711")
    assert (report.status, found(report).erasure, len(world.ids())) == ("nothing_to_do", None, 3)
    assert {each.key for each in world.control.list("")} == before


def test_calls_that_are_refused(world: Erasing) -> None:
    erasure = erasure_of(world.erase())
    wrong = {"finish": erasure, **CATALOG}
    assert world.refusal("erase", where="true", **CATALOG)[0] == "always_true"
    assert world.refusal("erase", **CATALOG)[0] == "bad_argument", "no condition"
    assert world.refusal("erase", where="nobody = 1", **CATALOG)[0] == "bad_where"
    assert world.refusal("erase", where=WHERE)[0] == "catalog_not_declared"
    assert world.refusal("erase", finish="20260101T000000Z-00000000")[0] == "no_such_run"
    assert world.refusal("erase", finish="../x")[0] == "no_such_run"
    assert world.refusal("erase", **wrong, where="dt = 'd'")[0] == "other_condition"
    world.run("create-branch", branch="b", snapshot=1)
    with pytest.raises(UsageError):
        world.maintainer(branch="c").run("erase", execute=True)
    assert world.run("erase", on="b", **wrong).refusal.code == "plan_of_another_branch"


def test_a_damaged_record(world: Erasing) -> None:
    erasure = erasure_of(world.erase())
    name = f"erasures/{erasure}/00003.json"
    body = world.area.read(name).data
    for data in (body.replace(b'"done"', b'"gone"'), body.replace(b'"at_ms": ', b'"at_ms": -'), b"{", b"", b"[]"):
        world.area.put(name, data)
        assert world.refusal("erase", finish=erasure)[0] == "damaged", data
    world.area.put(name, body.replace(b"memory://", b"memory://other"))
    assert world.refusal("erase", finish=erasure)[0] == "plan_of_another_table"
    world.control.delete(delete_all([world.area.prefix + name]))
    assert world.refusal("erase", finish=erasure)[0] == "damaged"


def test_two_runs_that_continue_one_erasure(world: Erasing) -> None:
    """The second one stops at the part that the first has written."""
    erasure = erasure_of(world.erase())
    reports: list[RunReport] = []
    switch = Acting(lambda name: name.endswith("/00006.json"), lambda: reports.append(world.finish(erasure)))
    late = world.maintainer(switch).run("erase", execute=True, finish=erasure)
    assert reports[0].status == "partial" and late.refusal is not None
    assert late.refusal.code == "erasure_contended"


def test_another_maintainer_at_work(world: Erasing) -> None:
    def hold() -> None:
        document = b'{"run_id": "other", "token": 1, "expires_at_ms": %d}' % (world.now_ms + 60_000)
        world.area.put("lease.json", document)

    hold()
    with pytest.raises(LeaseHeldError):
        world.erase(options={"commit.timeout": "1 s"})
    assert len(world.ids()) == 3


def test_a_table_without_deletion_vectors(world: Erasing) -> None:
    """The deletion itself rewrites the files, so nothing is left to compact."""
    document = json.loads(world.store.read("schema/schema-0").data)
    document["options"]["deletion-vectors.enabled"] = "false"
    world.store.put("schema/schema-0", json.dumps(document).encode())
    report = world.erase()
    assert operations(report)[:2] == [("delete-rows", "done"), ("compact", "nothing_to_do")]
    assert world.rows() == [1, 2, 3, 4] and there(report) == world.showing() == {1, 2, 3}
    erasure = erasure_of(report)
    world.later()
    report = world.finish(erasure)
    assert (report.status, world.marked()) == ("done", set()), found(report).places
    assert world.rows() == [1, 2, 3, 4, 5]


def test_a_run_id_of_another_erasure(world: Erasing) -> None:
    """The report of an earlier attempt would be one of rows that nobody has erased."""

    def attempt(where: str) -> RunReport:
        table = replace(world.maintainer().table, run_id="job")
        return run_operation(table, "erase", {"where": where, **CATALOG}, execute=True)

    assert attempt(WHERE).status == "partial"
    refused = attempt("dt = 'e'").refusal
    assert refused is not None and refused.code == "other_condition"
    assert attempt(WHERE).status == "partial"


def test_a_damaged_record_of_another_erasure(world: Erasing) -> None:
    """It is told of, and keeps nobody from erasing other rows."""
    erasure = erasure_of(world.erase())
    world.area.put(f"erasures/{erasure}/00002.json", b"{")
    for execute, status in ((False, "planned"), (True, "partial")):
        report = world.erase(where="id = 4", execute=execute)
        assert report.status == status and any(erasure in each for each in report.warnings)
    assert 4 not in world.rows()


@pytest.mark.parametrize("other", ["id IN (1, 3)", "id = 2", "id = 4"])
def test_another_value_of_the_condition(world: Erasing, other: str) -> None:
    """The record has no value, but the rows of another one are at other places of the same files."""
    with pytest.raises(ProcessDeathError):
        world.erase(DyingSwitch(lambda name: name.startswith("table put")))
    world.wait()
    (erasure,) = erasure_ids(world.area)
    for execute in (False, True):
        refusal = world.finish(erasure, where=other, execute=execute).refusal
        assert refusal is not None and refusal.code == "other_condition"
    assert world.rows() == [1, 2, 3, 4, PERSON, PERSON]
    assert world.finish(erasure, where=WHERE).status == "partial" and world.rows() == [1, 2, 3, 4]
