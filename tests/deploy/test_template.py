"""What the template has to say that linters let pass, each proven to be noticed by a template that breaks it."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cost
from deploy.package import package
from lakesweep.aws.deployment import SCHEDULES
from lakesweep.aws.scans.result import SCANS
from lakesweep.aws.settings import MIN_ORPHAN_INTERVAL_MS
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.runs.parameters.times import parse_span_ms
from tests.support.iam import role_of
from tests.support.stack import DEPLOYMENTS, TEMPLATE, Stack, load_template, render
from tests.support.system.build import build_here

FUNCTIONS = "AWS::Serverless::Function"
QUEUES = "AWS::SQS::Queue"
ALARMS = "AWS::CloudWatch::Alarm"
NAMES = "names"
"""Below the control location, the names that manifests hold, for later scans to read."""
NAMES_DAYS = 30
"""So old a file of names may be at least: scans write it anew after 20 days, and come once in 7."""

RECOVERED_WITHIN_S = {"Expire": 780, "ExecuteBatch": 5460, "Committer": 5460}
"""From the death of a worker to the end of what it had begun, when nothing else happens to its table."""
PASS_S = 60
"""Of it for the work itself."""
SHARED_VARIABLES = {
    "LAKESWEEP_TABLES",
    "LAKESWEEP_EXTERNAL_ROOTS",
    "LAKESWEEP_CONTROL",
    "LAKESWEEP_MODE",
    "LAKESWEEP_POLICY",
    "LAKESWEEP_PLAN_KEY",
    "LAKESWEEP_ACCOUNTS",
    "LAKESWEEP_MIN_INTERVAL",
    "POWERTOOLS_SERVICE_NAME",
    "POWERTOOLS_METRICS_NAMESPACE",
    "POWERTOOLS_LOG_LEVEL",
}
SENDS_TO = {
    "OnSnapshotWritten": {"Commits", "Expire"},
    "Expire": {"Commits", "Execute", "Committer"},
    "ExecuteBatch": {"Execute", "Committer"},
    "Committer": {"Committer"},
    "Sweep": {"Sweep", "Expire"},
    "TagSchedule": {"Tags", "Expire"},
    "OrphanScan": {"Scan", "Orphan", "Execute"},
    "OrphanWorker": {"Orphan"},
    "OnDemand": {"Execute", "Committer", "Scan"},
    "SparkJobs": {"Execute"},
}
WITH_SPARK = {name: {"Spark"} for name in ("OnDemand", "OrphanScan", "Expire", "ExecuteBatch")}
"""What functions send to besides, where there is Spark."""
SPARK_VARIABLES = {
    *("LAKESWEEP_SPARK_APPLICATION", "LAKESWEEP_SPARK_ARTIFACTS", "LAKESWEEP_SPARK_PYTHON"),
    *("LAKESWEEP_SPARK_PLANNER_ROLE", "LAKESWEEP_SPARK_EXECUTOR_ROLE", "LAKESWEEP_SPARK_COMMITTER_ROLE"),
    "LAKESWEEP_SPARK_LOG_GROUP",
}
METRICS = {
    *("Runs", "RunsDone", "RunsPartial", "RunsRefused", "RunsDamaged", "RunsFailed", "RunsSkipped", "RunsStale"),
    *("LeaseHeld", "ObjectsDeleted", "BytesFreed", "GetRequests", "ListRequests", "PutRequests", "DeleteRequests"),
    *("EventsReceived", "EventsRejected", "EventsIgnored", "HopLimitReached", "Continuations"),
    *("TablesSwept", "TablesLagging", "MaxLagSeconds", "MaxRefusedSeconds", "TablesAskedForTags", "TablesWithTagsDue"),
    *("MaxTagLagSeconds", "TagsCreated", "TagsExpired", "SparkJobsStarted", "SparkJobsFailed"),
    *("OrphanScansBegun", "OrphanScansFailed", "OrphanTasks", "OrphanTasksFailed"),
    *("CommitsMade", "CommitsReplaced", "CommitsLost", "CommitsFailed", "PartitionsDropped", "ManifestsMerged"),
    *("OrphanObjectsListed", "OrphanEntriesDecoded", "OrphansFound", "OrphanBytesFound", "UsdSpent"),
}
"""All that the functions write (docs/operations.md)."""


def arn_of(name: str) -> str:
    return f"arn:aws:sqs:us-east-1:123456789012:lakesweep-{name}"


def mappings(stack: Stack) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield each function that a queue starts, the event source, and the queue."""
    queues = {arn_of_queue(queue): queue for queue in stack.of_type(QUEUES).values()}
    for name, function in stack.of_type(FUNCTIONS).items():
        for event in function.get("Events", {}).values():
            assert event["Type"] == "SQS"
            yield name, event["Properties"], queues[event["Properties"]["Queue"]]


def arn_of_queue(queue: dict[str, Any]) -> str:
    return f"arn:aws:sqs:us-east-1:123456789012:{queue['QueueName']}"


def dead_letter_arns(stack: Stack) -> set[str]:
    """Return the queues that something names as its dead letters."""
    text = json.dumps(stack.resources)
    return set(re.findall(r'"deadLetterTargetArn": "([^"]+)"', text)) | set(
        re.findall(r'"DeadLetterConfig": {"Arn": "([^"]+)"}', text)
    )


# --- the rules: each yields what is wrong -----------------------------------------------------------------------------


def limits_of_lambda(stack: Stack) -> Iterator[str]:
    for name, function in stack.of_type(FUNCTIONS).items():
        if not 1 <= function["Timeout"] <= 900:
            yield f"{name}: a timeout of {function['Timeout']} s"
        if not 128 <= function["MemorySize"] <= 10240:
            yield f"{name}: memory of {function['MemorySize']} MiB"
        if len(function["FunctionName"]) > 64:
            yield f"{name}: its name is too long"


def visibility(stack: Stack) -> Iterator[str]:
    for name, event, queue in mappings(stack):
        window = event.get("MaximumBatchingWindowInSeconds", 0)
        if queue["VisibilityTimeout"] < 6 * stack.function(name)["Timeout"] + window:
            yield f"{name}: its queue shows messages again after {queue['VisibilityTimeout']} s"
        if queue["VisibilityTimeout"] > 43200:
            yield f"{name}: more than SQS allows"


def recovery(stack: Stack) -> Iterator[str]:
    """A killed worker's message finds the lease free, and comes back in time for what docs/operations.md promises."""
    for name, _, queue in mappings(stack):
        hidden_s, runs_s = queue["VisibilityTimeout"], stack.function(name)["Timeout"]
        if name in RECOVERED_WITHIN_S and hidden_s < runs_s + (LEASE_MS + DELETE_MARGIN_MS) / 1000:
            yield f"{name}: its message may come back after {hidden_s} s and find the lease of a dead worker"
        if hidden_s + PASS_S > RECOVERED_WITHIN_S.get(name, math.inf):
            yield f"{name}: a killed worker's message comes back after {hidden_s} s"


def event_sources(stack: Stack) -> Iterator[str]:
    for name, event, queue in mappings(stack):
        window = event.get("MaximumBatchingWindowInSeconds")
        if queue.get("FifoQueue") and window is not None:
            yield f"{name}: a FIFO queue has no batch window"
        if event["BatchSize"] > 10 and (queue.get("FifoQueue") or not window):
            yield f"{name}: batches of more than ten need a window, and a standard queue"
        if event.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
            yield f"{name}: one bad message fails its whole batch"
        if int(event.get("ScalingConfig", {}).get("MaximumConcurrency", 0)) < 2:
            yield f"{name}: no maximum concurrency"


def dead_letters(stack: Stack) -> Iterator[str]:
    queues = stack.of_type(QUEUES)
    by_arn = {arn_of_queue(queue): queue for queue in queues.values()}
    for name, queue in queues.items():
        redrive = queue.get("RedrivePolicy")
        if arn_of_queue(queue) in dead_letter_arns(stack):
            if queue.get("MessageRetentionPeriod") != 1209600:
                yield f"{name}: dead letters are kept for less than two weeks"
        elif redrive is None:
            yield f"{name}: no dead letters"
        elif redrive["maxReceiveCount"] < 5:
            yield f"{name}: given up after {redrive['maxReceiveCount']} receptions"
        elif by_arn[redrive["deadLetterTargetArn"]].get("FifoQueue") != queue.get("FifoQueue"):
            yield f"{name}: its dead letters are of another type"
        if bool(queue.get("FifoQueue")) != queue["QueueName"].endswith(".fifo"):
            yield f"{name}: named {queue['QueueName']}"
        if not (queue.get("SqsManagedSseEnabled") or queue.get("KmsMasterKeyId")):
            yield f"{name}: not encrypted"
    for name, rule in stack.of_type("AWS::Events::Rule").items():
        if not all("DeadLetterConfig" in target for target in rule["Targets"]):
            yield f"{name}: what is not delivered is lost"
    for name, schedule in stack.of_type("AWS::Scheduler::Schedule").items():
        if "DeadLetterConfig" not in schedule["Target"]:
            yield f"{name}: what is not delivered is lost"


def schedules(stack: Stack) -> Iterator[str]:
    for name, schedule in stack.of_type("AWS::Scheduler::Schedule").items():
        if not is_schedule(schedule["ScheduleExpression"]):
            yield f"{name}: {schedule['ScheduleExpression']!r} is no schedule"
        if schedule["Target"]["Arn"].endswith(".fifo"):
            yield f"{name}: a schedule that sends to a FIFO queue needs a group"
        if json.loads(schedule["Target"]["Input"])["format_version"] != 1:
            yield f"{name}: sends no message of ours"


def is_schedule(expression: str) -> bool:
    """Tell whether EventBridge Scheduler would take it: a rate, or the six fields of cron."""
    rate = re.fullmatch(r"rate\(([1-9][0-9]*) (minute|hour|day)(s?)\)", expression)
    if rate:
        return (rate[1] == "1") == (rate[3] == "")
    cron = re.fullmatch(r"cron\(([^()]*)\)", expression)
    fields = cron[1].split(" ") if cron else []
    names = {3: "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC", 4: "SUN|MON|TUE|WED|THU|FRI|SAT|L"}
    return (
        len(fields) == 6
        and all(re.fullmatch(rf"([0-9*?,/#LW-]|{names.get(i, 'L')})+", field) for i, field in enumerate(fields))
        and (fields[2] == "?") != (fields[4] == "?")  # the day of the month or of the week, not both
    )


def logs_and_tracing(stack: Stack) -> Iterator[str]:
    groups = {group["LogGroupName"]: group for group in stack.of_type("AWS::Logs::LogGroup").values()}
    used = [function["LoggingConfig"].get("LogGroup") for function in stack.of_type(FUNCTIONS).values()]
    if "SparkJobs" in stack.resources:
        used.append(stack.environment("SparkJobs")["LAKESWEEP_SPARK_LOG_GROUP"])  # what it tells EMR to write to
    for name, function in stack.of_type(FUNCTIONS).items():
        group = groups.get(function["LoggingConfig"].get("LogGroup"))
        if group is None or not group.get("RetentionInDays"):
            yield f"{name}: its log is kept for ever"
        if function["LoggingConfig"]["LogFormat"] != "JSON":
            yield f"{name}: its log is not JSON"
        if function.get("Tracing") != "Active":
            yield f"{name}: not traced"
    yield from (f"{name}: nobody's log" for name in set(groups) - set(used))


def environments(stack: Stack) -> Iterator[str]:
    for name in stack.of_type(FUNCTIONS):
        variables = stack.environment(name)
        queues = SENDS_TO[name] | (WITH_SPARK.get(name, set()) if "SparkJobs" in stack.resources else set())
        due = SHARED_VARIABLES | {f"LAKESWEEP_{queue.upper()}_QUEUE" for queue in queues}
        due |= SPARK_VARIABLES if name == "SparkJobs" else set()
        due |= {"LAKESWEEP_ORPHAN_INTERVAL", "LAKESWEEP_SCAN_WORKERS"} if name == "OrphanScan" else set()
        if set(variables) != due:
            yield f"{name}: {sorted(set(variables) ^ due)}"
        if reserved := [each for each in variables if re.match(r"AWS_|LAMBDA_|_HANDLER|TZ$", each)]:
            yield f"{name}: {reserved} belong to Lambda"
        if sum(len(key) + len(value) for key, value in variables.items()) > 4096:
            yield f"{name}: more than Lambda takes"


def loops(stack: Stack) -> Iterator[str]:
    """Lambda stops functions that start themselves through queues, unless that is allowed."""
    started_by = {arn: name for name, event, _ in mappings(stack) for arn in [event["Queue"]]}
    leads_to: dict[str, set[str]] = {}
    for name in stack.of_type(FUNCTIONS):
        urls = [value for key, value in stack.environment(name).items() if key.endswith("_QUEUE")]
        leads_to[name] = {started_by[arn_of(url.rsplit("/lakesweep-", 1)[1])] for url in urls}
    for name, first in leads_to.items():
        reached = first
        for _ in leads_to:  # no way is longer
            reached = reached.union(*(leads_to[each] for each in reached))
        allowed = stack.function(name).get("RecursiveLoop") == "Allow"
        if (name in reached) != allowed:
            yield f"{name}: {'starts itself, and Lambda would stop it' if not allowed else 'no loop to allow'}"


def own_roles(stack: Stack) -> Iterator[str]:
    roles = [function["Role"] for function in stack.of_type(FUNCTIONS).values()]
    if len(set(roles)) != len(roles):
        yield "functions share a role"
    for name, event, _ in mappings(stack):
        for action in ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes"):
            if role_of(stack, name).decide(f"sqs:{action}", event["Queue"]) != "allowed":
                yield f"{name}: its role lacks sqs:{action}"
    for name, function in stack.of_type(FUNCTIONS).items():
        group = f"arn:aws:logs:us-east-1:123456789012:log-group:{function['LoggingConfig']['LogGroup']}:log-stream:x"
        if role_of(stack, name).decide("logs:PutLogEvents", group) != "allowed":
            yield f"{name}: cannot write its log"


def alarms(stack: Stack) -> Iterator[str]:
    watched: set[tuple[str, str]] = set()
    for name, alarm in stack.of_type(ALARMS).items():
        metrics = [each["MetricStat"]["Metric"] for each in alarm.get("Metrics", ()) if "MetricStat" in each] or [alarm]
        for metric in metrics:
            dimensions = {each["Name"]: each["Value"] for each in metric["Dimensions"]}
            watched |= {(metric["MetricName"], value) for value in dimensions.values()}
            if metric["Namespace"] == "Lakesweep" and (
                metric["MetricName"] not in METRICS or dimensions != {"service": stack.name}
            ):
                yield f"{name}: nobody writes {metric['MetricName']} with {dimensions}"
        if not alarm.get("AlarmDescription"):
            yield f"{name}: does not say what is wrong"
    for name, queue in stack.of_type(QUEUES).items():
        dead = arn_of_queue(queue) in dead_letter_arns(stack)
        metric_name = "ApproximateNumberOfMessagesVisible" if dead else "ApproximateAgeOfOldestMessage"
        if (metric_name, queue["QueueName"]) not in watched:
            yield f"{name}: nobody is told"
    spark = ("SparkJobsFailed",) if "SparkJobs" in stack.resources else ()
    scans = ("OrphanScansFailed", *spark)
    tags = ("MaxTagLagSeconds", "TablesAskedForTags")
    commits = ("CommitsReplaced", "CommitsLost", "CommitsFailed")
    for metric_name in (
        "RunsRefused",
        "RunsDamaged",
        "RunsFailed",
        "HopLimitReached",
        "MaxLagSeconds",
        "MaxRefusedSeconds",
        "TablesSwept",
        *tags,
        *commits,
        *scans,
    ):
        if (metric_name, stack.name) not in watched:
            yield f"{metric_name}: nobody is told"
    for name, function in stack.of_type(FUNCTIONS).items():
        if not {("Errors", function["FunctionName"]), ("Throttles", function["FunctionName"])} <= watched:
            yield f"{name}: nobody is told"


def dashboard(stack: Stack) -> Iterator[str]:
    (properties,) = stack.of_type("AWS::CloudWatch::Dashboard").values()
    widgets = json.loads(properties["DashboardBody"])["widgets"]
    taken: set[tuple[int, int]] = set()
    for widget in widgets:
        cells = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        if cells & taken or any(x >= 24 for x, _ in cells):
            yield f"{widget['properties'].get('title')}: lies on another one"
        taken |= cells
        for metric in widget["properties"].get("metrics", ()):
            if metric[0] == "Lakesweep" and (metric[1] not in METRICS or metric[2:4] != ["service", stack.name]):
                yield f"{widget['properties']['title']}: nobody writes {metric[1]}"
    (estimate,) = (w["properties"] for w in widgets if w["properties"].get("title", "").startswith("Cost"))
    ids = {metric[-1]["id"]: metric for metric in estimate["metrics"]}
    used = set(re.findall(r"FILL\((\w+)", json.dumps(estimate["metrics"])))
    if used != {each for each in ids if "expression" not in ids[each][-1]}:
        yield f"the estimate uses {sorted(used)}"
    for number, memory in re.findall(r"FILL\(d(\d),0\)\*(\d+)", json.dumps(estimate)):
        name = ids[f"d{number}"][3]
        (function,) = (f for f in stack.of_type(FUNCTIONS).values() if f["FunctionName"] == name)
        if function["MemorySize"] != int(memory):
            yield f"the estimate counts {memory} MiB for {name}"


def control_bucket(stack: Stack) -> Iterator[str]:
    for name, bucket in stack.of_type("AWS::S3::Bucket").items():
        resource = stack.resources[name]
        if (resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")) != ("Retain", "Retain"):
            yield f"{name}: goes with the stack"
        if bucket.get("VersioningConfiguration") != {"Status": "Enabled"}:
            yield f"{name}: has no versions"
        if not all(bucket.get("PublicAccessBlockConfiguration", {}).values()) or "BucketEncryption" not in bucket:
            yield f"{name}: open"
        rules = bucket["LifecycleConfiguration"]["Rules"]
        prefix = stack.parameters["ControlPrefix"]
        passing = {f"{prefix}/{SCANS}/": "the parts of scans", f"{prefix}/{NAMES}/": "names that nobody reads"}
        if any("ExpirationInDays" in rule and rule.get("Prefix") not in passing for rule in rules):
            yield f"{name}: loses the ledger"
        for rule in rules:
            # With versions, what expires is still there, and paid for, until it has been noncurrent for long enough.
            if "ExpirationInDays" in rule and "NoncurrentVersionExpiration" not in rule:
                yield f"{name}: keeps what has expired"
        for folder in passing.keys() - {rule.get("Prefix") for rule in rules if "ExpirationInDays" in rule}:
            yield f"{name}: keeps {passing[folder]}"
        for rule in rules:
            if rule.get("Prefix") == f"{prefix}/{NAMES}/" and rule["ExpirationInDays"] < NAMES_DAYS:
                yield f"{name}: loses names that scans go by"


def queue_policies(stack: Stack) -> Iterator[str]:
    for name, policy in stack.of_type("AWS::SQS::QueuePolicy").items():
        for statement in policy["PolicyDocument"]["Statement"]:
            keys = {key for condition in statement["Condition"].values() for key in condition}
            service = statement["Principal"]["Service"]
            due = {"aws:SourceArn"} | ({"aws:SourceAccount"} if service == "s3.amazonaws.com" else set())
            if keys != due or statement["Action"] != "sqs:SendMessage":
                yield f"{name}: {service} under {sorted(keys)}"


RULES: list[Callable[[Stack], Iterator[str]]] = [
    limits_of_lambda,
    visibility,
    recovery,
    event_sources,
    dead_letters,
    schedules,
    logs_and_tracing,
    environments,
    loops,
    own_roles,
    alarms,
    dashboard,
    control_bucket,
    queue_policies,
]


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_template_keeps_the_rule(rule: Callable[[Stack], Iterator[str]], deployment: str) -> None:
    assert list(rule(render(DEPLOYMENTS[deployment]))) == []


# --- and a template that does not ------------------------------------------------------------------------------------

COMMITS = "OnSnapshotWritten.Properties.Events.Commits.Properties"
LIFECYCLE = "OwnControlBucket.Properties.LifecycleConfiguration.Rules"
BROKEN: list[tuple[Callable[[Stack], Iterator[str]], str, Any, str]] = [
    (limits_of_lambda, "ExecuteBatch.Properties.Timeout", 901, "a timeout of 901 s"),
    (limits_of_lambda, "Expire.Properties.MemorySize", 99999, "memory of 99999"),
    (visibility, "ExpireQueue.Properties.VisibilityTimeout", 719, "after 719 s"),
    (visibility, "CommitsQueue.Properties.VisibilityTimeout", 360, "after 360 s"),
    (recovery, "ExpireQueue.Properties.VisibilityTimeout", 719, "find the lease"),
    (recovery, "Expire.Properties.Timeout", 121, "find the lease"),
    (recovery, "ExpireQueue.Properties.VisibilityTimeout", 721, "comes back after 721 s"),
    (recovery, "ExecuteQueue.Properties.VisibilityTimeout", 6000, "comes back after 6000 s"),
    (event_sources, "Expire.Properties.Events.Hints.Properties.MaximumBatchingWindowInSeconds", 5, "no batch window"),
    (
        event_sources,
        "OnSnapshotWritten.Properties.Events.Commits.Properties.MaximumBatchingWindowInSeconds",
        None,
        "ten",
    ),
    (event_sources, "Sweep.Properties.Events.Sweeps.Properties.ScalingConfig", None, "no maximum concurrency"),
    (event_sources, "Sweep.Properties.Events.Sweeps.Properties.FunctionResponseTypes", None, "one bad message"),
    (dead_letters, "ExecuteQueue.Properties.RedrivePolicy", None, "no dead letters"),
    (dead_letters, "ExecuteQueue.Properties.RedrivePolicy.maxReceiveCount", 4, "given up after 4"),
    (dead_letters, "ExpireDeadLetters.Properties.FifoQueue", None, "another type"),
    (dead_letters, "ExpireQueue.Properties.QueueName", "lakesweep-expire", "named"),
    (dead_letters, "SweepDeadLetters.Properties.MessageRetentionPeriod", 345600, "less than two weeks"),
    (dead_letters, "SweepQueue.Properties.SqsManagedSseEnabled", None, "not encrypted"),
    (dead_letters, "SnapshotWrittenRule.Properties.Targets.0.DeadLetterConfig", None, "is lost"),
    (dead_letters, "SweepTrigger.Properties.Target.DeadLetterConfig", None, "is lost"),
    (schedules, "SweepTrigger.Properties.ScheduleExpression", "rate(1 dayz)", "no schedule"),
    (schedules, "SweepTrigger.Properties.Target.Arn", "arn:aws:sqs:us-east-1:123456789012:x.fifo", "needs a group"),
    (logs_and_tracing, "Sweep.Properties.LoggingConfig.LogGroup", None, "kept for ever"),
    (logs_and_tracing, "SweepLog.Properties.RetentionInDays", None, "kept for ever"),
    (logs_and_tracing, "Sweep.Properties.Tracing", "PassThrough", "not traced"),
    (environments, "Sweep.Properties.Environment.Variables.LAKESWEEP_COMMITS_QUEUE", "x", "LAKESWEEP_COMMITS_QUEUE"),
    (environments, "OnDemand.Properties.Environment.Variables.LAKESWEEP_EXECUTE_QUEUE", None, "LAKESWEEP_EXECUTE"),
    (environments, "OnDemand.Properties.Environment.Variables.AWS_REGION", "x", "belong to Lambda"),
    (loops, "ExecuteBatch.Properties.RecursiveLoop", None, "would stop it"),
    (loops, "OnDemand.Properties.RecursiveLoop", "Allow", "no loop"),
    (loops, "Committer.Properties.RecursiveLoop", None, "would stop it"),
    (visibility, "CommitterQueue.Properties.VisibilityTimeout", 5399, "after 5399 s"),
    (loops, "OrphanWorker.Properties.RecursiveLoop", None, "would stop it"),
    (own_roles, "Sweep.Properties.Role", {"Fn::GetAtt": ["ExpireRole", "Arn"]}, "share a role"),
    (own_roles, "SweepRole.Properties.Policies.0.PolicyDocument.Statement.0.Action", "sqs:ReceiveMessage", "lacks"),
    (own_roles, "SweepRole.Properties.Policies.0.PolicyDocument.Statement.3.Action", "logs:PutLogEvent", "its log"),
    (alarms, "RunsFailedAlarm.Properties.MetricName", "RunFailed", "nobody writes RunFailed"),
    (alarms, "EventsDeadLettersAlarm", None, "EventsDeadLetters: nobody is told"),
    (alarms, "ExpireAgeAlarm", None, "ExpireQueue: nobody is told"),
    (alarms, "FunctionErrorsAlarm.Properties.Metrics.5", None, "OnDemand: nobody is told"),
    (alarms, "FunctionThrottlesAlarm.Properties.Metrics.8", None, "OrphanWorker: nobody is told"),
    (alarms, "CommitsReplacedAlarm", None, "CommitsReplaced: nobody is told"),
    (alarms, "CommitsLostAlarm", None, "CommitsLost: nobody is told"),
    (alarms, "CommitsFailedAlarm", None, "CommitsFailed: nobody is told"),
    (alarms, "CommitterAgeAlarm", None, "CommitterQueue: nobody is told"),
    (alarms, "OrphanScansFailedAlarm", None, "OrphanScansFailed: nobody is told"),
    (dashboard, "Expire.Properties.MemorySize", 2048, "counts 1024 MiB"),
    (control_bucket, "OwnControlBucket.DeletionPolicy", None, "goes with the stack"),
    (control_bucket, "OwnControlBucket.Properties.VersioningConfiguration", None, "has no versions"),
    (control_bucket, "OwnControlBucket.Properties.PublicAccessBlockConfiguration.BlockPublicAcls", False, "open"),
    (control_bucket, f"{LIFECYCLE}.1.Prefix", None, "loses the ledger"),
    (control_bucket, f"{LIFECYCLE}.1.NoncurrentVersionExpiration", None, "keeps what has expired"),
    (control_bucket, f"{LIFECYCLE}.1", None, "keeps the parts of scans"),
    (control_bucket, f"{LIFECYCLE}.2", None, "keeps names that nobody reads"),
    (control_bucket, f"{LIFECYCLE}.2.ExpirationInDays", 20, "loses names"),
    (queue_policies, "CommitsQueuePolicy.Properties.PolicyDocument.Statement.1.Condition.StringEquals", {}, "s3"),
]


@pytest.mark.parametrize(
    ("rule", "place", "value", "finding"), BROKEN, ids=lambda it: str(it) if "." in str(it) else ""
)
def test_a_template_that_breaks_the_rule_is_noticed(
    rule: Callable[[Stack], Iterator[str]], place: str, value: Any, finding: str
) -> None:
    template = load_template()
    change(template["Resources"], place, value)
    found = list(rule(render({"ControlBucket": ""}, template)))
    assert any(finding in each for each in found), found


def test_every_rule_is_seen_to_fail() -> None:
    assert {rule for rule, *_ in BROKEN} == set(RULES)


def change(document: Any, place: str, value: Any) -> None:
    """Put `value` at a place, or take away what is there."""
    *folders, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    for folder in folders:
        document = document[folder]
    if value is None:
        del document[last]
    else:
        document[last] = value


# --- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("SweepSchedule", "rate(1 dayz)"),
        ("SweepSchedule", "rate(0 hours)"),
        ("SweepSchedule", "1 hour"),
        ("TablePrefixes", "lake/*"),
        ("TablePrefixes", "lake/a?"),
        ("TablePrefixes", "lake/${aws:username}"),
        ("TablePrefixes", "lake/warehouse/"),
        ("TablePrefixes", "lake//warehouse"),
        ("TablePrefixes", "s3://lake/warehouse"),
        ("TableBuckets", "*"),
        ("TableBuckets", "lake/warehouse"),
        ("TableBuckets", ""),
        ("PolicyLocation", "policy.json"),
        ("PolicyLocation", "s3://config/*"),
        ("ControlPrefix", ""),
        ("ControlPrefix", "a/*"),
        ("MinInterval", "60"),
        ("MinInterval", "1 d"),
        ("MinInterval", "4 h"),
        ("MinInterval", "240 min"),
        ("OrphanScans", "true"),
        ("OrphanInterval", "12 h"),
        ("OrphanInterval", "0 d"),
        ("OrphanInterval", "7"),
        ("OrphanSchedule", "1 hour"),
        ("ScanConcurrency", "1"),
        ("LogLevel", "ERROR"),
        ("Mode", "Delete"),
        ("MaximumConcurrency", "many"),
    ],
)
def test_a_parameter_that_would_do_harm_is_refused(parameter: str, value: str) -> None:
    with pytest.raises(AssertionError):
        render({parameter: value})


@pytest.mark.parametrize(
    "schedule", ["rate(1 hour)", "rate(15 minutes)", "cron(0 3 * * ? *)", "cron(0/15 * ? * MON-FRI *)"]
)
def test_a_schedule_is_taken(schedule: str) -> None:
    assert list(schedules(render({"SweepSchedule": schedule}))) == []


@pytest.mark.parametrize("expression", ["rate(1 hours)", "rate(2 hour)", "cron(0 3 * * *)", "cron(0 3 * * * *)"])
def test_what_looks_like_a_schedule_is_not_one(expression: str) -> None:
    assert not is_schedule(expression)


@pytest.mark.parametrize("interval", ["7 d", "1 d", "24 h", "36 hours", "30 days", "999 h"])
def test_an_interval_of_scans_is_taken(interval: str) -> None:
    """By the template and by the function."""
    assert render({"OrphanInterval": interval}).environment("OrphanScan")["LAKESWEEP_ORPHAN_INTERVAL"] == interval
    assert parse_span_ms(interval, "OrphanInterval") >= MIN_ORPHAN_INTERVAL_MS


def test_scans_can_be_turned_off() -> None:
    for value, state in (("enabled", "ENABLED"), ("disabled", "DISABLED")):
        schedules = render({"OrphanScans": value}).of_type("AWS::Scheduler::Schedule")
        assert (schedules["OrphanTrigger"]["State"], "State" in schedules["SweepTrigger"]) == (state, False)


def test_an_operator_role_needs_somebody_who_may_assume_it() -> None:
    with pytest.raises(AssertionError, match="OperatorIsNamed"):
        render({"CreateOperatorRole": "true"})


def test_every_parameter_says_what_it_is_for() -> None:
    template = load_template()
    grouped = [
        name
        for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        for name in group["Parameters"]
    ]
    assert sorted(grouped) == sorted(template["Parameters"])
    assert [name for name, it in template["Parameters"].items() if not it.get("Description")] == []


def test_the_builders_defaults_are_the_templates() -> None:
    parameters = load_template()["Parameters"]
    for path, prefix in (("Makefile", ""), ("layers/Makefile", "LAYER_")):
        text = (TEMPLATE.parent / path).read_text(encoding="utf-8")
        assert f"\n{prefix}RUNTIME ?= {parameters['Runtime']['Default']}\n" in text
        assert f"\n{prefix}ARCHITECTURE ?= {parameters['Architecture']['Default']}\n" in text


def test_the_dashboards_prices_are_those_of_the_documents() -> None:
    stated = json.loads((TEMPLATE.parent / "docs" / "prices.json").read_text(encoding="utf-8"))["prices"]
    price = {name: entry["usd"] / entry["per"] for name, entry in stated.items()}
    used = {name: float(text) for name, text in load_template()["Mappings"]["Prices"]["Dollars"].items()}
    assert used == pytest.approx(
        {
            "S3Write": price["s3_put_list"],
            "S3Read": price["s3_get"],
            "GigabyteSecond": price["lambda_gb_second"],
            "Invocation": price["lambda_request"],
            "Message": 3 * price["sqs_standard"],
            "FifoMessage": 3 * price["sqs_fifo"],
            "StoredGigabyte": price["s3_storage"],
        }
    )


def test_two_stacks_of_an_account_share_no_name_and_no_metric() -> None:
    stacks = [render(DEPLOYMENTS["everything"], name=name) for name in ("day", "night")]
    assert [list(rule(stack)) for stack in stacks for rule in (alarms, dashboard)] == [[]] * 4
    names = r'"(?:FunctionName|QueueName|AlarmName|LogGroupName|DashboardName)": "([^"]+)"'
    day, night = (set(re.findall(names, json.dumps(stack.resources))) for stack in stacks)
    assert len(day) > 30
    assert not day & night


def test_the_metrics_are_those_that_the_functions_write() -> None:
    sources = (TEMPLATE.parent / "shared" / "lakesweep" / "aws").rglob("*.py")
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    kinds = "Runs|Commits|Partitions|Manifests|Tables|Tags|Max|Orphan|Orphans|SparkJobs|Events|Hop|Lease|Bytes|Objects"
    several = rf"(?:{kinds})[A-Z][A-Za-z]*|(?:Get|List|Put|Delete)Requests"
    written = set(re.findall(rf'"(Runs|Continuations|UsdSpent|{several})"', text)) - set(SCHEDULES)
    assert written == METRICS
    in_spark = {name for name in METRICS if name.startswith("SparkJobs")}
    assert len(METRICS - in_spark) == cost.METRICS


def test_every_alarm_is_explained() -> None:
    text = (TEMPLATE.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    found = render(DEPLOYMENTS["everything"]).of_type(ALARMS).values()
    names = [alarm["AlarmName"].removeprefix("lakesweep-") for alarm in found]
    assert len(set(names)) == len(names)
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize("deployment", ["least", "everything"])
def test_every_alarm_links_to_what_to_do(deployment: str) -> None:
    """To an anchor that the page has in the alarm's row; so does the dashboard, for each alarm."""
    text = (TEMPLATE.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    anchors = re.findall(r'`([a-z-]+)`<a id="alarm-([a-z-]+)"></a>', text)
    stack = render(DEPLOYMENTS[deployment])
    url = stack.parameters["RunbookUrl"]
    assert (
        url
        == {"least": "docs/operations.md", "everything": "https://wiki.example.org/lakesweep/operations"}[deployment]
    )
    names = [alarm["AlarmName"].removeprefix("lakesweep-") for alarm in stack.of_type(ALARMS).values()]
    for name, alarm in zip(names, stack.of_type(ALARMS).values(), strict=True):
        assert alarm["AlarmDescription"].endswith(f". What to do: {url}#alarm-{name}")
        assert len(alarm["AlarmDescription"]) <= 1024
        assert (name, name) in anchors
    every = {
        alarm["AlarmName"].removeprefix("lakesweep-")
        for alarm in render(DEPLOYMENTS["everything"]).of_type(ALARMS).values()
    }
    assert sorted(anchors) == sorted((name, name) for name in every)
    body = json.loads(stack.of_type("AWS::CloudWatch::Dashboard")["Dashboard"]["DashboardBody"])
    (page,) = (widget["properties"]["markdown"] for widget in body["widgets"] if widget["type"] == "text")
    assert re.findall(r"\[([a-z-]+)\]\(([^)]+)\)", page) == [
        (name, f"{url}#alarm-{name}") for name in sorted(every, key=page.index)
    ]
    assert set(re.findall(r"\[([a-z-]+)\]", page)) == every


@pytest.mark.parametrize(
    "url", ["", "http://wiki", 'https://wiki/a"b', "https://wiki/a)b", "https://wiki/a#b", "page.md"]
)
def test_the_page_of_the_links_is_a_page(url: str) -> None:
    """Nothing that would end the JSON of the dashboard, or a link in it."""
    pattern = load_template()["Parameters"]["RunbookUrl"]["AllowedPattern"]
    assert re.fullmatch(pattern, url) is None
    assert re.fullmatch(pattern, "https://github.com/a/b/blob/main/docs/operations.md")


def test_the_rule_and_the_notifications_let_in_only_what_is_named() -> None:
    stack = render(DEPLOYMENTS["everything"])
    pattern = stack.of_type("AWS::Events::Rule")["SnapshotWrittenRule"]["EventPattern"]
    assert pattern["detail"]["bucket"]["name"] == ["lake", "other-lake"]
    assert pattern["account"] == ["123456789012", "210987654321"]
    statement = stack.of_type("AWS::SQS::QueuePolicy")["CommitsQueuePolicy"]["PolicyDocument"]["Statement"][1]
    assert statement["Condition"]["ArnEquals"]["aws:SourceArn"] == ["arn:aws:s3:::lake", "arn:aws:s3:::other-lake"]
    assert statement["Condition"]["StringEquals"]["aws:SourceAccount"] == ["123456789012", "210987654321"]
    assert render().of_type("AWS::Events::Rule")["SnapshotWrittenRule"]["EventPattern"]["account"] == ["123456789012"]


def test_every_role_has_the_boundary_if_there_is_one() -> None:
    for deployment, expected in (("everything", "arn:aws:iam::123456789012:policy/boundary"), ("least", None)):
        roles = render(DEPLOYMENTS[deployment]).of_type("AWS::IAM::Role")
        assert {role.get("PermissionsBoundary") for role in roles.values()} == {expected}
    assert "OperatorRole" not in render().resources


# --- linters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [["cfn-lint"], ["sam", "validate", "--lint", "--template-file"]], ids=lambda it: it[0]
)
def test_linters_find_nothing(command: list[str], tmp_path: Path) -> None:
    """Neither in the template, nor in the packaged one, which has no macro."""
    template = TEMPLATE
    if command == ["cfn-lint"]:
        built_for = {"Runtime": "python3.13", "Architecture": "arm64"}
        template = package(build_here().folder, built_for, "ops", "lakesweep", tmp_path / "package")
    program = Path(sys.executable).parent / command[0]
    if not program.exists():
        pytest.skip(f"{command[0]} is not installed (extra `deploy`)")
    done = subprocess.run(
        [program, *command[1:], template],
        env={"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "AWS_DEFAULT_REGION": "us-east-1"}
        | {"SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
