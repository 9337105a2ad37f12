"""Data files in the pass after a commit: what it says, when it looks, and what it compacts by policy."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.state import NEVER_MS
from lakesweep.errors import StorageError
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.policy import compact_by_policy
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import lag_of
from lakesweep.runs.session import COMMITS_ELSEWHERE
from lakesweep.storage.local.store import LocalStore
from tests.support.deleting import DeletingTable
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.world import HOUR_MS
from tests.unit.operations.compaction.pass_world import DAY_MS, FILES, KEEP, LOCKED, PassWorld, said, step_of

IDLE = {**LOCKED, "compaction": {"partition_idle_time": "1 d"}}


@pytest.mark.parametrize("execute", [True, False])
def test_a_pass_says_when_a_compaction_is_worth_it(execute: bool) -> None:
    """In one sentence with its command. It costs the newest snapshot, its two lists and its manifests."""
    world, other = PassWorld(), PassWorld(options={"compaction.min.file-num": "7"})
    step = world.pass_(catalog=FILES, execute=execute)
    assert "`lakesweep compact TABLE` would rewrite 6 of its 6 data files" in said(step)
    assert "into about 1, so a scan opens 5 files fewer" in said(step)
    assert other.pass_(catalog=FILES, execute=execute) is None, "so few files are left as they are"


def test_what_a_look_costs() -> None:
    spent = []
    for rule in ({**LOCKED, "compaction": False}, LOCKED):
        world = PassWorld()
        _, requests = world.spent(world.pass_, rule)
        spent.append(requests)
        world.now_ms += DAY_MS - 10_000
        assert world.pass_(rule) is None
    looked = {kind: spent[1][kind] - spent[0][kind] for kind in spent[0]}
    assert {kind: count for kind, count in looked.items() if count} == {"get": 10}, "one of them asks for a state"


def test_a_pass_says_it_once_a_day_and_nobody_looks_for_that_alone() -> None:
    world = PassWorld()
    world.pass_(LOCKED)
    assert (world.state().files_snapshot, world.state().files_next_ms) == (NEVER_MS, NEVER_MS)
    world.now_ms += DAY_MS - 10_000
    world.append("a", 3)
    assert world.pass_(LOCKED, is_due=True) is None
    world.now_ms += 10_000
    assert not world.state().are_files_due(100, world.now_ms)
    assert "9 of its 9 data files" in said(world.pass_(LOCKED, is_due=True))


@pytest.mark.parametrize("commits", [1, 4])
def test_a_young_table_costs_what_it_cost(commits: int) -> None:
    spent = []
    for rule in ({**LOCKED, "compaction": False}, IDLE):
        world = PassWorld(commits)
        _, requests = world.spent(world.pass_, rule)
        spent.append(requests)
    assert spent[0] == spent[1]


@pytest.mark.parametrize(
    "table",
    [
        {"primary_keys": ["dt", "id"]},
        {"options": {"bucket": "2", "bucket-key": "id"}},
        {"options": {"row-tracking.enabled": "true"}},
        {"options": {"file.format": "orc"}},
        {"options": {"commit.callbacks": "a.B"}},
    ],
)
def test_no_word_where_compact_would_refuse(table: dict[str, Any]) -> None:
    assert PassWorld(**table).pass_(LOCKED) is None
    assert PassWorld(**table).pass_(execute=False) is None


@pytest.mark.parametrize("rule", [{**LOCKED, "compaction": False}, {"mode": "delete", "catalog_type": "rest"}])
def test_no_word_where_the_policy_says_so(rule: dict[str, Any]) -> None:
    assert PassWorld().pass_(rule) is None
    assert PassWorld().pass_({"mode": "delete"}) is None, "no catalog is declared"


def test_a_table_with_very_many_files_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says anything of what he does not know; where the policy asks for it, a warning does."""
    monkeypatch.setattr("lakesweep.operations.compaction.look.MOST_ENTRIES", 5)
    assert PassWorld().pass_(LOCKED) is None
    assert "6 entries, and a pass looks at 5 in 300 manifests at most" in said(PassWorld().pass_(IDLE))


def test_only_idle_partitions_are_compacted() -> None:
    """Another process compacts. The next look is when the busy partition is idle, without a commit."""
    world = PassWorld()
    old_ms = world.now_ms
    world.now_ms += 2 * DAY_MS
    world.append("b", 5)
    newest_ms = world.now_ms - 1000
    step = world.pass_(IDLE)
    assert step is not None and isinstance(step.commits, CompactionReport)
    assert step.status == "planned" and COMMITS_ELSEWHERE in step.warnings[0]
    assert [each.partition for each in step.commits.partitions] == ["dt=a"] and step.commits.busy_files == 5
    assert step.commits.idle_from_ms == newest_ms + DAY_MS + 1 > old_ms
    assert world.state().files_next_ms == newest_ms + DAY_MS + 1
    assert not world.is_due()
    world.now_ms = newest_ms + DAY_MS + 1
    assert world.is_due()
    lag = lag_of(world.table_of(None), world.state())
    assert lag is not None and lag.lag_ms == 0
    again = world.pass_(IDLE, is_due=True)
    assert again is not None and isinstance(again.commits, CompactionReport)
    assert [each.partition for each in again.commits.partitions] == ["dt=a", "dt=b"]


def test_commits_make_a_pass_look_when_they_may_be_idle() -> None:
    """What comes after a look is not idle before the idle time is over, so nobody looks earlier."""
    world = PassWorld()
    looked_ms = world.now_ms
    assert world.pass_(IDLE) is None, "nothing is idle yet"
    assert world.state().files_from_ms == looked_ms + DAY_MS
    world.now_ms = looked_ms + HOUR_MS
    world.append("b", 5)
    world.pass_(IDLE, is_due=True)
    assert not world.state().is_commit_due(11, world.now_ms)
    assert world.state().is_commit_due(11, looked_ms + DAY_MS + 1)


def test_an_observed_table_is_only_planned() -> None:
    world = PassWorld()
    world.now_ms += 2 * DAY_MS
    step = world.pass_({**IDLE, "mode": "observe"}, is_due=True)
    assert step is not None and (step.status, step.executed, step.warnings) == ("planned", False, ())


@pytest.mark.parametrize("keys", [{}, {"primary_keys": ["dt", "id"]}])
def test_the_time_of_one_kind_of_tables_says_nothing_of_the_other(keys: dict[str, Any]) -> None:
    """Such a table is only looked at, and a job by policy leaves it alone."""
    time = {"partition_idle_time": "1 ms"} if keys else {"level_0_age": "1 ms"}
    world = PassWorld(**keys)
    world.now_ms += DAY_MS
    rule = {**LOCKED, "compaction": time}
    assert world.pass_(rule) is None if keys else "6 of its 6 data files" in said(world.pass_(rule))
    report = compact_by_policy(world.table_of(rule), execute=True, engine=None)
    assert (report.status, report.executed) == ("nothing_to_do", False)
    assert "no fleet policy lets passes compact its data files" in report.warnings[0]


# In this process, with rows.


@pytest.fixture
def table(tmp_path: Path) -> DeletingTable:
    made = DeletingTable(tmp_path, options={**KEEP, "snapshot.num-retained.max": "3"})
    for number in range(6):
        made.add("a", range(number * 10, number * 10 + 10))
    return made


def passed(table: DeletingTable, switch: Switch | None = None, **compaction: str) -> RunReport:
    folder = table.folder.as_posix()
    document = {"version": 1, "rules": [{"tables": folder, **LOCKED, "compaction": compaction}]}
    (table.folder / "policy.json").write_text(json.dumps(document))
    store = table.store if switch is None else FaultyStore(table.store, switch, "table")
    target = table.table(store, policy=f"{folder}/policy.json", open_store=LocalStore)
    return maintain(target, MaintainArguments(is_due=True), execute=True)


def test_a_pass_compacts_by_policy_and_the_next_passes_find_nothing(table: DeletingTable) -> None:
    """Its own commit makes no work: the pass after it, and each later one, commits nothing."""
    before = sorted(map(str, table.rows()))
    report = passed(table, partition_idle_time="1 ms")
    assert [each.operation for each in report.steps or ()] == ["expire-snapshots", "compact"]
    step = step_of(report)
    assert step is not None and step.commits is not None
    assert (report.status, [made.snapshot_id for made in step.commits.made]) == ("done", [7])
    assert len(table.data_files()) == 1 and sorted(map(str, table.rows())) == before
    for _ in range(3):
        for name in ("state.json", "cache.bin"):
            for path in table.folder.glob(f"control/**/{name}"):
                path.unlink()
        again = passed(table, partition_idle_time="1 ms")
        assert step_of(again) is None and table.newest().snapshot.id == 7


def test_a_partition_into_which_somebody_writes_is_left_alone(table: DeletingTable) -> None:
    assert step_of(passed(table, partition_idle_time="1 h")) is None
    assert table.newest().snapshot.id == 6


class _NoDataFile(Switch):
    def _run(self, name: str, call: Any) -> Any:
        if name.startswith("table put dt=a"):
            raise StorageError("no data file today", code="storage_error")
        return super()._run(name, call)


def test_a_compaction_that_fails_hides_nothing(table: DeletingTable) -> None:
    """The snapshots that were due expire, and the report says both."""
    report = passed(table, _NoDataFile(), partition_idle_time="1 ms")
    snapshots, step = report.steps or ()
    assert (snapshots.operation, snapshots.status, snapshots.executed) == ("expire-snapshots", "done", True)
    assert step.refusal is not None and "no data file today" in step.refusal.message
    assert (report.status, step.status, report.refusal) == ("refused", "refused", step.refusal)
    assert step_of(passed(table, partition_idle_time="1 ms")) is None, "not before the next commit, or an hour"
