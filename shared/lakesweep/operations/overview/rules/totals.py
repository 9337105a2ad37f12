"""The sums over the tables of an overview."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import fsum

from lakesweep.model.overview import Bytes, Receipt, TableOverview, Totals

MONTHS = 12


def totals_of(tables: Sequence[TableOverview], reasons: Sequence[str]) -> Totals:
    """Return the sums over all tables that could be read.

    Args:
        tables: In any order.
        reasons: The order of the reasons; others follow.
    """
    read = [table for table in tables if table.problem is None]
    return Totals(
        tables=len(tables),
        failed=len(tables) - len(read),
        objects=sum(table.objects for table in read),
        bytes=sum(table.bytes for table in read),
        noncurrent_bytes=sum(table.noncurrent_bytes or 0 for table in read),
        usd_month=fsum(table.usd_month for table in read),
        saving_bytes=sum(table.saving_bytes for table in read),
        saving_usd_month=fsum(table.saving_usd_month for table in read),
        findings=sum(len(table.findings) for table in tables),
        reasons=_by_reason(read, reasons),
        receipts=by_month(receipt for table in tables for receipt in table.receipts or ()),
    )


def _by_reason(tables: Iterable[TableOverview], reasons: Sequence[str]) -> tuple[Bytes, ...]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for table in tables:
        for each in table.reasons:
            counts[each.reason] += each.count
            sizes[each.reason] += each.bytes
    order = [*reasons, *sorted(counts.keys() - set(reasons))]
    return tuple(Bytes(reason, counts[reason], sizes[reason]) for reason in order if reason in counts)


def by_month(receipts: Iterable[Receipt]) -> tuple[Receipt, ...]:
    """Return the sums of receipts by month, the newest first, at most twelve months."""
    months: dict[str, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        months[receipt.month].append(receipt)
    return tuple(_sum(month, months[month]) for month in sorted(months, reverse=True)[:MONTHS])


def _sum(month: str, receipts: Sequence[Receipt]) -> Receipt:
    requests: Counter[str] = Counter()
    for receipt in receipts:
        requests.update(receipt.requests)
    return Receipt(
        month=month,
        runs=sum(receipt.runs for receipt in receipts),
        requests=dict(requests),
        usd=fsum(receipt.usd for receipt in receipts),
        freed_bytes=sum(receipt.freed_bytes for receipt in receipts),
        freed_usd_month=fsum(receipt.freed_usd_month for receipt in receipts),
        since_ms=max((receipt.since_ms for receipt in receipts if receipt.since_ms is not None), default=None),
        unknown=sum(receipt.unknown for receipt in receipts),
    )
