"""`lakesweep plans`."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.cli.options import Limit, Place, at_place

EXAMPLES = (
    "lakesweep plans /data/orders",
    "lakesweep plans s3://lake/sales.db/orders --control s3://ops/lakesweep --json",
)


@at_place("control")
def plans(place: Place, limit: Limit = 50) -> int:
    """List the stored plans of a table, newest first."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.cli.history.stored import list_plans

    return answer_document(place, lambda opened: list_plans(opened, limit), _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import columns, human_time

    if not document["plans"]:
        yield f"no stored plan of {document['table']}"
        return
    yield from columns(
        ("PLAN", "OPERATION", "BRANCH", "CREATED", "EXPIRES", "STATUS", "SNAPSHOTS", "ACTIONS"),
        (
            (
                plan["plan_id"],
                plan["operation"] or "-",
                plan["branch"] or "-",
                human_time(plan["created_ms"]),
                human_time(plan["expires_ms"]),
                plan["status"] + (" (needs --confirm)" if plan["needs_confirmation"] else ""),
                _snapshots(plan),
                "-" if plan["action_count"] is None else str(plan["action_count"]),
            )
            for plan in document["plans"]
        ),
    )
    for plan in document["plans"]:
        if plan["problem"] is not None:
            yield f"plan {plan['plan_id']} cannot be read: {plan['problem']}"


def _snapshots(plan: Mapping[str, Any]) -> str:
    """Return how many snapshots are deleted and how many written; a replaced snapshot counts as both."""
    if plan["action_count"] is None:
        return "-"
    goes = plan["expired_snapshot_count"] + plan["withdrawn_snapshot_count"]
    comes = plan["written_snapshot_count"]
    return " ".join(f"{sign}{count}" for sign, count in (("-", goes), ("+", comes)) if count) or "0"
