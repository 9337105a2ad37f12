"""A stored plan as text: as it was shown when it was made, who made it, and whether it still holds."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.api.shown import StoredPlan
from lakesweep.cli.text import human_bytes, human_time, report_lines
from lakesweep.model.who import who_of

Document = Mapping[str, Any]


def plan_lines(shown: StoredPlan, document: Document) -> Iterator[str]:
    """Render the plan as it was shown, and then the facts about it."""
    is_large = shown.plan.is_chunked and not shown.had_kinds
    yield from report_lines(document["report"], actions=shown.files() if is_large else None)
    who, recheck = who_of(document["by"]), document["recheck"]
    until = f", until {human_time(document['expires_ms'])}" if document["status"] == "waiting" else ""
    yield f"{'plan':<10} {document['plan_id']}: {document['status'].replace('_', ' ')}{until}"
    yield f"{'made':<10} {human_time(document['created_ms'])} by {who or 'unknown'}"
    if document["run_id"] is not None:
        yield f"{'run':<10} {document['run_id']}"
    if document["undone_by"] is not None:
        yield f"{'undone':<10} by run {document['undone_by']}"
    unknown = "nothing is left to do" if recheck["code"] == "overtaken" else "not known"
    holds = {True: "yes, if executed now", False: "no", None: unknown}[recheck["holds"]]
    kept = f"; execute would keep {recheck['kept']} of its objects by now" if recheck["kept"] else ""
    yield f"{'holds':<10} {holds}{'' if recheck['message'] is None else ': ' + recheck['message']}{kept}"


def file_line(row: Document) -> str:
    """Render one object of a plan."""
    size = "-" if row["size_bytes"] is None else human_bytes(row["size_bytes"])
    return f"{row['action']:<6}  {row['kind']:<18}  {size:>10}  {row['path']}: {row['reason']}"
