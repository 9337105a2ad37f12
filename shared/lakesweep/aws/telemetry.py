"""The telemetry of the functions: one log line and one set of metrics for each run.

Metrics have one dimension, the service, since every further dimension multiplies their price. Tables, branches and runs
are properties of the log line, where CloudWatch Logs Insights finds them.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from lakesweep.model.prices import request_units, usd_of
from lakesweep.model.receipt import function_usd_per_second
from lakesweep.storage.clock import Stopwatch

NAMESPACE = "Lakesweep"
USD_SPENT = "UsdSpent"
"""Of S3's requests and the function's seconds, at list prices; of invocations without a run, too. Most of them have
none, so that no receipt says what they cost."""
_REQUESTS = {"get": "GetRequests", "head": "GetRequests", "list": "ListRequests", "put": "PutRequests"}
_UNITS = {
    "BytesFreed": MetricUnit.Bytes,
    "OrphanBytesFound": MetricUnit.Bytes,
    "MaxLagSeconds": MetricUnit.Seconds,
    "MaxTagLagSeconds": MetricUnit.Seconds,
    "MaxRefusedSeconds": MetricUnit.Seconds,
}

Handler = Callable[[Any, Any], dict[str, Any]]


class Telemetry:
    """A function's logger and metrics."""

    def __init__(self) -> None:
        """Create them from the POWERTOOLS settings."""
        self.logger = Logger()
        # otherwise botocore logs in every cold start where it found its settings
        if self.logger.log_level > logging.DEBUG:
            logging.getLogger("botocore").setLevel(logging.WARNING)
        self._metrics = Metrics(namespace=NAMESPACE)
        self._totals: Counter[str] = Counter()
        self._lock = threading.Lock()

    def invocation(self, handle: Handler) -> Handler:
        """Wrap a handler: its log lines carry the request id, and its metrics are sent together at the end."""

        def handled(event: Any, context: Any) -> dict[str, Any]:
            self._totals.clear()  # an earlier invocation that was killed may have left counts
            begun = Stopwatch()
            try:
                return handle(event, context)
            finally:
                memory_mb = int(getattr(context, "memory_limit_in_mb", 0))
                self._publish(begun.elapsed_ms() / 1000 * function_usd_per_second(memory_mb))

        wrapped: Handler = self.logger.inject_lambda_context(handled)
        return wrapped

    def count(self, name: str, value: float = 1) -> None:
        """Add to a metric of this invocation."""
        with self._lock:
            self._totals[name] += value  # type: ignore[assignment]

    def _publish(self, usd: float) -> None:
        """Send the metrics of this invocation, unless it counted nothing.

        Args:
            usd: What its seconds cost.
        """
        if self._totals:
            self.count(USD_SPENT, usd)
        for name, value in self._totals.items():
            self._metrics.add_metric(name=name, unit=_UNITS.get(name, MetricUnit.Count), value=value)
        if self._totals:
            self._metrics.flush_metrics()

    def tell(self, sentence: str, **facts: object) -> None:
        """Log one line."""
        self.logger.info(sentence, extra=facts)

    def warn(self, sentence: str, **facts: object) -> None:
        """Log one line that may need an operator's attention."""
        self.logger.warning(sentence, extra=facts)

    def count_requests(self, requests: Mapping[str, int]) -> None:
        """Count requests to S3."""
        for kind, name in _REQUESTS.items():
            if requests.get(kind):
                self.count(name, requests[kind])
        if requests.get("delete"):
            self.count("DeleteRequests", requests["delete"])
        if usd := usd_of(request_units(requests)):
            self.count(USD_SPENT, usd)
