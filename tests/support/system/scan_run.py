"""Scans for orphan files while writers commit: what `make system SCAN=1` does besides, and what it finds wrong.

Orphans are planted in every table, and all that roots refer to is made to look as old as they: so nothing stays for
its age alone but what is young in truth. A scan of each table is asked for by hand, one after the other, and carried
out. When the writers have stopped, orphans are planted once more, and the schedule comes for as many intervals as it
takes: its first scan of an orphan notes it, and the next one removes it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.orphan_tables import Shape
from lakesweep.control.area import ControlArea
from lakesweep.errors import ObjectNotFoundError
from lakesweep.model.plan import Plan
from tests.support.system.backdoor import Backdoor
from tests.support.system.deployed import PREFIX, System
from tests.support.system.filled_table import FilledTable, write_filled
from tests.support.system.live_watch import LiveWatch, referenced_keys
from tests.support.system.planting import OLD_S, Planted, plant
from tests.support.system.scan_bill import Bill, BillWatch
from tests.support.system.scans import TRIGGER, Scan, ask_for_scan, paths_of, scans_of

INTERVAL_S = 7 * 86_400.0
SWEEPS = 3
"""The first one sees a table for the first time and says when its first scan is due; two scans follow."""
WAIT_S = 240.0
"""Seconds of work, for one scan and what it deletes."""
LARGE = "large.db/events"
PARTITIONS, ROOTS = 100, 100
NEAR = 0.2
"""So far an estimate may be off."""
OWN_NEAR = 0.05
UNCOUNTED = 20
"""So many requests the difference may be in any case: a result cannot count that it was written, for one."""
LARGE_SCAN = 500
"""Requests. The estimate of a smaller scan is told, and not judged: nearly all of it is what every scan takes."""
_REQUESTS = ("list", "get", "head", "put", "delete")


@dataclass
class ScanRun:
    """Scans of some tables of a system."""

    system: System
    say: Callable[[str], object] = print
    objects: int = 0
    """Of one more table, that nobody writes to."""
    problems: list[str] = field(default_factory=list)
    planted: dict[str, list[Planted]] = field(default_factory=dict)
    """Path of a table below the warehouse -> what was planted there."""
    scans: int = 0
    deleted: int = 0
    dollars: float = 0.0

    def __post_init__(self) -> None:
        """Begin to watch."""
        self.watch = LiveWatch(self.system.aws, self.system.bucket, [f"{PREFIX}/{LARGE}"])
        self.bills = BillWatch(self.system)
        self.filled: FilledTable | None = None
        if self.objects:
            self.say(f"Writing a table of {self.objects} objects, of which one in a hundred is an orphan")
            self.filled = write_filled(self.system, LARGE, Shape(self.objects, PARTITIONS, ROOTS))

    def manual(self, tables: Sequence[str]) -> None:
        """Ask for a scan of each table in turn, and have its plan carried out.

        Args:
            tables: Their paths below the warehouse.
        """
        for table in tables:
            planted = self._plant(table, "by hand")
            plan = self._scanned(table, self.system.location(table))
            if plan is not None:
                self._compare(table, planted, plan)
                self.problems += planted.problems(self.system.store(table))
        if self.filled is not None:
            plan = self._scanned(LARGE, self.filled.location)
            if plan is not None and paths_of(plan) != self.filled.orphans:
                wrong = paths_of(plan) ^ self.filled.orphans
                self.problems.append(f"{LARGE}: the plan is wrong about {len(wrong)} objects, such as {min(wrong)}")
            self.problems += self.filled.problems(self.system)

    def by_schedule(self, tables: Sequence[str]) -> None:
        """Let the schedule come until its scans have removed what is planted now, and what was young before.

        Nobody else may be at work: weeks are skipped.
        """
        for table in tables:
            self._plant(table, "by schedule")
        self.bills.restart()
        before = self._count_scans(tables)
        for tour in range(SWEEPS):
            if tour:
                self.system.pass_time(INTERVAL_S, step_s=INTERVAL_S)
            if tour == SWEEPS - 1:
                for table in tables:  # the scan before this one only noted what it saw
                    self.problems += self.planted[table][-1].problems(self.system.store(table), gone=False)
            self.system.tick(TRIGGER)
            self.system.settle(WAIT_S)
        for table in tables:
            for planted in self.planted[table]:
                self.problems += planted.grown_old().problems(self.system.store(table))
        scans = self._count_scans(tables) - before
        self.scans += scans
        self.say(f"{SWEEPS} tours, {scans} scans by schedule: what the first scan of a table noted, the second removed")
        self._count(self.bills.restart())

    def stays(self, table: str) -> frozenset[str]:
        """Return what nobody needs in a table, and nobody may remove however old it is."""
        return frozenset().union(*(planted.strange for planted in self.planted.get(table, ())))

    def summary(self) -> str:
        """Say it in a few words."""
        return f"{self.scans} scans, {self.deleted} orphans deleted, {self.dollars:.4f} USD"

    def all_problems(self) -> list[str]:
        """Return what is wrong, with what was deleted though a root referred to it."""
        return [*self.problems, *self.watch.problems]

    # --- inside ---

    def _plant(self, table: str, seed: str) -> Planted:
        store: Backdoor = self.system.backdoor(table)
        store.age(OLD_S, referenced_keys(store))
        planted = plant(store, seed)
        self.planted.setdefault(table, []).append(planted)
        return planted

    def _count_scans(self, tables: Sequence[str]) -> int:
        return sum(len(scans_of(self.system, self.system.location(table))) for table in tables)

    def _scanned(self, table: str, location: str) -> Plan | None:
        self.bills.restart()
        began_s = self.system.clock.work.now()
        scan = ask_for_scan(self.system, location, execute=True)
        self.scans += 1
        result = self._wait(scan.result)
        if result is None or result["status"] != "planned":
            self.problems.append(f"{table}: the scan {scan.scan_id} came to {result}")
            return None
        plan = scan.plan()
        assert plan is not None
        planned_s = self.system.clock.work.now() - began_s
        if self._wait(lambda: _report(self.system, location, plan.header.plan_id)) is None:
            self.problems.append(f"{table}: plan {plan.header.plan_id} was not carried out")
        bill = self.bills.restart()
        self.deleted += plan.header.action_count
        for line in _told(table, scan, plan, planned_s):
            self.say(line)
        self._judge_counts(table, result, bill)
        self._count(bill)
        return plan

    def _judge_counts(self, table: str, result: Mapping[str, Any], bill: Bill) -> None:
        """Hold the scan's own count of its requests, and the estimate, against what the door saw."""
        seen, own = bill.of_scan, _requests(result.get("requests"))
        estimated = _requests((result.get("estimate") or {}).get("requests"))
        off = "" if estimated is None else f", estimated {estimated} ({100 * (estimated - seen) / seen:+.0f} %)"
        self.say(f"  requests to S3: {seen}, {own} by its own count{off}")
        if own is not None and abs(seen - own) > max(UNCOUNTED, OWN_NEAR * seen):
            self.problems.append(f"{table}: the scan counted {own} requests; the door saw {seen}")
        if estimated is not None and seen >= LARGE_SCAN and abs(estimated - seen) > NEAR * seen:
            self.problems.append(f"{table}: {estimated} requests were estimated; the door saw {seen}")

    def _wait(self, look: Callable[[], dict[str, object] | None]) -> dict[str, object] | None:
        work = self.system.clock.work
        end_s = work.now() + WAIT_S
        while (found := look()) is None and work.now() < end_s:
            time.sleep(0.1)
        return found

    def _compare(self, table: str, planted: Planted, plan: Plan) -> None:
        """Hold a plan against what was planted. Besides, it may name what expired while the scan ran."""
        planned = paths_of(plan)
        for path in sorted(planted.goes.keys() - planned):
            self.problems.append(f"{table}: the scan did not find {path}")
        for path in sorted(planned - planted.goes.keys()):
            if path in planted.stays or self._is_there(table, path):
                self.problems.append(f"{table}: the scan took {path} for an orphan")

    def _is_there(self, table: str, path: str) -> bool:
        return path in referenced_keys(self.system.backdoor(table))

    def _count(self, bill: Bill) -> None:
        for line in bill.lines():
            self.say(line)
        self.dollars += sum(bill.dollars().values())


def _told(table: str, scan: Scan, plan: Plan, planned_s: float) -> Iterator[str]:
    result = scan.result() or {}
    tasks = result.get("tasks", {})
    shards = ", ".join(f"{count} {kind}" for kind, count in tasks.items())
    listed = ", ".join(
        f"{result[name]} {what}"
        for name, what in (
            ("objects", "objects"),
            ("roots", "roots"),
            ("manifests", "manifests"),
            ("manifests_decoded", "of them decoded"),
            ("entries_decoded", "entries decoded"),
            ("spill_parts", "spill parts"),
        )
        if name in result
    )
    yield f"scan {scan.scan_id} of {table}: planned after {planned_s:.1f} s; tasks: {shards or 'none'}; {listed}"
    header = plan.header
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(plan.delete_kinds.items()))
    kept = ", ".join(f"{why} {count}" for why, count in header.kept.items())
    yield f"  plan {header.plan_id} {header.content_hash}: {header.action_count} objects, {plan.delete_bytes} bytes"
    yield f"  by kind: {kinds or 'nothing'}; kept: {kept}"


def _requests(counts: Any) -> int | None:
    """Return how many requests a document speaks of, as a number or by kind."""
    if isinstance(counts, Mapping):
        return sum(int(counts.get(kind, 0)) for kind in _REQUESTS)
    return None if counts is None else int(counts)


def _report(system: System, location: str, plan_id: str) -> dict[str, object] | None:
    area = ControlArea(system.control(), location)
    try:
        area.read(f"reports/{plan_id}.json")
    except ObjectNotFoundError:
        return None
    return {"there": True}
