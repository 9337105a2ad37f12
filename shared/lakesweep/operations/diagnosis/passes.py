"""Whether passes follow the commits of a table, and which version of Lakesweep made the last run."""

import shlex
from collections.abc import Iterator

from lakesweep import __version__
from lakesweep.control.area import ControlArea
from lakesweep.control.ledger_rows import time_of
from lakesweep.control.reports import load_report, run_ids
from lakesweep.control.state import read_states
from lakesweep.errors import FormatError, MaintenanceError
from lakesweep.model.diagnosis import Line
from lakesweep.model.roots import BranchListing, TableListing
from lakesweep.model.who import who_of
from lakesweep.operations.diagnosis.rules.times import is_late
from lakesweep.runs.fleet import may_delete, ruling_of, why_kept
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.table.documents import read_roots


def passes(table: Table, area: ControlArea, listing: TableListing, *, is_deployed: bool) -> Iterator[Line]:
    """Compare the newest snapshot of each branch with the last trace of a pass.

    A pass that changes something leaves a report. A pass after which commits may need nothing leaves a state.

    Args:
        table: The table.
        area: Its control documents.
        listing: Its roots.
        is_deployed: A deployment should make passes, at least once a day.

    Raises:
        StorageError: A request failed.
    """
    location, now_ms = table.ref.location, table.store.now_ms()
    reported_ms = max((time_of(run_id) or 0 for run_id in run_ids(area)), default=0)
    try:
        states = read_states(area)
    except FormatError as error:
        yield Line("passes", "look", str(error), _maintain(location))
        return
    for branch in listing.branches.values():
        if not branch.snapshots or not branch.schemas:
            continue
        ref = branch.snapshots[-1]
        newest = next(iter(read_roots(table.store, [ref]).roots), None)
        if newest is None:  # it has expired since, or was rolled back
            continue
        state = states.get(branch.name)
        pass_ms = max(reported_ms, 0 if state is None else state.checked_ms)
        committed = f"snapshot {ref.id}{_of(branch)} was committed {say_time(newest.snapshot.time_ms)}"
        if not pass_ms:
            says = f"no pass over the table is known; {committed}"
            yield Line("passes", "look", says, _maintain(location, branch.name))
        elif is_late(newest.snapshot.time_ms, pass_ms, now_ms):
            says = f"commits wait for a pass: {committed}, and the last trace of a pass is of {say_time(pass_ms)}"
            ask = f"see whether events arrive: lakesweep doctor {shlex.quote(location)} --stack NAME"
            yield Line("passes", "act", says, ask) if is_deployed else Line("passes", "look", says, _maintain(location))
        else:
            yield Line("passes", "ok", f"the last trace of a pass{_of(branch)} is of {say_time(pass_ms)}; {committed}")


def policy(table: Table) -> Iterator[Line]:
    """Look at what the fleet policy says about the table; nothing without a policy."""
    try:
        ruling = ruling_of(table)
    except MaintenanceError as error:
        yield Line("policy", "act", f"no pass runs: {error}", "mend the fleet policy document (docs/operations.md)")
        return
    if ruling is None:
        return
    if may_delete(ruling):
        yield Line("policy", "ok", f"passes may delete, as policy {ruling.policy} says")
    else:
        test = f"lakesweep policy test {shlex.quote(table.ref.location)} --policy {shlex.quote(ruling.policy)}"
        yield Line("policy", "look", f"passes delete nothing: {why_kept(ruling)}", test)


def version(area: ControlArea) -> Line:
    """Compare this version of Lakesweep with that of the newest run."""
    own = f"this is Lakesweep {__version__}"
    newest = max(run_ids(area), default=None)
    if newest is None:
        return Line("version", "ok", own)
    try:
        by = who_of(load_report(area, newest).get("by"))
    except MaintenanceError as error:
        return Line("version", "unknown", f"{own}; the report of the newest run cannot be read: {error}")
    if by is None or by.version == __version__:
        return Line("version", "ok", f"{own}, as in the newest run")
    says = f"{own}, and run {newest} was made by version {by.version}"
    return Line("version", "look", says, "install one version everywhere (docs/deploy.md)")


def _of(branch: BranchListing) -> str:
    return "" if branch.name == "main" else f" of branch {branch.name}"


def _maintain(location: str, branch: str = "main") -> str:
    words = ["lakesweep", "maintain", location, *(() if branch == "main" else ("--branch", branch)), "--execute"]
    return shlex.join(words)
