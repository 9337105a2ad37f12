"""Housekeeping of a control location, or of one table in it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice

from lakesweep.control.audit.tables import KnownTable
from lakesweep.errors import MaintenanceError
from lakesweep.model.control_retention import ControlRetention
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.housekeeping import PLACES
from lakesweep.operations.housekeeping.documents import documents_of, open_jobs
from lakesweep.operations.housekeeping.overviews import Overviews, keep_overviews
from lakesweep.operations.housekeeping.rules.existence import parent_of
from lakesweep.operations.housekeeping.table import OPERATION, Rules, TableHouse, keep_house, whole
from lakesweep.runs.execution import require_area
from lakesweep.runs.fleet import rule_of, ruling_in
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store

OWN_FOLDERS = (*PLACES, "overviews")


@dataclass(frozen=True, slots=True)
class Call:
    """What somebody asked for."""

    policy: FleetPolicy
    """A policy without rules, if none was given. What it does not say of the control location has the defaults."""
    execute: bool = False
    gone: bool = False
    """Also remove what is left of tables that do not exist any more."""

    @property
    def retention(self) -> ControlRetention:
        """Return how long documents are kept."""
        return self.policy.control or ControlRetention()


@dataclass(frozen=True, slots=True)
class House:
    """What housekeeping does."""

    control: str
    table: str | None
    """`None`: all tables of the control location."""
    call: Call
    tables: tuple[TableHouse, ...]
    foreign: tuple[str, ...] = ()
    """Folders that Lakesweep does not write."""
    overviews: Overviews | None = None
    """What becomes of remembered overviews; `None`: only one table was asked for."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "operation": OPERATION,
            "control": self.control,
            "table": self.table,
            "executed": self.call.execute,
            "retention": asdict(self.call.retention),
            "tables": [each.to_json() for each in self.tables],
            "foreign": list(self.foreign),
            "overviews": None if self.overviews is None else self.overviews.to_json(),
        }


def house_of_table(table: Table, call: Call) -> House:
    """Keep house in the folders of one table.

    Raises:
        UsageError: No control location was given.
        FormatError: The list of open scans on Spark is damaged.
        StorageError: A request failed.
        LeaseLostError: Another run took the lease; this one stopped.
    """
    area = require_area(table, OPERATION)
    found = _of_table(table, _rules(table, call), call)
    return House(area.store.location, table.ref.location, call, (found,))


def house_of_all(control: Store, known: Iterable[KnownTable], open_known: Callable[[str], Table], call: Call) -> House:
    """Keep house in a whole control location. A table that fails holds back no other.

    Args:
        control: The control location.
        known: Its tables.
        open_known: Opens a table by its location.
        call: What was asked for.

    Raises:
        StorageError: The control location could not be listed.
    """
    found = [*_of_known(control, known, open_known, call)]
    keys = {each.table_key for each in found}
    others = dict.fromkeys(key for place in PLACES for key in control.folders(f"{place}/") if key not in keys)
    found += [whole(key, None, documents_of(control, key), "unknown_table") for key in others]
    foreign = tuple(name for name in control.folders("") if name not in OWN_FOLDERS)
    # By the clock of the store alone: a cache that goes too early costs measurements.
    overviews = keep_overviews(control, call.retention.caches_ms, control.now_ms(), execute=call.execute)
    return House(control.location, None, call, tuple(found), foreign, overviews)


def _of_known(
    control: Store, known: Iterable[KnownTable], open_known: Callable[[str], Table], call: Call
) -> Iterator[TableHouse]:
    for each in known:
        if each.area is None:
            yield whole(each.key, None, documents_of(control, each.key), "unknown_table")
            continue
        try:
            table = open_known(each.area.table)
            yield _of_table(table, _rules(table, call), call)
        except MaintenanceError as error:
            yield whole(each.key, each.area.table, (), "failed", error)


def _rules(table: Table, call: Call) -> Rules:
    control = require_area(table, OPERATION).store
    jobs = open_jobs(control)
    return Rules(call.retention, jobs, min(control.now_ms(), table.clock_ms()))


def _of_table(table: Table, rules: Rules, call: Call) -> TableHouse:
    area = require_area(table, OPERATION)
    ruling = ruling_in(call.policy, table.store)
    if rule_of(ruling).pause:
        key = area.prefix.split("/")[1]
        return whole(key, table.ref.location, documents_of(area.store, key), "paused")
    gone = is_gone(table)
    house = keep_house(area, rules, is_gone=bool(gone) and call.gone, execute=call.execute)
    return replace(house, is_gone=gone)


def is_gone(table: Table) -> bool | None:
    """Tell whether a table certainly does not exist; `None`: nobody can tell.

    Nothing lies at its location. In a local folder, the disk may not be mounted: something has to lie beside it.
    """
    try:
        if next(iter(table.store.list("")), None) is not None:
            return False
        parent = parent_of(table.ref.location)
        if parent is None:
            return True
        beside = table.open_store(parent)
        return True if any(islice(beside.folders(""), 1)) else None
    except MaintenanceError:
        return None
