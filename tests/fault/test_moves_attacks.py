"""Branches that move, attacked: what a run that died leaves, and who finds it."""

from contextlib import suppress
from dataclasses import replace

import pytest

from lakesweep.model.plan import Plan
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.operations.branches.rollback import RollbackArguments, plan_rollback
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.run import plan_and_execute
from lakesweep.runs.session import Table
from tests.support.every import EVERY
from tests.support.fast_forwards import Scene, ahead, documents, engine_end, tagged
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.reader import read_all
from tests.support.table_builder import TableBuilder
from tests.support.world import World

START_MS = 1_800_000_000_000


class Branched(World):
    """A table with a branch `b`."""

    def __init__(self, scene: Scene = ahead) -> None:
        super().__init__()
        scene(self.table)
        self.end = engine_end(documents(self.store))


@pytest.mark.parametrize("mode", ["death", "death_after"])
def test_main_that_only_goes_on_gets_there_wherever_the_run_dies(mode: str) -> None:
    """Nothing has to go before, so a plan of which nothing is done looks like one whose end was taken away."""
    probe = Switch()
    assert Branched().maintainer(probe).run("fast-forward", branch="b").status == "done"
    begun = next(n for n, call in enumerate(probe.calls, 1) if call.startswith("control put") and "lease" in call)
    for number in range(begun + (mode == "death"), len(probe.calls) + 1, EVERY):
        lake = Branched()
        with suppress(ProcessDeathError):
            lake.maintainer(Switch(number, mode)).run("fast-forward", branch="b")
        lake.now_ms += LEASE_MS + DELETE_MARGIN_MS
        report = lake.maintainer().run("clear-consumers", including_consumers="nobody")
        assert report.status in ("done", "nothing_to_do"), (number, probe.calls[number - 1], report.refusal)
        assert documents(lake.store) == lake.end, (number, probe.calls[number - 1])


def test_who_commits_up_to_the_last_id_has_not_made_main_what_the_branch_is() -> None:
    """Main was on its way to snapshot 8 when the run died; others have committed 6, 7 and 8 before the next one."""
    lake = Branched(tagged)
    before = documents(lake.store)
    probe = Switch()
    planner = Branched(tagged)
    assert planner.maintainer(probe).run("fast-forward", branch="b").status == "done"
    deletes = [number for number, call in enumerate(probe.calls, 1) if call == "table delete 1"]
    gone = [path for path in before if path.startswith("tag/tag-") and not planner.table.exists(path)]
    with suppress(ProcessDeathError):
        lake.maintainer(Switch(deletes[-1], "death_after")).run("fast-forward", branch="b")
    assert not any(lake.table.exists(path) for path in gone)
    for number in range(6, 11):
        del lake.table._branch.roots["snapshot"][number]
    for number in (6, 7, 8):
        lake.table.commit(f"+C{number}")
    committed = documents(lake.store)
    lake.now_ms += LEASE_MS + DELETE_MARGIN_MS
    report = lake.maintainer().run("clear-consumers", including_consumers="nobody")
    assert "stale" in (report.status, *" ".join(report.warnings).split()), report
    after = documents(lake.store)
    assert {path: after[path] for path in gone} == {path: before[path] for path in gone}
    assert all(after[f"snapshot/snapshot-{number}"] == committed[f"snapshot/snapshot-{number}"] for number in (6, 7, 8))


def test_a_branch_that_was_made_meanwhile_is_named() -> None:
    """The plan was stored before; it takes the snapshot, and the branch keeps it."""
    lake = Branched(tagged)
    planned = lake.maintainer().run("rollback", execute=False, snapshot=8).plan
    assert planned is not None
    assert lake.maintainer().run("create-branch", branch="late", snapshot=10).status == "done"
    assert lake.maintainer().run("create-branch", branch="early", snapshot=8).status == "done"
    report = lake.maintainer().execute(planned.header.plan_id)
    assert report.status == "done"
    named = [warning for warning in report.warnings if "made meanwhile" in warning]
    assert named == ["branch late was made meanwhile; it is kept, and so are its files"]
    read_all(lake.store)


def five_and_a_tag(table: TableBuilder) -> None:
    """Each snapshot replaces the file of the one before; a tag holds the third."""
    for number in range(1, 7):
        table.commit(f"+A{number}", *([f"-A{number - 1}"] if number > 1 else []))
    table.tag("third", snapshot=3)
    table.branch("b").commit("+B")


def test_what_others_have_expired_does_not_return_around_a_tag() -> None:
    """Someone without our lease expires all but the newest; of what went the tag keeps one snapshot whole."""
    probe = Switch()
    assert Branched(five_and_a_tag).maintainer(probe).run("rollback", snapshot=1, lose_tag=["third"]).status == "done"
    begun = next(n for n, call in enumerate(probe.calls, 1) if call.startswith("control put") and "lease" in call)
    lake = Branched(five_and_a_tag)
    with suppress(ProcessDeathError):
        lake.maintainer(Switch(begun, "death_after")).run("rollback", snapshot=1, lose_tag=["third"])
    assert Maintainer(lake.store).expire().status == "done"
    lake.now_ms += LEASE_MS + DELETE_MARGIN_MS
    lake.maintainer().run("clear-consumers", including_consumers="nobody")
    read_all(lake.store)
    assert [path for path in documents(lake.store) if path.startswith("snapshot/snapshot-")] == ["snapshot/snapshot-6"]


def with_earliest(table: TableBuilder) -> None:
    """Main is behind the branch, whose EARLIEST main is to have in the end."""
    ahead(table)
    table.on_branch("b").hint("EARLIEST", 5)


def test_a_hint_of_others_does_not_tell_that_all_is_done() -> None:
    """An expiry writes the EARLIEST that the plan was to write at its very end."""
    probe = Switch()
    assert Branched(with_earliest).maintainer(probe).run("fast-forward", branch="b").status == "done"
    begun = next(n for n, call in enumerate(probe.calls, 1) if call.startswith("control put") and "lease" in call)
    lake = Branched(with_earliest)
    with suppress(ProcessDeathError):
        lake.maintainer(Switch(begun, "death_after")).run("fast-forward", branch="b")
    assert Maintainer(lake.store).expire().status == "done"
    assert documents(lake.store)["snapshot/EARLIEST"] == b"5"
    lake.now_ms += LEASE_MS + DELETE_MARGIN_MS
    assert lake.maintainer().run("clear-consumers", including_consumers="nobody").status == "done"
    after = documents(lake.store)
    assert [path for path in lake.end if path.startswith("snapshot/") and path not in after] == [
        f"snapshot/snapshot-{number}" for number in (1, 2, 3, 4)
    ]
    read_all(lake.store)


def parted(table: TableBuilder) -> None:
    """Main has 1 to 5; the branch was made at 3 and has gone on to 6."""
    for number in range(1, 4):
        table.commit(f"+A{number}", *([f"-A{number - 1}"] if number > 1 else []))
    table.tag("made", snapshot=3)
    branch = table.branch("b", "made")
    for number in (4, 5):
        table.commit(f"+A{number}", f"-A{number - 1}")
    for number in (4, 5, 6):
        branch.commit(f"+B{number}", *([f"-B{number - 1}"] if number > 4 else []))


def test_what_the_branch_has_lost_meanwhile_does_not_stay_in_main() -> None:
    """Someone without our lease expires main and the branch: of what comes only the newest is whole."""
    probe = Switch()
    assert Branched(parted).maintainer(probe).run("fast-forward", branch="b").status == "done"
    begun = next(n for n, call in enumerate(probe.calls, 1) if call.startswith("control put") and "lease" in call)
    lake = Branched(parted)
    with suppress(ProcessDeathError):
        lake.maintainer(Switch(begun, "death_after")).run("fast-forward", branch="b")
    for branch in ("b", "main"):
        assert Maintainer(lake.store, branch).expire().status == "done"
    lake.now_ms += LEASE_MS + DELETE_MARGIN_MS
    lake.maintainer().run("clear-consumers", including_consumers="nobody")
    read_all(lake.store)
    assert [path for path in documents(lake.store) if path.startswith("snapshot/snapshot-")] == ["snapshot/snapshot-5"]


def test_a_plan_that_nobody_could_finish_does_not_begin() -> None:
    """Whoever loads a plan refuses one in another order; so does whoever has just made it."""
    lake = Branched(tagged)
    before = documents(lake.store)

    def planner(table: Table) -> Plan:
        plan = plan_rollback(table, RollbackArguments(Version(snapshot_id=8)))
        return replace(plan, actions=plan.actions[::-1])

    report = plan_and_execute(lake.maintainer().table, "rollback", planner)
    assert report.refusal is not None and report.refusal.code == "forbidden_action", report
    assert documents(lake.store) == before
    assert lake.maintainer().run("rollback", snapshot=8).status == "done"
