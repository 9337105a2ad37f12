"""Look after scans for orphan files: begin them, fold what their tasks found, and hand their plans over.

Input: from one queue, scans and their next turns, and the schedule's message that asks for a tour of all tables.
"""

from typing import Any

from lakesweep.aws.batch import answer, by_kind
from lakesweep.aws.messages import OrphanScan, OrphanTour
from lakesweep.aws.orphan_scans import carry_on
from lakesweep.aws.orphan_tour import orphan_tour
from lakesweep.aws.runtime import Context, Runtime

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and tell SQS which messages failed."""
    take = by_kind(
        {
            OrphanScan.kind: lambda scan, name: carry_on(runtime, scan, context, name),
            OrphanTour.kind: lambda tour, _: orphan_tour(runtime, tour, context),
        }
    )
    return answer(runtime, event, context, take)
