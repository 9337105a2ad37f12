"""The system under every kind of trouble: whatever happens on the way, in the end each table is as it should be.

Each test lets one kind of trouble happen, and the seeds at the end let them happen together. What "as it should be"
means is the same everywhere (`Scene.end`): every root reads, exactly that is left which an undisturbed maintainer would
have left, nothing was ever changed but by the holder of the lease, and only what nobody can read is a dead letter.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from werkzeug.wrappers import Response

from lakesweep.aws.fifo import group_of
from lakesweep.aws.messages import Hint, Work, to_body
from lakesweep.control.lease import acquire
from lakesweep.errors import LeaseHeldError, LeaseLostError
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.storage.store import DeleteRequest
from tests.support.system.altered import altered
from tests.support.system.build import Build
from tests.support.system.chaos import VISITS, run_chaos
from tests.support.system.embedded_aws import Request, refusal
from tests.support.system.function import Invocation
from tests.support.system.hand import Hand
from tests.support.system.message import Message
from tests.support.system.scene import DAYS_TO_COME, Scene
from tests.support.system.source_mapping import SourceMapping
from tests.support.system.troubled_requests import EXPIRED_S
from tests.support.system.troubles import KINDS, Trouble, draw
from tests.support.system.visits import Visits, put_policy
from tests.support.system.written_table import WrittenTable

BEFORE, AFTER = "killed before a request", "killed after a request"
PATIENCE_S = 120
"""Real seconds until a test gives up."""


def troubles(where: str, *kinds_at: tuple[str, int]) -> list[Trouble]:
    return [Trouble(kind, where, number, KINDS[kind].amounts[0]) for kind, number in kinds_at]


def three_tables(scene: Scene, commits: int = 6, **words: Any) -> list[WrittenTable]:
    tables = [scene.table(f"sales.db/t{number}", **words) for number in range(3)]
    for table in tables:
        table.commit(commits)
    return tables


def assert_right(scene: Scene, *, poison: int = 0, happened: int | None = None, needs_sweep: bool = False) -> None:
    """Fail unless troubles happened, all of them unless a number is given, and nothing came of it.

    Where nothing was lost, the system comes to its end without a sweep.
    """
    undone = [] if needs_sweep else scene.undone()
    problems = [*(f"without a sweep: {each}" for each in undone), *scene.end()]
    there = scene.waiting.happened
    assert not problems, "\n".join([*problems, *map(str, there)])
    assert len(there) >= (len(scene.waiting.drawn) if happened is None else happened), there
    assert len(scene.messages.poison) == poison
    assert scene.maintainers.changes > 0 and scene.maintainers.most_at_once == 1


def ended_with(scene: Scene, function: str, error: str) -> int:
    return sum(done.function == function and done.error == error for done in scene.system.invocations)


def requests_of(scene: Scene, function: str, operation: str = "") -> list[Request]:
    asked = [request for request in scene.system.aws.log if request.function == function]
    return [request for request in asked if operation in ("", request.operation)]


def said(scene: Scene, text: str) -> int:
    """Return how many lines of the functions' logs hold a text."""
    return sum(text in json.dumps(line) for done in scene.system.invocations for line in done.lines)


# --- killed ---


def test_kill_of_on_snapshot_written(small: Build) -> None:
    """Its messages come again, all of them, and commits that are asked for twice count once."""
    kills = troubles("OnSnapshotWritten", (BEFORE, 1), (AFTER, 3), (BEFORE, 6), (AFTER, 8))
    with Scene(small, kills) as scene:
        tables = three_tables(scene)
        scene.system.settle()
        tables[0].commit(1)  # if all came in one batch: no message is let fail a fourth time
        scene.system.settle()
        assert ended_with(scene, "OnSnapshotWritten", "Crash") == 4
        assert_right(scene)


@pytest.mark.long
@pytest.mark.parametrize("first", [4, 11])
def test_kill_of_expire(first: int, batches: Build) -> None:
    """While it reads, once it has the lease, between two deletions, and when all is done but not said."""
    kills = troubles("Expire", *((AFTER if n % 2 else BEFORE, first + 37 * n) for n in range(4)))
    with Scene(batches, kills) as scene:
        three_tables(scene)
        scene.system.settle()
        assert ended_with(scene, "Expire", "Crash") == 4
        assert_right(scene)


def test_kill_of_execute_batch(small: Build) -> None:
    """Its message comes again after ninety minutes, and who takes it finishes the plan."""
    kills = troubles("ExecuteBatch", (AFTER, 3), (BEFORE, 30), (AFTER, 61), (AFTER, 95))
    with Scene(small, kills) as scene:
        three_tables(scene)
        scene.system.settle()
        assert ended_with(scene, "ExecuteBatch", "Crash") == 4
        assert_right(scene)


@pytest.mark.long
def test_kill_of_the_sweep(small: Build) -> None:
    """Half of the tour is asked for again, and the other half for the first time."""
    with Scene(small, troubles("Sweep", (BEFORE, 2), (AFTER, 9), (AFTER, 14))) as scene:
        scene.system.rules["SnapshotWrittenRule"].on_delivery = lambda _: False
        three_tables(scene)
        scene.system.tick()
        scene.system.settle()
        assert ended_with(scene, "Sweep", "Crash") == 3
        assert_right(scene, needs_sweep=True)


@pytest.mark.long
def test_kill_of_on_demand(small: Build) -> None:
    """It deletes nothing itself. Whoever invoked it sees the error and asks again."""
    demand = {"operation": "maintain", "execute": True}
    with Scene(small, troubles("OnDemand", (BEFORE, 5), (AFTER, 28))) as scene:
        scene.system.rules["SnapshotWrittenRule"].on_delivery = lambda _: False
        (table, *_) = three_tables(scene)
        event = {**demand, "table": table.location}
        answers = [scene.system.invoke("OnDemand", event) for _ in range(4)]
        assert [answer.error for answer in answers].count("Crash") == 2 and not answers[-1].error
        assert not requests_of(scene, "OnDemand", "DeleteObject")
        assert_right(scene, needs_sweep=True)


@pytest.mark.long
def test_kill_at_any_moment(small: Build) -> None:
    """By the clock and not by the request: in the middle of a computation, or while it waits."""
    kills = [Trouble("killed at a moment", "Expire", number, 0.02 * number) for number in range(2, 9, 2)]
    with Scene(small, kills) as scene:
        for table in three_tables(scene):
            scene.system.settle()
            table.commit(3)
        scene.system.settle()
        for table in scene.tables:
            table.commit(2)
            scene.system.settle()
        assert_right(scene)


POLICY = "policies-drops/policy.json"


def visited(scene: Scene, name: str = "visits") -> tuple[Visits, str]:
    """Begin a partitioned table with days that stay and that are over; return it, and a day to drop."""
    put_policy(scene.system, POLICY)
    table = scene.visited(name, **VISITS)
    drops = table.day(-20)
    table.write(table.day(-DAYS_TO_COME), table.day(30), drops)
    return table, drops


@pytest.mark.parametrize(
    "drawn",
    [
        troubles("Committer", ("beside a writer", 10), (BEFORE, 24), ("beside another maintainer", 30), (AFTER, 52)),
        pytest.param(troubles("Committer", (AFTER, 14), (BEFORE, 40), (AFTER, 60)), marks=pytest.mark.long),
        pytest.param(
            troubles("Committer", *(("beside a writer", number) for number in range(8, 120, 7))),
            marks=pytest.mark.long,
        ),
    ],
)
def test_days_are_dropped_whatever_happens(drawn: list[Trouble], small: Build) -> None:
    """A day that is over, and one that somebody drops. Rows of other days stay, also those written meanwhile."""
    with Scene(small, drawn, parameters={"PolicyLocation": f"s3://{POLICY}"}) as scene:
        table, drops = visited(scene)
        scene.system.settle()
        table.drop(drops)
        scene.system.settle()
        table.write(table.day(-DAYS_TO_COME), table.day(31))
        scene.system.settle()
        assert drops not in table.days()
        assert_right(scene, happened=3)


# --- out of time ---


@pytest.mark.long
def test_timeout(small: Build) -> None:
    """S3 does not answer, and Lambda ends the process in the middle of its work."""
    with Scene(small) as scene:
        expire = scene.system.functions["Expire"]
        expire.ends_after_s = 3.0
        hung, ended = threading.Event(), threading.Event()

        def hang(request: Request) -> Response | None:
            if request.function == "Expire" and request.key.endswith("-intent.ndjson.gz") and not hung.is_set():
                hung.set()
                assert ended.wait(PATIENCE_S)
                return refusal(request, 500, "InternalError")
            return None

        def go_on(done: Invocation) -> None:
            if done.error == "Timeout":
                expire.ends_after_s = None
                ended.set()

        scene.system.aws.before.append(hang)
        scene.system.listeners.append(go_on)
        scene.table("sales.db/t0").commit(3)
        scene.system.settle()
        assert ended_with(scene, "Expire", "Timeout") == 1
        assert_right(scene)


@pytest.mark.long
def test_time_that_runs_out(small: Build) -> None:
    """A function that sees the end of its time hands the work over; what is begun is finished by another."""
    short = [
        *(Trouble("short of time", "Expire", number, 10.02 + 0.01 * number) for number in (1, 2, 5)),
        *(Trouble("no time to delete", "Expire", number, 15.0) for number in (3, 4)),
        Trouble("no time to delete", "ExecuteBatch", 1, 15.0),
        Trouble("short of time", "ExecuteBatch", 3, 10.05),
    ]
    with Scene(small, short) as scene:
        three_tables(scene)
        scene.system.settle()
        for table in scene.tables:
            table.commit(2)
        scene.system.settle()
        assert said(scene, "out of time") or said(scene, "another message continues the work")
        assert_right(scene, needs_sweep=True)


# --- on the way ---


@contextmanager
def every_message(scene: Scene, disturb: Any) -> Iterator[None]:
    for mapping in scene.system.mappings.values():
        mapping.disturbance = disturb
    yield
    for mapping in scene.system.mappings.values():
        mapping.disturbance = lambda _, messages: [messages]


@pytest.mark.long
def test_every_message_doubled(small: Build) -> None:
    """Events, too. Both copies are at work at the same time, on the same table."""
    with Scene(small) as scene:
        rule, queue = scene.system.rules["SnapshotWrittenRule"], scene.system.queues["CommitsQueue"]
        rule.on_delivery = lambda event: bool(queue.send(json.dumps(event)))
        with every_message(scene, lambda _, messages: [messages, messages]):
            three_tables(scene)
            scene.system.settle()
            scene.system.tick()
            scene.system.settle()
        assert scene.system.mappings["Expire"].most_at_once >= 2
        assert_right(scene)


@pytest.mark.long
def test_every_message_delayed(small: Build) -> None:
    """By a quarter of an hour, when it is received for the first time."""
    with Scene(small) as scene:

        def late(mapping: SourceMapping, messages: Sequence[Message]) -> Sequence[Sequence[Message]]:
            for message in messages:
                if message.receive_count == 1:
                    mapping.queue.change_visibility(str(message.receipt), 900)
            return [[message for message in messages if message.receive_count > 1]]

        with every_message(scene, late):
            began_s = scene.system.clock.now()
            three_tables(scene)
            scene.system.settle()
            assert scene.system.clock.now() - began_s > 2 * 900
            scene.tables[0].commit(2)
        assert_right(scene)


@pytest.mark.long
def test_messages_reordered(small: Build) -> None:
    """The newest commit is told of first, and then older ones, one by one."""
    with Scene(small) as scene:
        with every_message(scene, lambda _, messages: [[message] for message in reversed(messages)]):
            scene.system.mappings["OnSnapshotWritten"].pause()
            three_tables(scene)
            scene.system.mappings["OnSnapshotWritten"].pause(False)
            scene.system.settle()
        assert len([done for done in scene.system.invocations if done.function == "OnSnapshotWritten"]) >= 18
        assert_right(scene)


@pytest.mark.long
@pytest.mark.parametrize("queue", ["events", "CommitsQueue", "ExpireQueue", "ExecuteQueue"])
def test_messages_lost_and_healed_by_the_sweep(queue: str, small: Build) -> None:
    """All that go one way are lost. Nothing is deleted then, and a sweep finds every table."""
    with Scene(small) as scene:
        lose_events = queue == "events"
        scene.system.rules["SnapshotWrittenRule"].on_delivery = lambda _: not lose_events

        def lose(mapping: SourceMapping, messages: Sequence[Message]) -> Sequence[Sequence[Message]]:
            if mapping.queue is not scene.system.queues.get(queue):
                return [messages]
            for message in messages:
                mapping.queue.delete(str(message.receipt))
            return []

        with every_message(scene, lose):
            tables = three_tables(scene)
            scene.system.settle()
        assert scene.maintainers.changes == 0
        assert all("snapshot/snapshot-1" in table.left() for table in tables)
        assert_right(scene, needs_sweep=True)


@pytest.mark.long
def test_a_sweep_that_is_lost(small: Build) -> None:
    with Scene(small, [Trouble("lost", "SweepQueue", 1)]) as scene:
        scene.system.rules["SnapshotWrittenRule"].on_delivery = lambda _: False
        three_tables(scene)
        scene.system.tick()
        scene.system.settle()
        assert not requests_of(scene, "Sweep")
        assert_right(scene, needs_sweep=True)


# --- others ---


def test_two_workers_on_one_table(small: Build) -> None:
    """Somebody maintains the tables by hand, again and again, while the functions do."""
    with Scene(small, speed=80) as scene:  # no time is skipped while somebody is at work
        tables = [scene.table(f"sales.db/t{number}") for number in range(2)]
        stop, ran, errors = threading.Event(), [0], []

        def maintain(number: int) -> None:
            hand = Hand(scene.system, number)
            while not stop.wait(0.02):
                try:
                    hand.run(tables[number % 2].location)
                    ran[0] += 1
                except (LeaseHeldError, LeaseLostError):
                    ran[0] += 1
                except Exception as error:
                    errors.append(error)

        for table in tables:
            table.commit(2)
        hands = [threading.Thread(target=maintain, args=(number,)) for number in range(2)]
        for hand in hands:
            hand.start()
        for _ in range(2):
            for table in tables:
                table.commit(3)
            scene.system.settle(skip=False)
        stop.set()
        for hand in hands:
            hand.join()
        assert not errors and ran[0] > 4
        assert_right(scene)


@pytest.mark.long
def test_another_maintainer_between_two_requests(small: Build) -> None:
    """A worker waits for an answer, and meanwhile another one makes a whole pass or is told that it may not."""
    beside = [Trouble("beside another maintainer", "Expire", number) for number in range(2, 140, 9)]
    beside += [Trouble("beside another maintainer", "ExecuteBatch", number) for number in range(2, 60, 9)]
    with Scene(small, beside) as scene:
        tables = three_tables(scene)
        for _ in range(3):
            scene.system.settle()
            for table in tables:
                table.commit(3)
        scene.system.settle()
        assert_right(scene, happened=12)


def test_a_tag_in_the_middle_of_a_pass(batches: Build) -> None:
    """A writer tags a snapshot that is about to go, after the plan and before the first deletion. Its files stay."""
    with Scene(batches) as scene:
        table = scene.table("sales.db/t0")
        tagged = threading.Event()

        def tag(request: Request) -> None:
            is_lease = request.function == "Expire" and request.key.endswith("/lease.json")
            if is_lease and request.operation == "PutObject" and not tagged.is_set():
                tagged.set()
                table.tag("meanwhile", 2)

        scene.system.aws.before.append(tag)
        table.commit(8)
        scene.system.settle()
        assert tagged.is_set()
        assert_right(scene)


@pytest.mark.long
def test_a_lease_that_somebody_holds(small: Build) -> None:
    """And never gives back. The functions ask again until it is over, with the margin after it; nothing goes before."""
    with Scene(small) as scene:
        table = scene.table("sales.db/t0")
        area = Hand(scene.system).table(table.location).area
        assert area is not None
        began_s = scene.system.clock.now()
        acquire(area, "somebody")
        table.commit(6)
        scene.system.pass_time(EXPIRED_S)  # it is over, but what somebody began to delete may still be under way
        with pytest.raises(LeaseHeldError):
            Hand(scene.system, 2).run(table.location)
        scene.system.settle()
        changes = [it for name in ("Expire", "ExecuteBatch") for it in requests_of(scene, name, "DeleteObject")]
        assert changes and min(it.at_s for it in changes) - began_s >= (LEASE_MS + DELETE_MARGIN_MS) / 1000 - 1
        assert_right(scene)


@pytest.mark.long
def test_a_lease_that_is_held_twice_in_five_minutes(batches: Build) -> None:
    """What is asked for again is asked for again each time, and no FIFO queue takes one for the other."""
    with Scene(batches, parameters={"MinInterval": "0 ms"}) as scene:
        table = scene.table("sales.db/t0")
        area = Hand(scene.system).table(table.location).area
        assert area is not None
        for number in (1, 2):
            lease = acquire(area, f"somebody-{number}")
            table.commit(4)
            scene.system.pass_time(60)
            assert said(scene, f"somebody-{number} holds the lease")
            lease.release(ended=True)
            scene.system.pass_time(60)
        assert_right(scene)


@pytest.mark.long
def test_an_expired_lease(small: Build) -> None:
    """A worker that was suspended until its lease was over renews its lease before it deletes anything more."""
    expired = [Trouble("lease expired", "deletions", number) for number in (1, 3)]
    with Scene(small, expired) as scene:
        scene.table("sales.db/t0").commit(6)
        scene.system.settle()
        scene.tables[0].commit(3)
        assert_right(scene)


def test_a_stolen_lease(small: Build) -> None:
    """A worker that was suspended for longer finds that another one finished its work, and stops."""
    stolen = [Trouble("lease stolen", "deletions", number) for number in (1, 3, 5)]
    with Scene(small, stolen) as scene:
        table = scene.table("sales.db/t0")
        for _ in range(3):
            table.commit(6)
            scene.system.settle()
        assert said(scene, "found that another run took it") == 3
        assert_right(scene)


# --- what AWS refuses ---


@pytest.mark.long
def test_throttling(small: Build) -> None:
    """S3 asks to slow down, for one request or for two in a row, or fails inside, in each function."""
    at = {"OnSnapshotWritten": (2,), "Expire": (2, 40), "ExecuteBatch": (2, 40)}
    slow = [Trouble("throttled", name, number, 1.0) for name, numbers in at.items() for number in numbers]
    slow += [Trouble("internal error", "Expire", 30, 2.0)]
    with Scene(small, slow) as scene:
        three_tables(scene)
        scene.system.settle()
        assert not said(scene, "SlowDown"), "nothing failed"
        assert_right(scene)


@pytest.mark.long
def test_throttling_beyond_all_patience(small: Build) -> None:
    """Five attempts of one request fail, so the function does. The message comes again."""
    with Scene(small) as scene:
        left = [5]

        def slow_down(request: Request) -> Response | None:
            if request.function == "Expire" and request.operation == "DeleteObjects" and left[0]:
                left[0] -= 1
                return refusal(request, 503, "SlowDown")
            return None

        scene.system.aws.before.append(slow_down)
        scene.table("sales.db/t0").commit(3)
        scene.system.settle()
        assert left == [0] and said(scene, "SlowDown")
        assert_right(scene)


@pytest.mark.long
def test_messages_that_may_not_be_sent(small: Build) -> None:
    """SQS refuses: the messages that led to them come again, although the pass that was to be told of is done."""
    denied = [Trouble("denied to send", name, n) for name in ("OnSnapshotWritten", "Expire") for n in (1, 2, 3)]
    with Scene(small, denied) as scene:
        three_tables(scene)
        scene.system.settle()
        assert_right(scene)


@pytest.mark.long
def test_a_sweep_that_may_not_send(small: Build) -> None:
    with Scene(small, [Trouble("denied to send", "Sweep", n) for n in (1, 2)]) as scene:
        scene.system.rules["SnapshotWrittenRule"].on_delivery = lambda _: False
        three_tables(scene)
        scene.system.tick()
        scene.system.settle()
        assert_right(scene, needs_sweep=True)


# --- what nobody can read ---


@pytest.mark.long
def test_poison_reaches_its_dead_letters_while_the_others_pass(small: Build) -> None:
    """In each queue, after five receptions, and no message of another table waits for it."""
    poisoned = [Trouble("poisoned", name, 1) for name in ("CommitsQueue", "ExpireQueue", "ExecuteQueue", "SweepQueue")]
    with Scene(small, poisoned) as scene:
        three_tables(scene)
        scene.system.tick()
        scene.system.settle()
        dead = {name: scene.system.queues[name].messages() for name in scene.system.dead_letters()}
        assert sorted(dead) == ["CommitsDeadLetters", "ExecuteDeadLetters", "ExpireDeadLetters", "SweepDeadLetters"]
        assert [message.receive_count for messages in dead.values() for message in messages] == [5] * 4
        first_s = min(done.at_s for done in scene.system.invocations)
        last_s = max(it.at_s for name in ("Expire", "ExecuteBatch") for it in requests_of(scene, name, "DeleteObjects"))
        assert last_s - first_s < 600, "nobody waited for the poison"
        assert_right(scene, poison=4)


def test_a_newer_message_beside_an_older_worker(small: Build, tmp_path: Path) -> None:
    """It stays in its queue, then in the dead letters; a newer worker takes it from there."""
    version = {"aws/messages.py": ("MESSAGE_VERSION = 1", "MESSAGE_VERSION = 2")}
    newer = altered(small, tmp_path / "newer", version)
    with Scene(small) as scene:
        system = scene.system
        system.rules["SnapshotWrittenRule"].on_delivery = lambda _: False
        first, second, third = three_tables(scene)
        work = json.loads(to_body(Work(third.location)))
        hint = json.loads(to_body(Hint(first.location)))
        body = json.dumps({**hint, "format_version": 2})
        system.queues["ExpireQueue"].send(body, group=group_of(first.location), dedup_id="newer")
        system.queues["ExpireQueue"].send(to_body(Hint(second.location)), group=group_of(second.location), dedup_id="2")
        system.queues["ExecuteQueue"].send(json.dumps({**work, "format_version": 2}))
        system.settle()
        dead = {name: [it.body for it in system.queues[name].messages()] for name in system.dead_letters()}
        assert dead == {"ExpireDeadLetters": [body], "ExecuteDeadLetters": [json.dumps({**work, "format_version": 2})]}
        assert not second.differences()
        assert "snapshot/snapshot-1" in first.left() and "snapshot/snapshot-1" in third.left()
        for name in ("Expire", "ExecuteBatch"):
            system.functions[name].deploy(newer)
        assert system.queues["ExpireDeadLetters"].move_to(system.queues["ExpireQueue"]) == 1
        assert system.queues["ExecuteDeadLetters"].move_to(system.queues["ExecuteQueue"]) == 1
        system.settle()
        assert not first.differences() and not third.differences() and not system.backlog()
        assert_right(scene)


@pytest.mark.long
def test_a_newer_sender_beside_an_older_worker(small: Build, tmp_path: Path) -> None:
    """A deployment replaces one function after the other. What the newer one sends waits for the other."""
    newer = altered(small, tmp_path / "newer", {"aws/messages.py": ("MESSAGE_VERSION = 1", "MESSAGE_VERSION = 2")})
    with Scene(small) as scene:
        scene.system.functions["OnSnapshotWritten"].deploy(newer)
        three_tables(scene)
        scene.system.pass_time(1500)
        assert scene.maintainers.changes == 0 and scene.system.backlog() == {"ExpireQueue": 3}
        for name in ("Expire", "ExecuteBatch", "Sweep"):
            scene.system.functions[name].deploy(newer)
        scene.system.settle()
        assert not any(table.differences() for table in scene.tables)
        assert_right(scene)


# --- what is not to be deleted from ---


@pytest.mark.long
def test_a_paused_table(small: Build) -> None:
    """Nothing of it goes, whatever is asked for; the others pass. When the pause is over, the sweep finds it."""
    place = "policies/policy.json"
    with Scene(
        small,
        parameters={"PolicyLocation": "s3://control-paused/policies/policy.json", "ControlBucket": "control-paused"},
    ) as scene:
        system = scene.system

        def say(**rule: object) -> None:
            rules = [{"tables": f"s3://{system.bucket}/", "mode": "delete"}]
            rules += [{"tables": system.location("sales.db/t1"), "mode": "delete", **rule}]
            system.s3.put_object(
                Bucket=system.control_bucket, Key=place, Body=json.dumps({"version": 1, "rules": rules}).encode()
            )

        say(pause=True)
        _, paused, _ = three_tables(scene)
        before = paused.left()
        system.settle()
        system.tick()
        system.settle()
        system.queues["ExecuteQueue"].send(to_body(Work(paused.location)))
        system.invoke("OnDemand", {"operation": "maintain", "table": paused.location, "execute": True})
        system.settle()
        assert paused.left() == before
        assert scene.maintainers.changes > 0
        say()
        assert_right(scene, needs_sweep=True)


def test_observe_mode_deletes_nothing_at_all(small: Build) -> None:
    """With every kind of trouble on top, and whatever somebody asks for. Only a maintainer beside it may delete."""
    drawn = [trouble for trouble in draw(7, 20) if trouble.kind != "beside another maintainer"]
    with Scene(small, drawn, mode="observe") as scene:
        tables = three_tables(scene)
        before = [table.left() for table in tables]
        scene.system.settle()
        scene.waiting.is_over = True
        demand = {"operation": "expire-snapshots", "arguments": {"retain_max": 1, "retain_min": 1}, "execute": True}
        for table in tables:
            scene.system.invoke("OnDemand", {**demand, "table": table.location})
            scene.system.queues["ExecuteQueue"].send(to_body(Work(table.location)))
        scene.system.tick()
        scene.system.settle()
        functions = [request for request in scene.system.aws.log if request.function in scene.system.functions]
        changed = [
            request
            for request in functions
            if "Delete" in request.operation
            or (request.operation == "PutObject" and request.bucket == scene.system.bucket)
        ]
        assert changed == [] and len(functions) > 100
        assert not any("lease.json" in request.key for request in functions if request.operation == "PutObject")
        assert [table.left() for table in tables] == before


# --- all of it ---


@pytest.mark.parametrize("seed", [1, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.long
def test_everything_at_once(seed: int, small: Build) -> None:
    run = run_chaos(small, seed)
    assert not run.problems, str(run)
    assert len(run.happened) > len(run.drawn) / 2


def test_a_seed_gives_its_troubles() -> None:
    """And with many seeds every kind of trouble comes."""
    assert draw(42, 30) == draw(42, 30)
    assert draw(42, 30) != draw(43, 30)
    assert draw(42, 30)[:20] == draw(42, 20)
    assert {trouble.kind for seed in range(30) for trouble in draw(seed, 22)} == set(KINDS)


@pytest.mark.parametrize("damage", ["gone", "left", "changed"])
def test_what_is_wrong_in_the_end_is_noticed(damage: str, small: Build) -> None:
    """The judgement itself: a file too few, a file too many, a document with other words."""
    with Scene(small) as scene:
        table = scene.table("sales.db/t0")
        table.commit(4)
        scene.system.settle()
        if damage == "gone":
            outside = scene.system.store("sales.db/t0")
            name = next(each.key for each in outside.list("bucket-0/"))
            assert outside.delete([DeleteRequest(name)])[0].ok
        else:
            key = "bucket-0/data-more.parquet" if damage == "left" else "snapshot/EARLIEST"
            scene.system.store("sales.db/t0").put(key, b"1")
        assert scene.end()


def test_what_is_wrong_with_partitions_is_noticed(small: Build) -> None:
    """A file too few, a file too many, a day that is back, and rows of a day that stays that are not there any more."""
    with Scene(small, takes_messages=False, parameters={"PolicyLocation": f"s3://{POLICY}"}) as scene:
        table, drops = visited(scene)
        over, stays = table.day(30), table.day(-DAYS_TO_COME)
        assert [each for each in table.differences() if over not in each] == []
        assert len(table.differences()) == 1
        hand = Hand(scene.system, function="Committer")
        hand.run(table.location, "drop-partition", partition=f"dt={over}", catalog_type="filesystem")
        assert table.differences() == []
        more = f"dt={drops}/bucket-0/data-more.parquet"
        table.store.put(more, b"1")
        assert table.differences() == [f"{table.name}: {more} is still there, and no root needs it"]
        table.store.delete([DeleteRequest(more)])
        hand.run(table.location, "drop-partition", partition=f"dt={drops}", catalog_type="filesystem")
        assert [each for each in table.differences() if f"day {drops} has []" in each]
        table.dropped.add(drops)
        assert table.differences() == []
        (path,) = table.files(stays)
        table.store.delete([DeleteRequest(path)])
        assert table.differences()
