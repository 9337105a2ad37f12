"""Check the ledger and the plans of a table: that nobody has changed, removed or added a part.

Whoever can write everything in the control location can write a chain anew. A bucket that auditors rely on keeps
versions, or forbids overwriting.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import HEAD, MAIN_WRITER, hash_of_beginning, hash_of_part
from lakesweep.control.ledger import parts_of_run, runs_of_ledger
from lakesweep.control.ndjson import unpack
from lakesweep.control.plans import PLAN_TOO_LARGE, load_header, load_part, load_plan, plan_ids
from lakesweep.control.reports import load_report, run_ids
from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, RefusedError, StorageError

Verdict = Literal["whole", "open", "no_chain", "broken"]


@dataclass(frozen=True, slots=True)
class RunAudit:
    """What the parts of one run tell."""

    run_id: str
    verdict: Verdict
    """`whole`: the chain begins with the run and ends as its report says. `open`: as far as it goes it is whole, and no
    report says where it ends. `no_chain`: it was written before there were chains. `broken`: see `problems`."""
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
    """Those with a problem."""

    @property
    def is_whole(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.plans and all(run.verdict != "broken" for run in self.runs)


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    head: Mapping[str, object] | None
    digest: str
    ends: Mapping[str, str]
    """Writer -> hash of its last part, as far as this part says."""


def audit(area: ControlArea) -> Audit:
    """Check every run and plan of a table.

    Raises:
        StorageError: A request failed.
    """
    plans = plan_ids(area)
    hashes: dict[str, str] = {}
    damaged = tuple(_damaged_plans(area, plans, hashes))
    ids = sorted({*runs_of_ledger(area, 1 << 62), *run_ids(area)})
    runs = [found for run_id in ids if (found := audit_run(area, run_id, hashes)) is not None]
    return Audit(tuple(runs), len(plans), damaged)


def audit_run(area: ControlArea, run_id: str, hashes: Mapping[str, str]) -> RunAudit | None:
    """Check the parts of one run, `None` of a run that wrote none and says so.

    Args:
        area: Of the table.
        run_id: Which run.
        hashes: Of the plans that are there, by their ids.
    """
    problems: list[str] = []
    parts: list[_Part] = []
    for name in parts_of_run(area, run_id):
        try:
            parts.append(_part(area, name))
        except (FormatError, ObjectNotFoundError) as error:
            problems.append(str(error))
    stated, report_problem = _stated(area, run_id)
    problems += [report_problem] if report_problem else []
    if not parts and not problems and (stated is None or not stated.get("parts")):
        return None
    if not any(part.head for part in parts) and stated is None and not problems:
        return RunAudit(run_id, "no_chain", len(parts))
    problems += [f"{area.path(part.name)}: expected a head, found none" for part in parts if part.head is None]
    by_writer: dict[str, list[_Part]] = defaultdict(list)
    for part in parts:
        if part.head is not None:
            by_writer[str(part.head.get("writer"))].append(part)
    lasts = {}
    for writer, own in by_writer.items():
        own.sort(key=_number)
        problems += _breaks(area, run_id, own)
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
    problems += [f"{area.path(part.name)}: the report of run {run_id} knows of no part" for part in extra]
    verdict: Verdict = "broken" if problems else "whole" if stated is not None else "open"
    return RunAudit(run_id, verdict, len(parts), tuple(problems))


def _part(area: ControlArea, name: str) -> _Part:
    data = area.read(name).data
    rows = list(unpack(data, area.path(name)))
    head = rows[0].get(HEAD) if rows else None
    ends = {str(row["writer"]): str(row["ends"]) for row in rows if "ends" in row and "writer" in row}
    return _Part(name, head if isinstance(head, dict) else None, hash_of_part(data), ends)


def _number(part: _Part) -> int:
    number = None if part.head is None else part.head.get("number")
    return number if isinstance(number, int) else 0


def _breaks(area: ControlArea, run_id: str, parts: list[_Part]) -> Iterator[str]:
    """Yield where the chain of one writer is broken."""
    previous = hash_of_beginning(parts[0].head or {})
    for number, part in enumerate(parts, 1):
        head = part.head or {}
        where = area.path(part.name)
        if head.get("run_id") != run_id or head.get("table") != area.table:
            yield f"{where}: expected a part of run {run_id} of this table, found another run's or table's"
        if _number(part) != number:
            yield f"{where}: expected part {number} of {head.get('writer')}, found {head.get('number')}"
        elif head.get("previous") != previous:
            yield f"{where}: expected the hash of the part before, found another one"
        previous = part.digest


def _other_plan(area: ControlArea, part: _Part, hashes: Mapping[str, str]) -> Iterator[str]:
    """Yield that a run carried out another plan than the one of this id that is there now."""
    head = part.head or {}
    plan_id, plan_hash = str(head.get("plan_id")), head.get("plan_hash")
    if plan_hash is not None and hashes.get(plan_id, plan_hash) != plan_hash:
        yield f"{area.path(part.name)}: expected plan {plan_id} as it was carried out, found that it has other actions"


def _stated(area: ControlArea, run_id: str) -> tuple[Mapping[str, object] | None, str]:
    """Return what the report of a run says of its ledger, and what is wrong with the report."""
    try:
        stated = load_report(area, run_id).get("ledger")
    except RefusedError:
        return None, ""
    except FormatError as error:
        return None, str(error)
    return (stated if isinstance(stated, dict) else None), ""


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
            yield PlanAudit(plan_id, str(error))
