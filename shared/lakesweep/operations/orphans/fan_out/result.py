"""How a scan ends: with a plan, or with an error. The first result that a worker stores counts."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.control.plans import load_header
from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.model.plan import Plan
from lakesweep.operations.orphans.fan_out.documents import Json, Match, Scan, ScanDocuments, State
from lakesweep.operations.orphans.fan_out.heads import DecodedHead, ListedHead
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table


@dataclass(frozen=True, slots=True)
class Ended:
    """How a scan ended."""

    status: str
    """`planned`, `nothing_to_do`, `damaged`, `refused` or `failed`."""
    plan: Plan | None
    """The plan's header; the actions are in the stored parts."""
    refusal: Mapping[str, str] | None
    """`code` and `message`."""
    result: Mapping[str, object]
    """The document `result.json`."""


def find_end(table: Table, scan_id: str) -> Ended | None:
    """Return how a scan ended; `None` while it goes on, or if there is no such scan."""
    documents = ScanDocuments.of(require_area(table), scan_id)
    result = documents.find_result()
    return None if result is None else ended_of(table, documents, result)


def ended_of(table: Table, documents: ScanDocuments, result: Json) -> Ended:
    """Return how a scan with this result ended."""
    plan_id = result.get("plan_id")
    # A plan without actions is stored with the scan.
    area = require_area(table) if result.get("action_count") else documents.area
    plan = None if plan_id is None else Plan(load_header(area, str(plan_id)))
    return Ended(str(result["status"]), plan, result.get("refusal"), result)


def end_with_error(table: Table, documents: ScanDocuments, error: MaintenanceError) -> Ended:
    """Store that a scan ended with an error, unless it has ended already."""
    result = {
        "status": "refused" if isinstance(error, RefusedError) else "failed",
        "plan_id": None,
        "refusal": {"type": type(error).__name__, "code": error.code, "message": str(error)},
        "ended_ms": table.store.now_ms(),
    }
    return ended_of(table, documents, documents.put_result(result))


def result_of(documents: ScanDocuments, scan: Scan, state: State, goes_by: Match, plan: Plan) -> Json:
    """Return the result of a scan that produced a plan."""
    header, steps = plan.header, _steps(scan, state)
    total: Counter[str] = Counter()
    for counts in steps.values():
        total.update(counts)
    heads = [head for head, _ in state.heads.values()]
    decoded = [head for head in heads if isinstance(head, DecodedHead)]
    rows = [source.spill.slot_rows for source in (*goes_by.names, *goes_by.own_names, *goes_by.objects)]
    return {
        "scan_id": documents.scan_id,
        "plan_id": header.plan_id,
        "content_hash": header.content_hash,
        "action_count": header.action_count,
        "bytes": plan.delete_bytes,
        "by_kind": dict(plan.delete_kinds),
        "needs_confirmation": header.needs_confirmation,
        "refusal": None,
        "tasks": dict(Counter(head.kind for head in heads)),
        "requests": dict(total),
        "by_step": steps,
        "objects": sum(head.totals.objects for head in heads if isinstance(head, ListedHead)),
        "roots": len(goes_by.capture.captured),
        "manifests": len(goes_by.capture.manifests),
        "manifests_decoded": sum(len(head.manifests) for head in decoded if head.entries),
        "entries": scan.entries,
        "entries_decoded": sum(head.entries for head in decoded) + goes_by.entries_here,
        # How often tasks read slots of a spill.
        "spill_parts": sum(any(each[task.first : task.end]) for task in goes_by.tasks for each in rows),
        "began_ms": scan.now_ms,
        "ended_ms": state.looked_ms,
        **scan.basis,
    }


def _steps(scan: Scan, state: State) -> dict[str, dict[str, int]]:
    """Return the requests of each step."""
    steps = {name: Counter(counts) for name, counts in state.requests.items()}
    # Two documents could not count the request that wrote them: the scan's parameters, and this result.
    steps["begin"] = Counter(scan.requests) + Counter(put=1)
    steps.setdefault("finish", Counter()).update(put=1)
    for head, _ in state.heads.values():
        steps.setdefault(head.kind, Counter()).update(head.requests)
    return {name: {kind: count for kind, count in sorted(counts.items()) if count} for name, counts in steps.items()}
