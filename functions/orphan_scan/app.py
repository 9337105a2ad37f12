"""Run scans for orphan files step by step: begin them, collect the findings of their tasks, and hand over their plans.

Input: messages from one queue. They are scans and their next steps, and the schedule's request for a table sweep.
"""

from typing import Any

from lakesweep.aws.batch import answer, by_kind
from lakesweep.aws.messages import OrphanScan, OrphanSweep
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.scans import carry_on
from lakesweep.aws.sweeps.orphans import orphan_sweep

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    take = by_kind(
        {
            OrphanScan.kind: lambda scan, name: carry_on(runtime, scan, context, name),
            OrphanSweep.kind: lambda tour, _: orphan_sweep(runtime, tour, context),
        }
    )
    return answer(runtime, event, context, take)
