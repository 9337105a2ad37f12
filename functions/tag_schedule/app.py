"""Ask every table whether tags are due by the clock, and ask for passes over those where they are.

Input: a message from the schedule, or from the part of the tour before this one.
"""

from typing import Any

from lakesweep.aws.batch import answer, messages
from lakesweep.aws.messages import TagTour
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.tag_tour import tag_tour

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and tell SQS which messages failed."""
    take = messages(TagTour, lambda message, _: tag_tour(runtime, message, context))
    return answer(runtime, event, context, take)
