"""The documents of `audit verify` and `runs`: for one table, or for all tables of a control location."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.api.opening import open_table, plan_keys, require_control, stated_control
from lakesweep.api.place import Place, moved
from lakesweep.api.stored import TableRuns, list_runs, newest_ids, none_of, runs_of
from lakesweep.control.area import ControlArea
from lakesweep.control.audit.tables import KnownTable, all_known_tables, is_control_location, known_tables
from lakesweep.control.audit.verify import Audit, audit
from lakesweep.control.ledger_rows import stamp_of, time_of
from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.runs.session import Table
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.pools import threads
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store

Document = dict[str, Any]
_PARALLEL = 16
_DAY_MS = 86_400_000
_UNKNOWN = (
    "no report or plan says which table this is, or the table is in a store that this location does not spell, such as "
    "one with an endpoint of its own"
)


def control_store(place: Place) -> Store | None:
    """Return the store of a control location; `None` if the place is a table."""
    store = open_store(
        parse_location(place.table),
        counter=RequestCounter(),
        settings=StoreSettings(endpoint_url=place.endpoint_url, region=place.region),
    )
    return store if is_control_location(store) else None


def known_area(table: Table) -> ControlArea:
    """Return the control documents of a table that exists, or of a deleted one that has some.

    Raises:
        UsageError: No control location is known.
        RefusedError: There is neither a table nor a document about one.
    """
    area = require_control(table)
    if not area.folders(""):
        none_of(table)
    return area


def audit_of(place: Place) -> Document:
    """Return the problems of ledgers and plans.

    Raises:
        UsageError: Neither a table nor a control location is given.
        RefusedError: There is neither a table nor any document about one.
    """
    if not place.table:
        stated = stated_control(place)
        if not stated:
            raise UsageError(
                "audit verify: expected a table, a control location, --control or $LAKESWEEP_CONTROL",
                code="control_missing",
            )
        place = moved(place, table=stated)
    control = control_store(place)
    if control is None:
        area = known_area(open_table(place))
        rows = [_audit_row(area.prefix.split("/")[1], area)]
    else:
        keys = plan_keys()
        areas = ((known.key, known.area) for known in known_tables(control))
        rows = [_audit_row(key, area and dataclasses.replace(area, sealer=keys)) for key, area in areas]
    return {"whole": all(row["whole"] for row in rows), "tables": rows}


def _audit_row(key: str, area: ControlArea | None) -> Document:
    found, problem = Audit((), 0, ()), None
    if area is None:
        problem = f"{_UNKNOWN}; audit the table by its location"
    else:
        try:
            found = audit(area)
        except MaintenanceError as error:
            problem = str(error)
    return {
        "table_key": key,
        "table": area and area.table,
        "whole": found.is_whole and problem is None,
        "runs": [{**dataclasses.asdict(run), "problems": list(run.problems)} for run in found.runs],
        "plan_count": found.plan_count,
        "plans": [dataclasses.asdict(plan) for plan in found.plans],
        "problem": problem,
    }


def runs_of_all(place: Place, control: Store, limit: int | None, since_ms: int | None) -> Document:
    """Return the newest runs of all tables of a control location, newest first.

    First Lakesweep asks for the ids of all tables, some tables at a time. Of these it reads only the newest.
    """
    begun, problems = _since_id(since_ms), list[str]()

    def ids_of(known: KnownTable) -> TableRuns | str:
        if known.area is None:
            return f"{known.key}: {_UNKNOWN}; name the table"
        each = moved(place, table=known.area.table, control=control.location, local_control=True)
        try:
            return runs_of(open_table(each), limit, begun)
        except MaintenanceError as error:
            return f"{known.area.table}: {error}"

    def row_of(owner: TableRuns, run_id: str) -> Document | str | None:
        try:
            row = owner.row(run_id)
        except MaintenanceError as error:
            return f"{owner.table.ref.location}: run {run_id}: {error}"
        return None if row is None else {"table": owner.table.ref.location, **row}

    with threads(_PARALLEL, "runs") as pool:
        tables = list(pool.map(ids_of, all_known_tables(control)))
        problems += [each for each in tables if isinstance(each, str)]
        runs = [each for each in tables if isinstance(each, TableRuns)]
        problems += [warning for each in runs for warning in each.warnings]
        newest = set(newest_ids([run_id for each in runs for run_id in each.ids], limit))
        asked = [(each, run_id) for each in runs for run_id in each.ids if run_id in newest | each.under_way]
        found = list(pool.map(lambda pair: row_of(*pair), asked))
    problems += [each for each in found if isinstance(each, str)]
    rows = list(since([each for each in found if isinstance(each, dict)], since_ms))
    rows.sort(key=_time, reverse=True)
    return {"control": control.location, "runs": rows[:limit], "warnings": problems}


def runs_of_table(table: Table, limit: int | None, since_ms: int | None) -> Document:
    """Return the newest runs of one table, newest first."""
    document = list_runs(table, limit, _since_id(since_ms))
    return {**document, "runs": list(since(document["runs"], since_ms))}


def since(rows: list[Document], since_ms: int | None) -> Iterator[Document]:
    """Yield the runs that began at or after a time, and the runs under way."""
    for row in rows:
        if since_ms is None or row["status"] == "running" or _time(row) >= since_ms:
            yield row


def _since_id(since_ms: int | None) -> str:
    """Return the least id of a run that may have begun since then. A job gets its id when it is asked for."""
    return "" if since_ms is None else stamp_of(max(0, since_ms - _DAY_MS))


def _time(row: Mapping[str, Any]) -> int:
    return int(row["started_ms"] or time_of(row["run_id"]) or 0)
