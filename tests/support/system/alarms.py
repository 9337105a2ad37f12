"""CloudWatch's alarms, as the template states them.

Only what the template uses is known here. Anything else raises, so that no alarm counts as tested because something of
it was left out.
"""

import operator
import statistics
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from tests.support.stack import Stack
from tests.support.system.metrics import Metrics

_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
    "Average": statistics.fmean,
    "SampleCount": len,
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
_BREACHES_WITHOUT_DATA = {"breaching": True, "notBreaching": False}
_TOLD = {"AlarmName", "AlarmDescription", "AlarmActions", "OKActions"}
_JUDGED = {"EvaluationPeriods", "Threshold", "ComparisonOperator", "TreatMissingData"}
_METRIC = {"Namespace", "MetricName", "Dimensions", "Statistic", "Period"}


def evaluate(stack: Stack, metrics: Metrics, now_s: float) -> dict[str, str]:
    """Return what each alarm shows, by logical id: `ALARM` if all of its periods, the last of which ends now, breach.

    Else it is `OK`. `INSUFFICIENT_DATA` cannot be: each alarm has to say what missing data means.
    """
    return {
        name: "ALARM" if _breaches(alarm, metrics, now_s) else "OK"
        for name, alarm in stack.of_type("AWS::CloudWatch::Alarm").items()
    }


def _breaches(alarm: dict[str, Any], metrics: Metrics, now_s: float) -> bool:
    _expect(alarm, _JUDGED | ({"Metrics"} if "Metrics" in alarm else _METRIC), _TOLD)
    compare = _COMPARISONS[alarm["ComparisonOperator"]]
    threshold = float(alarm["Threshold"])  # text where it comes from a parameter
    without_data = _BREACHES_WITHOUT_DATA[alarm["TreatMissingData"]]
    parts = _parts(alarm["Metrics"]) if "Metrics" in alarm else [_part(alarm)]
    for back in range(alarm["EvaluationPeriods"]):
        found = [value for part in parts if (value := part(metrics, now_s, back)) is not None]
        # A sum over metrics takes those that have data. It is missing if none has any.
        if not (compare(sum(found), threshold) if found else without_data):
            return False
    return True


Part = Callable[[Metrics, float, int], float | None]
"""(metrics, now, how many periods back) -> the metric's value in that period, `None` if nothing was put."""


def _part(stated: dict[str, Any]) -> Part:
    """Return one metric under one statistic."""
    statistic, period_s = _STATISTICS[stated["Statistic"]], stated["Period"]
    dimensions = {each["Name"]: each["Value"] for each in stated["Dimensions"]}

    def value(metrics: Metrics, now_s: float, back: int) -> float | None:
        end_s = now_s - back * period_s
        points = metrics.points(stated["Namespace"], stated["MetricName"], dimensions)
        values = [value for at_s, value in points if end_s - period_s < at_s <= end_s]
        return statistic(values) if values else None

    return value


def _parts(queries: list[dict[str, Any]]) -> list[Part]:
    """Return the metrics that an alarm on SUM(METRICS()) adds up."""
    (total,) = (query for query in queries if query.get("ReturnData", True))
    _expect(total, {"Id", "Expression"}, {"Label", "ReturnData"})
    if total["Expression"] != "SUM(METRICS())":
        raise NotImplementedError(total["Expression"])
    stated = []
    for query in queries:
        if query is not total:
            _expect(query, {"Id", "MetricStat", "ReturnData"})
            _expect(query["MetricStat"], {"Metric", "Stat", "Period"})
            _expect(query["MetricStat"]["Metric"], {"Namespace", "MetricName", "Dimensions"})
            part = query["MetricStat"]
            stated.append({**part["Metric"], "Statistic": part["Stat"], "Period": part["Period"]})
    if len({part["Period"] for part in stated}) != 1:
        raise NotImplementedError("metrics of different periods")
    return [_part(part) for part in stated]


def _expect(stated: dict[str, Any], needed: set[str], allowed: Set[str] = frozenset()) -> None:
    if needed - set(stated) or set(stated) - needed - allowed:
        raise NotImplementedError(f"expected {sorted(needed)}, found {sorted(stated)}")
