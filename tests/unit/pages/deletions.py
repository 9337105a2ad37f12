"""Documents of plans and runs, for pages."""

from typing import Any

from lakesweep.model.report import RunReport


def action(
    path: str, size: int | None = 10, kind: str = "data", reason: str = "left the table at snapshot 2"
) -> dict[str, Any]:
    return {"phase": "data", "kind": kind, "path": path, "size_bytes": size, "reason": reason}


def report(*actions: dict[str, Any], **words: Any) -> dict[str, Any]:
    kinds = [each["kind"] for each in actions]
    document = RunReport(
        "expire-snapshots", "s3://lake/sales.db/orders", "main", "done", run_id="RUN", executed=True
    ).to_json()
    delete = {
        "count": len(actions),
        "bytes": sum(each["size_bytes"] or 0 for each in actions),
        "by_kind": {kind: kinds.count(kind) for kind in set(kinds)},
    }
    return {**document, "delete": delete, "actions": list(actions), **words}


def stored(report: dict[str, Any]) -> dict[str, Any]:
    return {"report": report, "started_ms": 1_769_860_800_000, "finished_ms": 1_769_860_860_000}


def planned(report: dict[str, Any], **words: Any) -> dict[str, Any]:
    recheck = {"holds": True, "code": None, "message": None, "kept": 0}
    return {
        "plan_id": "PLAN", "report": report, "created_ms": 1_769_860_800_000, "expires_ms": 1_769_947_200_000,
        "status": "waiting", "run_id": None, "recheck": recheck, **words,
    }  # fmt: skip
