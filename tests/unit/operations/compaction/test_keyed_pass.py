"""Tables with a primary key in the pass after a commit: when it looks at level 0, and what it compacts by policy."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import lag_of
from lakesweep.runs.session import COMMITS_ELSEWHERE
from lakesweep.storage.clock import wall_ms
from lakesweep.storage.local.store import LocalStore
from tests.support.keyed_table import KeyedTable
from tests.unit.operations.compaction.pass_world import DAY_MS, FILES, KEEP, LOCKED, PassWorld, said, step_of

MINUTE_MS = 60_000
AGE_MS = 10 * MINUTE_MS
ALONE = {"write-only": "true"}
VECTORS = {**ALONE, "deletion-vectors.enabled": "true"}
AGE = {**LOCKED, "compaction": {"level_0_age": "10 min"}}


class KeyedWorld(PassWorld):
    """A table with a key, one file of level 0 a commit."""

    def __init__(self, commits: int = 1, options: dict[str, str] = VECTORS, **table: Any) -> None:
        super().__init__(commits, primary_keys=["dt", "id"], options=options, **table)


def report_of(step: RunReport | None) -> CompactionReport:
    assert step is not None and isinstance(step.commits, CompactionReport)
    return step.commits


def test_a_pass_says_once_a_day_which_rows_nobody_sees() -> None:
    world = KeyedWorld(6)
    assert "60 rows in 6 files of level 0 are invisible: `lakesweep compact TABLE` would merge 6 of its 6" in said(
        world.pass_(LOCKED)
    )
    world.append("a")
    assert world.pass_(LOCKED, is_due=True) is None and not world.is_due()
    world.now_ms += DAY_MS
    assert "70 rows in 7 files" in said(world.pass_(LOCKED, is_due=True))
    assert "60 rows in 6 files" in said(KeyedWorld(6).pass_(catalog=FILES, execute=False)), "a dry run always looks"


def test_what_a_look_costs() -> None:
    """What one at an append table costs, and a listing of schemas."""
    spent = []
    for rule in ({**LOCKED, "compaction": False}, AGE):
        world = KeyedWorld(6)
        _, requests = world.spent(world.pass_, rule)
        spent.append(requests)
    looked = {kind: spent[1][kind] - spent[0][kind] for kind in spent[0]}
    assert {kind: count for kind, count in looked.items() if count} == {"get": 12, "list": 1}


@pytest.mark.parametrize(("least", "says"), [(60, False), (61, True)])
def test_few_rows_are_not_worth_a_job_on_spark(least: int, says: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both what a pass suggests and what it leaves to another process say so. The rows are merged all the same."""
    monkeypatch.setattr("lakesweep.operations.compaction.rules.break_even.SPARK_ROWS", least)
    assert ("one process merges them cheaper" in said(KeyedWorld(6).pass_(LOCKED))) is says
    world = KeyedWorld(6)
    world.now_ms += AGE_MS
    step = world.pass_(AGE)
    assert step is not None and step.status == "planned"
    assert ["one process merges them cheaper" in each for each in step.warnings] == [False, *([True] if says else [])]


def test_without_vectors_readers_merge() -> None:
    sentence = said(KeyedWorld(6, ALONE).pass_(LOCKED))
    assert "`lakesweep compact TABLE` would merge 6 of its 6 data files" in sentence and "invisible" not in sentence


@pytest.mark.parametrize("options", [{}, {**VECTORS, "merge-engine": "aggregation"}, {**VECTORS, "bucket": "-2"}])
def test_no_word_where_compact_would_refuse(options: dict[str, str]) -> None:
    assert KeyedWorld(6, options).pass_(LOCKED) is None


def test_where_the_policy_compacts_a_refusal_is_a_warning() -> None:
    """It says what to do; a declaration in the policy does."""
    refused = said(KeyedWorld(1, {"deletion-vectors.enabled": "true"}).pass_(AGE))
    assert "--sole-compactor" in refused and "Lakesweep compacts no data files here" in refused
    world = KeyedWorld(1, {"deletion-vectors.enabled": "true"})
    world.now_ms += AGE_MS
    step = world.pass_({**LOCKED, "compaction": {"level_0_age": "10 min", "sole_compactor": True}})
    assert step is not None and step.status == "planned"


def test_a_pass_looks_when_the_oldest_file_of_level_0_is_old_enough() -> None:
    """Whichever number its commit has. Commits before that time end in the triage."""
    world = KeyedWorld(2)
    written_ms = world.now_ms - 2000
    assert world.pass_(AGE) is None, "the file is too young"
    assert world.state().files_next_ms == written_ms + AGE_MS + 1
    for _ in range(3):
        world.append("a")
        assert not world.is_due()
    world.now_ms = written_ms + AGE_MS
    assert not world.is_due()
    world.now_ms += 1
    assert world.is_due()
    step = world.pass_(AGE, is_due=True)
    assert step is not None and step.status == "planned" and COMMITS_ELSEWHERE in step.warnings[0]
    assert report_of(step).files == 5, "younger files of level 0 are merged with the old one"


def test_the_next_look_is_not_before_the_time_is_over_again() -> None:
    """Whatever another process does meanwhile. If nobody commits, a sweep finds the table after an hour."""
    world = KeyedWorld(2)
    world.now_ms += AGE_MS
    looked_ms = world.now_ms
    assert report_of(world.pass_(AGE)).files == 2
    world.append("a")
    for ms in (1, AGE_MS):
        world.now_ms = looked_ms + ms
        assert not world.is_due()
    world.now_ms += 1
    assert world.is_due()
    lag = lag_of(world.table_of(None), world.state())
    assert lag is not None and lag.lag_ms == 0
    assert world.state().files_next_ms == looked_ms + 60 * MINUTE_MS


def test_an_observed_table_is_looked_at_once_a_day_without_commits() -> None:
    world = KeyedWorld(2)
    world.now_ms += AGE_MS
    step = world.pass_({**AGE, "mode": "observe"}, is_due=True)
    assert step is not None and (step.status, step.warnings) == ("planned", ())
    assert world.state().files_next_ms == world.now_ms + DAY_MS


def test_a_short_time_makes_no_pass_a_minute() -> None:
    world = KeyedWorld()
    world.now_ms += AGE_MS
    looked_ms = world.now_ms
    world.pass_({**LOCKED, "compaction": {"level_0_age": "1 s"}})
    assert world.state().files_from_ms == looked_ms + MINUTE_MS


def test_without_a_zone_a_file_counts_as_old() -> None:
    """The clock of its writer may be 14 hours ahead of UTC."""
    rule = {key: value for key, value in AGE.items() if key != "time_zone"}
    assert report_of(KeyedWorld().pass_(rule)).files == 1
    assert KeyedWorld().pass_({**rule, "time_zone": "UTC"}) is None


def test_the_idle_time_of_append_tables_does_not_count() -> None:
    world = KeyedWorld()
    world.now_ms += AGE_MS
    assert report_of(world.pass_({**LOCKED, "compaction": {"level_0_age": "10 min", "partition_idle_time": "9 d"}}))


# In this process, with rows.


class PassTable(KeyedTable):
    """A table that passes compact by policy."""

    passes = 0

    def pass_(self) -> RunReport:
        """Make a pass an hour after the one before, by the clock that says when to look."""
        folder = self.folder.as_posix()
        document = {"version": 1, "rules": [{**AGE, "time_zone": "+14:00", "tables": folder}]}
        (self.folder / "policy.json").write_text(json.dumps(document))
        self.passes += 1
        later_ms = self.passes * 60 * MINUTE_MS
        target = self.table(policy=f"{folder}/policy.json", open_store=LocalStore)
        target = replace(target, clock_ms=lambda: wall_ms() + later_ms)
        return maintain(target, MaintainArguments(is_due=True), execute=True)


def test_one_pass_makes_new_rows_visible(tmp_path: Path) -> None:
    """Those of a key that was there replace the older ones, and a pass without new rows commits nothing."""
    table = PassTable(tmp_path, KEEP)
    table.put({("a", 1): 1.0, ("a", 2): 1.0, ("b", 3): 1.0})
    assert table.rows() == table.rows_of_pypaimon() == []
    report = table.pass_()
    assert report.status == "done"
    assert sum(each.level_0_rows for each in report_of(step_of(report)).buckets or ()) == 3
    table.check()
    before = table.rows()
    table.put({("a", 2): 2.0, ("b", 4): 2.0})
    table.put({("b", 4): 3.0, ("c", 5): 3.0})
    assert table.rows() == before
    assert table.pass_().status == "done"
    table.check()
    newest = table.newest().snapshot
    assert newest.commit_kind == "COMPACT"
    assert step_of(table.pass_()) is None and table.newest().snapshot.id == newest.id


def test_the_policy_may_declare_that_nobody_else_compacts(tmp_path: Path) -> None:
    """For calls by hand, too; and the call may."""
    table = PassTable(tmp_path, {"write-only": "false"})
    table.put({("a", 1): 1.0})
    refused = table.compact().refusal
    assert refused is not None and refused.code == "not_alone"
    rule = {"tables": str(tmp_path), "compaction": {"level_0_age": "9 d", "sole_compactor": True}}
    (tmp_path / "policy.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
    declared = table.table(policy=f"{tmp_path}/policy.json", open_store=LocalStore)
    assert table.compact(table=declared, execute=False).status == "planned", "an age is for passes alone"
    assert table.compact(sole_compactor=True).status == "done"
    table.check()
