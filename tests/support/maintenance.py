"""Run operations on a store as an edge would, with clocks that a test controls."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from lakesweep.control.area import ControlArea
from lakesweep.model.paths.stays import Allowance
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.operations.retention.expire_snapshots import plan_expire_snapshots
from lakesweep.runs.parameters.retention_options import ExpireArguments
from lakesweep.runs.run import execute_stored, plan_and_execute, plan_only
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, assert_root_readable
from tests.support.table_builder import TableBuilder

_controls = itertools.count()


@dataclass
class Maintainer:
    """One maintainer of one table, with a control location in memory unless another is given."""

    store: Store
    branch: str = "main"
    control: Store = field(default_factory=lambda: MemoryStore(f"memory://control-{next(_controls)}"))
    open_store: Callable[[str], Store] = MemoryStore
    counter: RequestCounter = field(default_factory=RequestCounter)
    sleep: Callable[[float], None] = lambda seconds: None
    external_roots: tuple[str, ...] = ()
    """What the operator allows outside the table."""
    policy: str | None = None

    @property
    def table(self) -> Table:
        """Return the context that operations take."""
        return Table(
            ref=TableRef(self.store.location, self.branch),
            store=self.store,
            area=ControlArea(self.control, self.store.location),
            open_store=self.open_store,
            counter=self.counter,
            clock_ms=self.store.now_ms,
            sleep=self.sleep,
            allowance=Allowance(self.external_roots),
            policy=self.policy,
        )

    def plan(self, retain_max: int | None = 1, retain_min: int | None = 1, **arguments: object) -> RunReport:
        """Plan an expiry down to the newest snapshot, unless arguments say otherwise."""
        return plan_only(self.table, "expire-snapshots", self.planner(retain_max, retain_min, **arguments))

    def expire(self, retain_max: int | None = 1, retain_min: int | None = 1, **arguments: object) -> RunReport:
        """Expire down to the newest snapshot, unless arguments say otherwise."""
        return plan_and_execute(self.table, "expire-snapshots", self.planner(retain_max, retain_min, **arguments))

    def execute(self, plan_id: str, **arguments: object) -> RunReport:
        """Execute a stored plan."""
        return execute_stored(self.table, plan_id, **arguments)  # type: ignore[arg-type]

    def run(self, operation: str, *, execute: bool = True, **arguments: object) -> RunReport:
        """Run an operation of the registry by its name."""
        return run_operation(self.table, operation, arguments, execute=execute)

    def maintain(self, *, execute: bool = True, **options: str) -> RunReport:
        """Run the pass after a commit."""
        return self.run("maintain", execute=execute, options=options or None)

    @staticmethod
    def planner(retain_max: int | None, retain_min: int | None, **arguments: object) -> Callable[[Table], Plan]:
        """Return the planner for these arguments."""
        chosen = ExpireArguments(retain_max=retain_max, retain_min=retain_min, **arguments)  # type: ignore[arg-type]
        return lambda table: plan_expire_snapshots(table, chosen)


def assert_roots_readable(table: TableBuilder) -> None:
    """Fail unless every root that still exists, of any branch, reads completely."""
    for root in all_roots(table.store):
        assert_root_readable(table, root)
