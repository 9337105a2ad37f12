"""The result of a scan that has ended."""

from collections import Counter
from collections.abc import Iterable, Mapping

from lakesweep.model.plan import Plan
from lakesweep.operations.orphans.fan_out.documents import Json, ScanDocuments, State
from lakesweep.operations.orphans.fan_out.spill import Spill


def result_of(documents: ScanDocuments, scan: Json, state: State, goes_by: Json, plan: Plan) -> Json:
    """Return the result of a scan that produced a plan."""
    header, capture = plan.header, goes_by["capture"]
    steps = _steps(scan, state)
    total: Counter[str] = Counter()
    for counts in steps.values():
        total.update(counts)
    infos = [head["info"] for head in state.heads.values()]
    return {
        "scan_id": documents.scan_id,
        "plan_id": header.plan_id,
        "content_hash": header.content_hash,
        "action_count": header.action_count,
        "bytes": plan.delete_bytes,
        "by_kind": dict(plan.delete_kinds),
        "needs_confirmation": header.needs_confirmation,
        "refusal": None,
        "tasks": dict(Counter(head["kind"] for head in state.heads.values())),
        "requests": dict(total),
        "by_step": steps,
        "objects": sum(info["totals"]["objects"] for info in infos if "place" in info and "totals" in info),
        "roots": len(capture["captured"]),
        "manifests": len(capture["manifests"]),
        "manifests_decoded": sum(len(info["manifests"]) for info in infos if info.get("entries")),
        "entries": scan["entries"],
        "entries_decoded": sum(info.get("entries", 0) for info in infos) + goes_by["entries_here"],
        "spill_parts": _pieces(goes_by["tasks"], [*goes_by["names"], *goes_by["own_names"], *goes_by["objects"]]),
        "began_ms": scan["now_ms"],
        "ended_ms": state.looked_ms,
        **scan["basis"],
    }


def _steps(scan: Json, state: State) -> dict[str, dict[str, int]]:
    """Return the requests of each step."""
    steps = {name: Counter(counts) for name, counts in state.requests.items()}
    # Two documents could not count the request that wrote them: the scan's parameters, and this result.
    steps["begin"] = Counter(scan["requests"]) + Counter(put=1)
    steps.setdefault("finish", Counter()).update(put=1)
    for head in state.heads.values():
        steps.setdefault(head["kind"], Counter()).update(head["info"]["requests"])
    return {name: {kind: count for kind, count in sorted(counts.items()) if count} for name, counts in steps.items()}


def _pieces(tasks: Iterable[Mapping[str, int]], sources: Iterable[Json]) -> int:
    """Return how often tasks read slots of a spill."""
    rows = [Spill.from_json(source["spill"], str(source["name"])).slot_rows for source in sources]
    return sum(any(each[task["first"] : task["end"]]) for task in tasks for each in rows)
