"""What is under way in the tables of a control location: who holds a lease, what has begun, which scans have no end.

A pause stops nothing that has begun at once, so the person who pauses a table has to know. Everything is read from the
control location alone, also for tables that cannot be reached.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.tables import KnownTable
from lakesweep.control.lease import read_lease
from lakesweep.errors import MaintenanceError, ObjectNotFoundError
from lakesweep.format.codec import to_json
from lakesweep.model.safety import DELETE_MARGIN_MS
from lakesweep.operations.orphans.fan_out.documents import RESULT, SCAN, SCANS
from lakesweep.storage.pools import threads

_PARALLEL = 16
_SCANS = 20
"""The newest scans of a table that are looked at."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What is under way in one table."""

    table: str
    state: Literal["running", "unfinished", "idle"]
    """`running`: a run holds the lease. `unfinished`: a run died, and the next one finishes its plan. `idle`: only
    scans are under way."""
    run_id: str | None = None
    by: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """When others may take the lease, unless the run renews it."""
    plan_id: str | None = None
    """The plan that has begun and is not known to have ended."""
    scans: tuple[str, ...] = ()
    """Ids of scans without a result."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        found: dict[str, object] = to_json(self)
        return found


def under_way(
    tables: Iterable[KnownTable], jobs: Mapping[str, str], now_ms: Callable[[], int], problems: list[str]
) -> list[UnderWay]:
    """Return the tables in which something is under way, in the order of `tables`.

    Args:
        tables: Which ones; those without a location cannot be told.
        jobs: Id -> table of the open scans and jobs on Spark.
        now_ms: The control location's clock.
        problems: Gets a sentence for each table that could not be looked at.
    """
    areas = [each.area for each in tables if each.area is not None]

    def look(area: ControlArea) -> UnderWay | str | None:
        try:
            return _of_table(area, sorted(job for job, table in jobs.items() if table == area.table), now_ms)
        except MaintenanceError as error:
            return f"table {area.table}: what is under way is not known: {error}"

    with threads(_PARALLEL, "under-way") as pool:
        found = list(pool.map(look, areas))
    problems += [each for each in found if isinstance(each, str)]
    return [each for each in found if isinstance(each, UnderWay)]


def _of_table(area: ControlArea, jobs: Sequence[str], now_ms: Callable[[], int]) -> UnderWay | None:
    lease = read_lease(area)
    scans = tuple(dict.fromkeys((*jobs, *_open_scans(replace(area, root=SCANS)))))
    plan_id = None if lease.intent is None else lease.intent.plan_id
    if lease.expires_ms and now_ms() < lease.expires_ms + DELETE_MARGIN_MS:
        until_ms, by = lease.expires_ms + DELETE_MARGIN_MS, None if lease.by is None else lease.by.actor
        return UnderWay(area.table, "running", lease.run_id, by, lease.since_ms or None, until_ms, plan_id, scans)
    if plan_id is not None:
        return UnderWay(area.table, "unfinished", lease.run_id, plan_id=plan_id, scans=scans)
    return UnderWay(area.table, "idle", scans=scans) if scans else None


def _open_scans(area: ControlArea) -> Iterator[str]:
    """Yield the newest scans that have begun and have no result; beside scans lie the plans that they store."""
    for scan_id in sorted(area.folders(""), reverse=True)[:_SCANS]:
        first = f"{area.prefix}{scan_id}/{SCAN}"
        if not any(area.store.list_range(f"{area.prefix}{scan_id}/", after=first[:-1], until=first)):
            continue
        try:
            area.read(f"{scan_id}/{RESULT}")
        except ObjectNotFoundError:
            yield scan_id
