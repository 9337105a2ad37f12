"""Scans for orphan files on the running system: ask for one, and find what came of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_header, load_part, load_plan
from lakesweep.errors import ObjectNotFoundError
from lakesweep.model.plan import Delete, Plan
from lakesweep.operations.orphans.scan import OPERATION
from tests.support.engines_compared import Answer, ask
from tests.support.system.deployed import System
from tests.support.system.hand import Hand

SCAN, WORKER = "OrphanScan", "OrphanWorker"
"""The functions of a scan."""
SCAN_QUEUE, ORPHAN_QUEUE = "ScanQueue", "OrphanQueue"
TRIGGER = "OrphanTrigger"
ENGINE = "lambda"


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan that was asked for."""

    system: System
    location: str
    scan_id: str

    @property
    def folder(self) -> ControlArea:
        """Return where its documents are, each below its id."""
        return ControlArea(self.system.control(), self.location, root="scans")

    def result(self) -> dict[str, Any] | None:
        """Return what it came to, `None` as long as it goes on."""
        try:
            return dict(json.loads(self.folder.read(f"{self.scan_id}/result.json").data))
        except ObjectNotFoundError:
            return None

    def story(self, lines: int = 25) -> str:
        """Return what its functions logged last, for who wants to know why it came to nothing."""
        done = [each for each in self.system.invocations if each.function in (SCAN, WORKER)]
        said = [
            f"{each.caller} {each.error} {line.get('message')} {line.get('why', '')}"[:300]
            for each in done
            for line in each.lines
            if self.location in str(line) and "_aws" not in line
        ]
        return "\n".join([*said[-lines:], f"left: {self.system.backlog()}, tasks done: {self.tasks()}"])

    def tasks(self) -> list[str]:
        """Return the ids of the tasks that are done."""
        folder = f"{self.scan_id}/tasks/"
        return sorted(name.removeprefix(folder) for name in self.folder.names(folder))

    def plan(self) -> Plan | None:
        """Return its plan with all actions, `None` if there is none."""
        result = self.result()
        plan_id = None if result is None else result["plan_id"]
        return None if plan_id is None else stored_plan(self.system, self.location, plan_id)

    def answer(self) -> Answer:
        """Return what engines are compared by."""
        plan = self.plan()
        assert plan is not None, self.result()
        return ask(lambda: plan, ControlArea(self.system.control(), self.location))


def ask_for_scan(system: System, location: str, *, execute: bool = False, **arguments: object) -> Scan:
    """Ask for a scan of a table by hand."""
    event = {
        "operation": OPERATION,
        "table": location,
        "arguments": {"engine": ENGINE, **arguments},
        "execute": execute,
    }
    done = system.invoke("OnDemand", event)
    assert not done.error and done.value["queued"], done.value
    return Scan(system, location, done.value["scan_id"])


def scans_of(system: System, location: str) -> list[Scan]:
    """Return all scans of a table, in the order of their ids, which is that of their beginnings."""
    area = ControlArea(system.control(), location, root="scans")
    ids = {name.partition("/")[0] for name in area.names("")} - {"plans"}
    return [Scan(system, location, scan_id) for scan_id in sorted(ids)]


def stored_plan(system: System, location: str, plan_id: str) -> Plan:
    """Return a stored plan with the actions of all its parts."""
    area = ControlArea(system.control(), location)
    header = load_header(area, plan_id)
    if not header.parts:
        return load_plan(area, plan_id)
    return Plan(header, tuple(action for part in header.parts for action in load_part(area, header, part)))


def paths_of(plan: Plan) -> set[str]:
    """Return what a plan takes."""
    return {action.path for action in plan.actions if isinstance(action, Delete)}


def answer_of_one_process(system: System, location: str, **arguments: object) -> Answer:
    """Plan the same in one process, and return what engines are compared by."""
    hand = Hand(system, 900)
    table = hand.table(location)
    assert table.area is not None

    def plan() -> Plan:
        report = hand.run(location, OPERATION, execute=False, **arguments)
        assert report.plan is not None, report
        return report.plan

    return ask(plan, table.area)


def without(answer: Answer, names: Sequence[str]) -> Answer:
    """Leave some of the facts out of a comparison."""
    return replace(answer, facts={name: fact for name, fact in answer.facts.items() if name not in names})
