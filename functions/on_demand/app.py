"""Plan any operation on a table by hand, and have it carried out when that is asked for.

Input: `{"operation", "table", "branch", "arguments", "execute"}` by direct invocation (docs/operations.md). The answer
says where the plan lies and where the report will.
"""

from typing import Any

from lakesweep.aws.on_demand import answer_demand
from lakesweep.aws.runtime import Context, Runtime

runtime = Runtime.load()


@runtime.telemetry.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Answer one invocation."""
    return answer_demand(runtime, event, context)
