"""Look after scans on Spark: start their jobs on EMR Serverless, and go on when a job has ended.

Input: from one queue, scans that somebody asks for, events of EventBridge about job runs, and the schedule's message
that asks for a look at all scans that are not over.
"""

from typing import Any

from lakesweep.aws.batch import answer
from lakesweep.aws.emr_serverless import EmrServerless
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.spark_jobs import SparkJobs

runtime = Runtime.load()
emr = EmrServerless()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and tell SQS which messages failed."""
    return answer(runtime, event, context, SparkJobs(runtime, emr, context).take)
