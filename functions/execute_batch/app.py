"""Execute a stored plan, or run a whole pass over a branch that is too large for `expire`. Delete old documents.

Input: work from the queue, and once a day a message from the schedule of housekeeping. If time runs out, another
message continues where the ledger ends.
"""

from typing import Any

from lakesweep.aws.batch import answer, by_kind
from lakesweep.aws.messages import Housekeeping, Work
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.work import carry_out

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""

    def work(message: Work, name: str) -> None:
        carry_out(runtime, message, context, name)

    def tidy(message: Housekeeping, _: str) -> None:
        from lakesweep.aws.housekeeping import keep_houses  # other messages start without it

        keep_houses(runtime, message, context)

    take = by_kind({"execute": work, "maintain": work, Housekeeping.kind: tidy})
    return answer(runtime, event, context, take)
