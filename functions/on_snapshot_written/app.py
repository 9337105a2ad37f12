"""Run triage on commits: request a pass over each branch that needs one.

Input: a batch of SQS messages. Each is an S3 event (a notification, or an event of EventBridge) or a hint that was sent
again. SQS repeats each failed message alone.
"""

from typing import Any

from lakesweep.aws.batch import answer, bodies_of
from lakesweep.aws.commits import Commits, RecentCommits
from lakesweep.aws.runtime import Context, Runtime

runtime = Runtime.load()
recent = RecentCommits()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    commits = Commits(runtime, bodies_of(event), context, recent)
    return answer(runtime, event, context, commits.take)
