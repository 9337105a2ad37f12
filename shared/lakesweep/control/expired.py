"""What housekeeping deleted from a table's folder, for somebody who misses a plan or a report.

The ledgers of housekeeping are found by the names of their runs. A document that is gone was deleted after the time in
its id, so earlier ledgers are not read.
"""

from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.ledger_rows import day_of, run_rows, time_of
from lakesweep.control.plans import NO_SUCH_PLAN, load_header
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.codec import is_id
from lakesweep.model.plan import PlanHeader

SUFFIX = "-housekeeping"
"""The end of the id of each run of housekeeping."""


@dataclass(frozen=True, slots=True)
class Expired:
    """A document that housekeeping deleted."""

    run_id: str
    """The run that deleted it."""
    reason: str


def expired_document(area: ControlArea, name: str, of: str) -> Expired | None:
    """Return what housekeeping did to a document that does not exist; `None` if no ledger says that it deleted it.

    Costs a listing of the ledgers since the document's time, and a read for each part of housekeeping's own.

    Args:
        area: Of the table.
        name: Of the document.
        of: The plan or run that it is about.

    Raises:
        StorageError: A request failed.
    """
    day = f"dt={day_of(of)}" if is_id(of) and time_of(of) is not None else ""
    runs: dict[str, None] = {}
    for page in area.store.list_range(f"{area.prefix}ledger/", f"{area.prefix}ledger/{day}" if day else ""):
        for entry in page:
            folder = entry.key.removeprefix(f"{area.prefix}ledger/").rpartition("/")[0]
            if folder.endswith(SUFFIX):
                runs[folder.rpartition("/")[2]] = None
    path = area.path(name)
    for run_id in runs:
        try:
            rows = run_rows(area, run_id)
        except FormatError:
            continue
        for row in rows:  # without a result: the run died, and the document is not there
            if row["key"] == path and row.get("result") in (None, "deleted", "already_gone"):
                return Expired(run_id, str(row.get("reason")))
    return None


def explained(error: RefusedError, area: ControlArea, name: str, of: str) -> RefusedError:
    """Return the refusal about a document that does not exist, with what housekeeping did to it.

    Raises:
        StorageError: A request failed.
    """
    found = expired_document(area, name, of)
    if found is None:
        return error
    return RefusedError(f"{error}; housekeeping deleted it in run {found.run_id}: {found.reason}", code=error.code)


def load_known(area: ControlArea, plan_id: str) -> PlanHeader:
    """Return the header of a plan that somebody named.

    Raises:
        RefusedError: As `load_header`; of a plan that is gone, it says if housekeeping deleted it.
        FormatError: As `load_header`.
    """
    try:
        return load_header(area, plan_id)
    except RefusedError as error:
        if error.code != NO_SUCH_PLAN:
            raise
        raise explained(error, area, f"plans/{plan_id}/header.json", plan_id) from error


def has_plan(area: ControlArea, plan_id: str) -> bool:
    """Tell whether a plan is stored, whatever its header says."""
    try:
        area.read(f"plans/{plan_id}/header.json")
    except ObjectNotFoundError:
        return False
    return True
