"""`maintain --all-branches`: one pass over each branch of a table.

Branches share files, so Lakesweep never maintains two branches of a table at once: main comes first, then the other
branches by name, each by its own options. Each pass sees the table as the pass before left it, and considers every root
of every branch. If one branch is refused or fails, the others are still maintained. One listing serves the first step
of every branch until something is deleted. After that, each branch makes its own listing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from lakesweep.errors import LeaseLostError, MaintenanceError, RefusedError, UsageError
from lakesweep.model.report import Refusal, RunReport
from lakesweep.model.roots import MAIN, TableListing, branch_dir
from lakesweep.operations.branches.names import NO_BRANCH
from lakesweep.operations.maintenance.maintain import OPERATION, MaintainArguments, nothing, one_pass
from lakesweep.runs.fleet import Ruling, watched_ruling, why_observed
from lakesweep.runs.pass_state import answered_branches
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table
from lakesweep.runs.steps import folded
from lakesweep.table.discover import discover


def maintain_all_branches(table: Table, arguments: MaintainArguments, *, execute: bool) -> RunReport:
    """Run the maintenance that the stated options of each branch ask for.

    If the states of the last passes show that no branch needs anything, this costs five requests and writes nothing.

    Raises:
        UsageError: The table is given as one of its branches, or no branch could follow an argument.
        StorageError: The table could not be listed, or the fleet policy could not be read.
    """
    if table.ref.branch != MAIN:
        raise UsageError(
            f"table {table.ref}: all branches are asked for, and branch {table.ref.branch} is; expected one of the two",
            code="bad_argument",
        )
    answered: Mapping[str, bool] = {}
    try:
        if arguments.may_skip(execute=execute):
            answered = answered_branches(table, arguments.min_interval_ms)
            if answered and all(answered.values()):
                return _whole(table, (nothing(_branch(table, name)) for name in _main_first(answered)))
        ruling = watched_ruling(table)
        listing = discover(table.store)
    except RefusedError as error:
        return replace(refused(table, OPERATION, error), branch=None, steps=())
    skipped = frozenset(name for name, is_answered in answered.items() if is_answered)
    whole = _whole(table, _passes(table, arguments, ruling, listing, skipped, execute))
    return replace(whole, warnings=why_observed(ruling))


def _passes(
    table: Table,
    arguments: MaintainArguments,
    ruling: Ruling | None,
    listing: TableListing,
    skipped: frozenset[str],
    execute: bool,
) -> Iterator[RunReport]:
    seen: TableListing | None = listing
    for name in _names(listing):
        target = _branch(table, name)
        if name in skipped:
            yield nothing(target)
            continue
        deletes = table.counter.snapshot()["delete"]
        try:
            report, table = one_pass(target, arguments, ruling, execute=execute, listing=seen)
        except UsageError:
            raise
        except MaintenanceError as error:
            report = _failed(target, error, begun=table.counter.snapshot()["delete"] > deletes)
        if seen is None and _went_meanwhile(target, report):
            report = nothing(target)
        if report.status != "nothing_to_do":
            seen = None  # the pass may have changed the table
        yield report


def _went_meanwhile(target: Table, report: RunReport) -> bool:
    """Tell whether a branch vanished before its turn: the first pass may have finished its deletion for another run."""
    is_missing = report.refusal is not None and report.refusal.code == NO_BRANCH
    return is_missing and next(target.store.list(branch_dir(target.ref.branch)), None) is None


def _names(listing: TableListing) -> list[str]:
    found = (name for name, branch in listing.branches.items() if branch.schemas or any(branch.roots()))
    return _main_first({MAIN, *found})


def _main_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != MAIN, name))


def _branch(table: Table, name: str) -> Table:
    return replace(table, ref=replace(table.ref, branch=name))


def _failed(table: Table, error: MaintenanceError, *, begun: bool) -> RunReport:
    begun = begun or isinstance(error, LeaseLostError)
    after = "; the execution had begun, and the next one with --execute finishes it" if begun else ""
    return replace(
        folded(table, OPERATION, ()),
        status="partial" if begun else "refused",
        executed=begun,
        refusal=Refusal(error.code, f"{error}{after}", error.exit_code),
        steps=None,
    )


def _whole(table: Table, passes: Iterable[RunReport]) -> RunReport:
    reports = tuple(passes)  # they make requests, which the whole counts
    return replace(folded(table, OPERATION, reports), branch=None)
