"""What a scan for orphan files cost: compared with its estimate, and noted in the table's history."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.control.scan_history import PastScan, note_scan
from lakesweep.errors import MaintenanceError
from lakesweep.model.plan import Plan
from lakesweep.model.prices import request_units, usd_of
from lakesweep.operations.orphans.rules.backend_choice import say_count, say_seconds, say_usd
from lakesweep.runs.session import Table

FUNCTIONS = "lambda"
_COUNTED = ("lists", "entries", "entries_decoded", "manifests_decoded")
_Document = Mapping[str, object]


def happened(
    engine: str, requests: Mapping[str, int], seconds: float, estimate: _Document | None, *, is_paid: bool = True
) -> dict[str, Any]:
    """Return what a scan cost, in the form in which it is printed and stored.

    Args:
        engine: The backend.
        requests: Requests to S3, by kind.
        seconds: From its beginning to its end.
        estimate: The estimate of the cost. The seconds of functions and executors are not counted during a scan, so
            they are taken from the estimate.
        is_paid: Requests cost money.
    """
    counted = {kind: count for kind, count in requests.items() if count}
    usd = usd_of(request_units(counted)) if is_paid else 0.0
    if estimate is not None and is_paid:
        thought = estimate.get("requests")
        usd += max(0.0, _figure(estimate, "usd") - usd_of(request_units(thought if isinstance(thought, dict) else {})))
    return {"engine": engine, "requests": counted, "seconds": round(seconds, 1), "usd": round(usd, 6)}


def happened_by(result: _Document) -> dict[str, Any] | None:
    """Return what a scan by functions cost, from its `result.json`; `None` if the result does not say it."""
    requests, estimate = result.get("requests"), result.get("estimate")
    if not isinstance(requests, Mapping) or not all(type(count) is int for count in requests.values()):
        return None
    began_ms, ended_ms = _whole(result, "began_ms"), _whole(result, "ended_ms")
    seconds = 0.0 if began_ms is None or ended_ms is None else (ended_ms - began_ms) / 1000
    return happened(FUNCTIONS, requests, seconds, estimate if isinstance(estimate, Mapping) else None)


def compare(estimate: _Document, what: _Document) -> str:
    """Compare an estimate with the actual cost in words; both in the form in which they are stored."""
    thought, counted = _count(estimate), _count(what)
    off = f" ({100 * (counted - thought) / thought:+.1f} %)" if thought else ""
    return (
        f"estimated {say_count(thought)} requests, {_said(estimate)}; counted {say_count(counted)}{off}, {_said(what)}"
    )


def note(area: ControlArea, plan: Plan, what: Mapping[str, Any], counted: _Document | None = None, **more: Any) -> None:
    """Note a scan in the history of its table. A second call has no effect, and a failure does not affect the scan.

    Args:
        area: The table's area.
        plan: The plan that the scan made.
        what: What it cost; see `happened`.
        counted: Further counts.
        more: Other fields of the `PastScan`.
    """
    header = plan.header
    listed = header.findings.get("listed")
    listed = listed if isinstance(listed, Mapping) else {}
    more |= {name: _whole(counted or {}, name) for name in _COUNTED}
    past = PastScan(
        objects=_whole(listed, "objects") or 0,
        bytes=_whole(listed, "bytes"),
        roots=_whole(header.findings, "roots") or 0,
        manifests=_whole(header.findings, "manifests") or 0,
        latest_id=_whole(header.snapshots, "latest"),
        live=header.kept.get("live"),
        inventory="inventory" in header.findings,
        requests=what["requests"],
        usd=what["usd"],
        **more,
    )
    with suppress(MaintenanceError):
        note_scan(area, past)


def note_fan_out(table: Table, result: _Document, plan: Plan | None) -> None:
    """Note a scan by functions. Every process that sees its end calls this.

    Args:
        table: The table.
        result: The result of the scan, as in `result.json`.
        plan: The header of its plan; without a plan there is nothing to record.
    """
    began_ms, ended_ms, what = _whole(result, "began_ms"), _whole(result, "ended_ms"), happened_by(result)
    if table.area is None or plan is None or began_ms is None or ended_ms is None or what is None:
        return
    estimate, reason = result.get("estimate"), result.get("reason")
    note(
        table.area,
        plan,
        what,
        result,
        engine=FUNCTIONS,
        status=str(result.get("status")),
        began_ms=began_ms,
        ended_ms=ended_ms,
        estimate=estimate if isinstance(estimate, Mapping) else None,
        reason=reason if isinstance(reason, str) else None,
    )


def _whole(document: _Document, name: str) -> int | None:
    value = document.get(name)
    return value if type(value) is int else None


def _figure(document: _Document, name: str) -> float:
    value = document.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _said(document: _Document) -> str:
    return f"{say_usd(_figure(document, 'usd'))}, {say_seconds(_figure(document, 'seconds'))}"


def _count(document: _Document) -> int:
    requests = document.get("requests")
    return sum(requests.values()) if isinstance(requests, Mapping) else 0
