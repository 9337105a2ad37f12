"""Stored run reports: what `runs` lists and `report` prints."""

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import ObjectNotFoundError, RefusedError

REPORT_FORMAT_VERSION = 1


def store_report(
    area: ControlArea,
    run_id: str,
    document: dict[str, object],
    warnings: tuple[str, ...],
    started_ms: int,
    finished_ms: int,
) -> None:
    """Write the report of one run."""
    area.put(
        f"reports/{run_id}.json",
        to_json_bytes(
            {
                "format_version": REPORT_FORMAT_VERSION,
                "started_ms": started_ms,
                "finished_ms": finished_ms,
                "warnings": list(warnings),
                "report": document,
            }
        ),
    )


def load_report(area: ControlArea, run_id: str) -> dict[str, object]:
    """Return a stored report with its frame (`started_ms`, `finished_ms`, `warnings`, `report`).

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


def run_ids(area: ControlArea) -> list[str]:
    """Return the ids of all runs that ended with a report, oldest first."""
    return sorted(
        name.removeprefix("reports/").removesuffix(".json") for name in area.names("reports/") if name.endswith(".json")
    )
