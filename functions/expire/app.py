"""Maintain one branch of a table by its own options, under the table's lease.

Input: a hint from the FIFO queue, one at a time for each table. A plan that is too large for this function is stored
and handed to `execute_batch`. Work that runs out of time is handed over, too.
"""

from typing import Any

from lakesweep.aws.batch import answer, comes_again, messages
from lakesweep.aws.messages import Hint
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.work import carry_out

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    again = comes_again(event)
    take = messages(Hint, lambda hint, name: carry_out(runtime, hint, context, name, comes_again=again))
    return answer(runtime, event, context, take)
