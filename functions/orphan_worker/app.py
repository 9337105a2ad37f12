"""Carry out a task of a scan for orphan files: list a part of a table, decode manifests, or match names.

Input: a task from the queue, sent by a step of the scan or by an earlier task that left a part of its work.
"""

from typing import Any

from lakesweep.aws.batch import answer, messages
from lakesweep.aws.messages import OrphanTask
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.tasks import do_task

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    take = messages(OrphanTask, lambda task, name: do_task(runtime, task, context, name))
    return answer(runtime, event, context, take)
