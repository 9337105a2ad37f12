"""Maintain one branch of a table, as its own options say, under the table's lease.

Input: a hint from the FIFO queue, one at a time for each table. A plan that is too large for this function is stored
and handed to `execute_batch`, and so is what there was no time for.
"""

from typing import Any

from lakesweep.aws.batch import answer, comes_again
from lakesweep.aws.messages import Hint, parse_message
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.work import carry_out
from lakesweep.format.json_document import wrong_type

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and tell SQS which messages failed."""

    def take(body: str, name: str) -> None:
        message = parse_message(body, name)
        if not isinstance(message, Hint):
            raise wrong_type(name, "kind", "hint", message.kind)
        carry_out(runtime, message, context, name, comes_again=comes_again(event))

    return answer(runtime, event, context, take)
