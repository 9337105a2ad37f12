"""Check for every table whether a pass is due, and request the passes that are.

Input: a message from the schedule, or from the earlier part of the same table sweep.
"""

from typing import Any

from lakesweep.aws.batch import answer, messages
from lakesweep.aws.messages import Sweep
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.sweeps.passes import sweep

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    take = messages(Sweep, lambda message, _: sweep(runtime, message, context))
    return answer(runtime, event, context, take)
