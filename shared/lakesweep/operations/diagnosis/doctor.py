"""`doctor`: is everything around a table healthy? It may write one small document, to try conditional writes."""

from collections.abc import Callable, Iterable, Iterator

from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.model.diagnosis import Diagnosis, Line
from lakesweep.operations.diagnosis.control import conditional, reachable, work
from lakesweep.operations.diagnosis.passes import passes, policy, version
from lakesweep.operations.diagnosis.rules.bucket import control_lines, table_lines
from lakesweep.operations.diagnosis.rules.times import clock_line
from lakesweep.runs.session import Table
from lakesweep.storage.open import bucket_settings
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_schema

_KEPT = ("tables/",)
"""Folders of a control location from which no lifecycle rule may delete anything."""


def diagnose(
    table: Table,
    *,
    writes: bool = True,
    deployment: Callable[[], Iterable[Line]] | None = None,
    stack: str | None = None,
) -> Diagnosis:
    """Look at everything around a table.

    Args:
        table: The table, and its control location if known.
        writes: Write a document to the control location to see whether conditions are kept.
        deployment: Looks at the functions, queues and rules of a deployment.
        stack: Name of the deployment, for the result.

    Raises:
        RefusedError: This is no table.
        StorageError: The table cannot be read.
    """
    listing = discover(table.store)
    if not any(listing.roots()):
        read_schema(table.store, listing.branches[table.ref.branch])
    lines: list[Line] = [clock_line(_place(table.store), table.store.now_ms(), table.clock_ms())]
    area = table.area
    if area is None:
        says = "no control location is known, so nothing about plans, passes and the lease"
        lines.append(Line("control", "unknown", says, "name it with --control or $LAKESWEEP_CONTROL"))
    elif (broken := reachable(area.store)) is not None:
        lines.append(broken)
    else:
        control = area.store
        if writes:
            lines += _asked("control", lambda: conditional(control))
        else:
            lines.append(Line("control", "unknown", f"{control.location} can be read; conditions were not tried"))
        lines += _asked("version", lambda: [version(area)])
        lines += _asked("lease", lambda: work(table, area))
        lines += _asked("passes", lambda: passes(table, area, listing, is_deployed=deployment is not None))
        lines += _asked("bucket", lambda: _control_bucket(control))
    lines += _asked("policy", lambda: policy(table))
    lines += _asked("bucket", lambda: _table_bucket(table.store))
    if deployment is not None:
        lines += _asked("functions", deployment)
    return Diagnosis(table.ref.location, stack, tuple(dict.fromkeys(lines)))


def _asked(subject: str, ask: Callable[[], Iterable[Line]]) -> Iterator[Line]:
    """Yield the lines; a line of its own if a request fails."""
    try:
        yield from ask()
    except UsageError:
        raise
    except MaintenanceError as error:
        yield Line(subject, "unknown", str(error))


def _table_bucket(store: Store) -> Iterator[Line]:
    found = bucket_settings(store)
    if found is not None:
        yield from table_lines(found)


def _control_bucket(control: Store) -> Iterator[Line]:
    found = bucket_settings(control)
    if found is not None:
        yield from control_lines(found, _KEPT)


def _place(store: Store) -> str:
    return "S3" if store.location.startswith("s3://") else "the file system of the table"
