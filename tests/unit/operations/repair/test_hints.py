"""`repair-hints`: hints that say something wrong are corrected, each only while it is the one that was seen."""

import json
from collections.abc import Callable, Iterator

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.operations.inspect.check.table import hint_findings
from lakesweep.operations.repair.hints import Harm, Hint, wrong_hints
from lakesweep.storage.store import DeleteRequest, delete_all
from lakesweep.table.discover import discover
from tests.support.commit_scene import Acting
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.unit.operations.repair.repair_world import RepairWorld, refusal_of


@pytest.mark.parametrize(
    ("path", "value", "ids", "right", "harm"),
    [
        ("snapshot/LATEST", 3, [1, 2, 3], None, None),
        ("snapshot/LATEST", 2, [1, 2, 3], 3, "slow"),
        ("snapshot/LATEST", None, [1, 2, 3], 3, "slow"),
        ("snapshot/LATEST", 4, [5, 6], 6, "slow"),
        ("snapshot/LATEST", 3, [5, 6], 6, "readers_fail"),
        ("snapshot/LATEST", 99, [5, 6], 6, "readers_fail"),
        ("snapshot/LATEST", 5, [4, 5, 7, 8], 8, "hides_newest"),
        ("snapshot/LATEST", 7, [7], None, None),
        ("snapshot/EARLIEST", 1, [1, 2, 3], None, None),
        ("snapshot/EARLIEST", 2, [1, 2, 3], 1, "hides_oldest"),
        ("snapshot/EARLIEST", 7, [1, 2, 3], 1, "slow"),
        ("snapshot/EARLIEST", 1, [3, 4], 3, "slow"),
        ("snapshot/EARLIEST", None, [3, 4], 3, "slow"),
        ("snapshot/EARLIEST", 7, [1, 2, 7, 8], None, None),
        ("snapshot/EARLIEST", 8, [1, 2, 7, 8], 1, "hides_oldest"),
        ("snapshot/LATEST", 9, [], None, None),
        ("changelog/LATEST", None, [], None, None),
        ("changelog/LATEST", 2, [1, 2, 3], 3, "slow"),
        ("changelog/EARLIEST", 1, [2, 3], 2, "slow"),
    ],
)
def test_what_a_hint_should_say(
    path: str, value: int | None, ids: list[int], right: int | None, harm: Harm | None
) -> None:
    found = list(wrong_hints([Hint(path, value, "e")], {path.partition("/")[0]: ids}))
    assert [(each.right, each.harm) for each in found] == ([] if right is None else [(right, harm)])
    assert [each.is_ahead for each in found] == ([] if right is None else [value == 99])


def hinted(latest: bytes = b"3", earliest: bytes = b"1") -> RepairWorld:
    world = RepairWorld()
    world.fill("A", "B", "C")
    world.store.put("snapshot/LATEST", latest)
    world.store.put("snapshot/EARLIEST", earliest)
    world.now_ms += 3_600_000
    return world


def hints(world: RepairWorld) -> dict[str, bytes]:
    return {name: world.store.read(f"snapshot/{name}").data for name in ("LATEST", "EARLIEST")}


def test_right_hints_are_left_alone() -> None:
    world = hinted()
    before = world.etags()
    assert world.run("repair-hints").status == "nothing_to_do"
    assert world.etags() == before


def test_a_missing_hint_stays_missing() -> None:
    world = hinted()
    world.store.delete(delete_all(["snapshot/LATEST", "snapshot/EARLIEST"]))
    assert world.run("repair-hints").status == "nothing_to_do"
    assert not {"snapshot/LATEST", "snapshot/EARLIEST"} & world.keys()


@pytest.mark.parametrize("latest", [b"2", b"0", b"-1", b"", b"garbage", b"\xff" * 40])
@pytest.mark.parametrize("earliest", [b"2", b"77", b"x"])
def test_wrong_hints_are_corrected_and_nothing_else(latest: bytes, earliest: bytes) -> None:
    world = hinted(latest, earliest)
    before = world.bodies()
    planned = world.run("repair-hints", execute=False)
    assert planned.status == "planned" and world.bodies() == before
    document = json.loads(json.dumps(planned.to_json()))
    assert [(each["path"], each["right"]) for each in document["findings"]["hints"]] == [
        ("snapshot/EARLIEST", 1),
        ("snapshot/LATEST", 3),
    ]
    assert world.run("repair-hints").status == "done"
    assert world.bodies() == before | {"snapshot/LATEST": b"3", "snapshot/EARLIEST": b"1"}
    assert world.run("repair-hints").status == "nothing_to_do"


def test_hints_of_a_branch_and_of_changelogs() -> None:
    world = hinted()
    world.table.tag("t", snapshot=2)
    branch = world.table.branch("b", from_tag="t")
    branch.commit("+B1", partition=("x",))
    branch.hint("LATEST", 2)
    world.table.changelog_document(1)
    world.table.hint("LATEST", 5, folder="changelog")
    world.now_ms += 3_600_000
    assert world.run("repair-hints", on="b").status == "done"
    assert world.store.read("branch/branch-b/snapshot/LATEST").data == b"3"
    assert confirmed(world).status == "done"
    assert world.store.read("changelog/LATEST").data == b"1"


def confirmed(world: RepairWorld) -> RunReport:
    """Run the repair, which is refused, and confirm its plan."""
    report = world.run("repair-hints")
    assert refusal_of(report) == "confirmation_needed" and report.plan is not None
    plan_id = report.plan.header.plan_id
    assert refusal_of(world.maintainer().execute(plan_id)) == "confirmation_needed"
    return world.maintainer().execute(plan_id, confirm=plan_id)


def test_a_latest_above_the_newest_snapshot_may_be_all_that_is_left_of_it() -> None:
    world = hinted(b"9")
    planned = world.run("repair-hints", execute=False)
    assert any("names 9, but the newest is 3" in each for each in planned.all_warnings())
    assert hints(world)["LATEST"] == b"9"
    assert confirmed(world).status == "done"
    assert hints(world)["LATEST"] == b"3"


def test_a_loss_after_the_plan_of_a_hint_is_not_confirmed() -> None:
    """The newest snapshot that the plan saw is gone, too."""
    world = hinted(b"9")
    report = world.run("repair-hints")
    assert report.plan is not None
    world.store.delete(delete_all(["snapshot/snapshot-3"]))
    plan_id = report.plan.header.plan_id
    assert world.maintainer().execute(plan_id, confirm=plan_id).status == "stale"
    assert hints(world)["LATEST"] == b"9"


def test_a_snapshot_that_only_the_listing_lacks_is_not_lost() -> None:
    """The hint is right, and the listing is late."""
    world = hinted()

    class Late(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            found = super()._run(name, call)
            if name.startswith("table list") and isinstance(found, list):
                return [each for each in found if each.key != "snapshot/snapshot-3"]
            return found

    for execute in (False, True):
        report = world.maintainer(Late()).run("repair-hints", execute=execute)
        assert refusal_of(report) == "existence_unknown"
    assert hints(world)["LATEST"] == b"3"


def test_an_earliest_after_a_gap_stays() -> None:
    """Paimon has a procedure that writes it."""
    world = hinted(earliest=b"3")
    world.store.delete(delete_all(["snapshot/snapshot-2"]))
    before = world.etags()
    report = world.run("repair-hints")
    assert report.status == "nothing_to_do"
    assert any("after a gap" in each for each in report.all_warnings())
    assert world.etags() == before


def test_a_branch_that_lost_its_snapshots_needs_more_than_a_hint() -> None:
    world = hinted()
    world.store.delete(delete_all([f"snapshot/snapshot-{number}" for number in (1, 2, 3)]))
    assert world.refusal("repair-hints")[0] == "not_repairable"


PUT = "table put snapshot/LATEST"


def test_a_commit_right_before_the_hint_is_written_ends_the_plan() -> None:
    world = hinted(b"2")

    def commit() -> None:
        world.table.commit("+D", partition=("d",))
        world.table.hint("LATEST", 4)

    report = world.maintainer(Acting(PUT, commit)).run("repair-hints")
    assert report.status == "stale"
    assert hints(world)["LATEST"] == b"4"
    assert world.run("repair-hints").status == "nothing_to_do"


def test_a_rollback_right_before_the_hint_is_written_ends_the_plan() -> None:
    """It writes LATEST first, and then deletes the newer snapshots."""
    world = hinted(b"2")
    report = world.maintainer(Acting(PUT, lambda: world.table.rollback(1))).run("repair-hints")
    assert report.status == "stale"
    assert hints(world)["LATEST"] == b"1"
    assert world.ids() == [1]


def test_a_rollback_that_has_begun_is_waited_for() -> None:
    """LATEST names the target already, and the newer snapshots are still there: it looks as if the hint lagged."""
    world = hinted()
    world.store.put("snapshot/LATEST", b"2")
    deleted: list[object] = []

    def steps() -> Iterator[None]:
        yield
        deleted.append(world.store.delete(delete_all(["snapshot/snapshot-3"])))

    world.steps = steps()
    report = world.run("repair-hints")
    assert deleted
    assert report.status == "stale"
    assert hints(world)["LATEST"] == b"2"


def calls_of_a_repair() -> list[str]:
    switch = Switch()
    hinted(b"2", b"3").maintainer(switch).run("repair-hints")
    return switch.calls


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", range(1, len(calls_of_a_repair()) + 1))
def test_any_request_may_be_the_last(at: int, mode: str) -> None:
    world = hinted(b"2", b"3")
    before = world.bodies()
    try:
        world.maintainer(Switch(at, mode)).run("repair-hints")
    except (MaintenanceError, ProcessDeathError):
        pass
    world.wait()
    world.run("repair-hints")
    assert world.bodies() == before | {"snapshot/LATEST": b"3", "snapshot/EARLIEST": b"1"}


def test_a_stored_plan_writes_no_other_document() -> None:
    world = hinted(b"2")
    planned = world.run("repair-hints", execute=False)
    assert planned.plan is not None
    (action,) = planned.plan.actions
    assert (action.path, action.kind) == ("snapshot/LATEST", "hint")
    assert world.maintainer().execute(planned.plan.header.plan_id).status == "done"
    assert hints(world)["LATEST"] == b"3"


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_commit_after_the_listing_is_no_finding(is_lost: bool) -> None:
    """`check` and `overview` read hints later than they list snapshots. Only a snapshot that is not there is lost."""
    store = MemoryStore()
    table = TableBuilder(store)
    table.commit("+A")
    store.put("snapshot/LATEST", b"1")
    listed = discover(store).branches["main"]
    table.commit("+B")
    store.put("snapshot/LATEST", b"2")
    if is_lost:
        store.delete([DeleteRequest("snapshot/snapshot-2")])
    found = [each.says for _, each in hint_findings(store, listed, "t")]
    assert [says.partition(";")[0] for says in found] == (["snapshot/LATEST says 2"] if is_lost else [])
