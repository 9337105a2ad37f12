"""What the runs over a table cost and freed by month, for the overview.

A sum has what each call used until it released the lease: with the run's report, without what the call notes afterwards
for the next pass (at most a GET and two PUTs), of a commit also without its report.

Not counted is what takes no lease: calls that find nothing to do, dry runs, tags alone, triages and sweeps, scans for
orphan files; and runs that died or lost the lease. A sum begins with the first run of a version that counts, and begins
anew after a run of a version that does not.
"""

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.model.overview import Receipt
from lakesweep.model.prices import storage_usd


def receipts_of(area: ControlArea, lease: LeaseDocument | None = None) -> tuple[Receipt, ...] | None:
    """Return what the runs over a table cost and freed, the newest month first, at most twelve.

    It takes one GET, or none if the caller has read the lease. Months before the first run that counted are missing,
    and the month of that run has `since_ms`. See the module for what is not counted.

    Args:
        area: The documents of the table.
        lease: The lease, if the caller has read it.

    Returns:
        Empty if no run has counted yet; `None` if the sums are damaged, so nothing is known.

    Raises:
        FormatError: The lease document is damaged.
        StorageError: The request failed.
    """
    sums = (read_lease(area) if lease is None else lease).receipts
    if sums is None:
        return None
    is_stored_in_s3 = "://" in area.table
    return tuple(
        Receipt(
            month=month,
            runs=each.runs,
            requests=dict(each.requests),
            usd=each.usd,
            freed_bytes=each.freed_bytes,
            freed_usd_month=storage_usd(each.freed_bytes) if is_stored_in_s3 else 0.0,
            since_ms=each.since_ms,
            unknown=each.unknown,
        )
        for month, each in sorted(sums.items(), reverse=True)
    )
