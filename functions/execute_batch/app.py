"""Execute a stored plan, or run a whole pass over a branch that is too large for `expire`.

Input: work from the queue. If time runs out, another message continues where the ledger ends.
"""

from typing import Any

from lakesweep.aws.batch import answer, messages
from lakesweep.aws.messages import Work
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.work import carry_out

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    take = messages(Work, lambda work, name: carry_out(runtime, work, context, name))
    return answer(runtime, event, context, take)
