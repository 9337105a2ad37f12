"""Stored run reports: what `runs` lists and `report` prints."""

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError

REPORT_FORMAT_VERSION = 1


def store_report(
    area: ControlArea,
    run_id: str,
    document: dict[str, object],
    warnings: tuple[str, ...],
    times_ms: tuple[int, int],
    *,
    ended: str | None = None,
) -> None:
    """Write the report of one run.

    Args:
        area: Where.
        run_id: Whose.
        document: The report.
        warnings: All there are.
        times_ms: When the run started and finished.
        ended: How the plan of this run ended, `None` when it has not.
    """
    started_ms, finished_ms = times_ms
    area.put(
        f"reports/{run_id}.json",
        to_json_bytes(
            {
                "format_version": REPORT_FORMAT_VERSION,
                "started_ms": started_ms,
                "finished_ms": finished_ms,
                "ended": ended,
                "warnings": list(warnings),
                "report": document,
            }
        ),
    )


def load_report(area: ControlArea, run_id: str) -> dict[str, object]:
    """Return a stored report with its frame (`started_ms`, `finished_ms`, `ended`, `warnings`, `report`).

    Raises:
        RefusedError: No such run of this table.
    """
    name = f"reports/{run_id}.json"
    try:
        return from_json_bytes(area.read(name).data, area.path(name))
    except ObjectNotFoundError as error:
        raise RefusedError(
            f"table {area.table}: expected a report of run {run_id} in {area.store.location}, found none",
            code="no_such_run",
        ) from error


def ended_status(area: ControlArea, run_id: str) -> str | None:
    """Return how the plan of a run ended, `None` when there is no report of the run, or it did not end the plan.

    Raises:
        FormatError: The report does not parse.
    """
    name = f"reports/{run_id}.json"
    try:
        ended = from_json_bytes(area.read(name).data, area.path(name)).get("ended")
    except ObjectNotFoundError:
        return None
    if not isinstance(ended, str | None):
        raise FormatError(f"{area.path(name)}: expected in ended how the plan ended, found {ended!r}")
    return ended


def run_ids(area: ControlArea) -> list[str]:
    """Return the ids of all runs that ended with a report, oldest first."""
    return sorted(
        name.removeprefix("reports/").removesuffix(".json") for name in area.names("reports/") if name.endswith(".json")
    )
