"""The step of a pass that expires partitions: its place, the interval between checks, and what it leaves undone."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakesweep.control.state import read_states
from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance.all_branches import maintain_all_branches
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import lag_of, triage
from lakesweep.operations.partitions.arguments import Catalog
from lakesweep.runs.session import COMMITS_ELSEWHERE
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.reader import read_all
from tests.support.world import HOUR_MS, START_MS
from tests.unit.operations.partitions.partition_world import PartitionWorld

FILES = Catalog("filesystem", has_lock=True)
KEEP = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "100", "snapshot.time-retained": "365 d"}
"""No snapshot expires."""
RULE = {"partition.expiration-time": "10 d"}
OLD, FRESH = ("2027-01-01", "2027-01-02"), ("2027-01-10", "2027-01-14")
"""It is 2027-01-15 08:00 when the first pass runs."""


class PassWorld(PartitionWorld):
    """A table whose partitions expire after ten days, in the passes after its commits."""

    def __init__(self, *, is_stated: bool = True, **options: str) -> None:
        super().__init__(options={**KEEP, **(RULE if is_stated else {}), **options}, start_ms=START_MS - 6 * HOUR_MS)

    def pass_(self, *, catalog: Catalog = FILES, may_commit: bool = True, **arguments: Any) -> RunReport:
        table = replace(self.maintainer().table, may_commit=may_commit)
        execute = arguments.pop("execute", True)
        return self.ended(maintain(table, MaintainArguments(catalog=catalog, **arguments), execute=execute))

    def step(self, report: RunReport) -> RunReport | None:
        return next((each for each in report.steps or () if each.operation == "expire-partitions"), None)

    def days(self) -> set[str]:
        return {folder.removeprefix("dt=") for folder in self.live()}


@pytest.fixture
def world() -> PassWorld:
    found = PassWorld()
    found.fill(*OLD, *FRESH)
    return found


def test_the_step_runs_before_snapshots_expire(world: PassWorld) -> None:
    """Old partitions are dropped, and the later steps see the new snapshot."""
    report = world.pass_()
    assert [each.operation for each in report.steps or ()] == ["expire-partitions", "expire-snapshots"]
    assert report.status == "done" and report.executed
    assert world.days() == set(FRESH)
    step, snapshots = report.steps or ()
    assert step.commits is not None and [made.snapshot_id for made in step.commits.made] == [5]
    assert snapshots.plan is not None and snapshots.plan.header.snapshots["latest"] == 5


def test_tags_come_before_partitions() -> None:
    """The tag of a period still shows the partitions that expire in the same pass."""
    world = PassWorld(**{"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"})
    world.fill(*OLD)
    world.table.commit("+now", partition=(FRESH[0],), time_ms=world.now_ms)
    world.table.hint("LATEST", 3)
    report = world.pass_()
    assert [each.operation for each in report.steps or ()][:2] == ["auto-tags", "expire-partitions"]
    assert world.days() == {FRESH[0]}
    tagged = [read.live for root, read in read_all(world.store).items() if root.startswith("tag/")]
    assert {path.split("/")[0] for live in tagged for path in live} == {f"dt={OLD[0]}"}


def test_a_table_without_rules_has_no_such_step() -> None:
    """Neither without an expiration time nor without partitions."""
    for table in ({"options": KEEP}, {"options": {**KEEP, **RULE}, "partition_keys": ()}):
        world = PartitionWorld(**table)
        world.table.commit("+A", partition=("2020-01-01",) if "partition_keys" not in table else ())
        before = world.etags()
        report = world.ended(maintain(world.maintainer().table, MaintainArguments(catalog=FILES), execute=True))
        assert [each.operation for each in report.steps or ()] == ["expire-snapshots"]
        assert world.etags() == before


def test_a_dry_run_shows_the_partitions_and_changes_nothing(world: PassWorld) -> None:
    """Even right after a check: a person wants to see them."""
    before = world.bodies()
    for _ in range(2):
        step = world.step(world.pass_(execute=False))
        assert step is not None and step.status == "planned" and step.commits is not None
        assert [each.partition for each in step.commits.partitions] == [f"dt={day}" for day in OLD]
        assert world.bodies() == before


def test_checks_keep_their_interval() -> None:
    """A new old partition waits for the next check, an hour after the last one."""
    world = PassWorld()
    world.fill(*FRESH)
    world.pass_()
    checked_ms = world.now_ms
    world.table.commit("+late", partition=("2026-12-01",), time_ms=world.now_ms)
    world.now_ms = checked_ms + HOUR_MS
    assert world.step(world.pass_()) is None
    assert "2026-12-01" in world.days()
    world.now_ms += 1
    step = world.step(world.pass_())
    assert step is not None and step.status == "done"
    assert world.days() == set(FRESH)


@pytest.mark.parametrize(("interval", "is_due"), [("0 s", True), ("2 h", False)])
def test_the_table_states_the_interval(interval: str, is_due: bool) -> None:
    world = PassWorld(**{"partition.expiration-check-interval": interval})
    world.fill(*FRESH)
    world.pass_()
    world.table.commit("+late", partition=("2026-12-01",), time_ms=world.now_ms)
    world.now_ms += HOUR_MS + 1
    assert (world.step(world.pass_()) is not None) is is_due


def test_a_pass_with_nothing_to_do_costs_as_much_as_without_rules() -> None:
    """The state answers: four requests, and no manifest is read."""
    world = PassWorld()
    world.fill(*FRESH)
    world.pass_()
    world.table.commit("+more", partition=(FRESH[1],), time_ms=world.now_ms)
    report, spent = world.spent(world.pass_, committed_id=3)
    assert report.status == "nothing_to_do"
    assert sum(spent.values()) <= 4 and spent["put"] == 0


def test_time_alone_makes_a_partition_due() -> None:
    """Without a commit, the state tells when the next partition expires, to the millisecond."""
    world = PassWorld()
    world.fill("2027-01-05", FRESH[1])
    world.pass_()
    # No zone is declared, so a day begins when it has begun everywhere.
    table, due_ms = world.maintainer().table, int(datetime(2027, 1, 15, 12, tzinfo=UTC).timestamp() * 1000)
    world.now_ms = due_ms  # expired is what is older than ten days
    assert not triage(table, 2, 0).is_due
    assert lag_of(table, read_states(world.area)["main"]) is None
    assert world.pass_().steps == ()
    world.now_ms = due_ms + 1
    assert triage(table, 2, 0).is_due
    lag = lag_of(table, read_states(world.area)["main"])
    assert lag is not None and lag.lag_ms == 0
    assert world.step(world.pass_()) is not None
    assert world.days() == {FRESH[1]}


def test_lag_counts_from_the_check_not_from_the_first_commit() -> None:
    """Commits that needed nothing for 59 minutes are not late when a check is due."""
    world = PassWorld()
    world.fill(*FRESH)
    world.pass_()
    world.table.commit("+more", partition=(FRESH[1],), time_ms=world.now_ms + 1000)
    world.table.hint("LATEST", 3)
    world.now_ms += HOUR_MS + 60_000
    lag = lag_of(world.maintainer().table, read_states(world.area)["main"])
    assert lag is not None and lag.lag_ms == 60_000 - 1
    assert triage(world.maintainer().table, 3, 0).is_due


def test_lag_counts_from_the_commit_after_a_silence() -> None:
    """Nobody commits for hours. The next commit makes a check due, which is not late from the first moment."""
    world = PassWorld()
    world.fill(*FRESH)
    world.pass_()
    world.now_ms += 10 * HOUR_MS
    world.table.commit("+more", partition=(FRESH[1],), time_ms=world.now_ms)
    world.table.hint("LATEST", 3)
    world.now_ms += 1000
    lag = lag_of(world.maintainer().table, read_states(world.area)["main"])
    assert lag is not None and lag.lag_ms == 1000


def test_new_rules_are_checked_at_once(world: PassWorld) -> None:
    """The interval of the last check does not delay another expiration time."""
    world.pass_()
    world.table.alter(options={"partition.expiration-time": "3 d"})
    step = world.step(world.pass_())
    assert step is not None and step.status == "done"
    assert world.days() == {FRESH[1]}


def test_more_than_the_maximum_waits_for_the_next_check() -> None:
    world = PassWorld(**{"partition.expiration-max-num": "1"})
    world.fill(*OLD, *FRESH)
    step = world.step(world.pass_())
    assert step is not None and step.commits is not None and step.commits.due_later == 1
    assert world.days() == {OLD[1], *FRESH}
    assert world.step(world.pass_()) is None
    world.now_ms += HOUR_MS + 1
    assert world.step(world.pass_()) is not None
    assert world.days() == set(FRESH)


def test_an_undeclared_catalog_is_refused_and_the_pass_goes_on() -> None:
    """For a write-only table, since nobody else expires its partitions. The next pass says so again."""
    world = PassWorld(**{"write-only": "true", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"})
    world.fill(*OLD, *FRESH)
    report = world.pass_(catalog=Catalog())
    step = world.step(report)
    assert step is not None and step.status == "refused"
    assert step.refusal is not None and step.refusal.code == "catalog_not_declared"
    assert report.status == "refused" and world.ids() == [4]
    again = world.step(world.pass_(catalog=Catalog()))
    assert again is not None and again.status == "refused"


def test_writers_that_expire_partitions_themselves_are_left_alone(world: PassWorld) -> None:
    """The table is not write-only: a warning says why Lakesweep does nothing, once in an interval."""
    before = world.etags()
    step = world.step(world.pass_(catalog=Catalog()))
    assert step is not None and step.status == "nothing_to_do" and step.refusal is None
    assert any("leaves that to the table's writers" in warning for warning in step.all_warnings())
    assert world.etags() == before
    assert world.pass_(catalog=Catalog()).steps == ()


def test_writers_do_not_expire_what_a_policy_alone_states() -> None:
    """Their schema states no time. So nobody expires these partitions, and that is no mere warning."""
    world = PassWorld(is_stated=False)
    world.fill(*OLD, *FRESH)
    report = under_policy(world, mode="delete", partitions=RULE)
    step = world.step(report)
    assert step is not None and step.status == "refused"
    assert step.refusal is not None and step.refusal.code == "catalog_not_declared"
    assert world.days() == {*OLD, *FRESH}


def test_who_may_not_commit_plans_and_says_so(world: PassWorld) -> None:
    before = world.etags()
    step = world.step(world.pass_(may_commit=False))
    assert step is not None and step.status == "planned" and not step.executed
    assert step.commits is not None and len(step.commits.partitions) == 2
    assert any(COMMITS_ELSEWHERE in warning for warning in step.all_warnings())
    assert world.etags() == before


def test_a_begun_plan_is_finished_before_a_commit(world: PassWorld) -> None:
    """A dead run's plan comes first, and the commit builds on what it leaves."""
    world.dies_before(lambda call: call.startswith("table delete"), retain_max=2, retain_min=1)
    report = world.pass_()
    assert report.status == "done"
    assert world.ids() == [3, 4, 5]
    assert world.days() == set(FRESH)


def under_policy(world: PassWorld, **rule: object) -> RunReport:
    """Make the pass by a fleet policy with one rule, and by nothing that the call declares."""
    ops = MemoryStore("memory://ops")
    ops.put("policy.json", json.dumps({"version": 1, "rules": [{"tables": "memory://bucket", **rule}]}).encode())
    maintainer = world.maintainer(policy="memory://ops/policy.json", open_store=opener(ops))
    return world.ended(maintain(maintainer.table, MaintainArguments(), execute=True))


def test_a_policy_declares_the_catalog(world: PassWorld) -> None:
    report = under_policy(world, mode="delete", catalog_type="filesystem", catalog_lock=True)
    step = world.step(report)
    assert report.status == "done" and step is not None
    assert step.commits is not None and step.commits.catalog == "filesystem"
    assert world.days() == set(FRESH)


def test_a_policy_states_the_time_for_schemas_without_one() -> None:
    """It has no say where the schema states a time."""
    fifty = {"partition.expiration-time": "50 d"}
    rule = {"mode": "delete", "catalog_type": "filesystem", "catalog_lock": True, "time_zone": "UTC"}
    stated, silent = PassWorld(), PassWorld(is_stated=False)
    for each in (stated, silent):
        each.fill(*OLD, *FRESH)
    under_policy(stated, **rule, partitions=fifty)
    assert stated.days() == set(FRESH)
    under_policy(silent, **rule, partitions=fifty)
    assert silent.days() == {*OLD, *FRESH}
    silent.now_ms += 24 * HOUR_MS  # until then, the state of the last pass answers
    under_policy(silent, **rule, partitions=RULE)
    assert silent.days() == set(FRESH)


@pytest.mark.parametrize("rule", [{"mode": "observe"}, {"mode": "delete", "pause": True}])
def test_a_paused_or_observed_table_keeps_its_partitions(world: PassWorld, rule: dict[str, object]) -> None:
    """An observed table is planned, a paused one refused."""
    report = under_policy(world, **rule, catalog_type="filesystem")
    assert report.status == ("refused" if rule.get("pause") else "planned")
    assert world.days() == {*OLD, *FRESH}


def test_every_branch_has_its_own_partitions() -> None:
    """Each branch expires its own, by its own options."""
    world = PassWorld()
    world.fill(*OLD, FRESH[0])
    world.table.tag("t")
    world.table.branch("b", "t")
    table = world.maintainer().table
    report = world.ended(maintain_all_branches(table, MaintainArguments(catalog=FILES), execute=True))
    assert [(each.branch, each.status) for each in report.steps or ()] == [("main", "done"), ("b", "done")]
    assert world.days() == {FRESH[0]}
    newest = read_all(world.store)["branch/branch-b/snapshot/snapshot-4"]
    assert {path.split("/")[0] for path in newest.live} == {f"dt={FRESH[0]}"}
