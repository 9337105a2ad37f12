"""Every alarm of the template goes off on what it is for, and on nothing else."""

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.stack import Stack, render
from tests.support.system.alarms import evaluate
from tests.support.system.metrics import Metrics

NOW_S = 1_700_000_000.0
OURS = {"service": "lakesweep"}
MISSED = {"SweepMissingAlarm": "TablesSwept", "TagScheduleMissingAlarm": "TablesAskedForTags"}
"""What goes off where its metric is not written -> the metric."""
FUNCTIONS = (
    "on-snapshot-written",
    "expire",
    "execute-batch",
    "committer",
    "sweep",
    "tag-schedule",
    "orphan-scan",
    "orphan-worker",
    "on-demand",
)

Points = tuple[tuple[float, float], ...]
"""(seconds ago, value)"""


@dataclass(frozen=True, slots=True)
class Row:
    """What an alarm stays quiet on, and what it goes off on. The names are written out: they are what is tested."""

    namespace: str
    metric: str
    dimensions: Mapping[str, str]
    healthy: Points
    alarming: Points

    def put(self, metrics: Metrics, points: Points) -> None:
        for ago_s, value in points:
            metrics.put(self.namespace, self.metric, self.dimensions, [value], NOW_S - ago_s)


def dead_letters(queue: str) -> Row:
    """One message is one too many, also when it was there for a minute only."""
    visible = "ApproximateNumberOfMessagesVisible"
    return Row("AWS/SQS", visible, {"QueueName": queue}, ((301, 1), (120, 0), (0, 0)), ((180, 0), (120, 1), (60, 0)))


def age(queue: str, most_s: float) -> Row:
    """Two periods of five minutes."""
    age = "ApproximateAgeOfOldestMessage"
    healthy, alarming = ((310, most_s), (10, most_s + 300)), ((310, most_s + 1), (10, most_s + 301))
    return Row("AWS/SQS", age, {"QueueName": queue}, healthy, alarming)


def any_of(metric: str, namespace: str = "Lakesweep", dimensions: Mapping[str, str] = OURS) -> Row:
    return Row(namespace, metric, dimensions, ((300, 1), (10, 0)), ((299, 1),))


ROWS: Mapping[str, tuple[Row, ...]] = {
    "CommitsDeadLettersAlarm": (dead_letters("lakesweep-commits-dead"),),
    "ExpireDeadLettersAlarm": (dead_letters("lakesweep-expire-dead.fifo"),),
    "ExecuteDeadLettersAlarm": (dead_letters("lakesweep-execute-dead"),),
    "CommitterDeadLettersAlarm": (dead_letters("lakesweep-committer-dead.fifo"),),
    "SweepDeadLettersAlarm": (dead_letters("lakesweep-sweep-dead"),),
    "TagDeadLettersAlarm": (dead_letters("lakesweep-tags-dead"),),
    "ScanDeadLettersAlarm": (dead_letters("lakesweep-scan-dead"),),
    "OrphanDeadLettersAlarm": (dead_letters("lakesweep-orphan-dead"),),
    "EventsDeadLettersAlarm": (dead_letters("lakesweep-events-dead"),),
    "CommitsAgeAlarm": (age("lakesweep-commits", 3600),),
    "ExpireAgeAlarm": (age("lakesweep-expire.fifo", 3600),),
    "ExecuteAgeAlarm": (age("lakesweep-execute", 4 * 3600),),
    "CommitterAgeAlarm": (age("lakesweep-committer.fifo", 7.5 * 3600),),
    "SweepAgeAlarm": (age("lakesweep-sweep", 7200),),
    "TagAgeAlarm": (age("lakesweep-tags", 7200),),
    "ScanAgeAlarm": (age("lakesweep-scan", 4 * 3600),),
    "OrphanAgeAlarm": (age("lakesweep-orphan", 3600),),
    "RunsRefusedAlarm": (any_of("RunsRefused"),),
    "RunsDamagedAlarm": (any_of("RunsDamaged"),),
    "RunsFailedAlarm": (any_of("RunsFailed"),),
    "CommitsReplacedAlarm": (any_of("CommitsReplaced"),),
    "CommitsLostAlarm": (any_of("CommitsLost"),),
    "CommitsFailedAlarm": (any_of("CommitsFailed"),),
    "OrphanScansFailedAlarm": (any_of("OrphanScansFailed"),),
    "HopLimitReachedAlarm": (any_of("HopLimitReached"),),
    "LagAlarm": (Row("Lakesweep", "MaxLagSeconds", OURS, ((3600, 9000), (10, 7200)), ((3500, 7201), (10, 0))),),
    "TagLagAlarm": (Row("Lakesweep", "MaxTagLagSeconds", OURS, ((3600, 9000), (10, 7200)), ((3500, 7201), (10, 0))),),
    "TagScheduleMissingAlarm": (Row("Lakesweep", "TablesAskedForTags", OURS, ((86_399, 0),), ((86_400, 50),)),),
    "NoTablesAlarm": (Row("Lakesweep", "TablesSwept", OURS, ((7200, 0), (3610, 1), (10, 0)), ((3610, 0), (10, 0))),),
    "TablesRefusedAlarm": (
        Row("Lakesweep", "MaxRefusedSeconds", OURS, ((7200, 90_000), (10, 86_399)), ((7100, 86_400), (10, 0))),
    ),
    "SweepMissingAlarm": (Row("Lakesweep", "TablesSwept", OURS, ((86_399, 0),), ((86_400, 50),)),),
    "FunctionErrorsAlarm": tuple(
        any_of("Errors", "AWS/Lambda", {"FunctionName": f"lakesweep-{it}"}) for it in FUNCTIONS
    ),
    "FunctionThrottlesAlarm": tuple(
        any_of("Throttles", "AWS/Lambda", {"FunctionName": f"lakesweep-{it}"}) for it in FUNCTIONS
    ),
}
"""One or more for each alarm, each enough to set it off."""

CASES = [pytest.param(name, row, id=f"{name}-{at}") for name, rows in ROWS.items() for at, row in enumerate(rows)]


@pytest.fixture(scope="module")
def stack() -> Stack:
    return render()


def test_every_alarm_has_a_row(stack: Stack) -> None:
    assert set(ROWS) == set(stack.of_type("AWS::CloudWatch::Alarm"))


def test_only_sweeps_are_missed_without_data(stack: Stack) -> None:
    assert going_off(stack, Metrics()) == MISSED.keys()


def going_off(stack: Stack, metrics: Metrics, now_s: float = NOW_S) -> set[str]:
    states = evaluate(stack, metrics, now_s)
    assert set(states.values()) <= {"OK", "ALARM"}
    return {name for name, state in states.items() if state == "ALARM"}


@pytest.mark.parametrize(("name", "row"), CASES)
def test_an_alarm_goes_off_alone_on_its_data(stack: Stack, name: str, row: Row) -> None:
    metrics = Metrics()
    row.put(metrics, row.alarming)
    _note_sweeps(metrics, name)
    assert going_off(stack, metrics) == {name}


def _note_sweeps(metrics: Metrics, name: str = "", at_s: float = NOW_S - 60) -> None:
    for alarm, metric in MISSED.items():
        if name != alarm and (name, metric) != ("NoTablesAlarm", "TablesSwept"):
            metrics.put("Lakesweep", metric, OURS, [3], at_s)


@pytest.mark.parametrize(("name", "row"), CASES)
def test_an_alarm_is_quiet_on_healthy_data(stack: Stack, name: str, row: Row) -> None:
    metrics = Metrics()
    row.put(metrics, row.healthy)
    _note_sweeps(metrics, name)
    assert going_off(stack, metrics) == set()


def test_an_alarm_ends(stack: Stack) -> None:
    metrics = Metrics()
    metrics.put("Lakesweep", "RunsFailed", OURS, [1], NOW_S)
    _note_sweeps(metrics, at_s=NOW_S)
    assert going_off(stack, metrics, NOW_S - 1) == MISSED.keys()
    assert going_off(stack, metrics) == {"RunsFailedAlarm"}
    assert going_off(stack, metrics, NOW_S + 300) == set()


def test_a_data_point_of_other_dimensions_is_another_metric(stack: Stack) -> None:
    metrics = Metrics()
    _note_sweeps(metrics, at_s=NOW_S)
    for dimensions in ({}, {"service": "other"}, {**OURS, "function": "expire"}):
        metrics.put("Lakesweep", "RunsFailed", dimensions, [1], NOW_S)
    assert going_off(stack, metrics) == set()


def test_the_most_that_a_commit_may_wait_is_a_parameter() -> None:
    metrics = Metrics()
    metrics.put("Lakesweep", "MaxLagSeconds", OURS, [100], NOW_S)
    assert "LagAlarm" not in going_off(render(), metrics)
    assert "LagAlarm" in going_off(render({"MaxLagSeconds": "99"}), metrics)


# --- alarms that the template does not have ---


def alarm(**properties: Any) -> Stack:
    stated = {
        "Namespace": "N",
        "MetricName": "M",
        "Dimensions": [{"Name": "d", "Value": "v"}],
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 5,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
        **properties,
    }
    return Stack({}, {"It": {"Type": "AWS::CloudWatch::Alarm", "Properties": stated}}, {})


def with_points(points: Iterable[tuple[float, float]]) -> Metrics:
    metrics = Metrics()
    for ago_s, value in points:
        metrics.put("N", "M", {"d": "v"}, [value], NOW_S - ago_s)
    return metrics


@pytest.mark.parametrize(
    ("statistic", "value"), [("Sum", 6), ("Maximum", 3), ("Minimum", 1), ("Average", 2), ("SampleCount", 3)]
)
def test_a_statistic_is_over_all_points_of_a_period(statistic: str, value: float) -> None:
    metrics = with_points([(0, 1), (30, 2), (59, 3), (60, 1000), (-1, 1000)])
    for threshold, state in ((value - 0.1, "ALARM"), (value, "OK")):
        stack = alarm(Statistic=statistic, Threshold=threshold)
        assert evaluate(stack, metrics, NOW_S) == {"It": state}


@pytest.mark.parametrize(
    ("comparison", "states"),
    [
        ("GreaterThanThreshold", ["OK", "OK", "ALARM"]),
        ("GreaterThanOrEqualToThreshold", ["OK", "ALARM", "ALARM"]),
        ("LessThanThreshold", ["ALARM", "OK", "OK"]),
        ("LessThanOrEqualToThreshold", ["ALARM", "ALARM", "OK"]),
    ],
)
def test_comparisons_with_the_threshold(comparison: str, states: list[str]) -> None:
    stack = alarm(ComparisonOperator=comparison)
    assert [evaluate(stack, with_points([(0, value)]), NOW_S)["It"] for value in (4, 5, 6)] == states


@pytest.mark.parametrize(
    ("points", "missing", "state"),
    [
        ([(0, 9), (60, 9), (120, 9)], "notBreaching", "ALARM"),
        ([(0, 9), (60, 1), (120, 9)], "notBreaching", "OK"),
        ([(0, 9), (60, 1), (120, 9)], "breaching", "OK"),
        ([(0, 9), (120, 9)], "notBreaching", "OK"),
        ([(0, 9), (120, 9)], "breaching", "ALARM"),
        ([(0, 9), (60, 9), (180, 9)], "notBreaching", "OK"),
        ([], "breaching", "ALARM"),
        ([], "notBreaching", "OK"),
    ],
)
def test_all_periods_have_to_breach(points: list[tuple[float, float]], missing: str, state: str) -> None:
    stack = alarm(EvaluationPeriods=3, TreatMissingData=missing)
    assert evaluate(stack, with_points(points), NOW_S) == {"It": state}


@pytest.mark.parametrize(
    "changed",
    [
        {"TreatMissingData": "missing"},
        {"TreatMissingData": "ignore"},
        {"Statistic": "p99"},
        {"ComparisonOperator": "GreaterThanUpperThreshold"},
        {"DatapointsToAlarm": 1},
        {"ActionsEnabled": False},
        {"Metrics": []},
    ],
    ids=str,
)
def test_what_is_not_known_raises(changed: dict[str, Any]) -> None:
    with pytest.raises((NotImplementedError, KeyError)):
        evaluate(alarm(**changed), Metrics(), NOW_S)


@pytest.mark.parametrize("needed", ["TreatMissingData", "Dimensions", "Period", "Threshold"])
def test_what_is_not_stated_raises(needed: str) -> None:
    stack = alarm()
    del stack.resources["It"]["Properties"][needed]
    with pytest.raises(NotImplementedError):
        evaluate(stack, Metrics(), NOW_S)


def test_a_sum_over_metrics_adds_them_up(stack: Stack) -> None:
    changed = copy.deepcopy(stack)
    changed.resources["FunctionErrorsAlarm"]["Properties"]["Threshold"] = 2
    metrics = Metrics()
    for name, state in (("expire", "OK"), ("sweep", "OK"), ("on-demand", "ALARM")):
        metrics.put("AWS/Lambda", "Errors", {"FunctionName": f"lakesweep-{name}"}, [1], NOW_S)
        assert evaluate(changed, metrics, NOW_S)["FunctionErrorsAlarm"] == state


@pytest.mark.parametrize(
    ("at", "changed"),
    [
        (0, {"Expression": "MAX(METRICS())"}),
        (0, {"Period": 60}),
        (1, {"MetricStat": {"Metric": {}, "Stat": "Sum", "Period": 300}}),
        (1, {"Expression": "m2*2", "ReturnData": False}),
    ],
)
def test_other_expressions_raise(stack: Stack, at: int, changed: dict[str, Any]) -> None:
    other = copy.deepcopy(stack)
    other.resources["FunctionErrorsAlarm"]["Properties"]["Metrics"][at] |= changed
    with pytest.raises(NotImplementedError):
        evaluate(other, Metrics(), NOW_S)


def test_metrics_of_different_periods_raise(stack: Stack) -> None:
    other = copy.deepcopy(stack)
    other.resources["FunctionErrorsAlarm"]["Properties"]["Metrics"][1]["MetricStat"]["Period"] = 60
    with pytest.raises(NotImplementedError):
        evaluate(other, Metrics(), NOW_S)


# --- metrics ---


def test_values_by_time_and_dimensions() -> None:
    metrics = Metrics()
    metrics.put("N", "M", {"d": "1"}, [1, 2], 10)
    metrics.put("N", "M", {"d": "2"}, [4], 20)
    metrics.put("N", "Other", {"d": "1"}, [8], 20)
    metrics.put("Other", "M", {"d": "1"}, [16], 20)
    assert metrics.values("N", "M") == [1, 2, 4]
    assert metrics.values("N", "M", {"d": "1"}) == [1, 2]
    assert metrics.values("N", "M", {}) == []
    assert metrics.values("N", "M", since_s=20) == [4]
    assert metrics.total("N", "M", since_s=10) == 7
    assert metrics.total("N", "Nothing") == 0


def embedded(**changed: Any) -> dict[str, Any]:
    directive = {"Namespace": "N", "Dimensions": [["service"]], "Metrics": [{"Name": "M", "Unit": "Count"}]}
    return {"_aws": {"Timestamp": 1, "CloudWatchMetrics": [directive]}, "service": "s", "M": [1.0, 2], **changed}


def test_an_embedded_metric_is_of_the_time_that_is_given() -> None:
    metrics = Metrics()
    assert metrics.put_emf(embedded(), NOW_S)
    assert metrics.put_emf(embedded(M=4), NOW_S)
    assert metrics.points("N", "M", {"service": "s"}) == [(NOW_S, 1), (NOW_S, 2), (NOW_S, 4)]


def test_other_lines_are_no_metrics() -> None:
    metrics = Metrics()
    assert not metrics.put_emf({"message": "done", "M": 1}, NOW_S)
    assert metrics.values("N", "M") == []


@pytest.mark.parametrize(
    "changed", [{"M": None}, {"M": "1"}, {"M": True}, {"M": []}, {"M": [1] * 101}, {"service": 1}], ids=str
)
def test_a_metric_that_cloudwatch_would_drop_raises(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Metrics().put_emf(embedded(**changed), NOW_S)


def test_what_the_functions_write_sets_off_the_alarms_of_their_stack_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the product's own lines of log to the alarms: two stacks in an account do not add up."""
    stack = render(name="night")
    for name in ("SERVICE_NAME", "METRICS_NAMESPACE"):
        monkeypatch.setenv(f"POWERTOOLS_{name}", stack.environment("Expire")[f"POWERTOOLS_{name}"])
    from lakesweep.aws.telemetry import Telemetry

    telemetry = Telemetry()

    def handle(event: object, context: object) -> dict[str, Any]:
        telemetry.count("RunsRefused")
        for name in MISSED.values():
            telemetry.count(name, 1)
        telemetry.count("MaxLagSeconds", 7200.5)
        return {}

    context = SimpleNamespace(
        function_name="f", memory_limit_in_mb=1, invoked_function_arn="a", aws_request_id="r", log_group_name="g"
    )
    telemetry.invocation(handle)({}, context)
    metrics = Metrics()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(metrics.put_emf(line, NOW_S) for line in lines) == 1
    assert going_off(stack, metrics) == {"RunsRefusedAlarm", "LagAlarm"}
    assert going_off(render(name="day"), metrics) == MISSED.keys()
