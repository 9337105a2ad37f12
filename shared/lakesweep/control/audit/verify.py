"""Check the ledger and the plans of a table for parts that were changed, removed or added.

Somebody who can write everything in the control location can also write a whole new chain. If auditors rely on a
bucket, it must keep versions or forbid overwriting.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.parts import LedgerPart, breaks, read_part, unnamed_writers
from lakesweep.control.chain import MAIN_WRITER
from lakesweep.control.expired import has_plan
from lakesweep.control.ledger_rows import folder_of_run, parts_of_run
from lakesweep.control.plans import PLAN_TOO_LARGE, load_header, load_part, load_plan, plan_ids
from lakesweep.control.reports import load_report, run_ids
from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, RefusedError, StorageError

_THROUGH = ("done", "partial")
"""How a run's plan ended when the run has recorded all its deletions. A run with any other end may have failed to."""
_UNDO = "undo"
"""The report of an undo says nothing about its ledger."""
Verdict = Literal["whole", "open", "no_chain", "broken"]


@dataclass(frozen=True, slots=True)
class RunAudit:
    """The result of checking one run."""

    run_id: str
    verdict: Verdict
    """`whole`: the chain begins with the run and ends as its report says. `open`: the chain is complete as far as it
    reaches, but no document says where it ends, or where the chain of an attempt at a slice ends. `no_chain`: the run
    is older than the chains. `broken`: see `problems`."""
    parts: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanAudit:
    """What is wrong with one plan."""

    plan_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class Audit:
    """All runs and plans of one table."""

    runs: tuple[RunAudit, ...]
    plan_count: int
    plans: tuple[PlanAudit, ...]
    """The plans with a problem."""

    @property
    def is_whole(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.plans and all(run.verdict != "broken" for run in self.runs)


def audit(area: ControlArea) -> Audit:
    """Check every run and plan of a table.

    Raises:
        StorageError: A request failed.
    """
    plans = plan_ids(area)
    hashes: dict[str, str] = {}
    damaged = tuple(_damaged_plans(area, plans, hashes))
    folders = _folders(area)
    ids = sorted({*folders, *run_ids(area)})
    runs = [found for run_id in ids if (found := audit_run(area, run_id, hashes, folders.get(run_id, ()))) is not None]
    return Audit(tuple(runs), len(plans), damaged)


def audit_run(
    area: ControlArea, run_id: str, hashes: Mapping[str, str], folders: Iterable[str] = ()
) -> RunAudit | None:
    """Check the parts of one run. `None`: the run wrote no part, and its report names none.

    Args:
        area: Of the table.
        run_id: Which run.
        hashes: Plan id -> hash of each stored plan.
        folders: All folders of the ledger that have the run's name.
    """
    own_folder = folder_of_run(run_id)
    problems = [
        f"{area.path(folder)}: expected the parts of run {run_id} in {own_folder}, found some here"
        for folder in folders
        if folder != own_folder
    ]
    parts: list[LedgerPart] = []
    for name in parts_of_run(area, run_id):
        try:
            parts.append(read_part(area, name))
        except (FormatError, ObjectNotFoundError) as error:
            problems.append(str(error))
    frame, report_problem = _report(area, run_id)
    problems += [report_problem] if report_problem else []
    stated = _stated(frame)
    is_old = frame is None or "by" not in frame  # the ledger got its chains at the same time as reports got `by`
    if parts and is_old and not any(part.head for part in parts) and stated is None and not problems:
        return RunAudit(run_id, "no_chain", len(parts))
    problems += [f"{area.path(part.name)}: expected a head, found none" for part in parts if part.head is None]
    by_writer: dict[str, list[LedgerPart]] = defaultdict(list)
    for part in parts:
        if part.head is not None:
            by_writer[part.writer].append(part)
    lasts = {}
    for writer, own in by_writer.items():
        own.sort(key=lambda part: part.number)
        problems += breaks(area, run_id, own_folder, own)
        problems += _other_plan(area, own[0], hashes)
        lasts[writer] = own[-1].digest
    ends = {writer: digest for part in parts for writer, digest in part.ends.items()}
    if stated is not None and stated.get("parts"):
        ends[MAIN_WRITER] = str(stated.get("head"))
    for writer, digest in ends.items():
        if lasts.get(writer) != digest:
            found = "no part" if writer not in lasts else "another one"
            problems.append(f"run {run_id}: the chain of {writer} ends with part {digest[:12]}; found {found} there")
    extra = by_writer.get(MAIN_WRITER, ()) if stated is not None and not stated.get("parts") else ()
    problems += [f"{area.path(part.name)}: the report of run {run_id} names no part" for part in extra]
    problems += unnamed_writers(run_id, by_writer, ends)
    if frame is not None:
        problems += _other_report(run_id, frame, by_writer)
    if not parts and not problems and (stated is None or not stated.get("parts")):
        return None
    is_ended = stated is not None and by_writer.keys() <= {*ends, MAIN_WRITER}
    verdict: Verdict = "broken" if problems else "whole" if is_ended else "open"
    return RunAudit(run_id, verdict, len(parts), tuple(problems))


def _folders(area: ControlArea) -> dict[str, list[str]]:
    """Return the folders of the ledger, by the run in their name."""
    found: dict[str, list[str]] = defaultdict(list)
    for day in area.folders("ledger/"):
        for run_id in area.folders(f"ledger/{day}/"):
            found[run_id].append(f"ledger/{day}/{run_id}/")
    return found


def _other_plan(area: ControlArea, part: LedgerPart, hashes: Mapping[str, str]) -> Iterator[str]:
    """Yield a problem if a run carried out a plan that differs from the stored plan of the same id."""
    head = part.head or {}
    plan_id, plan_hash = str(head.get("plan_id")), head.get("plan_hash")
    if plan_hash is not None and hashes.get(plan_id, plan_hash) != plan_hash:
        yield f"{area.path(part.name)}: expected plan {plan_id} as it was carried out, found that it has other actions"


def _report(area: ControlArea, run_id: str) -> tuple[Mapping[str, object] | None, str]:
    """Return the report of a run, or `None`, and the problem with the report."""
    try:
        return load_report(area, run_id), ""
    except RefusedError:
        return None, ""
    except FormatError as error:
        return None, str(error)


def _stated(frame: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Return what a report says of its ledger."""
    stated = None if frame is None else frame.get("ledger")
    return stated if isinstance(stated, dict) else None


def _damaged_plans(area: ControlArea, ids: list[str], hashes: dict[str, str]) -> Iterator[PlanAudit]:
    """Yield what is wrong with plans, and put the hashes of all others into `hashes`."""
    for plan_id in ids:
        try:
            try:
                hashes[plan_id] = load_plan(area, plan_id).header.content_hash
            except RefusedError as error:
                if error.code != PLAN_TOO_LARGE:
                    raise
                header = load_header(area, plan_id)
                for part in header.parts:
                    load_part(area, header, part)
        except StorageError:
            raise
        except MaintenanceError as error:
            if not has_plan(area, plan_id):  # housekeeping has deleted it since it was listed
                continue
            yield PlanAudit(plan_id, str(error))


def _other_report(run_id: str, frame: Mapping[str, object], by_writer: Mapping[str, list[LedgerPart]]) -> Iterator[str]:
    """Yield the points in which the report of a run and its ledger differ.

    Args:
        run_id: Which run.
        frame: The stored report, checked when it was loaded.
        by_writer: The parts that have a head.
    """
    stated, report = frame.get("ledger"), frame.get("report")
    report = report if isinstance(report, dict) else {}
    outcome = report.get("outcome")
    deleted = outcome.get("deleted", 0) if isinstance(outcome, dict) else 0
    main = by_writer.get(MAIN_WRITER, ())
    if not isinstance(stated, dict):
        if "by" in frame and deleted and report.get("operation") != _UNDO:
            yield f"run {run_id}: its report says that it deleted {deleted} objects; expected it to name their ledger"
        elif main and report.get("operation") != _UNDO:
            yield f"run {run_id}: expected a report that names the parts of its ledger, found one that does not"
        return
    if main and stated.get("parts") != len(main):
        yield f"run {run_id}: its report names {stated.get('parts')} parts; found {len(main)}"
    head = (main[0].head if main else None) or {}
    stated_of_run = {
        "by": frame.get("by"),
        "plan_id": report.get("plan_id"),
        "plan_hash": frame.get("plan_hash"),
        "policy_etag": frame.get("policy_etag"),
    }
    for key, value in stated_of_run.items():
        if main and head.get(key) != value:
            yield f"run {run_id}: its report and its ledger say different things of {key}; expected the same"
    if frame.get("ended") in _THROUGH and by_writer.keys() <= {MAIN_WRITER}:
        rows = sum(part.deleted for part in main)
        if rows != deleted:
            yield f"run {run_id}: its report says that it deleted {deleted} objects; its ledger has {rows}"
