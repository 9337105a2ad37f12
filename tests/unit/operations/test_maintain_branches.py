"""All branches of a table in one call: each by its own options, and none at the expense of another."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import LeaseHeldError, StorageError, UsageError
from lakesweep.model.report import RunReport
from lakesweep.model.roots import branch_dir
from lakesweep.operations.maintenance.all_branches import maintain_all_branches
from lakesweep.operations.maintenance.maintain import MaintainArguments
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest, DeleteResult
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TICK_MS, TableBuilder
from tests.support.world import World

STATED = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "30 d"}


class Store(MemoryStore):
    """Fails to delete below a folder, when told to."""

    broken: str | None = None

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        if self.broken is not None and any(request.key.startswith(self.broken) for request in requests):
            raise StorageError("delete: broken on purpose")
        return super().delete(requests)


class BranchedWorld(World):
    """Main with six snapshots; branches `a` (seven, keeps four) and `b` (six, keeps three), from main's tag `t`."""

    def __init__(self, most: str = "3") -> None:
        super().__init__(now_ms=100 * TICK_MS, store=Store, options={**STATED, "snapshot.num-retained.max": most})
        self.table.commit("+M1")
        self.table.tag("t")
        self.branches = {name: self.table.branch(name, "t") for name in ("b", "a")}
        self.branches["a"].alter(options={"snapshot.num-retained.max": str(int(most) + 1)})
        for builder, letter, last in ((self.table, "M", 6), (self.branches["a"], "A", 7), (self.branches["b"], "B", 6)):
            for number in range(2, last + 1):
                builder.commit(f"-{'M1' if number == 2 else f'{letter}{number - 1}'}", f"+{letter}{number}")

    def maintain_all(self, *, execute: bool = True, **arguments: Any) -> RunReport:
        return maintain_all_branches(self.maintainer().table, MaintainArguments(**arguments), execute=execute)

    def left(self) -> dict[str, list[int]]:
        return {name: self.ids(f"{branch_dir(name)}snapshot") for name in ("main", "a", "b")}


ALL = {"main": [1, 2, 3, 4, 5, 6], "a": [1, 2, 3, 4, 5, 6, 7], "b": [1, 2, 3, 4, 5, 6]}
SWEPT = {"main": [4, 5, 6], "a": [4, 5, 6, 7], "b": [4, 5, 6]}


def passes(report: RunReport) -> list[tuple[str | None, str]]:
    assert report.steps is not None
    return [(step.branch, step.status) for step in report.steps]


def code(report: RunReport) -> str | None:
    return None if report.refusal is None else report.refusal.code


def test_each_branch_by_its_own_options() -> None:
    """Main first, then by name; the document adds up what they did."""
    world = BranchedWorld()
    report = world.maintain_all()
    assert (report.operation, report.branch, report.status, report.executed) == ("maintain", None, "done", True)
    assert passes(report) == [("main", "done"), ("a", "done"), ("b", "done")]
    assert world.left() == SWEPT
    assert_roots_readable(world.table)

    document = report.to_json()
    assert (document["branch"], document["plan_id"], document["run_id"]) == (None, None, None)
    parts = [step.to_json() for step in report.steps or ()]
    total: Any = document
    for word in ("count", "bytes"):
        assert total["delete"][word] == sum(part["delete"][word] for part in parts) > 0  # type: ignore[call-overload,index,misc]
    assert total["outcome"]["deleted"] == total["delete"]["count"] == len(total["actions"])
    assert total["kept"]["retain_min"] == 6
    assert world.maintain_all().status == "nothing_to_do"


def test_the_same_as_one_by_one() -> None:
    """Called for each branch alone, the same objects are left."""
    together, alone = BranchedWorld(), BranchedWorld()
    together.maintain_all()
    for name in ("main", "a", "b"):
        alone.maintain(on=name)
    assert together.keys() == alone.keys()


def test_a_dry_run_shows_the_same() -> None:
    """Each branch is planned on the table as those before it would leave it, and only the first plan is stored."""
    world = BranchedWorld()
    planned = world.maintain_all(execute=False)
    assert passes(planned) == [("main", "planned"), ("a", "planned"), ("b", "planned")]
    assert world.left() == ALL
    stored = {entry.key.split("/plans/")[1].split("/")[0] for entry in world.control.list("") if "/plans/" in entry.key}
    first, *others = [plan.header.plan_id for plan in planned.plans()]
    assert any(name.startswith(first) for name in stored)
    assert not any(name.startswith(other) for name in stored for other in others)
    executed = world.maintain_all()
    assert executed.to_json()["actions"] == planned.to_json()["actions"]


def test_shared_files_stay() -> None:
    """A file that only another branch still names is not deleted, whichever branch goes first."""
    store = MemoryStore("memory://bucket/t", clock=lambda: 100 * TICK_MS)
    main = TableBuilder(store, options=STATED)
    main.commit("+M1")
    main.commit("+M2")
    main.tag("t")
    rt = main.branch("rt", "t")
    main.remove("tag/tag-t")
    rt.remove("branch/branch-rt/tag/tag-t")
    rt.commit("+R3")  # still names M1 and M2
    rt.commit("+R4")
    main.fast_forward("rt")  # now main names R3 and R4
    for number in range(5, 9):
        main.commit(f"+N{number}", *(["-M1", "-R3"] if number == 5 else []))
        rt.commit(f"+S{number}", *(["-M2", "-R4"] if number == 5 else []))
    report = maintain_all_branches(Maintainer(store).table, MaintainArguments(), execute=True)
    assert passes(report) == [("main", "done"), ("rt", "done")]
    assert all("snapshot/snapshot-4" not in entry.key for entry in store.list(""))
    assert_roots_readable(main)
    present = main.present()
    assert {"M1", "M2", "R3", "R4"} <= present  # each is live in one of the two, and gone from the other
    assert (
        main.referenced(main.root(8)) | main.referenced("branch/branch-rt/snapshot/snapshot-8")
        <= {entry.key for entry in store.list("")} | present
    )


def test_a_file_goes_once_no_branch_names_it() -> None:
    """M1 is freed by main, kept for the branches' first snapshots, and removed with the last of them."""
    world = BranchedWorld()
    for builder, path in (
        (world.table, "tag/tag-t"),
        *((b, f"branch/branch-{n}/tag/tag-t") for n, b in world.branches.items()),
    ):
        builder.remove(path)
    report = world.maintain_all()
    assert "M1" not in world.table.present()
    kept = [step.to_json()["kept"] for step in report.steps or ()]
    assert kept[0]["branch"] and "branch" not in kept[2]  # type: ignore[index,operator]


def test_a_branch_that_refuses_does_not_keep_the_others() -> None:
    """Main's newest snapshot is damaged and `a` has an option that does not parse; `b` is maintained."""
    world = BranchedWorld()
    world.branches["a"].alter(options={"snapshot.num-retained.max": "many"})
    world.table.corrupt("snapshot/snapshot-6")
    report = world.maintain_all()
    assert passes(report) == [("main", "refused"), ("a", "refused"), ("b", "refused")], "no root may be unreadable"

    world = BranchedWorld()
    world.branches["a"].alter(options={"snapshot.num-retained.max": "many"})
    report = world.maintain_all()
    assert passes(report) == [("main", "done"), ("a", "refused"), ("b", "done")]
    assert (report.status, code(report), report.executed) == ("refused", "bad_option", True)
    assert world.left() == {**SWEPT, "a": ALL["a"]}


def test_a_branch_that_fails_does_not_keep_the_others() -> None:
    """Its report says how far it came; what it began is finished by the next branch's run."""
    world = BranchedWorld()
    world.store.broken = "branch/branch-a/"
    report = world.maintain_all()
    assert passes(report)[0] == ("main", "done")
    assert passes(report)[1] == ("a", "refused")
    assert report.steps is not None and report.steps[1].refusal is not None
    assert (report.steps[1].refusal.code, report.steps[1].refusal.exit_code) == ("storage", 1)
    world.store.broken = None
    world.maintain_all()
    assert world.left() == SWEPT
    assert_roots_readable(world.table)


def test_a_held_lease_is_said_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another maintainer may be done by the time the next branch comes, so each tries."""

    def held(*_: object, **_words: object) -> None:
        raise LeaseHeldError("held")

    monkeypatch.setattr("lakesweep.execute.attempt.acquire", held)
    report = BranchedWorld().maintain_all()
    assert [step.refusal and step.refusal.exit_code for step in report.steps or ()] == [5, 5, 5]
    assert report.executed is False


def test_nothing_to_do_costs_five_requests() -> None:
    """However many branches there are: the state, and listings of four folders at most."""
    world = BranchedWorld(most="10")
    world.maintain_all()
    for builder in (world.table, *world.branches.values()):
        builder.commit("+N")
    report, requests = world.spent(world.maintain_all)
    assert passes(report) == [("main", "nothing_to_do"), ("a", "nothing_to_do"), ("b", "nothing_to_do")]
    assert requests.pop("list") <= 4
    assert requests == {"get": 1, "head": 0, "put": 0, "delete": 0}
    assert report.to_json()["outcome"] is None


def test_only_branches_that_need_it_are_looked_at() -> None:
    """One branch with other options leaves the others alone; a new branch is noticed."""
    world = BranchedWorld(most="10")
    world.maintain_all()
    world.branches["a"].alter(options={"snapshot.num-retained.max": "2"})
    report = world.maintain_all()
    assert passes(report) == [("main", "nothing_to_do"), ("a", "done"), ("b", "nothing_to_do")]
    assert [len(step.steps or ()) for step in report.steps or ()] == [0, 1, 0]

    world.table.tag("u")
    world.table.branch("c", "u")
    world.branches["b"].alter(options={"snapshot.num-retained.max": "2"})
    report = world.maintain_all()
    assert passes(report) == [("main", "nothing_to_do"), ("a", "nothing_to_do"), ("b", "done"), ("c", "done")]
    assert world.left()["b"] == [5, 6]
    assert report.steps is not None and report.steps[3].to_json()["created"] == [
        {"kind": "hint", "path": "branch/branch-c/snapshot/EARLIEST"}
    ]


def test_one_listing_serves_until_something_changes() -> None:
    """Three branches with nothing to remove, seen for the first time: one listing of all folders."""
    world = BranchedWorld()
    world.maintain_all()
    for entry in list(world.control.list("")):
        world.control.delete([DeleteRequest(entry.key)])
    report, requests = world.spent(world.maintain_all)
    assert report.status == "nothing_to_do"
    assert requests["list"] <= 8, requests


def test_the_interval_holds_for_each_branch() -> None:
    """Branches that were looked at lately are left alone, a commit or not."""
    world = BranchedWorld()
    world.maintain_all(min_interval_ms=60_000)
    world.branches["a"].commit("-A7", "+A8")
    assert world.maintain_all(min_interval_ms=60_000).status == "nothing_to_do"
    assert world.maintain_all().status == "done"


def test_one_branch_or_all() -> None:
    """The table is asked for as a whole."""
    world = BranchedWorld()
    with pytest.raises(UsageError, match="all branches are asked for, and branch a is"):
        world.run("maintain", on="a", all_branches=True)
    report = world.run("maintain", all_branches=True, min_interval="1 min")
    assert report.branch is None
    assert world.left() == SWEPT


def test_no_table_and_no_snapshot() -> None:
    """Main is always named, and says what is wrong; a table without commits has nothing to do."""
    empty = MemoryStore("memory://bucket/none")
    report = maintain_all_branches(Maintainer(empty).table, MaintainArguments(), execute=True)
    assert (passes(report), code(report)) == ([("main", "refused")], "not_a_table")
    store = MemoryStore("memory://bucket/t")
    TableBuilder(store, options=STATED)
    report = maintain_all_branches(Maintainer(store).table, MaintainArguments(), execute=True)
    assert passes(report) == [("main", "nothing_to_do")]


def test_a_policy_counts_for_all_branches() -> None:
    """Paused: refused once. Observed: planned, and one sentence says why."""
    world = BranchedWorld()
    policies = MemoryStore("memory://ops")
    table = world.maintainer(policy="memory://ops/policy.json", open_store=lambda _: policies).table
    for words, status in (('"pause": true', "refused"), ('"mode": "observe"', "planned")):
        policies.put("policy.json", f'{{"version": 1, "rules": [{{"tables": "memory://bucket/", {words}}}]}}'.encode())
        report = maintain_all_branches(table, MaintainArguments(), execute=True)
        assert (report.branch, report.status, report.executed) == (None, status, False)
        assert world.left() == ALL
    assert len(report.all_warnings()) == 1


def test_warnings_name_their_branch() -> None:
    """A streaming user of a branch."""
    world = BranchedWorld()
    branch = world.table.branch("s", "t")
    branch.commit("-M1", "+S2", user="flink", identifier=1)
    for number in range(3, 8):
        branch.commit(f"-S{number - 1}", f"+S{number}")
    (warning,) = world.maintain_all(execute=False).all_warnings()
    assert warning.startswith("branch s: snapshot 2, the last one of the streaming commit user flink, expires")


def test_roots_that_cannot_be_seen(tmp_path: Path) -> None:
    """A link among the roots refuses the whole, also where the last passes are known."""
    table = TableBuilder(LocalStore(str(tmp_path / "t")), options=STATED)
    table.commit("+F1")
    table.hint("EARLIEST", 1)
    control = LocalStore(str(tmp_path / "control"))
    maintainer = Maintainer(table.store, control=control)
    assert maintain_all_branches(maintainer.table, MaintainArguments(), execute=True).status == "nothing_to_do"
    (tmp_path / "t" / "branch").symlink_to(tmp_path)
    report = maintain_all_branches(maintainer.table, MaintainArguments(), execute=True)
    assert (report.branch, report.status, code(report)) == (None, "refused", "symbolic_link")
