"""A plan of many orphans, and crews that carry it out in this process: the same work that executors do."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import is_object_row
from lakesweep.control.ledger_rows import day_of
from lakesweep.control.ndjson import unpack
from lakesweep.execute.attempt import Environment
from lakesweep.execute.waves.driver import Workers
from lakesweep.execute.waves.slices import Assignment, Site, SliceResult, work
from lakesweep.model.plan import PlanHeader
from lakesweep.model.report import RunReport
from lakesweep.runs.execution import PlanExecutor, executor_of
from lakesweep.storage.guard import Guard
from lakesweep.storage.store import Store
from tests.support.orphan_scene import FOLDER, OPERATION, OrphanScene, unique

Rows = list[dict[str, Any]]


def planted(scene: OrphanScene, count: int) -> list[str]:
    """Commit a file, write orphans beside it, and let them grow old; return their keys in order."""
    scene.table.commit("+A")
    keys = sorted(f"{FOLDER}data-{unique(str(number))}-0.parquet" for number in range(count))
    for key in keys:
        scene.put(key)
    scene.age()
    return keys


def planned(scene: OrphanScene) -> PlanHeader:
    """Store the plan that takes a scene's orphans."""
    no_history = "snapshots are taken away and come back"
    plan = scene.maintainer().run(OPERATION, execute=False, no_history=no_history).plan
    assert plan is not None
    return plan.header


@dataclass
class Team:
    """Carries plans out in waves, in threads of this process."""

    scene: OrphanScene
    slice_keys: int = 50
    wave_keys: int = 200
    assignments: int = 3
    keys_per_s: float = 2000
    before_wave: Callable[[int], None] = lambda number: None
    """Called with the number of each wave, after the look and before its first deletion."""
    work: Callable[[Site, Assignment], Iterable[SliceResult]] = work
    wrap: Callable[[Store], Store] = lambda store: store
    """Makes what its processes use as the table's store."""
    waves: list[Sequence[Assignment]] = field(default_factory=list)

    @property
    def engine(self) -> PlanExecutor:
        """Return it as an engine."""
        return executor_of(self._workers)

    def execute(self, plan_id: str, **arguments: Any) -> RunReport:
        """Execute a stored plan."""
        return self.scene.maintainer(self.wrap(self.scene.store)).execute(plan_id, engine=self.engine, **arguments)

    def _workers(self, env: Environment) -> Workers:
        site = Site(env.stores, env.area, self.scene._sleep, lambda: self.scene.now_ms / 1000)

        def run_wave(assignments: Sequence[Assignment], _: Guard) -> list[SliceResult]:
            self.waves.append(assignments)
            self.before_wave(len(self.waves))
            with ThreadPoolExecutor(max_workers=self.assignments) as pool:
                return [
                    result
                    for results in pool.map(lambda assignment: list(self.work(site, assignment)), assignments)
                    for result in results
                ]

        return Workers(run_wave, self.assignments, self.keys_per_s, self.slice_keys, self.wave_keys)


def ledger_rows(scene: OrphanScene, run_id: str | None) -> Rows:
    """Return what the ledger of a run says, part after part."""
    assert run_id is not None
    area = ControlArea(scene.control, scene.store.location)
    names = area.names(f"ledger/dt={day_of(run_id)}/{run_id}/")
    return [row for name in names for row in unpack(area.read(name).data, name) if is_object_row(row)]


def results_of(rows: Rows) -> Counter[tuple[str, str, str, int]]:
    """Return how often each object has each result."""
    return Counter((row["key"], row["kind"], row["result"], row["size_bytes"]) for row in rows if "result" in row)


OF_RUN = ("plan_id", "run_id", "requests", "receipt", "actions")


def comparable(report: RunReport) -> dict[str, object]:
    """Return a report without what differs from run to run."""
    document = report.to_json()
    outcome: Any = document["outcome"]
    if outcome:
        outcome["failed"].sort(key=lambda failed: failed["path"])
    return {key: value for key, value in document.items() if key not in OF_RUN}
