"""What a scan for orphan files came to, as one document that is written once, whoever did the scan."""

from dataclasses import replace

from lakesweep.aws.spark_jobs import SCANS, PlanResult, plan_result_of, result_name
from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError
from lakesweep.model.report import RunReport


class ScanResult:
    """What a scan came to, for whoever waits for it: `scans/<table_key>/<scan_id>/result.json`."""

    def __init__(self, area: ControlArea, scan_id: str) -> None:
        """Find its place.

        Args:
            area: Of the table.
            scan_id: Which scan.
        """
        self._scans = replace(area, root=SCANS)
        self._name = result_name(scan_id)

    @property
    def path(self) -> str:
        """Return where it lies, or will."""
        return self._scans.path(self._name)

    def read(self) -> PlanResult | None:
        """Return it, if the scan is over.

        Raises:
            FormatError: It is damaged.
            StorageError: It could not be read.
        """
        try:
            return plan_result_of(from_json_bytes(self._scans.read(self._name).data, self.path), self.path)
        except ObjectNotFoundError:
            return None

    def leave(self, result: PlanResult) -> PlanResult:
        """Write it down, and return what stands there: that of the first who did."""
        refusal = None if result.code is None else {"code": result.code, "message": result.why}
        document = {
            "status": result.status,
            "plan_id": result.plan_id,
            "action_count": result.action_count,
            "needs_confirmation": result.needs_confirmation,
            "refusal": refusal,
        }
        try:
            self._scans.put(self._name, to_json_bytes(document), if_absent=True)
        except PreconditionFailedError:
            return self.read() or result
        return result


def result_of(report: RunReport) -> PlanResult:
    """Return what a scan came to that one process did."""
    plan, refusal = report.plan, report.refusal
    return PlanResult(
        status=report.status,
        plan_id=None if plan is None or plan.is_empty else plan.header.plan_id,
        action_count=0 if plan is None else plan.header.action_count,
        needs_confirmation=plan is not None and plan.header.needs_confirmation,
        code=None if refusal is None else refusal.code,
        why=None if refusal is None else refusal.message,
    )
