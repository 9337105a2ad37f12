"""An expiry that has begun and not ended, and a rollback to what it takes.

What snapshots above the target deleted is live again at the target. The plan of an expiry that goes further than the
target takes it, and whoever finishes that plan makes the rollback impossible. So the rollback is refused before.
"""

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.control.plans import load_header
from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.plan import MOVE_FORMAT_VERSION, PlanHeader

EXPIRY_UNDER_WAY = "expiry_under_way"


def may_conflict(area: ControlArea, begun: Intent | None, branch: str) -> bool:
    """Tell whether a plan that has begun takes something of a branch, so that it matters what it takes."""
    if begun is None or begun.branch != branch:
        return False
    try:
        return load_header(area, begun.plan_id).format_version != MOVE_FORMAT_VERSION
    except (FormatError, RefusedError):
        return False  # who finishes it says what is wrong with it


def refuse_conflict(table: str, begun: Intent, snapshot_id: int, *, is_tag: bool) -> None:
    """Refuse a rollback whose target goes.

    A tag is safe from the expiry of snapshots, which keeps what a tag needs.

    Args:
        table: In words.
        begun: For which `may_conflict`.
        snapshot_id: The target.
        is_tag: A tag holds it, and is what is meant.

    Raises:
        RefusedError: With code `expiry_under_way`.
    """
    goes = not is_tag and begun.end_id is not None and begun.end_id > snapshot_id
    if goes or snapshot_id in begun.snapshot_ids:
        raise RefusedError(
            f"table {table}: run {begun.runs[-1]} has begun plan {begun.plan_id}, which takes snapshot {snapshot_id}, "
            "and has not ended; expected no expiry that takes files of the target",
            code=EXPIRY_UNDER_WAY,
        )


def refuse_stored(area: ControlArea, table: str, header: PlanHeader, begun: Intent) -> None:
    """Refuse a stored rollback whose target goes; any other plan is none of this.

    Raises:
        RefusedError: With code `expiry_under_way`.
    """
    target = header.findings.get("target")
    if header.operation != "rollback" or not isinstance(target, dict) or not isinstance(target.get("snapshot"), int):
        return
    if may_conflict(area, begun, header.branch):
        refuse_conflict(table, begun, target["snapshot"], is_tag=target.get("tag") is not None)
