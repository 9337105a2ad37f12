"""The result of a scan for orphan files: one document that is written once, whichever backend ran the scan."""

from collections.abc import Mapping
from dataclasses import replace

from lakesweep.aws.jobs.spark import SCANS, PlanResult, plan_result_of, result_name
from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError
from lakesweep.model.report import RunReport


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

    def read(self) -> PlanResult | None:
        """Return the result, or `None` while the scan goes on.

        Raises:
            FormatError: The document is damaged.
            StorageError: It could not be read.
        """
        try:
            return plan_result_of(from_json_bytes(self._scans.read(self._name).data, self.path), self.path)
        except ObjectNotFoundError:
            return None

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
