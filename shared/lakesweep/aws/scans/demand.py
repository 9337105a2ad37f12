"""Request manual scans for orphan files: of one table, or of each table in a folder."""

from collections.abc import Mapping
from dataclasses import replace

from lakesweep.aws.messages import OrphanScan
from lakesweep.aws.places import looks_like_table
from lakesweep.aws.runtime import Runtime
from lakesweep.aws.scans.result import ScanResult
from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.roots import MAIN
from lakesweep.runs.execution import require_area
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.session import Table
from lakesweep.runs.table_folders import places_below

MAX_TABLES = 500
"""Most tables of a folder in one invocation. An answer has room for this many."""


def ask_for_scans(
    runtime: Runtime, table: Table, arguments: Mapping[str, object], *, execute: bool
) -> list[dict[str, object]]:
    """Request scans; return the table, the id and the path of the result of each.

    Args:
        runtime: The function's runtime.
        table: A table, a database or another folder with tables.
        arguments: Arguments of the scans, already checked.
        execute: Whether their plans are executed.

    Raises:
        RefusedError: There is no table.
        UsageError: There are too many tables for one invocation.
        StorageError: A folder could not be listed, or a message could not be sent.
    """
    area = require_area(table)
    given = {name: value for name, value in arguments.items() if value is not None}
    asked: list[dict[str, object]] = []
    for location in _tables_at(table):
        scan = OrphanScan(location, new_id(area.store.now_ms()), MAIN, given, execute, manual=True)
        runtime.queues.ask_for_orphan_scan(scan)
        result = ScanResult(replace(area, table=location), scan.scan_id)
        asked.append({"table": location, "scan_id": scan.scan_id, "result": result.path})
    return asked


def _tables_at(table: Table) -> list[str]:
    location = table.ref.location
    places = list(places_below(location, table.store, apart_from=require_area(table).store.location))
    tables = [
        place.location
        for place in places
        # In a database `places_below` reports every folder as a table.
        if place.is_table and (place.location == location or looks_like_table(table.open_store(place.location)))
    ]
    if not tables:
        raise RefusedError(
            f"table {table.ref}: expected a table or a folder with tables, found neither", code="not_a_table"
        )
    if len(tables) > MAX_TABLES:
        raise UsageError(
            f"table {table.ref}: found {len(tables)} tables there; expected at most {MAX_TABLES}, such as one database",
            code="bad_argument",
        )
    return tables
