"""The documents of `audit verify` and `runs`: for one table, or for all tables of a control location."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.api.opening import open_table, plan_keys, require_control, stated_control
from lakesweep.api.place import Place, moved
from lakesweep.api.stored import list_runs
from lakesweep.control.area import ControlArea
from lakesweep.control.audit.tables import is_control_location, known_tables
from lakesweep.control.audit.verify import Audit, audit
from lakesweep.control.ledger_rows import time_of
from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.runs.session import Table
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store

Document = dict[str, Any]
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


def audit_of(place: Place) -> Document:
    """Return the problems of ledgers and plans.

    Raises:
        UsageError: Neither a table nor a control location is given.
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
        area = require_control(open_table(place))
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


def runs_of_all(place: Place, control: Store, limit: int, since_ms: int | None) -> Document:
    """Return the newest runs of all tables of a control location, newest first."""
    rows: list[Document] = []
    problems: list[str] = []
    for known in known_tables(control):
        if known.area is None:
            problems.append(f"{known.key}: {_UNKNOWN}; name the table")
            continue
        each = moved(place, table=known.area.table, control=control.location, local_control=True)
        try:
            table = open_table(each)
            listed = list_runs(table, limit)
            rows += [{"table": known.area.table, **run} for run in listed["runs"]]
            problems += listed["warnings"]
        except MaintenanceError as error:
            problems.append(f"{known.area.table}: {error}")
    rows = list(since(rows, since_ms))
    rows.sort(key=_time, reverse=True)
    return {"control": control.location, "runs": rows[:limit], "warnings": problems}


def runs_of_table(table: Table, limit: int, since_ms: int | None) -> Document:
    """Return the newest runs of one table, newest first."""
    document = list_runs(table, limit)
    return {**document, "runs": list(since(document["runs"], since_ms))}


def since(rows: list[Document], since_ms: int | None) -> Iterator[Document]:
    """Yield the runs that began at or after a time, and the runs under way."""
    for row in rows:
        if since_ms is None or row["status"] == "running" or _time(row) >= since_ms:
            yield row


def _time(row: Mapping[str, Any]) -> int:
    return int(row["started_ms"] or time_of(row["run_id"]) or 0)
