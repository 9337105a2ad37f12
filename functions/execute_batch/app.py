"""Carry out a stored plan, or a whole pass over a branch that outgrew `expire`.

Input: work from the queue. What there is no time for goes on in another message, from where the ledger ends.
"""

from typing import Any

from lakesweep.aws.batch import answer
from lakesweep.aws.messages import Work, parse_message
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.work import carry_out
from lakesweep.format.json_document import wrong_type

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and tell SQS which messages failed."""

    def take(body: str, name: str) -> None:
        message = parse_message(body, name)
        if not isinstance(message, Work):
            raise wrong_type(name, "kind", "execute or maintain", message.kind)
        carry_out(runtime, message, context, name)

    return answer(runtime, event, context, take)
