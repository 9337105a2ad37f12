"""Orphan scans among everything else that happens to a table, request by request: no reader ever misses a file.

A schedule is drawn from a seed: acts begin, make one request at a time and stop for hours; scans run with all of that
between any two of their requests, listings of three keys a page among them. `tests/support/table_world.py` says what
is harm and what a collector may rely on. When everything has come to an end and grown old, a scan takes exactly what an
independent walk says that nobody can reach.

`LAKESWEEP_SCHEDULES` says how many, `LAKESWEEP_SCHEDULE_SEED` which one is first (`random` draws it).
"""

import os
from collections import Counter
from collections.abc import Callable

import pytest

from lakesweep.control.lease import read_lease
from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import OPERATION, plan_remove_orphan_files
from lakesweep.runs.execution import finish_begun, require_area
from lakesweep.runs.run import execute_stored, plan_and_execute, plan_only
from tests.support.interleaving import InterleavedStore, Turns
from tests.support.maintenance import Maintainer
from tests.support.reader import read_all
from tests.support.seeds import first_seed
from tests.support.table_world import (
    CHANGES,
    DAY_MS,
    HOUR_MS,
    WRITERS,
    Act,
    Harm,
    World,
    engine_expires,
)

COUNT = int(os.environ.get("LAKESWEEP_SCHEDULES") or 600)
FIRST_SEED = first_seed("LAKESWEEP_SCHEDULE_SEED")
PARTS = 20
"""So many tests share the schedules."""
MOMENTS = 30
ACTS_AT_ONCE = 4


class Schedule:
    """One world, and who acts in it when."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.random = self.world.random
        self.acts: list[Act] = []
        self.is_executing = False
        self.pace = self.random.choice((0.04, 0.12, 0.3))
        self.is_hot = self.random.random() < 0.4
        """While roots are collected, nearly all that happens is about roots."""
        """How often others act before a request."""

    def run(self) -> None:
        try:
            for _ in range(self.random.choice((1, 1, 2))):
                for _ in range(self.random.randrange(MOMENTS)):
                    self.others()
                self.scan()
            self.come_to_an_end()
        finally:
            for act in self.acts:
                act.close()  # type: ignore[attr-defined]

    def others(self) -> None:
        """Let somebody do the next thing, and let time go by."""
        world, draw = self.world, self.random.random()
        if len(self.acts) < ACTS_AT_ONCE and draw < 0.35:
            self.acts.append(self.begin())
        elif self.acts:
            act = self.random.choice(self.acts)
            world.is_putting_back = isinstance(act, Turns)
            try:
                next(act)
            except StopIteration:
                self.acts.remove(act)
            finally:
                world.is_putting_back = False
        draw = self.random.random()
        if draw < 0.8:
            world.now_ms += self.random.randrange(1000)
        elif draw < 0.97 or self.is_executing:
            world.now_ms += self.random.randrange(60_000)
        elif draw < 0.995:
            world.now_ms += self.random.randrange(4 * HOUR_MS)
        else:
            world.now_ms += self.random.randrange(2 * DAY_MS)

    def begin(self) -> Act:
        """Draw who comes next."""
        world, draw = self.world, self.random.random()
        branch = self.random.choice(("main", "main", *world.branches()))
        if self.is_hot and world.is_collecting:
            draw = 0.5 + draw / 2
        if draw < 0.55:
            return self.random.choice(WRITERS)(world, branch)
        if draw < 0.80:
            return self.random.choice(CHANGES)(world, branch)
        if draw < 0.985:
            return engine_expires(world, branch)
        return Turns(lambda turns: self.our_expiry(branch, turns))

    def our_expiry(self, branch: str, turns: Turns) -> None:
        """Another run of ours."""

        def before(name: str) -> None:
            if not name.startswith("read "):  # each turn of a thread takes long
                turns.pause()

        # A lease allows for one request that takes long, not for many.
        store = InterleavedStore(self.world.store, before, keys=100, deletes_together=True)
        try:
            Maintainer(store, branch, control=self.world.control, sleep=self.sleep_in(turns)).maintain()  # type: ignore[arg-type]
            self.world.seen["expiries of ours"] += 1
        except MaintenanceError:
            pass

    def sleep_in(self, turns: Turns) -> Callable[[float], None]:
        def sleep(seconds: float) -> None:
            self.world.now_ms += int(seconds * 1000)
            turns.pause()

        return sleep

    # Scans.

    def scan(self) -> RunReport | None:
        """Plan and carry out, at once or after a while."""
        world = self.world
        if self.random.random() < 0.4:
            world.now_ms += self.random.randrange(2 * DAY_MS)
        world.excused, world.collects, world.is_collecting = set(), world.collects + 1, True
        store = InterleavedStore(world.store, self.before)
        table = Maintainer(store, control=world.control, sleep=self.sleep).table  # type: ignore[arg-type]
        # Writers of these schedules drop branches, and die between a branch's snapshots and its schema.
        arguments = OrphanArguments(quarantine_ms=world.quarantine_ms, no_history="a branch was dropped halfway")
        report = None

        def planner(target: object) -> object:
            self.is_executing = False
            plan = world.note_plan(plan_remove_orphan_files(target, arguments))  # type: ignore[arg-type]
            self.is_executing = True
            return plan

        try:
            if self.random.random() < 0.7:
                report = plan_and_execute(table, OPERATION, planner)  # type: ignore[arg-type]
            else:
                report = plan_only(table, OPERATION, planner)  # type: ignore[arg-type]
                self.is_executing = False
                if report.plan is not None and report.status == "planned":
                    for _ in range(self.random.randrange(20) if self.pace else 0):
                        self.others()
                    self.is_executing = True
                    report = execute_stored(table, report.plan.header.plan_id)
        except MaintenanceError as error:
            world.seen[f"scans: {error.code}"] += 1
        finally:
            self.is_executing = world.is_collecting = world.is_looking = False
            world.planned = set()
        if report is not None:
            code = f" ({report.refusal.code})" if report.refusal else ""
            world.seen[f"scans: {report.status}{code}"] += 1
            if report.outcome:
                world.seen["files deleted"] += report.outcome.deleted
                world.seen["files kept by a look"] += report.outcome.kept_by_recheck
        return report

    def before(self, name: str) -> None:
        world = self.world
        if name == "list branch/" and not self.is_executing:
            world.collects += 1
        if self.is_executing and name == "list snapshot/":
            world.is_looking = True  # until the deletions that the look is for are done
        pace = 0.5 if self.is_hot and self.pace and world.is_collecting else self.pace
        if self.random.random() < pace:
            for _ in range(self.random.choice((1, 1, 2, 3, 8))):
                self.others()
        world.is_putting_back = name.startswith("put ")  # of an expiry that began before and is finished first

    def sleep(self, seconds: float) -> None:
        self.world.now_ms += int(seconds * 1000)
        if self.pace:
            self.others()

    # The end.

    def come_to_an_end(self) -> None:
        """Everybody finishes; all grows old; what nobody reaches goes, and nothing else."""
        world = self.world
        world.collects += 9
        for act in self.acts:
            world.is_putting_back = isinstance(act, Turns)
            for _ in act:
                pass
        world.is_putting_back = False
        self.acts.clear()
        for branch in ("main", *world.branches()):
            for _ in range(2):
                for _ in engine_expires(world, branch, dies=False):
                    pass
        self.pace = 0
        world.now_ms += 30 * DAY_MS
        table = Maintainer(world.store, control=world.control, sleep=self.sleep).table
        finish_begun(table, read_lease(require_area(table)))
        if not world.roots:
            return  # a rollback to what an expiry was taking
        for _ in range(3):
            orphans, before = world.orphans(), set(world.store._objects)
            report = self.scan()
            assert report is not None, world.seen
            gone = before - world.store._objects.keys()
            if world.quarantine_ms is None or not orphans:
                break
            world.now_ms += 2 * DAY_MS
        assert report.plan is not None, report
        damaged = set(report.plan.header.findings["damaged_roots"])  # type: ignore[call-overload]
        if damaged:
            # Others left these without files: an expiry that died, or went past a branch; or a branch became main that
            # began with a tag, whose snapshot took its changelog with it.
            world.seen["ends with damage"] += 1
            assert damaged <= world.incomplete(), damaged - world.incomplete()
            assert all(".tmp" in key for key in gone), sorted(gone)[:9]
        else:
            world.seen["clean ends"] += 1
            assert gone == orphans, (sorted(gone - orphans)[:9], sorted(orphans - gone)[:9])
            if self.random.random() < 0.05:
                for branch in world.branches():  # one that was being dropped may have none
                    world.put(f"branch/branch-{branch}/schema/schema-0", world.schema)
                read_all(world.store)  # the model of needs is right


def play(seed: int) -> Counter[str]:
    """Play one schedule and return what happened in it."""
    schedule = Schedule(seed)
    try:
        schedule.run()
    except (Harm, AssertionError, MaintenanceError) as error:
        raise AssertionError(f"schedule {seed}: {error}") from error
    return schedule.world.seen


@pytest.mark.parametrize("part", range(PARTS))
def test_no_reader_misses_a_file(part: int, record_property: Callable[[str, object], None]) -> None:
    seen: Counter[str] = Counter()
    for seed in range(FIRST_SEED + part, FIRST_SEED + COUNT, PARTS):
        seen += play(seed)
        seen["schedules"] += 1
    record_property("schedules", dict(seen))
