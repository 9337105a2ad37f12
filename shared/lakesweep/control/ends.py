"""How plans ended.

If the call that made a plan also carries it out, the run has the plan's id, and its report says how the plan ended.
This saves one document for every commit. All other executions write `plans/<plan_id>/end.json`. The run that undid a
plan is named in `plans/<plan_id>/undone.json`.
"""

import dataclasses
from dataclasses import dataclass

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.control.checks import are_ids, is_id
from lakesweep.control.reports import ENDED, ended_status
from lakesweep.errors import FormatError, ObjectNotFoundError

PUT_OFF = "put_off"
"""How a plan of files alone ended for the time being: the next call that executes it continues the plan."""


@dataclass(frozen=True, slots=True)
class PlanEnd:
    """How the execution of a plan ended."""

    status: str
    """`done`, `partial` or `stale`; or `put_off`, and then the plan may continue."""
    run_id: str
    runs: tuple[str, ...]
    """Every run that worked on it."""


def end_plan(area: ControlArea, plan_id: str, end: PlanEnd, *, apart: bool = False) -> None:
    """Record how a plan's execution ended.

    If only the run with the plan's own id worked on it, its report is the record.

    Args:
        area: Of the table.
        plan_id: Which plan.
        end: How it ended.
        apart: Write `end.json` in any case: there is no report yet, or there is an earlier record.
    """
    if apart or end.runs != (plan_id,):
        area.put(f"plans/{plan_id}/end.json", to_json_bytes(dataclasses.asdict(end)))


def plan_end(area: ControlArea, plan_id: str) -> PlanEnd | None:
    """Return how a plan's execution ended, `None` when it has not."""
    name = f"plans/{plan_id}/end.json"
    try:
        document = from_json_bytes(area.read(name).data, area.path(name))
    except ObjectNotFoundError:
        ended = ended_status(area, plan_id)
        return None if ended is None else PlanEnd(ended, plan_id, (plan_id,))
    status, run_id, runs = (document.get(key) for key in ("status", "run_id", "runs"))
    if status not in ENDED or not is_id(run_id) or not are_ids(runs):
        raise FormatError(f"{area.path(name)}: expected status, one of {', '.join(ENDED)}, run_id and runs")
    return PlanEnd(str(status), run_id, tuple(runs))


def record_undone(area: ControlArea, plan_id: str, run_id: str) -> None:
    """Record which run undid a plan completely."""
    area.put(f"plans/{plan_id}/undone.json", to_json_bytes({"run_id": run_id}))


def undone_by(area: ControlArea, plan_id: str) -> str | None:
    """Return the run that undid a plan completely, `None` when none did."""
    name = f"plans/{plan_id}/undone.json"
    try:
        document = from_json_bytes(area.read(name).data, area.path(name))
    except ObjectNotFoundError:
        return None
    run_id = document.get("run_id")
    if not is_id(run_id):
        raise FormatError(f"{area.path(name)}: expected run_id, the run that undid the plan")
    return run_id
