"""Plan any operation on a table for a manual request, and have the plan executed if requested.

Input: `{"operation", "table", "branch", "arguments", "execute"}` by direct invocation (docs/operations.md). The answer
contains the paths of the plan and of its later report.
"""

from typing import Any

from lakesweep.aws.on_demand import answer_demand
from lakesweep.aws.runtime import Context, Runtime

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Answer one invocation."""
    return answer_demand(runtime, event, context)
