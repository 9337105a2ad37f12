"""The step of a pass that compacts manifests: its place, when it looks, and what it leaves undone."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.control.state import BranchState, read_states
from lakesweep.format.manifest import ManifestMeta, read_manifest_list
from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance.all_branches import maintain_all_branches
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import lag_of, triage
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import COMMITS_ELSEWHERE
from lakesweep.storage.store import delete_all
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.reader import read_all
from tests.support.world import HOUR_MS, World

FILES = Catalog("filesystem", has_lock=True)
KEEP = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1000", "snapshot.time-retained": "365 d"}
"""No snapshot expires."""
BUCKETED = {"bucket": "1"}
"""So nobody looks at its data files."""
MOST = 4
"""More manifests than these are too many. So snapshot 6 is the first whose base list may have too many."""
DUE = MOST + 2


class PassWorld(World):
    """A table whose writer merges no manifests, in the passes after its commits."""

    def __init__(self, commits: int = 0, **options: str) -> None:
        super().__init__(options={**BUCKETED, **KEEP, "manifest.merge-min-count": str(MOST), **options})
        self.append(commits)

    def append(self, commits: int = 1, **details: Any) -> None:
        for _ in range(commits):
            number = max(self.table.ids("snapshot"), default=0) + 1
            self.table.hint("LATEST", self.table.commit(f"+F{number}", time_ms=self.now_ms, **details))
            self.now_ms += 1000

    def pass_(self, *, catalog: Catalog = FILES, may_commit: bool = True, **arguments: Any) -> RunReport:
        table = replace(self.maintainer().table, may_commit=may_commit)
        execute = arguments.pop("execute", True)
        return self.ended(maintain(table, MaintainArguments(catalog=catalog, **arguments), execute=execute))

    def state(self, branch: str = "main") -> BranchState:
        return read_states(self.area)[branch]

    def base(self, folder: str = "snapshot") -> tuple[ManifestMeta, ...]:
        """Return the base list of the newest snapshot."""
        document = json.loads(self.store.read(f"{folder}/snapshot-{self.ids(folder)[-1]}").data)
        path = f"manifest/{document['baseManifestList']}"
        return read_manifest_list(self.store.read(path).data, path)


def step_of(report: RunReport) -> RunReport | None:
    return next((each for each in report.steps or () if each.operation == "compact-manifest"), None)


@pytest.fixture
def world() -> PassWorld:
    return PassWorld(DUE)


def test_a_list_that_is_too_long_is_compacted(world: PassWorld) -> None:
    """In its place, with every row, and the later steps see the new snapshot."""
    before = read_all(world.store)[f"snapshot/snapshot-{DUE}"].live
    report = world.pass_()
    assert [each.operation for each in report.steps or ()] == ["compact-manifest", "expire-snapshots"]
    assert report.status == "done" and report.executed
    step, snapshots = report.steps or ()
    assert step.commits is not None and [made.snapshot_id for made in step.commits.made] == [DUE + 1]
    assert snapshots.plan is not None and snapshots.plan.header.snapshots["latest"] == DUE + 1
    assert len(world.base()) == 1
    assert read_all(world.store)[f"snapshot/snapshot-{DUE + 1}"].live == before


def test_partitions_go_before() -> None:
    """The same pass drops a partition, and then merges what is left."""
    rules = {"partition.expiration-time": "10 d", "manifest.merge-min-count": str(MOST)}
    world = World(options={**BUCKETED, **KEEP, **rules}, partition_keys=["dt"])
    for number in range(DUE):
        day = "2026-12-01" if number == 0 else "2027-01-14"
        world.table.hint("LATEST", world.table.commit(f"+F{number}", partition=(day,), time_ms=world.now_ms))
    report = maintain(world.maintainer().table, MaintainArguments(catalog=FILES), execute=True)
    names = ["expire-partitions", "compact-manifest", "expire-snapshots"]
    assert [each.operation for each in report.steps or ()] == names
    assert world.ids()[-2:] == [DUE + 1, DUE + 2]
    live = read_all(world.store)[f"snapshot/snapshot-{DUE + 2}"].live
    assert len(live) == DUE - 1 and {path.split("/")[0] for path in live} == {"dt=2027-01-14"}


@pytest.mark.parametrize("catalog", [Catalog(), Catalog("rest")])
def test_without_a_catalog_there_is_no_such_step(world: PassWorld, catalog: Catalog) -> None:
    """Nothing could be committed. Not a request is spent, and nobody is bothered."""
    report = world.pass_(catalog=catalog)
    assert [each.operation for each in report.steps or ()] == ["expire-snapshots"]
    assert not report.all_warnings()
    assert world.ids()[-1] == DUE
    assert world.state().manifest_rules == 0


@pytest.mark.parametrize("commits", [1, DUE - 1])
def test_a_young_table_costs_what_it_cost(commits: int) -> None:
    """So few commits cannot have made too many manifests."""
    spent = []
    for catalog in (Catalog(), FILES):
        world = PassWorld(commits)
        report, requests = world.spent(world.pass_, catalog=catalog)
        assert step_of(report) is None
        spent.append(requests)
    assert spent[0] == spent[1]


def test_a_look_that_finds_nothing_costs_three_reads() -> None:
    """Afterwards the state answers, as it does without this step."""
    spent = []
    for catalog in (Catalog(), FILES):
        world = PassWorld()
        for number in range(DUE):
            world.append(merge_base=number == 3)
        report, requests = world.spent(world.pass_, catalog=catalog)
        assert step_of(report) is None and report.status == "nothing_to_do"
        spent.append(requests)
        world.append()
        world.now_ms += 2 * HOUR_MS
        _, later = world.spent(world.pass_, catalog=catalog, committed_id=DUE + 1)
        assert sum(later.values()) <= 4 and later["put"] == 0
    looked = {kind: spent[1][kind] - spent[0][kind] for kind in spent[0]}
    assert {kind: count for kind, count in looked.items() if count} == {"get": 4}, "one of them asks for a state"
    assert len(world.base()) == 4
    assert world.state().manifest_snapshot == DUE + 2


def test_a_look_waits_for_commits_and_for_an_hour() -> None:
    world = PassWorld()
    for number in range(DUE):
        world.append(merge_base=number == 3)
    world.pass_()
    looked_ms, due_id = world.now_ms, DUE + 2
    world.append(2)
    assert len(world.base()) == MOST + 1 and world.ids()[-1] == due_id
    table = world.maintainer().table
    world.now_ms = looked_ms + HOUR_MS
    assert not triage(table, due_id, 0).is_due
    assert lag_of(table, world.state()) is None
    assert step_of(world.pass_()) is None
    world.now_ms += 1
    assert triage(table, due_id, 0).is_due
    lag = lag_of(table, world.state())
    assert lag is not None and lag.lag_ms == 0
    step = step_of(world.pass_())
    assert step is not None and step.status == "done"


def test_lag_counts_from_the_commit_that_made_it_due() -> None:
    """A day of silence is no delay of this commit."""
    world = PassWorld(DUE - 1)
    world.pass_()
    world.now_ms += 12 * HOUR_MS
    world.append()
    lag = lag_of(world.maintainer().table, world.state())
    assert lag is not None and lag.lag_ms == 1000


def test_new_thresholds_count_at_once() -> None:
    """The look of a minute ago went by others."""
    world = PassWorld(DUE, **{"manifest.merge-min-count": "5"})
    world.append()
    assert step_of(world.pass_()) is not None
    for options in ({"manifest.merge-min-count": "6"}, {"manifest.full-compaction-threshold-size": "1 kb"}):
        world = PassWorld(DUE + 1, **{"manifest.merge-min-count": "6"})
        assert step_of(world.pass_()) is None
        world.table.alter(options={"manifest.merge-min-count": "5", **options})
        assert (step_of(world.pass_()) is not None) == ("manifest.merge-min-count" not in options)


def test_a_dry_run_shows_it_and_changes_nothing(world: PassWorld) -> None:
    before = world.bodies()
    for _ in range(2):
        step = step_of(world.pass_(execute=False))
        assert step is not None and step.status == "planned"
        assert world.bodies() == before


def test_who_may_not_commit_plans_by_the_list_alone(world: PassWorld) -> None:
    """No manifest is read, since the process that commits reads them. The next look waits for it."""
    report = world.pass_(may_commit=False)
    step = step_of(report)
    assert step is not None and step.status == "planned" and not step.executed
    assert any(COMMITS_ELSEWHERE in warning for warning in step.all_warnings())
    assert world.ids()[-1] == DUE
    world.now_ms += 2 * HOUR_MS
    world.append()
    assert step_of(world.pass_(may_commit=False)) is None, "that commit may be ours"
    world.append()
    assert step_of(world.pass_(may_commit=False)) is not None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"commit.strict-mode.last-safe-snapshot": "3"}, "commit.strict-mode.last-safe-snapshot"),
        ({"manifest-sort.enabled": "true"}, "manifest-sort.enabled"),
        ({"manifest.format": "orc"}, "manifest.format"),
        ({"commit.unheard-of": "1"}, "commit.unheard-of"),
    ],
)
def test_a_table_that_allows_none_is_left_as_it_is(options: Mapping[str, str], why: str) -> None:
    """A warning says why, and comes again only after as many commits as make a list too long."""
    world = PassWorld(DUE, **options)
    before = world.etags()
    report = world.pass_()
    step = step_of(report)
    assert report.status == "nothing_to_do" and step is not None and step.refusal is None
    assert any(why in warning and "compacts no manifests" in warning for warning in step.all_warnings())
    assert world.etags() == before
    for number in range(1, MOST + 1):
        world.append()
        world.now_ms += 2 * HOUR_MS
        assert (step_of(world.pass_()) is not None) == (number == MOST)


def test_an_option_that_does_not_parse_is_refused() -> None:
    """The pass goes on."""
    world = PassWorld(DUE * 10, **{"manifest.merge-min-count": "many", "snapshot.num-retained.max": "50"})
    report = world.pass_()
    step = step_of(report)
    assert step is not None and step.status == "refused"
    assert step.refusal is not None and step.refusal.code == "bad_option"
    assert len(world.ids()) == 50


def test_after_a_rollback_the_list_is_looked_at_again() -> None:
    """The state is about a snapshot that is gone."""
    world = PassWorld(DUE)
    for number in range(2 * MOST):
        world.append(merge_base=number == 2 * MOST - 1)
    assert step_of(world.pass_()) is None
    newest = world.ids()[-1]
    gone = [f"snapshot/snapshot-{number}" for number in range(newest - 2, newest + 1)]
    world.store.delete(delete_all(gone))
    step = step_of(world.pass_())
    assert step is not None and step.status == "done"


def under_policy(world: PassWorld, **rule: object) -> RunReport:
    """Make the pass by a fleet policy with one rule, and by nothing that the call declares."""
    ops = MemoryStore("memory://ops")
    ops.put("policy.json", json.dumps({"version": 1, "rules": [{"tables": "memory://bucket", **rule}]}).encode())
    maintainer = world.maintainer(policy="memory://ops/policy.json", open_store=opener(ops))
    return world.ended(maintain(maintainer.table, MaintainArguments(), execute=True))


LOCKED = {"mode": "delete", "catalog_type": "filesystem", "catalog_lock": True}


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        (LOCKED, "done"),
        ({**LOCKED, "mode": "observe"}, "planned"),
        ({**LOCKED, "manifests": False}, None),
        ({**LOCKED, "manifests": {"manifest.merge-min-count": 100}}, "done"),
        ({**LOCKED, "pause": True}, None),
        ({"mode": "delete"}, None),
    ],
)
def test_what_the_policy_says(world: PassWorld, rule: dict[str, object], status: str | None) -> None:
    """It declares the catalog, and may turn the step off. The schema's thresholds win over its own."""
    step = step_of(under_policy(world, **rule))
    assert (None if step is None else step.status) == status
    assert (world.ids()[-1] > DUE) == (status == "done")


def test_the_policy_states_thresholds_for_schemas_without() -> None:
    world = World(options=KEEP)
    for number in range(DUE):
        world.table.hint("LATEST", world.table.commit(f"+F{number}", time_ms=world.now_ms))
    for most, is_due in ((MOST + 1, False), (MOST, True)):
        world.now_ms += 24 * HOUR_MS  # until then, the state of the last pass answers
        report = under_policy(world, **LOCKED, manifests={"manifest.merge-min-count": most})  # type: ignore[arg-type]
        assert (step_of(report) is not None) is is_due


def test_every_branch_has_its_own_list(world: PassWorld) -> None:
    world.table.tag("t")
    branch = world.table.branch("b", "t")
    for number in range(2):
        branch.hint("LATEST", branch.commit(f"+B{number}", time_ms=world.now_ms))
    report = maintain_all_branches(world.maintainer().table, MaintainArguments(catalog=FILES), execute=True)
    assert [(each.branch, each.status) for each in report.steps or ()] == [("main", "done"), ("b", "done")]
    assert len(world.base()) == len(world.base("branch/branch-b/snapshot")) == 1
