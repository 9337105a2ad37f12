"""The result of a scan for orphan files: one document that is written once, whichever backend ran the scan."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import MaintenanceError, ObjectNotFoundError, PreconditionFailedError
from lakesweep.format.values.json_document import get_int, get_object, get_str, require_str
from lakesweep.model.report import RunReport

SCANS = "scans"
"""Folder with the documents of a table's scans, apart from lasting documents."""
DAMAGED = "damaged"
"""Status of a scan that found the table damaged. A job then ends with exit code 4, but the scan is complete."""


FINAL_EXIT_CODES = frozenset({2, 3})
"""Exit codes of usage errors and refusals: the same call gets the same answer."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What a scan stores at its end, as far as functions act on it."""

    status: str
    plan_id: str | None = None
    action_count: int = 0
    needs_confirmation: bool = False
    code: str | None = None
    why: str | None = None

    @property
    def has_plan(self) -> bool:
        """Tell whether there is a plan to execute. A scan of a damaged table may have found some orphans, too."""
        return self.plan_id is not None and (
            self.status == "planned" or (self.status == DAMAGED and self.action_count > 0)
        )


class ScanResult:
    """The result of a scan, for callers that wait for it: `scans/<table_key>/<scan_id>/result.json`."""

    def __init__(self, area: ControlArea, scan_id: str) -> None:
        """Bind it to a scan.

        Args:
            area: The table's area.
            scan_id: Id of the scan.
        """
        self._scans = replace(area, root=SCANS)
        self._name = result_name(scan_id)

    @property
    def path(self) -> str:
        """Return the path of the result, whether or not it exists yet."""
        return self._scans.path(self._name)

    def document(self) -> dict[str, object] | None:
        """Return the document of the result, or `None` while the scan goes on.

        Raises:
            FormatError: The document is damaged.
            StorageError: It could not be read.
        """
        try:
            return from_json_bytes(self._scans.read(self._name).data, self.path)
        except ObjectNotFoundError:
            return None

    def read(self) -> PlanResult | None:
        """Return the result, or `None` while the scan goes on; see `document`."""
        document = self.document()
        return None if document is None else plan_result_of(document, self.path)

    def leave(self, document: Mapping[str, object]) -> PlanResult:
        """Store the result, unless one is stored already. Return the stored result.

        Raises:
            FormatError: The stored document is damaged.
            StorageError: It could not be written.
        """
        try:
            self._scans.put(self._name, to_json_bytes(document), if_absent=True)
        except PreconditionFailedError:
            if (found := self.read()) is not None:
                return found
        return plan_result_of(dict(document), self.path)


def document_of(report: RunReport, basis: Mapping[str, object]) -> dict[str, object]:
    """Return the result document of a scan without tasks.

    Args:
        report: The report of the scan.
        basis: Additional facts, such as the reason why the scan ran where it did.
    """
    plan, refusal = report.plan, report.refusal
    happened = (report.engine or {}).get("happened")
    listed = plan.header.findings.get("listed") if plan is not None else None
    return {
        **basis,
        "status": report.told_status,
        "plan_id": None if plan is None or plan.is_empty else plan.header.plan_id,
        "action_count": 0 if plan is None else plan.header.action_count,
        "bytes": 0 if plan is None else plan.delete_bytes,
        "needs_confirmation": plan is not None and plan.header.needs_confirmation,
        "refusal": None if refusal is None else {"code": refusal.code, "message": refusal.message},
        **({"objects": listed["objects"]} if isinstance(listed, Mapping) and "objects" in listed else {}),
        **({"requests": happened["requests"]} if isinstance(happened, Mapping) else {}),
        **({"began_ms": plan.header.created_ms} if plan is not None else {}),
    }


def run_document_of(result: RunReport | MaintenanceError) -> dict[str, object] | None:
    """Return the result document of an operation; `None` if another attempt may end in another way."""
    if isinstance(result, MaintenanceError):
        if result.exit_code not in FINAL_EXIT_CODES:
            return None
        return {"status": "refused", "refusal": {"code": result.code, "message": str(result)}}
    refusal, commits = result.refusal, result.commits
    if result.status == "refused" and refusal is not None and refusal.exit_code not in FINAL_EXIT_CODES:
        return None
    return {
        "status": result.told_status,
        "run_id": result.run_id,
        "refusal": None if refusal is None else {"code": refusal.code, "message": refusal.message},
        "commits": None if commits is None else commits.to_json(),
        "warnings": list(result.all_warnings()),
    }


def result_name(scan_id: str) -> str:
    """Return the name of a planning job's result in the area of its table's scans."""
    return f"{scan_id}/result.json"


def plan_result_of(document: dict[str, object], path: str) -> PlanResult:
    """Read the result of a planning job."""
    refusal = get_object(document, "refusal", path)
    return PlanResult(
        status=require_str(document, "status", path),
        plan_id=get_str(document, "plan_id", path),
        action_count=get_int(document, "action_count", path) or 0,
        needs_confirmation=document.get("needs_confirmation") is True,
        code=get_str(refusal, "code", path),
        why=get_str(refusal, "message", path),
    )
