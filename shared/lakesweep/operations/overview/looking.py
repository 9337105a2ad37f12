"""Look at one table of an overview. Whatever goes wrong becomes a row, so that the other tables go on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.errors import MaintenanceError, masked
from lakesweep.model.overview import TableOverview
from lakesweep.model.progress import Progress, no_progress
from lakesweep.operations.overview.measure import measure, remembered
from lakesweep.operations.overview.measured import Measured
from lakesweep.operations.overview.opening import Opening
from lakesweep.operations.overview.tables import FoundTable
from lakesweep.runs.database import has_lost_schemas
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter

_NO_TABLE = "not_a_table"


@dataclass(frozen=True, slots=True)
class Task:
    """A table to measure."""

    number: int
    found: FoundTable
    now_ms: int
    """The time of the overview."""
    versions: bool = True
    """Count versions that are not current."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found."""

    number: int
    overview: TableOverview | None
    """`None`: this is no table."""
    measured: Measured | None = None
    """What can be remembered; `None`: nothing."""
    requests: Mapping[str, int] = field(default_factory=dict)
    read_bytes: int = 0


def look_at(opening: Opening, task: Task, progress: Progress = no_progress) -> Look:
    """Measure a table."""
    counter = RequestCounter()
    measured: Measured | None = None
    overview: TableOverview | None = None
    try:
        table = opening.table(task.found.location, counter, progress)
        try:
            measured = measure(table, task.found.name, versions=task.versions)
            overview = measured.overview
        except MaintenanceError as error:
            if error.code != _NO_TABLE or task.found.is_stated or _has_lost_schemas(table):
                raise
    except Exception as error:  # noqa: BLE001 - the other tables go on, and the row says why
        overview = failed(task, error)
    return Look(task.number, overview, measured, counter.snapshot(), counter.read_bytes)


def recall(
    opening: Opening, found: FoundTable, earlier: Measured, counter: RequestCounter, *, versions: bool
) -> Measured | None:
    """Return what was measured of a table earlier if it still holds; `None`: the table is to be measured."""
    try:
        return remembered(opening.table(found.location, counter, no_progress), earlier, versions=versions)
    except Exception:  # noqa: BLE001 - measuring meets the same error, and the row of the table says it
        return None


def failed(task: Task, error: Exception) -> TableOverview:
    """Return the row of a table that could not be measured."""
    if not isinstance(error, MaintenanceError):
        told = f"unexpected {type(error).__name__}: {masked(str(error))}; this is a bug"
        error = MaintenanceError(f"table {task.found.location}: {told}", code="internal")
    return TableOverview(task.found.location, task.found.name, task.now_ms, problem=str(error), problem_code=error.code)


def _has_lost_schemas(table: Table) -> bool:
    return has_lost_schemas(table.store, "")
