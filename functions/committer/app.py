"""Commit snapshots: without partitions that are over or dropped, or with fewer manifests.

Input: a request from the FIFO queue, one at a time for each table. This function alone may write manifests and new
snapshots, and it deletes nothing.
"""

from typing import Any

from lakesweep.aws.batch import answer, messages
from lakesweep.aws.committer import carry_out
from lakesweep.aws.messages import Commit
from lakesweep.aws.runtime import Context, Runtime

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    take = messages(Commit, lambda commit, name: carry_out(runtime, commit, context, name))
    return answer(runtime, event, context, take)
