"""Runs without a report: they are still running, or they ended before they could write one.

The lease names the run that holds it, every run that worked on the plan in its intent, and the run of the last commit
to each branch. The ledger has a folder for each run that wrote a part.
"""

from dataclasses import dataclass
from typing import Literal

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import LeaseDocument
from lakesweep.control.ledger_rows import parts_of_run, run_rows, runs_of_ledger, time_of
from lakesweep.control.reports import plan_end, run_ids
from lakesweep.errors import FormatError
from lakesweep.model.safety import DELETE_MARGIN_MS


@dataclass(frozen=True, slots=True)
class Unreported:
    """A run without a report."""

    run_id: str
    status: Literal["running", "unfinished"]
    """`running`: it holds the lease. `unfinished`: it ended before it could write a report."""
    plan_id: str | None
    finished_by: str | None
    """The run that has ended its plan since."""
    started_ms: int | None
    deleted: int | None
    """As far as the run recorded it; `None`, also in the next two fields: not known, since a part cannot be read."""
    failed: int | None
    bytes: int | None
    commit: tuple[str, int] | None = None
    """Branch and snapshot that it committed, as far as the lease knows."""


def known_runs(area: ControlArea, lease: LeaseDocument, most: int | None, since: str = "") -> list[str]:
    """Return the ids of the newest runs of a table, newest first, with a report or without.

    Args:
        area: Of the table.
        lease: As it was just read.
        most: How many; `None` for all.
        since: Only ids from this one on, and those that the lease names.
    """
    with_report = sorted(run_ids(area, since), reverse=True)[:most]
    of_ledger = (each for each in runs_of_ledger(area, most, since) if each >= since)
    return sorted({*with_report, *runs_of_lease(lease), *of_ledger}, reverse=True)[:most]


def runs_of_lease(lease: LeaseDocument) -> tuple[str, ...]:
    """Return the run that holds the lease, the runs of its intent, and those of the last commits."""
    of_intent = () if lease.intent is None else lease.intent.runs
    holder = (lease.run_id,) if lease.expires_ms else ()
    return (*of_intent, *holder, *(record.run_id for record in lease.commits.values()))


def unreported(area: ControlArea, run_id: str, lease: LeaseDocument, now_ms: int) -> Unreported:
    """Return what is known of a run without a report.

    Args:
        area: Of the table.
        run_id: Which run.
        lease: As it was just read.
        now_ms: By the control location's clock.
    """
    intent = lease.intent
    holds = lease.run_id == run_id and now_ms < lease.expires_ms + DELETE_MARGIN_MS and lease.expires_ms > 0
    rows: list[dict[str, object]] | None
    try:
        rows = run_rows(area, run_id)
    except FormatError:
        rows = None  # the rows are unknown, but the run is known to exist
    plan_id = str(rows[0]["plan_id"]) if rows else None
    if intent is not None and run_id in intent.runs:
        plan_id = intent.plan_id
    if plan_id is None:  # the run that made a plan has the plan's id
        plan_id = run_id if plan_end(area, run_id) is not None else None
    end = None if plan_id is None or (intent is not None and intent.plan_id == plan_id) else plan_end(area, plan_id)
    deleted, failed, size_bytes = (None, None, None) if rows is None else _counts(rows)
    return Unreported(
        run_id,
        "running" if holds else "unfinished",
        plan_id,
        end.run_id if end is not None and end.run_id != run_id else None,
        time_of(run_id),
        deleted,
        failed,
        size_bytes,
        next(
            (
                (branch, record.id)
                for branch, record in lease.commits.items()
                if record.run_id == run_id and record.state == "published"
            ),
            None,
        ),
    )


def _counts(rows: list[dict[str, object]]) -> tuple[int, int, int]:
    """Return how many rows record a deleted object and a failure, and the bytes of the deleted objects."""
    results = [row for row in rows if "result" in row]
    gone = [row for row in results if row["result"] == "deleted"]
    fine = ("deleted", "already_gone", "kept_by_recheck", "restored")
    sizes = (row.get("size_bytes") for row in gone)
    return (
        len(gone),
        sum(row["result"] not in fine for row in results),
        sum(size for size in sizes if isinstance(size, int)),
    )


def is_known(area: ControlArea, run_id: str, lease: LeaseDocument) -> bool:
    """Tell whether any document shows that the run existed."""
    return run_id in runs_of_lease(lease) or bool(parts_of_run(area, run_id))
