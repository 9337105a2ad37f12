"""Do a task of a scan for orphan files: list a part of a table, decode manifests, or match names.

Input: a task from the queue, sent by the scan or by the task that this one was a part of.
"""

from typing import Any

from lakesweep.aws.batch import answer, messages
from lakesweep.aws.messages import OrphanTask
from lakesweep.aws.orphan_tasks import do_task
from lakesweep.aws.runtime import Context, Runtime

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and tell SQS which messages failed."""
    take = messages(OrphanTask, lambda task, name: do_task(runtime, task, context, name))
    return answer(runtime, event, context, take)
