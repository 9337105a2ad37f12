"""A rollback to a snapshot that an unfinished expiry deletes.

A rollback makes files live again that snapshots above the target deleted. An expiry that goes beyond the target deletes
these files. Any run may finish its plan, and that makes the rollback impossible. So the rollback is refused beforehand.
"""

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.control.plans import load_header
from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.plan import MOVE_FORMAT_VERSION, PlanHeader

EXPIRY_UNDER_WAY = "expiry_under_way"


def may_conflict(area: ControlArea, begun: Intent | None, branch: str) -> bool:
    """Tell whether an unfinished plan deletes something of a branch, so that its details matter."""
    if begun is None or begun.branch != branch:
        return False
    try:
        return load_header(area, begun.plan_id).format_version != MOVE_FORMAT_VERSION
    except (FormatError, RefusedError):
        return False  # the run that finishes the plan reports the problem


def refuse_conflict(table: str, begun: Intent, snapshot_id: int, *, is_tag: bool) -> None:
    """Refuse a rollback to a target that the plan expires.

    A tag is safe from the expiry of snapshots, since an expiry keeps the files that a tag needs.

    Args:
        table: The table in words.
        begun: An intent that `may_conflict`.
        snapshot_id: The target.
        is_tag: The target is a tag, which holds the snapshot.

    Raises:
        RefusedError: With code `expiry_under_way`.
    """
    goes = not is_tag and begun.end_id is not None and begun.end_id > snapshot_id
    if goes or snapshot_id in begun.snapshot_ids:
        raise RefusedError(
            f"table {table}: run {begun.runs[-1]} began plan {begun.plan_id}, which deletes snapshot {snapshot_id}, "
            "and has not ended; expected no expiry that deletes files of the target",
            code=EXPIRY_UNDER_WAY,
        )


def refuse_stored(area: ControlArea, table: str, header: PlanHeader, begun: Intent) -> None:
    """Refuse a stored rollback to a target that the begun plan expires; accept any other plan.

    Raises:
        RefusedError: With code `expiry_under_way`.
    """
    target = header.steering.target
    if header.operation == "rollback" and target is not None and may_conflict(area, begun, header.branch):
        refuse_conflict(table, begun, target.snapshot, is_tag=target.tag is not None)
