"""The columns of exports: of runs, and of the ledger. Their names, order and types stay."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.api.audited import control_store, known_area
from lakesweep.api.exports import Column, Row
from lakesweep.api.opening import open_table
from lakesweep.api.place import Place
from lakesweep.control.audit.export import COLUMNS, Span, rows_of, rows_of_all
from lakesweep.storage.store import Store

_COUNTS = ("batch", "size_bytes", "deleted", "failed_count", "bytes")
_TIMES = ("time", "started", "finished", "undoable_until")
_OF_RUN = (
    *("table", "run_id", "operation", "branch", "plan_id", "started", "finished", "status", "deleted", "failed_count"),
    *("bytes", "usd", "committed", "finished_by", "undoable", "undoable_reason", "undoable_until", "problem"),
)


def _column(name: str) -> Column:
    if name == "undoable":
        return Column(name, "flag")
    if name == "usd":
        return Column(name, "amount")
    return Column(name, "count" if name in _COUNTS else "time" if name in _TIMES else "text")


RUN_COLUMNS = tuple(map(_column, _OF_RUN))
LEDGER_COLUMNS = tuple(map(_column, COLUMNS))


def run_row(table: str | None, run: Mapping[str, Any]) -> Row:
    """Return a run of the document of `runs` as a row.

    Args:
        table: Its table, if the run does not name it.
        run: As in the document. Times are epoch milliseconds there, and `committed` is an array.
    """
    committed = run.get("committed")
    found = {
        **run,
        "table": run.get("table", table),
        **{name: run.get(f"{name}_ms") for name in _TIMES},
        "committed": " ".join(map(str, committed)) if committed else None,
    }
    return [found.get(name) for name in _OF_RUN]


def ledger_of(place: Place, span: Span, problems: list[str]) -> Iterator[Row]:
    """Yield the rows of the ledger of a table, or of all tables of a control location.

    Raises:
        UsageError: The place is a table, and no control location is given.
        RefusedError: There is neither a table nor any document about one.
        StorageError: The tables cannot be listed, or a part cannot be read.
    """
    control: Store | None = control_store(place)
    if control is not None:
        return rows_of_all(control, span, problems)
    return rows_of(known_area(open_table(place)), span, problems)
