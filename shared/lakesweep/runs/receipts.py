"""The receipts of a run, which its report has, and of a whole call, which is printed.

The report of a run is stored before its last requests: its own put, and the puts that record the end and release the
lease. They are foretold, since each is sent once. So the receipts of the runs of a call count every request until the
last release once, and that of the call counts all. Only a put that S3 makes Lakesweep repeat is missing in a report.
"""

from dataclasses import replace

from lakesweep.control.noticed import NoticingStore
from lakesweep.model.prices import storage_usd
from lakesweep.model.receipt import RunReceipt
from lakesweep.model.report import RunReport
from lakesweep.runs.session import Table
from lakesweep.storage.requests import Used

_TAKER = "reports"
REMOTE = "lambda"
"""The engine whose requests this process does not count."""


def run_receipt(table: Table, report: RunReport, puts: int = 1) -> RunReport:
    """Return the report of a run with the receipt of what was used since the last report of this call.

    Args:
        table: The table.
        report: The report, which is about to be stored.
        puts: The puts to the control location that follow, with the report's own.
    """
    if table.area is not None and isinstance(table.area.store, NoticingStore):
        table.area.store.notice()  # otherwise the put of the report would do so, if it is the first
    is_billed = table.area is not None and table.area.is_in_s3
    used = table.counter.take(_TAKER, puts if is_billed else 0)
    freed = 0 if report.outcome is None else report.outcome.deleted_bytes  # its steps have receipts of their own
    return replace(report, receipt=_receipt(table, used, freed))


def call_receipt(table: Table | None, report: RunReport) -> RunReport:
    """Return the report of a call with the receipt of all that it used. No request may follow.

    Args:
        table: The table; `None`: it could not be opened.
        report: The report.
    """
    if table is None:
        return replace(report, receipt=RunReceipt())
    freed = sum(each.outcome.deleted_bytes for each in report.leaves() if each.outcome is not None)
    receipt = _receipt(table, table.counter.used(), freed)
    if report.engine is not None and report.engine.get("name") == REMOTE:
        what = report.engine.get("happened")
        receipt = receipt.with_scan(what if isinstance(what, dict) else None)
    return replace(report, receipt=receipt)


def is_paid(table: Table) -> bool:
    """Tell whether requests to the table's store cost money; requests to a local folder do not."""
    return "://" in table.ref.location


def _receipt(table: Table, used: Used, freed: int) -> RunReceipt:
    seconds, rate = used.ms / 1000, table.usd_per_second
    return RunReceipt(
        requests=used.requests,
        seconds=seconds,
        compute_usd=None if rate is None else rate * seconds,
        freed_bytes=freed,
        freed_usd_month=storage_usd(freed) if is_paid(table) else 0.0,
    )
