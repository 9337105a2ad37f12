"""Check for every table whether tags are due at this time, and request a pass over each branch with due tags.

Input: a message from the schedule, or from the earlier part of the same table sweep.
"""

from typing import Any

from lakesweep.aws.batch import answer, messages
from lakesweep.aws.messages import TagSweep
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.sweeps.passes import tag_sweep

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    take = messages(TagSweep, lambda message, _: tag_sweep(runtime, message, context))
    return answer(runtime, event, context, take)
