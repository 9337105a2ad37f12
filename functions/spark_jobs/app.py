"""Look after scans on Spark: start their jobs on EMR Serverless, and continue when a job has ended.

Input: messages from one queue. They are requested scans, events of EventBridge about job runs, and the schedule's
request to check all open scans.
"""

from typing import Any

from lakesweep.aws.batch import answer
from lakesweep.aws.jobs.emr_serverless import EmrServerless
from lakesweep.aws.jobs.spark import SparkJobs
from lakesweep.aws.runtime import Context, Runtime

runtime = Runtime.load()
emr = EmrServerless()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Process a batch, and tell SQS which messages failed."""
    return answer(runtime, event, context, SparkJobs(runtime, emr, context).take)
