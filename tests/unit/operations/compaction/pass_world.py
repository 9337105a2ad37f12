"""A table for passes that look at data files."""

import json
from dataclasses import replace
from typing import Any

from lakesweep.control.state import BranchState, read_states
from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import triage
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.world import HOUR_MS, World

FILES = Catalog("filesystem", has_lock=True)
DAY_MS = 24 * HOUR_MS
KEEP = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1000", "snapshot.time-retained": "365 d"}
"""No snapshot expires."""
LOCKED = {"mode": "delete", "catalog_type": "filesystem", "catalog_lock": True, "time_zone": "UTC"}


class PassWorld(World):
    """A table of small files in two partitions, one file a commit."""

    def __init__(self, commits: int = 6, **table: Any) -> None:
        keys = {"partition_keys": ["dt"], **table}
        super().__init__(**{**keys, "options": {**KEEP, **table.get("options", {})}})
        self.ops = MemoryStore("memory://ops")
        self.append("a", commits)

    def append(self, dt: str, commits: int = 1) -> None:
        for _ in range(commits):
            number = max(self.table.ids("snapshot"), default=0) + 1
            self.table.hint("LATEST", self.table.commit(f"+F{number}", time_ms=self.now_ms, partition=(dt,)))
            self.now_ms += 1000

    def table_of(self, rule: dict[str, Any] | None, *, may_commit: bool = False) -> Table:
        policy = None
        if rule is not None:
            document = {"version": 1, "rules": [{"tables": "memory://bucket", **rule}]}
            self.ops.put("policy.json", json.dumps(document).encode())
            policy = "memory://ops/policy.json"
        found = self.maintainer(policy=policy, open_store=opener(self.ops)).table
        return replace(found, may_commit=may_commit, clock_ms=self.clock)

    def pass_(self, rule: dict[str, Any] | None = None, *, execute: bool = True, **arguments: Any) -> RunReport | None:
        """Make a pass that commits nothing itself; return its step about data files."""
        return step_of(maintain(self.table_of(rule), MaintainArguments(**arguments), execute=execute))

    def state(self) -> BranchState:
        return read_states(self.area)["main"]

    def is_due(self) -> bool:
        """Tell whether the newest commit, or the clock, makes a pass due."""
        newest = self.table.ids("snapshot")[-1]
        return triage(self.table_of(None), newest, 0).is_due


def step_of(report: RunReport) -> RunReport | None:
    return next((each for each in report.steps or () if each.operation == "compact"), None)


def said(step: RunReport | None) -> str:
    assert step is not None
    assert (step.status, step.refusal, step.executed) == ("nothing_to_do", None, False)
    (sentence,) = step.warnings
    return sentence
