"""Whether a control location can be reached, keeps conditional writes, and what it says about plans and the lease."""

from collections.abc import Iterator
from contextlib import suppress

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import read_lease
from lakesweep.errors import AccessDeniedError, FormatError, MaintenanceError, PreconditionFailedError
from lakesweep.model.diagnosis import Line
from lakesweep.model.safety import DELETE_MARGIN_MS
from lakesweep.operations.inspect.check.table import control_findings
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store

_PROBE = "doctor.json"
"""The document by which `conditional` tries conditions. It stays, so that nobody needs the right to delete."""
_BODY = b'{"about": "lakesweep doctor tries conditional writes with this document"}\n'
_WRONG_ETAG = "0" * 32


def conditional(control: Store) -> Iterator[Line]:
    """Try to overwrite a document where a condition forbids it. The document is written if it does not exist yet.

    Args:
        control: The control location.
    """
    where = control.location
    try:
        with suppress(PreconditionFailedError):
            control.put(_PROBE, _BODY, if_absent=True)
    except AccessDeniedError as error:
        yield Line("control", "unknown", f"nothing may be written to {where}, so conditions were not tried: {error}")
        return
    ignored = [*_ignored(control)]
    for says in ignored:
        mend = "name a store with conditional writes (docs/limits.md, What a store needs)"
        yield Line("control", "act", f"{where} {says}, so two maintainers can work at the same time", mend)
    if not ignored:
        yield Line("control", "ok", f"{where} can be written, and keeps conditions")


def _ignored(control: Store) -> Iterator[str]:
    with suppress(PreconditionFailedError):
        control.put(_PROBE, _BODY, if_absent=True)
        yield "overwrites a document that must not exist yet"
    with suppress(PreconditionFailedError):
        control.put(_PROBE, _BODY, if_match=_WRONG_ETAG)
        yield "overwrites a document that somebody else has changed"


def work(table: Table, area: ControlArea) -> Iterator[Line]:
    """Look at the lease, and at plans that were begun and not ended.

    Raises:
        StorageError: A request failed.
    """
    try:
        lease = read_lease(area)
    except FormatError as error:
        yield Line("lease", "act", str(error), f"lakesweep runs {table.ref.location}")
        return
    found = {"lease": 0, "plans": 0}
    for finding in control_findings(table, area):
        found[finding.check] += 1
        yield Line(finding.check, "act", finding.says, finding.mend)
    is_held = bool(lease.expires_ms) and table.store.now_ms() < lease.expires_ms + DELETE_MARGIN_MS
    if is_held:
        by = "" if lease.by is None else f" by {lease.by}"
        until = f"until {say_time(lease.expires_ms)} unless it is renewed"
        yield Line("lease", "ok", f"run {lease.run_id} holds it{by}, {until}")
    elif not found["lease"]:
        yield Line("lease", "ok", "nobody holds it")
    if not found["plans"] and not (is_held and lease.intent is not None):
        yield Line("plans", "ok", "no plan was begun and not ended")


def reachable(control: Store) -> Line | None:
    """Return a line if a control location cannot be listed."""
    try:
        next(iter(control.folders("")), None)
    except MaintenanceError as error:
        return Line("control", "act", f"{control.location} cannot be read: {error}", "name another one with --control")
    return None
