"""Ask every table whether a pass is due, and ask for those that are.

Input: a message from the schedule, or from the part of the tour before this one.
"""

from typing import Any

from lakesweep.aws.batch import answer
from lakesweep.aws.messages import Sweep, parse_message
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.sweep import sweep
from lakesweep.format.json_document import wrong_type

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and tell SQS which messages failed."""

    def take(body: str, name: str) -> None:
        message = parse_message(body, name)
        if not isinstance(message, Sweep):
            raise wrong_type(name, "kind", "sweep", message.kind)
        sweep(runtime, message, context)

    return answer(runtime, event, context, take)
