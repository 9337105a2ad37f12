"""Carry out a stored plan, or a whole pass over a branch that outgrew `expire`.

Input: work from the queue. What there is no time for goes on in another message, from where the ledger ends.
"""

from typing import Any

from lakesweep.aws.batch import answer, messages
from lakesweep.aws.messages import Work
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.work import carry_out

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and tell SQS which messages failed."""
    take = messages(Work, lambda work, name: carry_out(runtime, work, context, name))
    return answer(runtime, event, context, take)
