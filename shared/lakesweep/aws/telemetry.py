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

from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Delete, Plan, Put
from lakesweep.model.report import RunReport
from lakesweep.operations.tags import automatic as auto_tags
from lakesweep.operations.tags import create as create_tag
from lakesweep.operations.tags import expire as expire_tags
from lakesweep.runs.fleet import OBSERVED

NAMESPACE = "Lakesweep"
SKIPPED = frozenset({"paused", "retention_not_stated", OBSERVED, "plan_undone"})
"""Codes of refusals that follow from an operator's choice."""
PASSING = frozenset({"snapshot_is_going", "snapshot_vanished"})
"""Codes of refusals because a tag's snapshot is being deleted by another run. A later pass finds the table in order."""
REFUSED = "RunsRefused"
_STATUS = {
    "done": "RunsDone",
    "partial": "RunsPartial",
    "refused": REFUSED,
    "stale": "RunsStale",
    "damaged": "RunsDamaged",
}
_WARNED = frozenset({REFUSED, "RunsPartial", "RunsDamaged"})
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
            try:
                return handle(event, context)
            finally:
                self._publish()

        wrapped: Handler = self.logger.inject_lambda_context(handled)
        return wrapped

    def count(self, name: str, value: float = 1) -> None:
        """Add to a metric of this invocation."""
        with self._lock:
            self._totals[name] += value  # type: ignore[assignment]

    def _publish(self) -> None:
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

    def record(self, report: RunReport) -> None:
        """Log a run and count it."""
        self.count("Runs")
        document = summary_of(report)
        self.count(status_metric(report))
        for name, value in _totals_of(report).items():
            if value:
                self.count(name, value)
        self.count_requests(report.requests)
        say = self.warn if status_metric(report) in _WARNED else self.tell
        say(f"{report.operation} of {report.table}: {report.told_status}", run=document)

    def count_requests(self, requests: Mapping[str, int]) -> None:
        """Count requests to S3."""
        for kind, name in _REQUESTS.items():
            if requests.get(kind):
                self.count(name, requests[kind])
        if requests.get("delete"):
            self.count("DeleteRequests", requests["delete"])


def status_metric(report: RunReport) -> str:
    """Return the metric that counts how a run ended."""
    if report.refusal is not None and report.refusal.code in SKIPPED:
        return _STATUS["damaged"] if report.is_damaged else "RunsSkipped"
    if report.status == "refused" and report.refusal is not None and report.refusal.code in PASSING:
        return _STATUS["stale"]
    return _STATUS.get(report.told_status, "RunsSkipped")


def _totals_of(report: RunReport) -> dict[str, int]:
    """Return the results of a run, summed over all its steps.

    A run that creates tags reports only the tags that it created, even if some failed. A run that deletes tags may
    be continued, so it reports them only when all are deleted.
    """
    outcome = sum((step.outcome for step in report.leaves() if step.outcome is not None), Outcome())
    ran = [(step, step.plan) for step in report.leaves() if step.executed and step.plan is not None]
    return {
        "ObjectsDeleted": outcome.deleted,
        "BytesFreed": outcome.deleted_bytes,
        "TagsCreated": sum(_tags(plan, Put) for step, plan in ran if step.operation in _CREATING),
        "TagsExpired": sum(
            _tags(plan, Delete)
            for step, plan in ran
            if step.operation == expire_tags.OPERATION and step.status == "done"
        ),
    }


def _tags(plan: Plan, action: type[Put] | type[Delete]) -> int:
    return sum(isinstance(each, action) and each.kind == "tag" for each in plan.actions)


_CREATING = frozenset({create_tag.CREATE, create_tag.REPLACE, auto_tags.OPERATION})


def summary_of(report: RunReport) -> dict[str, object]:
    """Return a run's summary for a log line or an answer: the report without the possibly long list of objects."""
    document = report.to_json()
    outcome: Any = document["outcome"]
    if outcome is not None:
        outcome = {**outcome, "failed": outcome["failed"][:10], "failed_count": len(outcome["failed"])}
    for name in ("actions", "created"):
        del document[name]
    steps = None if report.steps is None else [summary_of(step) for step in report.steps]
    return {**document, "outcome": outcome, "steps": steps}
