"""The system does not keep itself busy: what it writes starts nothing, and a chain of messages has an end.

Counted are events that come through the rule, messages, invocations, and runs that found nothing to do.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import acquire
from tests.support.reader import read_all
from tests.support.stack import ACCOUNT, REGION
from tests.support.system.build import build_here
from tests.support.system.deployed import System
from tests.support.system.event_rule import EventRule
from tests.support.system.message import Message
from tests.support.system.queue import Queue
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call

MINUTE_S, HOUR_S = 60.0, 3600.0
LONGER_CHANGELOG = {
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "2",
    "changelog.num-retained.min": "3",
    "changelog.num-retained.max": "3",
    "consumer.expiration-time": "1 d",
}
KEPT = 2
PLAIN = {"snapshot.num-retained.min": str(KEPT), "snapshot.num-retained.max": str(KEPT)}
COMMITS = 8
HOPS = 16


@dataclass
class Count:
    """What happened since a moment."""

    system: System

    def __post_init__(self) -> None:
        self._events, self._sent = self.system.rules["SnapshotWrittenRule"].delivered, len(self.system.aws.log)
        self._done = len(self.system.invocations)

    @property
    def events(self) -> int:
        """Return how many events came through the rule."""
        return self.system.rules["SnapshotWrittenRule"].delivered - self._events

    def messages(self, function: str = "") -> int:
        """Return how many messages functions sent."""
        sent = [it for it in self.system.aws.log[self._sent :] if it.operation == "SendMessage"]
        return sum(function in ("", it.function) for it in sent)

    def invocations(self, function: str = "") -> int:
        """Return how many invocations there were."""
        return sum(function in ("", it.function) for it in self.system.invocations[self._done :])

    @property
    def runs(self) -> list[str]:
        """Return how the runs ended, in order."""
        lines = [line for done in self.system.invocations[self._done :] for line in done.lines]
        return [line["run"]["status"] for line in lines if "run" in line]


class Ears:
    """Hears everything that a bucket tells EventBridge, which the rule of the template does not."""

    def __init__(self, system: System) -> None:
        self._queue = Queue("ears", f"arn:aws:sqs:{REGION}:{ACCOUNT}:ears", {}, system.clock)
        pattern = {"source": ["aws.s3"], "detail": {"bucket": {"name": [system.bucket]}}}
        properties = {"EventPattern": pattern, "Targets": [{"Id": "ears", "Arn": self._queue.arn}]}
        self.rule = EventRule(f"{system.bucket}-ears", properties, {self._queue.arn: self._queue}, system.clock)

    def heard(self) -> list[str]:
        """Return since the last time what was told of which keys."""
        messages: list[Message] = []
        while more := self._queue.receive():
            messages += more
            for message in more:
                self._queue.delete(str(message.receipt))
        events = [json.loads(message.body) for message in messages]
        return [f"{event['detail-type']} {event['detail']['object']['key'].partition('.db/t/')[2]}" for event in events]


@pytest.fixture(scope="module")
def deployed() -> Iterator[System]:
    with System(build_here()) as system:
        yield system


@pytest.fixture
def system(deployed: System) -> Iterator[System]:
    """A system at rest, with no table in it that anything is due for."""
    yield deployed
    deployed.settle()
    assert not deployed.backlog()
    assert not deployed.aws.denied
    for key in [entry.key for entry in deployed.store("").list("")]:
        deployed.s3.delete_object(Bucket=deployed.bucket, Key=f"warehouse/{key}")


def commit(table: TableBuilder, number: int) -> None:
    snapshot_id = table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []), changelog=[f"+L{number}"])
    table.hint("LATEST", snapshot_id)


def written(system: System, name: str, options: Mapping[str, str] = PLAIN, commits: int = COMMITS) -> TableBuilder:
    table = system.table(f"{name}.db/t", options, primary_keys=("id",))
    for number in range(1, commits + 1):
        commit(table, number)
    return table


def written_at_once(system: System, name: str, options: Mapping[str, str], commits: int) -> TableBuilder:
    """Write a table, and let the system hear of its commits only then, so that one chain of messages begins."""
    system.mappings["OnSnapshotWritten"].pause()
    table = written(system, name, options, commits)
    system.mappings["OnSnapshotWritten"].pause(False)
    return table


def lakesweep(system: System, command: str, table: TableBuilder, *words: str) -> Answer:
    control = system.control().location
    places = ("--control", control, "--endpoint-url", system.aws.endpoint, "--region", REGION)
    return call(command, table.store.location, *words, *places, "--json")


def snapshots(table: TableBuilder) -> list[str]:
    return sorted(name for entry in table.store.list("snapshot/") if "-" in (name := entry.key.rpartition("/")[2]))


# --- what the system writes ---


def test_what_a_pass_writes_and_deletes_starts_nothing(system: System) -> None:
    """Hints and changelog documents are written, snapshots deleted. The bucket tells of it; the rule lets none in."""
    ears = Ears(system)
    system.mappings["Expire"].pause()
    table = written(system, "own", LONGER_CHANGELOG)
    table.tag("t", snapshot=3)
    table.consumer("c", COMMITS - 1)
    system.settle()
    ears.heard()
    count = Count(system)
    system.mappings["Expire"].pause(False)
    system.settle()
    heard = ears.heard()
    ears.rule.close()
    kinds = {re.sub(r"[0-9a-f]{8}-\S*|\d+", "#", it) for it in heard}
    assert {
        "Object Created snapshot/EARLIEST",
        "Object Created changelog/changelog-#",
        "Object Created changelog/EARLIEST",
        "Object Created changelog/LATEST",
        "Object Deleted snapshot/snapshot-#",
    } <= kinds
    assert count.events == 0
    assert count.messages() == 0
    assert (count.invocations(), count.runs) == (1, ["done"])
    system.pass_time(3 * HOUR_S, step_s=HOUR_S)
    assert count.invocations() == 1


def test_after_the_last_commit_there_is_no_run_more(system: System) -> None:
    """Commits come one by one. Each is an event and at most one run, and none is left when they end."""
    table = written(system, "steady", commits=3)
    system.settle()
    count = Count(system)
    for number in range(4, 4 + COMMITS):
        commit(table, number)
        system.pass_time(2 * MINUTE_S)
    assert (count.events, count.invocations("Expire"), count.runs) == (COMMITS, COMMITS, ["done"] * COMMITS)
    after = Count(system)
    system.pass_time(HOUR_S)
    assert (after.events, after.invocations()) == (0, 0)


def test_a_commit_that_comes_again_is_no_run(system: System) -> None:
    """The same event, hours later: three times."""
    events: list[str] = []
    rule = system.rules["SnapshotWrittenRule"]

    def note(event: dict[str, object]) -> bool:
        events.append(json.dumps(event))
        return True

    rule.on_delivery = note
    written(system, "again")
    system.settle()
    rule.on_delivery = lambda _: True
    count = Count(system)
    for _ in range(3):
        system.pass_time(HOUR_S)
        for event in events:
            system.queues["CommitsQueue"].send(event)
        system.settle()
    assert (count.invocations("OnSnapshotWritten"), count.invocations(), count.messages()) == (3, 3, 0)


# --- undo ---


def run_id_of(system: System, table: TableBuilder) -> str:
    (run,) = lakesweep(system, "runs", table).document["runs"]
    return str(run["run_id"])


def test_an_undo_is_no_event_and_at_most_one_run_that_finds_nothing(system: System) -> None:
    """Markers are removed, nothing is written but a hint. What the next sweep asks for keeps what came back."""
    # moto tells of nothing that is deleted while a bucket keeps versions, so it does not for the other tests.
    system.s3.put_bucket_versioning(Bucket=system.bucket, VersioningConfiguration={"Status": "Enabled"})
    table = written(system, "undone", commits=4)
    system.settle()
    assert len(snapshots(table)) == KEPT
    for name in ("Expire", "ExecuteBatch"):
        system.mappings[name].pause()
    count = Count(system)
    undone = lakesweep(system, "undo", table, run_id_of(system, table), "--execute")
    assert (undone.exit_code, undone.document["status"]) == (0, "done"), undone.messages
    assert len(snapshots(table)) == 4
    table.alter(options={"snapshot.num-retained.min": "100", "snapshot.num-retained.max": "100"})
    for name in ("Expire", "ExecuteBatch"):
        system.mappings[name].pause(False)
    system.pass_time(10 * MINUTE_S)
    assert (count.events, count.invocations()) == (0, 0)
    for _ in range(3):
        system.tick()
        system.settle()
        system.pass_time(HOUR_S, step_s=HOUR_S)
    assert (count.events, count.messages(), count.runs) == (0, 1, ["nothing_to_do"])
    assert len(snapshots(table)) == 4
    assert len(read_all(table.store)) == 4
    system.s3.put_bucket_versioning(Bucket=system.bucket, VersioningConfiguration={"Status": "Suspended"})


def test_documents_that_somebody_puts_back_are_events_and_no_run(system: System) -> None:
    """As a copy from a backup does, without Lakesweep knowing."""
    table = written(system, "put-back")
    first = f"snapshot/{snapshots(table)[0]}"
    bodies = {entry.key: table.store.read(entry.key).data for entry in table.store.list("")}
    system.settle()
    gone = set(bodies) - {entry.key for entry in table.store.list("")}
    assert first in gone
    count = Count(system)
    for key in sorted(gone, reverse=True):
        table.store.put(key, bodies[key])
    system.settle()
    assert count.events == COMMITS - KEPT
    assert (count.invocations("OnSnapshotWritten"), count.invocations(), count.messages()) == (1, 1, 0)


# --- sweeps ---


def test_a_sweep_over_tables_that_need_nothing_sends_nothing(system: System) -> None:
    for number in range(3):
        written(system, f"calm{number}", commits=3)
    system.settle()
    count = Count(system)
    for _ in range(2):
        system.tick()
        system.settle()
    assert (count.invocations("Sweep"), count.invocations(), count.messages()) == (2, 2, 0)


def test_sweeps_one_after_the_other_do_not_multiply_messages(system: System) -> None:
    """While nobody makes the passes: at once it is one message a table, later one more a sweep, and no more."""
    system.rules["SnapshotWrittenRule"].on_delivery = lambda _: False
    tables = [written(system, f"lost{number}", commits=3) for number in range(3)]
    system.rules["SnapshotWrittenRule"].on_delivery = lambda _: True
    system.mappings["Expire"].pause()
    count = Count(system)
    for _ in range(3):
        system.tick()
        system.tick()
    system.settle()
    assert count.invocations("Sweep") == 6
    assert system.backlog() == {"ExpireQueue": len(tables)}
    for sweeps in (2, 3):
        system.pass_time(HOUR_S, step_s=HOUR_S)
        system.tick()
        system.settle()
        assert system.backlog() == {"ExpireQueue": sweeps * len(tables)}
    system.mappings["Expire"].pause(False)
    count = Count(system)
    system.settle()
    assert sorted(count.runs) == ["done"] * 3 + ["nothing_to_do"] * 6
    assert count.messages() == 0
    assert all(len(snapshots(table)) == KEPT for table in tables)


# --- chains of messages ---


def lineages(system: System, function: str, since: int) -> list[dict[str, int]]:
    """Return what botocore passed on of the trace with each message that a function sent: function -> invocations."""
    sent = [it for it in system.aws.log[since:] if (it.function, it.operation) == (function, "SendMessage")]
    found = [re.search(r"Lineage=([^;]*)", str(it.asked["trace"])) for it in sent]
    pairs = [dict(part.rsplit(":", 1) for part in it[1].split(",")) for it in found if it]
    return [{name.partition("lakesweep-")[2]: int(times) for name, times in it.items()} for it in pairs]


ONE_AT_A_TIME = {**PLAIN, "snapshot.expire.limit": "1"}
MANY = 20
"""Commits, whose passes make a chain that is longer than Lambda lets a loop be, and ends by itself."""


@pytest.mark.long
def test_a_long_chain_that_is_no_loop_comes_to_its_end(system: System) -> None:
    """Each pass takes one snapshot and asks for the next. Traces count on, over both functions."""
    since, count = len(system.aws.log), Count(system)
    dropped = len(system.metrics.values("AWS/Lambda", "RecursiveInvocationsDropped"))
    table = written_at_once(system, "chain", ONE_AT_A_TIME, MANY)
    system.settle()
    assert len(snapshots(table)) == KEPT
    passes = MANY - KEPT
    assert passes > HOPS
    assert count.runs == ["done"] * passes
    assert (count.invocations("Expire"), count.invocations("OnSnapshotWritten")) == (passes, passes)
    assert lineages(system, "Expire", since) == [
        {"on-snapshot-written": number, "expire": number} for number in range(1, passes)
    ]
    assert not system.dead_letters()
    assert len(system.metrics.values("AWS/Lambda", "RecursiveInvocationsDropped")) == dropped


@pytest.mark.long
def test_lambda_would_stop_that_chain_if_it_were_not_allowed(system: System) -> None:
    """Why the template says RecursiveLoop: Allow. Else the message is a dead letter, and the next sweep goes on."""
    looping = [system.functions[name] for name in ("OnSnapshotWritten", "Expire")]
    assert not any(function.is_stopped_in_loops for function in looping)
    for function in looping:
        function.is_stopped_in_loops = True
    count = Count(system)
    table = written_at_once(system, "stopped", ONE_AT_A_TIME, MANY)
    system.settle()
    assert (count.invocations("OnSnapshotWritten"), count.invocations("Expire")) == (HOPS, HOPS)
    assert len(snapshots(table)) == MANY - HOPS
    names = {function.name: function.function_name for function in looping}
    dropped = {
        name: system.metrics.total("AWS/Lambda", "RecursiveInvocationsDropped", {"FunctionName": function_name})
        for name, function_name in names.items()
    }
    assert dropped == {"OnSnapshotWritten": 5, "Expire": 0}, "once for each reception of one message"
    assert system.dead_letters() == {"CommitsDeadLetters": 1}
    (letter,) = system.queues["CommitsDeadLetters"].receive()
    system.queues["CommitsDeadLetters"].delete(str(letter.receipt))
    system.tick()
    system.settle()
    assert len(snapshots(table)) == KEPT
    for function in looping:
        function.is_stopped_in_loops = False


@pytest.mark.parametrize("is_allowed", [True, False], ids=["allowed", "stopped by Lambda"])
def test_a_chain_that_would_go_on_for_ever_ends_by_its_own_counter(system: System, is_allowed: bool) -> None:
    """A table whose lease somebody keeps. Ours is no later than Lambda's, so that work is dropped with a word."""
    name = f"held-{is_allowed}"
    table = system.table(f"{name}.db/t", PLAIN, primary_keys=("id",))
    area = ControlArea(system.control(), table.store.location)
    lease = acquire(area, "somebody-else")
    looping = [system.functions[each] for each in ("OnSnapshotWritten", "Expire")]
    for function in looping:
        function.is_stopped_in_loops = not is_allowed
    since, count, before = len(system.aws.log), Count(system), system.metrics.total("Lakesweep", "HopLimitReached")
    for number in range(1, COMMITS + 1):
        commit(table, number)
    for _ in range(60):
        system.pass_time(4 * MINUTE_S, step_s=4 * MINUTE_S)
        list(area.store.list("locks/"))  # a store knows the time from its last listing or write
        lease.check()
    assert (count.invocations("OnSnapshotWritten"), count.invocations("Expire")) == (HOPS, HOPS)
    assert lineages(system, "Expire", since)[-1] == {"on-snapshot-written": HOPS - 1, "expire": HOPS - 1}
    assert system.metrics.total("Lakesweep", "HopLimitReached") - before == 1
    assert not system.backlog()
    for function in looping:
        function.is_stopped_in_loops = False
    lease.release(ended=True)
    system.tick()
    system.settle()
    assert len(snapshots(table)) == KEPT
