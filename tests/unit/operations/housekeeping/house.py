"""A table with runs of every age, whose control location is kept tidy."""

from typing import Any

from lakesweep.control.area import ControlArea, to_json_bytes
from lakesweep.control.audit.verify import Audit, audit
from lakesweep.control.plans import plan_ids
from lakesweep.control.reports import run_ids
from lakesweep.model.control_retention import ControlRetention
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.housekeeping import Count
from lakesweep.operations.housekeeping.location import Call, house_of_table
from lakesweep.operations.housekeeping.table import TableHouse
from tests.support.faulty_store import Switch
from tests.support.world import World

DAY_MS = 86_400_000
PLANS = ControlRetention(plans_ms=30 * DAY_MS, reports_ms=60 * DAY_MS)
ALL = ControlRetention(plans_ms=30 * DAY_MS, reports_ms=60 * DAY_MS, ledger_ms=60 * DAY_MS)


class House(World):
    """A versioned table of which some snapshots expire now and then."""

    def __init__(self, **details: Any) -> None:
        super().__init__(**{"versioned": True, **details})

    def days(self, count: float) -> None:
        """Let time pass."""
        self.now_ms += int(count * DAY_MS)

    def expiry(self) -> str:
        """Commit twice, expire all but the newest snapshot, and return the run's id, which is that of its plan."""
        self.replace()
        self.replace()
        self.now_ms += 60_000
        report = self.expire()
        assert report.run_id is not None
        return report.run_id

    def planned(self) -> str:
        """Commit, and store a plan that nobody executes."""
        self.replace()
        self.replace()
        plan = self.maintainer().plan().plan
        assert plan is not None
        return plan.header.plan_id

    def put(self, key: str, data: bytes = b"x") -> None:
        """Write an object into the control location."""
        self.control.put(key, data)

    def put_document(self, name: str, document: object) -> None:
        """Write a document of the table."""
        self.area.put(name, to_json_bytes(document))

    def tidy(
        self,
        retention: ControlRetention = PLANS,
        *,
        switch: Switch | None = None,
        execute: bool = True,
        gone: bool = False,
    ) -> TableHouse:
        """Keep house."""
        call = Call(FleetPolicy("", (), control=retention), execute=execute, gone=gone)
        return house_of_table(self.maintainer(switch).table, call).tables[0]

    def names(self, place: str = "tables") -> set[str]:
        """Return the names of the table's documents."""
        prefix = ControlArea(self.control, self.store.location, place).prefix
        return {entry.key.removeprefix(prefix) for entry in self.control.list(prefix)}

    def plans(self) -> list[str]:
        return plan_ids(self.area)

    def reports(self) -> list[str]:
        return run_ids(self.area)

    def audited(self) -> Audit:
        """See that nothing is broken, and return what the audit says."""
        found = audit(self.area)
        assert found.is_whole, found
        return found


def going(house: TableHouse) -> dict[str, int]:
    """Return kind -> number of documents that go."""
    return _sums(house.going)


def kept(house: TableHouse) -> dict[tuple[str, str], int]:
    """Return kind and reason -> number of documents that stay."""
    return {(each.kind, each.reason): each.count for each in house.kept}


def _sums(counts: tuple[Count, ...]) -> dict[str, int]:
    return {each.kind: sum(other.count for other in counts if other.kind == each.kind) for each in counts}
