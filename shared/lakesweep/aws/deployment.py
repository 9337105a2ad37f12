"""Whether a deployment is whole: its functions, mappings, queues, rule and schedules, by the names of `template.yaml`.

Everything is asked of AWS, and nothing is changed. What may not be asked becomes a line of its own.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from lakesweep.aws.bucket_events import DESTINATIONS, EVENT_BRIDGE, open_notifications
from lakesweep.errors import MaintenanceError
from lakesweep.model.diagnosis import Line, Verdict
from lakesweep.storage.location import parse_location

FUNCTIONS = {
    "on-snapshot-written": "commits",
    "expire": "expire.fifo",
    "execute-batch": "execute",
    "committer": "committer.fifo",
    "sweep": "sweep",
    "tag-schedule": "tags",
    "orphan-scan": "scan",
    "orphan-worker": "orphan",
    "on-demand": None,
}
"""Function -> the queue that it reads."""
DEAD = (
    *("commits-dead", "expire-dead.fifo", "execute-dead", "committer-dead.fifo", "sweep-dead", "tags-dead"),
    *("scan-dead", "orphan-dead", "events-dead"),
)
SCHEDULES = ("SweepTrigger", "TagTrigger", "OrphanTrigger", "HouseTrigger")
_GONE = frozenset({"ResourceNotFoundException", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_RUNBOOK = "docs/operations.md"


@dataclass(frozen=True)
class Clients:
    """Clients of the services of one account and region. Each is made when it is first used."""

    endpoint_url: str | None = None
    region: str | None = None

    def of(self, service: str) -> Any:
        """Return a client."""
        from botocore.config import Config

        from lakesweep.storage.aws_client import new_session

        patience = Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=4, read_timeout=10)
        return new_session().create_client(
            service, endpoint_url=self.endpoint_url, region_name=self.region, config=patience
        )

    @cached_property
    def functions(self) -> Any:
        """Return a client of Lambda."""
        return self.of("lambda")

    @cached_property
    def queues(self) -> Any:
        """Return a client of SQS."""
        return self.of("sqs")

    @cached_property
    def events(self) -> Any:
        """Return a client of EventBridge."""
        return self.of("events")

    @cached_property
    def schedules(self) -> Any:
        """Return a client of EventBridge Scheduler."""
        return self.of("scheduler")


def deployment_lines(clients: Clients, stack: str, table: str, control: str | None) -> Iterator[Line]:
    """Look at a deployment.

    Args:
        clients: Of its account and region.
        stack: Its name.
        table: The location of a table that it should maintain.
        control: The control location of the caller; `None`: unknown.
    """
    found = _functions(clients, stack)
    yield from found.lines
    yield from _settings(found.environment, stack, table, control)
    yield from _asked("mappings", lambda: _mappings(clients, stack))
    urls: dict[str, str] = {}
    yield from _asked("queues", lambda: _queues(clients, stack, urls))
    yield from _asked("events", lambda: _rule(clients, stack, urls))
    yield from _asked("events", lambda: _notifications(clients, table, stack))
    yield from _asked("schedules", lambda: _schedules(clients, stack))


def _asked(subject: str, ask: Callable[[], Iterable[Line]]) -> Iterator[Line]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield from ask()
    except (BotoCoreError, ClientError, MaintenanceError) as error:
        yield Line(subject, "unknown", f"AWS was asked about {subject}: {error}")


@dataclass(frozen=True, slots=True)
class _Functions:
    lines: tuple[Line, ...]
    environment: Mapping[str, str]
    """Of the function `expire`; empty if it could not be read."""


def _functions(clients: Clients, stack: str) -> _Functions:
    lines: list[Line] = []
    environment: Mapping[str, str] = {}
    layers: dict[tuple[str, ...], list[str]] = {}

    def look(name: str) -> Iterator[Line]:
        nonlocal environment
        found = _or_gone(clients.functions.get_function_configuration, FunctionName=f"{stack}-{name}")
        if found is None:
            yield Line("functions", "act", f"function {stack}-{name} does not exist", _deploy(stack))
            return
        if name == "expire":
            environment = (found.get("Environment") or {}).get("Variables") or {}
        layers.setdefault(tuple(sorted(each["Arn"] for each in found.get("Layers") or ())), []).append(name)
        state = found.get("State") or "Active"
        if state not in ("Active", "Inactive") or found.get("LastUpdateStatus") == "Failed":
            why = found.get("LastUpdateStatusReason") or found.get("StateReason") or state
            yield Line("functions", "act", f"function {stack}-{name} cannot run: {why}", _deploy(stack))

    for name in FUNCTIONS:
        lines += _asked("functions", partial(look, name))
    if len(layers) > 1:
        parts = "; ".join(f"{', '.join(names)}: {_versions(arns)}" for arns, names in layers.items())
        lines.append(Line("version", "act", f"functions of {stack} have different layers ({parts})", _deploy(stack)))
    elif layers and not any(line.subject == "functions" for line in lines):
        [(arns, names)] = layers.items()
        lines.append(Line("functions", "ok", f"{len(names)} functions of {stack} can run, with {_versions(arns)}"))
    return _Functions(tuple(lines), environment)


def _versions(arns: Iterable[str]) -> str:
    """Return the names of layers with their versions."""
    parts = [arn.split(":") for arn in arns]
    return ", ".join(f"{part[-2]} {part[-1]}" for part in parts if len(part) > 2) or "no layers"


def _settings(environment: Mapping[str, str], stack: str, table: str, control: str | None) -> Iterator[Line]:
    if not environment:
        return
    prefixes = [each for each in environment.get("LAKESWEEP_TABLES", "").split(",") if each]
    location = parse_location(table)
    if not any(parse_location(prefix).contains(location) for prefix in prefixes):
        says = f"{stack} maintains {', '.join(prefixes) or 'nothing'}, and {table} lies elsewhere"
        yield Line("functions", "act", says, f"add it to TablePrefixes: {_deploy(stack)}")
    if environment.get("LAKESWEEP_MODE") != "delete":
        says = f"{stack} observes: it plans, and deletes nothing"
        yield Line("functions", "look", says, f"set Mode=delete: {_deploy(stack)}")
    theirs = environment.get("LAKESWEEP_CONTROL")
    if control is not None and theirs and parse_location(theirs) != parse_location(control):
        says = f"{stack} uses control location {theirs}, and this call {control}: neither sees the lease of the other"
        yield Line("control", "act", says, f"--control {shlex.quote(theirs)}")


def _mappings(clients: Clients, stack: str) -> Iterator[Line]:
    enabled = 0
    for name, queue in FUNCTIONS.items():
        if queue is None:
            continue
        found = _or_gone(clients.functions.list_event_source_mappings, FunctionName=f"{stack}-{name}")
        mappings = [] if found is None else found.get("EventSourceMappings", [])
        for each in mappings:
            if each.get("State") in ("Enabled", "Enabling", "Creating", "Updating"):
                enabled += 1
                continue
            says = f"function {stack}-{name} does not read its queue: the mapping is {each.get('State')}"
            mend = f"aws lambda update-event-source-mapping --uuid {each.get('UUID')} --enabled"
            yield Line("mappings", "act", says, mend)
        if found is not None and not mappings:
            yield Line("mappings", "act", f"function {stack}-{name} has no mapping from its queue", _deploy(stack))
    if enabled == sum(queue is not None for queue in FUNCTIONS.values()):
        yield Line("mappings", "ok", f"{enabled} functions of {stack} read their queues")


def _queues(clients: Clients, stack: str, urls: dict[str, str]) -> Iterator[Line]:
    waiting = 0
    quiet = True
    for name in (*(queue for queue in FUNCTIONS.values() if queue is not None), *DEAD):
        found = _or_gone(clients.queues.get_queue_url, QueueName=f"{stack}-{name}")
        if found is None:
            quiet = False
            yield Line("queues", "act", f"queue {stack}-{name} does not exist", _deploy(stack))
            continue
        attributes = clients.queues.get_queue_attributes(QueueUrl=found["QueueUrl"], AttributeNames=["All"])[
            "Attributes"
        ]
        urls[name] = attributes["QueueArn"]
        count = int(attributes["ApproximateNumberOfMessages"])
        if name not in DEAD:
            waiting += count
        elif count:
            quiet = False
            what = (
                "message that EventBridge could not deliver"
                if name == "events-dead"
                else "message that failed five times"
            )
            says = f"queue {stack}-{name} holds {count} {what.replace('message', 'messages', 1) if count > 1 else what}"
            mend = f"mend the cause ({_RUNBOOK}), then: aws sqs start-message-move-task --source-arn {urls[name]}"
            yield Line("queues", "act", says, mend)
    if quiet:
        yield Line("queues", "ok", f"no dead letters; {waiting} messages wait")


def _rule(clients: Clients, stack: str, urls: Mapping[str, str]) -> Iterator[Line]:
    target = urls.get("commits")
    if target is None:
        return
    names = clients.events.list_rule_names_by_target(TargetArn=target).get("RuleNames", [])
    rules = [clients.events.describe_rule(Name=name) for name in names]
    if not rules:
        yield Line(
            "events", "act", f"no rule of EventBridge sends new snapshots to queue {stack}-commits", _deploy(stack)
        )
    for rule in rules:
        if rule.get("State") == "DISABLED":
            mend = f"aws events enable-rule --name {shlex.quote(str(rule['Name']))}"
            yield Line("events", "act", f"rule {rule['Name']} is disabled, so no commit starts a pass", mend)
        else:
            yield Line("events", "ok", f"rule {rule['Name']} sends new snapshots to queue {stack}-commits")


def _notifications(clients: Clients, table: str, stack: str) -> Iterator[Line]:
    location = parse_location(table)
    if location.scheme != "s3":
        return
    bucket = location.bucket
    found = open_notifications(bucket, clients.endpoint_url, clients.region).read()
    direct = [
        entry
        for entry in found.get("QueueConfigurations", ())
        if str(entry.get(DESTINATIONS["QueueConfigurations"], "")).endswith(f":{stack}-commits")
    ]
    if EVENT_BRIDGE in found:
        yield Line("events", "ok", f"bucket {bucket} sends its events to EventBridge")
    elif direct:
        yield Line("events", "ok", f"bucket {bucket} sends its events to queue {stack}-commits")
    else:
        says = f"bucket {bucket} tells nobody of new objects, so only the hourly sweep finds commits"
        yield Line("events", "act", says, f"lakesweep enable-events {shlex.quote(bucket)} --execute")


def _schedules(clients: Clients, stack: str) -> Iterator[Line]:
    pages = clients.schedules.get_paginator("list_schedules").paginate(NamePrefix=f"{stack}-")
    found = {each["Name"]: each.get("State") for page in pages for each in page.get("Schedules", ())}
    quiet = True
    for wanted in SCHEDULES:
        name = next((each for each in found if each.startswith(f"{stack}-{wanted}")), None)
        if name is None:
            quiet = False
            yield Line("schedules", "look", f"schedule {wanted} of {stack} was not found", _deploy(stack))
        elif found[name] == "DISABLED":
            quiet = False
            says = f"schedule {name} is disabled"
            verdict: Verdict = "look" if wanted == "OrphanTrigger" else "act"
            yield Line("schedules", verdict, says, f"enable it with a deployment: {_deploy(stack)}")
    if quiet:
        yield Line("schedules", "ok", f"{len(SCHEDULES)} schedules of {stack} are on")


def _deploy(stack: str) -> str:
    return f"sam deploy --stack-name {shlex.quote(stack)}"


def _or_gone(ask: Callable[..., Any], **words: str) -> Any | None:
    """Return an answer, `None` if what was asked about does not exist."""
    from botocore.exceptions import ClientError

    try:
        return ask(**words)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _GONE:
            return None
        raise
