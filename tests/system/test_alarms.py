"""Every alarm of the template goes off on the running system, when that happens which it is for.

Nothing here writes a metric. Something goes wrong, time passes, and metrics are what functions and queues leave. Each
scenario names all the alarms that go with it: no other one goes off, and all are quiet again when the cause is gone.
Hours are skipped, so the file takes a minute.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

import pytest
from werkzeug.wrappers import Response

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import acquire
from lakesweep.storage.store import DeleteRequest
from tests.support.reader import read_root
from tests.support.system.alarms import evaluate
from tests.support.system.build import build_here
from tests.support.system.deployed import System
from tests.support.system.embedded_aws import Request, refusal
from tests.support.system.scans import ask_for_scan
from tests.support.table_builder import TableBuilder

MINUTE_S, HOUR_S = 60.0, 3600.0
STEP_S = 4 * MINUTE_S
"""Shorter than any alarm's period, so that none is missed between two looks."""
KEPT = 2
OPTIONS = {"snapshot.num-retained.min": str(KEPT), "snapshot.num-retained.max": str(KEPT)}
"""By number alone: nothing becomes due by time."""
COMMITS = 4
SWEEP, TAGS = "SweepTrigger", "TagTrigger"
"""Schedules."""


@dataclass
class Trouble:
    """A system in which something is about to go wrong, and what its alarms showed meanwhile."""

    system: System
    name: str
    first_seen_s: dict[str, float] = field(default_factory=dict)
    """Alarm -> when it was first on, in seconds from the beginning."""

    def __post_init__(self) -> None:
        self.began_s = self.system.clock.now()
        self.tables: list[TableBuilder] = []

    def on(self) -> set[str]:
        """Return the alarms that are on now."""
        return alarms_on(self.system)

    def pass_time(self, seconds: float, step_s: float = STEP_S, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Let time pass, with a look at the alarms at every step."""
        end_s = self.system.clock.now() + seconds
        while (left_s := end_s - self.system.clock.now()) > 0:
            self.system.pass_time(min(step_s, left_s), step_s)
            meanwhile()
            for alarm in self.on():
                self.first_seen_s.setdefault(alarm, self.system.clock.now() - self.began_s)

    def sweep(self) -> None:
        """Let the schedule come, and all that follows from it."""
        self.system.tick()
        self.pass_time(MINUTE_S)

    def table(self, number: int = 1) -> TableBuilder:
        """Begin a table of this scenario."""
        self.tables.append(self.system.table(f"{self.name}.db/t{number}", OPTIONS))
        return self.tables[-1]

    def written(self, number: int = 1, commits: int = COMMITS) -> TableBuilder:
        """Write a table with more snapshots than it keeps."""
        table = self.table(number)
        for _ in range(commits):
            commit(table)
        return table

    def maintained(self, number: int = 1) -> TableBuilder:
        """Write a table, and have it maintained."""
        table = self.written(number)
        self.pass_time(MINUTE_S)
        assert is_maintained(table)
        return table

    def purge(self, queue: str) -> list[str]:
        """Throw dead letters away, and return what they said."""
        letters = self.system.queues[queue].receive()
        for letter in letters:
            self.system.queues[queue].delete(str(letter.receipt))
        return [letter.body for letter in letters]

    def redrive(self, dead: str, queue: str) -> None:
        """Send dead letters back, and let be done what they ask for."""
        assert self.system.queues[dead].move_to(self.system.queues[queue])
        self.pass_time(2 * MINUTE_S)
        for _ in range(12):
            if not self.system.queues[queue].messages():
                break
            self.pass_time(MINUTE_S / 6)  # where others have the machine, it takes a while until somebody looks

    @contextmanager
    def answering(self, answer: Callable[[Request], Response | None]) -> Iterator[None]:
        """Answer requests in place of S3, where `answer` does."""
        self.system.aws.before.append(answer)
        try:
            yield
        finally:
            self.system.aws.before.remove(answer)

    def denied(self, function: str, operation: str, part: str = "") -> AbstractContextManager[None]:
        """Take a permission away from a function, for keys that have `part` in them."""

        def answer(request: Request) -> Response | None:
            if (request.function, request.operation) != (function, operation) or part not in request.key:
                return None
            return refusal(request, 403, "AccessDenied")

        return self.answering(answer)


@dataclass(frozen=True)
class Scenario:
    """Something that goes wrong, and comes right."""

    alarms: frozenset[str]
    """All that go off."""
    act: Callable[[Trouble], None]


SCENARIOS: list[Scenario] = []


def sets_off(*alarms: str) -> Callable[[Callable[[Trouble], None]], Callable[[Trouble], None]]:
    """Declare a scenario."""

    def add(act: Callable[[Trouble], None]) -> Callable[[Trouble], None]:
        SCENARIOS.append(Scenario(frozenset(f"{alarm}Alarm" for alarm in alarms), act))
        return act

    return add


def alarms_on(system: System) -> set[str]:
    states = evaluate(system.stack, system.metrics, system.clock.now())
    return {alarm for alarm, state in states.items() if state == "ALARM"}


def commit(table: TableBuilder) -> int:
    """Commit as engines do: the snapshot, and then the hint."""
    number = newest(table) + 1
    snapshot_id = table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))
    table.hint("LATEST", snapshot_id)
    return snapshot_id


def snapshots(table: TableBuilder) -> list[int]:
    names = (entry.key.rpartition("/")[2] for entry in table.store.list("snapshot/"))
    return sorted(int(name.removeprefix("snapshot-")) for name in names if name.startswith("snapshot-"))


def newest(table: TableBuilder) -> int:
    return max(snapshots(table), default=0)


def is_maintained(table: TableBuilder) -> bool:
    return len(snapshots(table)) == KEPT


# --- messages that fail again and again ---


@sets_off("CommitsDeadLetters")
def an_event_that_nobody_can_read(trouble: Trouble) -> None:
    """Five receptions, 370 seconds apart. Commits beside it are handled all the same."""
    trouble.system.queues["CommitsQueue"].send('{"Records": [{"eventSource": "aws:s3"')
    table = trouble.written()
    trouble.pass_time(MINUTE_S)
    assert is_maintained(table)
    trouble.pass_time(HOUR_S)
    assert 5 * 370 <= trouble.first_seen_s["CommitsDeadLettersAlarm"] <= 5 * 370 + 600
    assert trouble.on() == {"CommitsDeadLettersAlarm"}
    assert len(trouble.purge("CommitsDeadLetters")) == 1


@sets_off("CommitsDeadLetters")
def a_table_that_cannot_be_asked_for_its_state(trouble: Trouble) -> None:
    with trouble.denied("OnSnapshotWritten", "GetObject", "state.json"):
        table = trouble.written()
        trouble.pass_time(HOUR_S)
    assert not is_maintained(table)
    trouble.redrive("CommitsDeadLetters", "CommitsQueue")
    assert is_maintained(table)


@sets_off("RunsFailed", "ExpireDeadLetters")
def a_table_whose_pass_fails_each_time(trouble: Trouble) -> None:
    """One failed run is told within minutes. Its message alone is gone before it is too old."""
    with trouble.denied("Expire", "PutObject", "lease.json"):
        table = trouble.written()
        trouble.pass_time(1.5 * HOUR_S)
    assert trouble.first_seen_s["RunsFailedAlarm"] <= 5 * MINUTE_S
    assert HOUR_S <= trouble.first_seen_s["ExpireDeadLettersAlarm"] <= HOUR_S + 10 * MINUTE_S
    trouble.redrive("ExpireDeadLetters", "ExpireQueue")
    assert is_maintained(table)


@sets_off("RunsFailed", "ExpireDeadLetters", "ExpireAge")
def a_table_whose_pass_fails_while_commits_go_on(trouble: Trouble) -> None:
    """They wait behind the one that fails, as messages of a FIFO queue do, and become old."""
    with trouble.denied("Expire", "PutObject", "lease.json"):
        table = trouble.written()
        trouble.pass_time(5 * MINUTE_S)
        commit(table)
        trouble.pass_time(1.3 * HOUR_S)
    trouble.redrive("ExpireDeadLetters", "ExpireQueue")
    trouble.pass_time(0.3 * HOUR_S)
    assert is_maintained(table)


@sets_off("RunsFailed", "ExecuteDeadLetters")
def a_plan_that_fails_each_time(trouble: Trouble) -> None:
    """Receptions are an hour and a half apart; from the third on SQS does not count the message's age."""
    table = without_events(trouble)
    with trouble.denied("ExecuteBatch", "PutObject", "lease.json"):
        trouble.system.invoke("OnDemand", asked(table, "expire-snapshots"))
        trouble.pass_time(8 * HOUR_S)
    assert trouble.first_seen_s["RunsFailedAlarm"] <= 5 * MINUTE_S
    assert 7.5 * HOUR_S <= trouble.first_seen_s["ExecuteDeadLettersAlarm"] <= 7.5 * HOUR_S + 10 * MINUTE_S
    trouble.redrive("ExecuteDeadLetters", "ExecuteQueue")
    assert is_maintained(table)


@sets_off("RunsFailed", "SweepDeadLetters")
def a_folder_that_no_sweep_can_list(trouble: Trouble) -> None:
    """Sweeps that start meanwhile fail the same way, and go the same way."""
    with trouble.denied("Sweep", "ListObjectsV2"):
        for _ in range(4):
            trouble.system.tick()
            trouble.pass_time(HOUR_S)
    assert trouble.first_seen_s["RunsFailedAlarm"] <= 5 * MINUTE_S
    assert 2.5 * HOUR_S <= trouble.first_seen_s["SweepDeadLettersAlarm"] <= 2.5 * HOUR_S + 10 * MINUTE_S
    trouble.pass_time(2 * HOUR_S)
    assert len(trouble.purge("SweepDeadLetters")) >= 2


@sets_off("RunsFailed", "TagDeadLetters")
def a_folder_that_no_sweep_for_tags_can_list(trouble: Trouble) -> None:
    """As for sweeps."""
    with trouble.denied("TagSchedule", "ListObjectsV2"):
        for _ in range(4):
            trouble.system.tick(TAGS)
            trouble.pass_time(HOUR_S)
    assert trouble.first_seen_s["RunsFailedAlarm"] <= 5 * MINUTE_S
    assert 2.5 * HOUR_S <= trouble.first_seen_s["TagDeadLettersAlarm"] <= 2.5 * HOUR_S + 10 * MINUTE_S
    trouble.pass_time(2 * HOUR_S)
    assert len(trouble.purge("TagDeadLetters")) >= 2


@sets_off("EventsDeadLetters")
def a_queue_that_eventbridge_does_not_reach(trouble: Trouble) -> None:
    """The events are thrown away afterwards: the sweep finds their table."""
    queues = trouble.system.queues_by_arn
    gone = trouble.system.queues["CommitsQueue"]
    del queues[gone.arn]
    table = trouble.written()
    trouble.pass_time(HOUR_S)
    queues[gone.arn] = gone
    assert not is_maintained(table)
    assert len(trouble.purge("EventsDeadLetters")) == COMMITS
    trouble.sweep()
    assert is_maintained(table)


@sets_off("EventsDeadLetters")
def a_queue_that_the_schedule_does_not_reach(trouble: Trouble) -> None:
    queues = trouble.system.queues_by_arn
    gone = trouble.system.queues["SweepQueue"]
    del queues[gone.arn]
    trouble.sweep()
    queues[gone.arn] = gone
    trouble.pass_time(10 * MINUTE_S)
    assert len(trouble.purge("EventsDeadLetters")) == 1


@sets_off("ScanDeadLetters", "OrphanDeadLetters")
def messages_of_scans_that_nobody_can_read(trouble: Trouble) -> None:
    for queue in ("ScanQueue", "OrphanQueue"):
        trouble.system.queues[queue].send('{"format_version": 1, "kind": "orphan')
    trouble.pass_time(8 * HOUR_S)
    assert HOUR_S <= trouble.first_seen_s["OrphanDeadLettersAlarm"] <= HOUR_S + 10 * MINUTE_S
    assert 7.5 * HOUR_S <= trouble.first_seen_s["ScanDeadLettersAlarm"] <= 7.5 * HOUR_S + 10 * MINUTE_S
    assert len(trouble.purge("ScanDeadLetters")) == len(trouble.purge("OrphanDeadLetters")) == 1


@sets_off("OrphanDeadLetters", "OrphanScansFailed", "HopLimitReached")
def a_scan_whose_tasks_fail_each_time(trouble: Trouble) -> None:
    """They are sent again, and fail again. The scan is given up, and the next one is told nothing of it."""
    table = trouble.maintained()
    with trouble.denied("OrphanWorker", "GetObject", "scan.json"):
        scan = ask_for_scan(trouble.system, table.store.location)
        trouble.pass_time(3 * HOUR_S)
    result = scan.result()
    assert result is not None and result["status"] == "failed", result
    while trouble.purge("OrphanDeadLetters"):
        pass
    scan = ask_for_scan(trouble.system, table.store.location)
    trouble.pass_time(10 * MINUTE_S)
    result = scan.result()
    assert result is not None and result["status"] == "nothing_to_do", result


# --- messages that nobody takes ---


@sets_off("CommitsAge", "ExpireAge", "ExecuteAge", "SweepAge", "TagAge")
def mappings_that_are_off(trouble: Trouble) -> None:
    """Each queue has its own patience. When they are on again, everything is done that waited."""
    mappings = trouble.system.mappings
    manual = without_events(trouble)
    mappings["ExecuteBatch"].pause()
    trouble.system.invoke("OnDemand", asked(manual, "expire-snapshots"))
    mappings["Expire"].pause()
    waiting = trouble.written(2)
    trouble.pass_time(MINUTE_S)
    for name in ("OnSnapshotWritten", "Sweep", "TagSchedule"):
        mappings[name].pause()
    coming = trouble.written(3)
    for schedule in (SWEEP, TAGS):
        trouble.system.tick(schedule)
    trouble.pass_time(4.5 * HOUR_S)
    seen = {alarm.removesuffix("AgeAlarm"): round(at_s / HOUR_S) for alarm, at_s in trouble.first_seen_s.items()}
    assert seen == {"Commits": 1, "Expire": 1, "Sweep": 2, "Tag": 2, "Execute": 4}
    for mapping in mappings.values():
        mapping.pause(False)
    trouble.pass_time(10 * MINUTE_S)
    assert all(is_maintained(table) for table in (manual, waiting, coming))


@sets_off("ScanAge", "OrphanAge")
def mappings_of_scans_that_are_off(trouble: Trouble) -> None:
    """Its tasks wait, and so does its next turn. When somebody takes them again, the scan goes on where it was."""
    table = trouble.maintained()
    mappings = trouble.system.mappings
    mappings["OrphanWorker"].pause()
    scan = ask_for_scan(trouble.system, table.store.location)
    trouble.pass_time(5.0)
    mappings["OrphanScan"].pause()
    trouble.pass_time(4.5 * HOUR_S)
    seen = {alarm.removesuffix("AgeAlarm"): round(at_s / HOUR_S) for alarm, at_s in trouble.first_seen_s.items()}
    assert seen == {"Orphan": 1, "Scan": 4}
    for name in ("OrphanWorker", "OrphanScan"):
        mappings[name].pause(False)
    trouble.pass_time(10 * MINUTE_S)
    result = scan.result()
    assert result is not None and result["status"] == "nothing_to_do", result


# --- commits of ours ---


def visited(trouble: Trouble, **options: str) -> TableBuilder:
    """Write a table with two partitions."""
    table = trouble.system.table(f"{trouble.name}.db/visits", {**OPTIONS, **options}, partition_keys=["dt"])
    for day in ("mon", "tue"):
        table.hint("LATEST", table.commit(f"+{day}", partition=(day,)))
    trouble.pass_time(MINUTE_S)
    return table


def drop(trouble: Trouble, table: TableBuilder, day: str = "mon") -> None:
    """Ask for a commit; nobody else can replace a snapshot, so it does not wait to look again."""
    arguments = {"partition": f"dt={day}", "catalog_type": "filesystem", "catalog_lock": True}
    event = {**asked(table, "drop-partition"), "arguments": arguments}
    assert trouble.system.invoke("OnDemand", event).value["queued"] is True


def live(table: TableBuilder) -> set[str]:
    """Return the partitions of the newest snapshot."""
    return {path.split("/")[0] for path in read_root(table.store, f"snapshot/snapshot-{newest(table)}").live}


@contextmanager
def on_each_publication(trouble: Trouble, act: Callable[[], object], *, after: bool) -> Iterator[None]:
    """Do something right before, or right after, a snapshot of ours is put."""
    hooks: list[Any] = trouble.system.aws.after if after else trouble.system.aws.before

    def hook(request: Request) -> None:
        if (request.function, request.operation) == ("Committer", "PutObject") and "/snapshot-" in request.key:
            act()

    hooks.append(hook)
    try:
        yield
    finally:
        hooks.remove(hook)


@sets_off("CommitterDeadLetters")
def a_request_for_a_commit_that_nobody_can_read(trouble: Trouble) -> None:
    body = '{"format_version": 1, "kind": "commit", "operation": "truncate"'
    trouble.system.queues["CommitterQueue"].send(body, group="somebody", dedup_id="1")
    trouble.pass_time(8 * HOUR_S)
    assert 7.5 * HOUR_S <= trouble.first_seen_s["CommitterDeadLettersAlarm"] <= 7.5 * HOUR_S + 10 * MINUTE_S
    assert len(trouble.purge("CommitterDeadLetters")) == 1


@sets_off("CommitterAge")
def a_mapping_of_commits_that_is_off(trouble: Trouble) -> None:
    mapping = trouble.system.mappings["Committer"]
    table = visited(trouble)
    mapping.pause()
    drop(trouble, table)
    trouble.pass_time(8 * HOUR_S)
    assert live(table) == {"dt=mon", "dt=tue"}
    mapping.pause(False)
    trouble.pass_time(10 * MINUTE_S)
    assert live(table) == {"dt=tue"}


@sets_off("CommitsReplaced")
def a_writer_that_replaces_a_snapshot_of_ours(trouble: Trouble) -> None:
    """It looked before we wrote, and writes after. Its rows stay, and the partition goes all the same."""
    table = visited(trouble)
    left = ["wed"]

    def replace() -> None:
        if left:
            table.commit("+late", partition=(left.pop(),))

    with on_each_publication(trouble, replace, after=True):
        drop(trouble, table)
        trouble.pass_time(10 * MINUTE_S)
    assert not left
    assert live(table) == {"dt=tue", "dt=wed"}


@sets_off("CommitsLost")
def a_writer_that_replaces_a_snapshot_of_another(trouble: Trouble) -> None:
    """Both looked before either wrote. Nothing else is wrong: the table is maintained as before."""
    table = trouble.maintained()
    path = table.root(commit(table))
    document = json.loads(table.store.read(path).data)
    document |= {"uuid": "0f9d1c1e-1111-4222-8333-444455556666", "commitUser": "racer"}
    document |= {"timeMillis": int(trouble.system.clock.now() * 1000)}
    table.store.put(path, json.dumps(document).encode())
    trouble.pass_time(10 * MINUTE_S)
    assert trouble.system.metrics.total("Lakesweep", "CommitsLost", since_s=trouble.began_s) == 1
    assert is_maintained(table)


@sets_off("CommitsFailed")
def a_writer_that_is_always_first(trouble: Trouble) -> None:
    """Nothing is replaced, and the commit is given up. Later it comes through."""
    table = visited(trouble, **{"commit.max-retries": "2"})
    with on_each_publication(trouble, lambda: table.commit(f"+F{newest(table)}", partition=("tue",)), after=False):
        drop(trouble, table)
        trouble.pass_time(10 * MINUTE_S)
    assert (live(table), newest(table)) == ({"dt=mon", "dt=tue"}, 5)
    drop(trouble, table)
    trouble.pass_time(10 * MINUTE_S)
    assert live(table) == {"dt=tue"}


# --- runs ---


@sets_off("RunsRefused")
def a_table_that_is_damaged(trouble: Trouble) -> None:
    table = trouble.maintained()
    root = table.root(newest(table))
    whole = table.store.read(root).data
    table.corrupt(root)
    table.commit("+X")
    trouble.pass_time(MINUTE_S)
    assert trouble.on() == {"RunsRefusedAlarm"}
    assert len(snapshots(table)) == KEPT + 1, "nothing was deleted"
    table.store.put(root, whole)
    trouble.sweep()
    assert is_maintained(table)


@sets_off("RunsDamaged")
def a_table_that_lost_a_live_file(trouble: Trouble) -> None:
    """Its scan comes to its end, and says that readers miss a file."""
    table = trouble.maintained()
    path = table.path(f"F{newest(table)}")
    whole = table.store.read(path).data
    table.store.delete([DeleteRequest(path)])
    scan = ask_for_scan(trouble.system, table.store.location)
    trouble.pass_time(10 * MINUTE_S)
    result = scan.result()
    assert result is not None and result["status"] == "damaged", result
    table.store.put(path, whole)
    scan = ask_for_scan(trouble.system, table.store.location)
    trouble.pass_time(10 * MINUTE_S)
    result = scan.result()
    assert result is not None and result["status"] == "nothing_to_do", result


@sets_off("RunsRefused", "Lag")
def a_table_that_stays_damaged(trouble: Trouble) -> None:
    """Each sweep asks for its pass, and finds it more overdue than the one before."""
    table = trouble.maintained()
    root = table.root(newest(table))
    whole = table.store.read(root).data
    table.corrupt(root)
    commit_at(table, trouble.system.clock.now())
    for _ in range(4):
        trouble.sweep()
        trouble.pass_time(HOUR_S)
    assert 2 * HOUR_S <= trouble.first_seen_s["LagAlarm"] <= 3.2 * HOUR_S
    table.store.put(root, whole)
    trouble.sweep()
    assert is_maintained(table)
    trouble.pass_time(HOUR_S)


@sets_off("RunsFailed")
def a_request_that_fails_once(trouble: Trouble) -> None:
    """The message comes again, and all is well."""
    with trouble.denied("Expire", "ListObjectsV2"):
        table = trouble.written()
        trouble.pass_time(MINUTE_S)
    assert trouble.on() == {"RunsFailedAlarm"}
    trouble.pass_time(13 * MINUTE_S)
    assert is_maintained(table)


@sets_off("RunsFailed", "HopLimitReached")
def objects_that_may_not_be_deleted(trouble: Trouble) -> None:
    """Their plan is handed on 16 times. No later plan knows them, so it has to be asked for by name."""

    def answer(request: Request) -> Response | None:
        if request.operation != "DeleteObjects":
            return None
        keys = [str(each["Key"]) for each in request.asked["Delete"]["Objects"]]
        errors = "".join(f"<Error><Key>{escape(key)}</Key><Code>AccessDenied</Code></Error>" for key in keys)
        return Response(f"<DeleteResult>{errors}</DeleteResult>", 200, content_type="application/xml")

    with trouble.answering(answer):
        table = trouble.written()
        trouble.pass_time(4 * HOUR_S)
    assert is_maintained(table)
    assert "F1" in table.present(), "its documents are gone, and its files are not"
    (told,) = [line for done in trouble.system.invocations for line in done.lines if line.get("plan_id")]
    assert told["table"] == table.store.location
    trouble.sweep()
    assert "F1" in table.present()
    trouble.system.invoke("OnDemand", asked(table, "execute", plan_id=told["plan_id"]))
    trouble.pass_time(MINUTE_S)
    assert table.present() == {f"F{number}" for number in range(COMMITS - KEPT + 1, COMMITS + 1)}


@sets_off("HopLimitReached")
def a_lease_that_is_always_held(trouble: Trouble) -> None:
    """The hint is handed on 16 times in an hour, and dropped. The next sweep asks for the pass again."""
    table = trouble.table()
    area = ControlArea(trouble.system.control(), table.store.location)
    lease = acquire(area, "somebody-else")

    def renew() -> None:
        list(area.store.list("locks/"))  # a store knows the time from its last listing or write
        lease.check()

    for _ in range(COMMITS):
        commit(table)
    trouble.pass_time(3.5 * HOUR_S, meanwhile=renew)
    assert 0.9 * HOUR_S <= trouble.first_seen_s["HopLimitReachedAlarm"] <= 1.2 * HOUR_S
    assert not trouble.system.backlog()
    lease.release(ended=True)
    assert not is_maintained(table)
    trouble.sweep()
    assert is_maintained(table)


# --- functions ---


@sets_off("FunctionErrors")
def a_process_that_crashes(trouble: Trouble) -> None:
    """In the middle of a pass, which is finished when its message comes again."""

    def answer(request: Request) -> None:
        if (request.function, request.operation) == ("Expire", "PutObject"):
            trouble.system.functions["Expire"].kill(request.caller)

    with trouble.answering(answer):
        table = trouble.written()
        trouble.pass_time(MINUTE_S)
    assert trouble.on() == {"FunctionErrorsAlarm"}
    trouble.pass_time(13 * MINUTE_S)
    assert is_maintained(table)


@sets_off("FunctionErrors")
def a_function_that_is_out_of_time(trouble: Trouble) -> None:
    function = trouble.system.functions["OnSnapshotWritten"]
    allowed_s, function.timeout_s = function.timeout_s, 0.001
    table = trouble.written()
    trouble.pass_time(MINUTE_S)
    function.timeout_s = allowed_s
    assert trouble.on() == {"FunctionErrorsAlarm"}
    trouble.pass_time(7 * MINUTE_S)
    assert is_maintained(table)


@sets_off("FunctionThrottles")
def an_account_without_concurrency(trouble: Trouble) -> None:
    function = trouble.system.functions["Expire"]
    reserved, function.reserved = function.reserved, 0
    table = trouble.written()
    trouble.pass_time(MINUTE_S)
    function.reserved = reserved
    assert trouble.on() == {"FunctionThrottlesAlarm"}
    trouble.pass_time(13 * MINUTE_S)
    assert is_maintained(table)


# --- the sweep ---


@sets_off("Lag")
def commits_whose_events_are_lost(trouble: Trouble) -> None:
    """A sweep each hour heals it before anybody has to know. Only when sweeps are farther apart it takes too long."""
    table = trouble.maintained()
    rule = trouble.system.rules["SnapshotWrittenRule"]
    rule.on_delivery = lambda _: False
    for _ in range(3):
        commit_at(table, trouble.system.clock.now())
        trouble.pass_time(HOUR_S)
        assert not is_maintained(table)
        trouble.sweep()
        assert is_maintained(table)
    assert not trouble.first_seen_s
    commit_at(table, trouble.system.clock.now())
    trouble.pass_time(2.5 * HOUR_S)
    assert not trouble.first_seen_s
    trouble.sweep()
    rule.on_delivery = lambda _: True
    assert trouble.on() == {"LagAlarm"}
    assert is_maintained(table)
    trouble.pass_time(HOUR_S)


@sets_off("SweepMissing", "TagScheduleMissing")
def a_day_without_sweeps(trouble: Trouble) -> None:
    trouble.pass_time(25 * HOUR_S, step_s=HOUR_S)
    for alarm in ("SweepMissingAlarm", "TagScheduleMissingAlarm"):
        assert 23 * HOUR_S < trouble.first_seen_s[alarm] <= 25 * HOUR_S
    trouble.system.tick(TAGS)
    trouble.sweep()


@sets_off("NoTables")
def a_prefix_without_tables(trouble: Trouble) -> None:
    """A deployment with a wrong parameter, which nothing else would tell."""
    trouble.maintained()
    trouble.sweep()
    functions = [trouble.system.functions[name] for name in ("Sweep", "TagSchedule")]
    places = functions[0].environment["LAKESWEEP_TABLES"]
    for function in functions:
        function.environment["LAKESWEEP_TABLES"] = f"{places}-old"
        function.close()
    for _ in range(3):
        trouble.sweep()
        trouble.pass_time(HOUR_S - MINUTE_S)
    assert HOUR_S < trouble.first_seen_s["NoTablesAlarm"] <= 3 * HOUR_S
    assert trouble.on() == {"NoTablesAlarm"}
    for function in functions:
        function.environment["LAKESWEEP_TABLES"] = places
        function.close()
    trouble.sweep()


@sets_off("RunsRefused", "TablesRefused")
def a_table_whose_every_pass_is_refused(trouble: Trouble) -> None:
    """From the first on, so nobody knows its lag, while another table is maintained. Its alarm stays on."""
    trouble.maintained(2)
    table = without_events(trouble)
    root = table.root(newest(table))
    whole = table.store.read(root).data
    table.corrupt(root)
    trouble.sweep()
    for _ in range(3):
        trouble.pass_time(9 * HOUR_S, step_s=HOUR_S)
        for schedule in (SWEEP, TAGS):
            trouble.system.tick(schedule)
        trouble.pass_time(10 * MINUTE_S)
    assert trouble.first_seen_s["TablesRefusedAlarm"] > 24 * HOUR_S
    assert trouble.on() == {"TablesRefusedAlarm"}
    named = [line for done in trouble.system.invocations for line in done.lines if "hours" in line]
    assert {line["table"] for line in named} == {table.store.location}
    table.store.put(root, whole)
    trouble.sweep()
    assert is_maintained(table)
    trouble.pass_time(2 * HOUR_S)


@sets_off("RunsRefused", "TagLag")
def tags_that_are_due_and_are_not_made(trouble: Trouble) -> None:
    """Each tour asks for the pass, which is refused, and finds it more overdue than the one before."""
    table = trouble.maintained()
    root = table.root(newest(table))
    whole = table.store.read(root).data
    table.corrupt(root)
    commit_at(table, trouble.system.clock.now())
    area = ControlArea(trouble.system.control(), table.store.location)
    state = json.loads(area.read("state.json").data)
    state["branches"]["main"]["tags_due_ms"] = int(trouble.system.clock.now() * 1000)
    area.put("state.json", json.dumps(state).encode())
    for _ in range(12):
        trouble.system.tick(TAGS)
        trouble.pass_time(HOUR_S / 4)
    assert 2 * HOUR_S <= trouble.first_seen_s["TagLagAlarm"] <= 2.5 * HOUR_S
    table.store.put(root, whole)
    trouble.system.tick(TAGS)
    trouble.pass_time(MINUTE_S)
    trouble.system.tick(TAGS)
    trouble.pass_time(HOUR_S)


def commit_at(table: TableBuilder, at_s: float) -> None:
    """Commit, with a time that the sweep can tell the lag by."""
    number = newest(table) + 1
    table.hint("LATEST", table.commit(f"+F{number}", f"-F{number - 1}", time_ms=int(at_s * 1000)))


def asked(table: TableBuilder, operation: str, **words: str) -> dict[str, object]:
    """Return what somebody invokes `OnDemand` with."""
    return {"operation": operation, "table": table.store.location, "arguments": {}, "execute": True, **words}


def without_events(trouble: Trouble) -> TableBuilder:
    """Write a table that no event tells of."""
    rule = trouble.system.rules["SnapshotWrittenRule"]
    rule.on_delivery = lambda _: False
    table = trouble.written()
    rule.on_delivery = lambda _: True
    return table


def make_sweeps(system: System) -> None:
    """Let every table be asked for."""
    for schedule in (SWEEP, TAGS):
        system.tick(schedule)
    system.settle()


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """A deployment that has a table and has had its first tours: until then alarms say that nobody knows the lag."""
    with System(build_here(), name="night") as deployed:
        assert alarms_on(deployed) == {"SweepMissingAlarm", "TagScheduleMissingAlarm"}
        make_sweeps(deployed)
        assert alarms_on(deployed) == {"NoTablesAlarm"}
        commit(deployed.table("first.db/t", OPTIONS))
        make_sweeps(deployed)
        assert alarms_on(deployed) == set()
        yield deployed


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.act.__name__)
def test_what_goes_wrong_sets_off_its_alarms_and_no_other(system: System, scenario: Scenario) -> None:
    make_sweeps(system)
    trouble = Trouble(system, scenario.act.__name__)
    assert trouble.on() == set()
    scenario.act(trouble)
    trouble.pass_time(15 * MINUTE_S)
    assert trouble.on() == set()
    assert set(trouble.first_seen_s) == scenario.alarms
    assert not system.backlog()
    assert not system.aws.denied


def test_every_alarm_has_a_scenario(system: System) -> None:
    covered = frozenset[str]().union(*(scenario.alarms for scenario in SCENARIOS))
    assert covered == set(system.stack.of_type("AWS::CloudWatch::Alarm"))
