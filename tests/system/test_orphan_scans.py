"""Scans for orphan files by functions: whatever happens to their messages and processes, there is one plan, and it is
that which one process makes of the same table.

Limits and pages are so small that a small table has many tasks. Everything that roots refer to is made to look as old
as the orphans, so that nothing but the roots keeps it.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from werkzeug.wrappers import Response

from lakesweep.aws.messages import OrphanScan, to_body
from lakesweep.control.area import ControlArea
from lakesweep.model.safety import EPOCH_MS, SCAN_SILENCE_MS
from lakesweep.operations.orphans.fan_out import limits
from tests.support.engines_compared import differences
from tests.support.system.altered import SMALL, altered
from tests.support.system.build import Build
from tests.support.system.deployed import PREFIX, System
from tests.support.system.embedded_aws import SENDS, Request, refusal
from tests.support.system.live_watch import LiveWatch
from tests.support.system.maintainers import Maintainers
from tests.support.system.message import Message
from tests.support.system.planting import DAY_S, OLD_S, Planted, plant
from tests.support.system.scans import (
    ENGINE,
    SCAN,
    SCAN_QUEUE,
    TRIGGER,
    WORKER,
    Scan,
    answer_of_one_process,
    ask_for_scan,
    paths_of,
    scans_of,
)
from tests.support.system.scene import Scene
from tests.support.system.source_mapping import SourceMapping, undisturbed
from tests.support.table_builder import TableBuilder

PAGE_KEYS = 25
LIMITS = {"FIRST_PAGES": 1, "LIST_PAGES": 3, "DECODE_ENTRIES": 12, "MATCH_ROWS": 100, "HERE_ENTRIES": 4}
OPTIONS = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
"""Nothing expires by itself."""
OUTSIDE = "outside"
"""Where external files lie, beside the databases."""


@pytest.fixture(scope="module")
def tiny(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Functions whose tasks are small."""
    source = Path(str(limits.__file__)).read_text(encoding="utf-8")
    changes = [
        (f"\n{line}\n", f"\n{name} = {LIMITS[name]}\n")
        for line, name in re.findall(r"^((\w+) = .*)$", source, re.M)
        if name in LIMITS
    ]
    assert len(changes) == len(LIMITS)
    return altered(
        build, tmp_path_factory.mktemp("tiny") / "build", {"operations/orphans/fan_out/limits.py": changes, **SMALL}
    )


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MOTO_S3_DEFAULT_MAX_KEYS", str(PAGE_KEYS))
        yield


@dataclass
class Watched:
    """A system, and who watches it."""

    system: System
    maintainers: Maintainers
    live: LiveWatch

    def problems(self) -> list[str]:
        """Return what nobody may ever do."""
        return [
            *self.live.problems,
            *self.maintainers.problems,
            *(f"denied: {each.caller} {each.operation} {each.key}" for each in self.system.aws.denied),
            *(
                f"{done.caller}: {done.error} {done.value}"
                for done in self.system.invocations
                if done.error == "Unhandled"
            ),
            *(f"left in {name}: {count}" for name, count in self.system.backlog().items()),
        ]


@contextmanager
def running(build: Build, **words: Any) -> Iterator[Watched]:
    with System(build, **words) as system:
        maintainers = Maintainers(system.clock, system.bucket, system.control_bucket)
        maintainers.watch(system.aws)
        yield Watched(system, maintainers, LiveWatch(system.aws, system.bucket))


@pytest.fixture(scope="module")
def watched(tiny: Build) -> Iterator[Watched]:
    """One system for all tests that leave nothing behind but their tables."""
    with running(tiny, parameters={"ScanConcurrency": "3"}) as found:
        yield found


@dataclass
class OldTable:
    """A table with branches, tags and orphans, all of it old."""

    system: System
    name: str
    table: TableBuilder
    planted: Planted

    @property
    def location(self) -> str:
        """Return its URI."""
        return self.system.location(self.name)

    @property
    def older_than(self) -> int:
        """Return the time that all scans of it go by, in epoch milliseconds."""
        return int((self.system.clock.now() - 2 * DAY_S) * 1000)


def old_table(system: System, name: str, commits: int = 9, copies: int = 2, **words: Any) -> OldTable:
    """Write a table that no event tells of."""
    rule = system.rules["SnapshotWrittenRule"]
    told, rule.on_delivery = rule.on_delivery, lambda _: False
    store = system.backdoor(name)
    table = TableBuilder(store, options=OPTIONS, partition_keys=("dt",), **words)  # type: ignore[arg-type]
    for number in range(1, commits + 1):
        partition = (f"v{number % 3}",)
        gone = [f"-F{number - 3}"] if number > 3 else []
        table.commit(f"+F{number}", f"+G{number}", *gone, partition=partition)
        if number % 3 == 0:
            table.tag(f"t{number}")
    branch = table.branch("rt", from_tag="t3")
    branch.commit("+B1", partition=("v1",))
    store.age(OLD_S)
    planted = plant(store, name, copies)
    rule.on_delivery = told
    return OldTable(system, name, table, planted)


def read_anew(old: OldTable) -> list[str]:
    """Say what a root refers to and is gone."""
    store = old.system.backdoor(old.name)
    there = {each.key for each in store.list("")}
    needed = set().union(*(old.table.referenced(root) for root in old.table.roots()))
    return sorted(key for key in needed - there if not key.startswith("s3://"))


def assert_one_plan(old: OldTable, *scans: Scan, expected: Any = None) -> None:
    """Fail unless each scan made the plan of one process, once."""
    for scan in scans:
        result = scan.result()
        assert result is not None and result["status"] == "planned", f"{result}\n{scan.story()}"
        wanted = expected or answer_of_one_process(old.system, old.location, older_than=older_than_of(scan))
        assert differences(scan.answer(), wanted) == {}
        assert paths_of(scan.plan()) >= set(old.planted.goes)  # type: ignore[arg-type]
        assert not paths_of(scan.plan()) & old.planted.stays  # type: ignore[arg-type]
    area = ControlArea(old.system.control(), old.location)
    headers = {name.split("/")[1] for name in area.names("plans/") if name.endswith("/header.json")}
    plans = {scan.plan().header.plan_id for scan in scans}  # type: ignore[union-attr]
    assert plans <= headers


def older_than_of(scan: Scan) -> int:
    plan = scan.plan()
    assert plan is not None
    return int(str(plan.header.arguments["older_than_ms"]))


def scanned(old: OldTable, **words: Any) -> Scan:
    return ask_for_scan(old.system, old.location, older_than=old.older_than, **words)


@contextmanager
def disturbed(system: System, function: str, disturb: Callable[..., Sequence[Sequence[Message]]]) -> Iterator[None]:
    system.mappings[function].disturbance = disturb
    try:
        yield
    finally:
        system.mappings[function].disturbance = undisturbed


@contextmanager
def hooked(system: System, before: Callable[[Request], Response | None]) -> Iterator[None]:
    system.aws.before.append(before)
    try:
        yield
    finally:
        system.aws.before.remove(before)


# --- a scan ---


def test_a_scan_by_functions_is_that_of_one_process(watched: Watched) -> None:
    """Tasks of every kind, then the deletions; branches, tags and an external root that two tables could share."""
    system = watched.system
    outside = f"{PREFIX}/{OUTSIDE}"
    external = system.backdoor(OUTSIDE)
    watched.maintainers.outside[outside] = system.location("db.db/whole")
    watched.live.outside[outside] = f"{PREFIX}/db.db/whole"
    old = old_table(system, "db.db/whole", externals={f"s3://{system.bucket}/{outside}": external})
    old.table.commit(
        "+X", partition=("v1",), external={"X": f"s3://{system.bucket}/{outside}/dt=v1/bucket-0/data-x.parquet"}
    )
    system.settle()
    scan = scanned(old)
    system.settle()
    assert_one_plan(old, scan)
    result = scan.result()
    assert result is not None and min(result["tasks"].values()) > 1, result
    system.invoke(
        "OnDemand", {"operation": "execute", "table": old.location, "plan_id": result["plan_id"], "execute": True}
    )
    system.settle()
    assert old.planted.problems(system.store(old.name)) == []
    assert read_anew(old) == [] and watched.problems() == []


# --- messages ---


class Once:
    """Does something to each message, by its body, when it is first received."""

    def __init__(self, disturb: Callable[[SourceMapping, Message], Sequence[Sequence[Message]]]) -> None:
        self.bodies: set[str] = set()
        self._disturb = disturb
        self._lock = threading.Lock()

    def __call__(self, mapping: SourceMapping, messages: Sequence[Message]) -> Sequence[Sequence[Message]]:
        found: list[Sequence[Message]] = []
        for message in messages:
            with self._lock:
                is_new = message.body not in self.bodies
                self.bodies.add(message.body)
            found += self._disturb(mapping, message) if is_new else [[message]]
        return found


def lost(mapping: SourceMapping, message: Message) -> Sequence[Sequence[Message]]:
    mapping.queue.delete(str(message.receipt))
    return []


def doubled(_: SourceMapping, message: Message) -> Sequence[Sequence[Message]]:
    return [[message], [message]]


def delayed(mapping: SourceMapping, message: Message) -> Sequence[Sequence[Message]]:
    mapping.queue.change_visibility(str(message.receipt), 900)
    return []


@pytest.mark.parametrize("disturb", [lost, doubled, delayed])
def test_each_task_message(disturb: Callable[..., Any], watched: Watched) -> None:
    """Lost once, both copies at work at a time, or a quarter of an hour late."""
    old = old_table(watched.system, f"db.db/task-{disturb.__name__}")
    once = Once(disturb)
    with disturbed(watched.system, WORKER, once):
        scan = scanned(old)
        watched.system.settle()
    assert len(once.bodies) > 8
    assert_one_plan(old, scan)
    assert watched.problems() == []


@pytest.mark.parametrize("disturb", [doubled, delayed])
def test_each_turn(disturb: Callable[..., Any], watched: Watched) -> None:
    """Two turns at a time, or late."""
    old = old_table(watched.system, f"db.db/turn-{disturb.__name__}")
    once = Once(disturb)
    with disturbed(watched.system, SCAN, once):
        scan = scanned(old)
        watched.system.settle()
    assert len(once.bodies) >= 3
    assert_one_plan(old, scan)
    assert watched.problems() == []


@pytest.mark.long
def test_each_turn_lost(watched: Watched) -> None:
    """Then nobody goes on, until the scan is asked for again, as the schedule does it: it goes on where it is."""
    old = old_table(watched.system, "db.db/turn-lost")
    once = Once(lost)
    arguments = {"engine": ENGINE, "older_than": old.older_than}
    scan = Scan(watched.system, old.location, "lost-again-and-again")
    body = to_body(OrphanScan(old.location, scan.scan_id, arguments=arguments, manual=True))
    with disturbed(watched.system, SCAN, once):
        for _ in range(12):
            watched.system.queues[SCAN_QUEUE].send(body)
            watched.system.settle()
            if scan.result() is not None:
                break
            watched.system.pass_time(SCAN_SILENCE_MS / 1000)
    assert len(once.bodies) >= 3
    assert_one_plan(old, scan)
    assert watched.problems() == []


def test_messages_that_may_not_be_sent(watched: Watched) -> None:
    """SQS refuses a request, or takes only some messages of one. Who sent them does so again, or is called again."""
    system = watched.system
    old = old_table(system, "db.db/unsent")
    counts: Counter[str] = Counter()

    def refuse(request: Request) -> Response | None:
        if request.function not in (SCAN, WORKER) or not request.operation.startswith("SendMessage"):
            return None
        counts[request.function] += 1
        return refusal(request, 403, "AccessDenied") if counts[request.function] in (1, 4) else None

    def not_taken(request: Request) -> set[str]:
        counts["batch"] += 1
        return {each["Id"] for each in request.asked["Entries"][::2]} if counts["batch"] % 2 else set()

    system.aws.not_taken = not_taken
    with hooked(system, refuse):
        scan = scanned(old)
        system.settle()
    system.aws.not_taken = lambda _: ()
    assert counts[SCAN] > 1 and counts["batch"] > 1
    assert_one_plan(old, scan)
    assert watched.problems() == []


# --- processes ---


class Killer:
    """Kills a function at its writes, each once: in turn before it is carried out, and before it hears that it was.

    A message that was received too often would become a dead letter, so only every other kind of write is chosen.
    """

    def __init__(self, system: System, function: str, first: int, every: int) -> None:
        self.killed: list[str] = []
        self._system, self._function, self._first, self._every = system, function, first, every
        self._seen: list[str] = []
        self._dying: set[int] = set()
        self._lock = threading.Lock()

    def before(self, request: Request) -> Response | None:
        number = self._chosen(request)
        if number is None:
            return None
        if number % 2:
            self._dying.add(request.number)
            return None
        self._system.functions[self._function].kill(request.caller)
        return refusal(request, 500, "InternalError")

    def after(self, request: Request) -> None:
        if request.number in self._dying:
            self._system.functions[self._function].kill(request.caller)

    def _chosen(self, request: Request) -> int | None:
        if request.function != self._function or request.operation not in ("PutObject", *SENDS):
            return None
        # Names of documents have something random in them.
        name = re.sub("[0-9a-f]{8,}", "*", request.key.rpartition("/")[2]) or str(request.asked["QueueUrl"])
        with self._lock:
            if name in self._seen:
                return None
            self._seen.append(name)
            if len(self._seen) % self._every != self._first:
                return None
            self.killed.append(name)
            return len(self.killed)


@pytest.mark.long
@pytest.mark.parametrize(("function", "first", "every"), [(SCAN, 0, 2), (SCAN, 1, 2), (WORKER, 0, 1)])
def test_a_process_that_is_killed_at_each_write(function: str, first: int, every: int, watched: Watched) -> None:
    system = watched.system
    old = old_table(system, f"db.db/killed-{function}-{first}".lower(), commits=3, copies=1)
    killer = Killer(system, function, first, every)
    crashes = sum(done.error == "Crash" for done in system.invocations)
    system.aws.after.append(killer.after)
    with hooked(system, killer.before):
        scan = scanned(old)
        system.settle()
    system.aws.after.remove(killer.after)
    assert sum(done.error == "Crash" for done in system.invocations) - crashes == len(killer.killed) > 3
    assert_one_plan(old, scan)
    assert watched.problems() == []


@pytest.mark.long
def test_listings_that_are_throttled(watched: Watched) -> None:
    """Each is told to slow down once or twice, and one so often that its task fails and comes again."""
    old = old_table(watched.system, "db.db/throttled")
    asked: Counter[str] = Counter()
    refused = [0]

    def slow_down(request: Request) -> Response | None:
        if request.function != WORKER or request.operation != "ListObjectsV2":
            return None
        page = str(request.asked)
        asked[page] += 1
        if asked[page] > (6 if len(asked) == 3 and page == list(asked)[2] else 1):
            return None
        refused[0] += 1
        return refusal(request, 503, "SlowDown")

    with hooked(watched.system, slow_down):
        scan = scanned(old)
        watched.system.settle()
    assert refused[0] >= 3
    assert_one_plan(old, scan)
    assert watched.problems() == []


# --- together ---


@pytest.mark.long
def test_two_scans_of_one_table_at_once(watched: Watched) -> None:
    """Both come to the same plan, and it is carried out once; the second finds all of it gone."""
    system = watched.system
    old = old_table(system, "db.db/twice")
    expected = answer_of_one_process(system, old.location, older_than=(older_than := old.older_than))
    scans = [ask_for_scan(system, old.location, execute=True, older_than=older_than) for _ in range(2)]
    system.settle()
    assert scans[0].scan_id != scans[1].scan_id
    planned = [paths_of(plan) for plan in (scan.plan() for scan in scans) if plan is not None]
    assert all(paths <= expected.paths for paths in planned) and expected.paths in planned
    assert old.planted.problems(system.store(old.name)) == []
    assert read_anew(old) == [] and watched.problems() == []


def test_a_table_that_commits_and_expires_meanwhile(tiny: Build) -> None:
    """At every few requests of the scan. In the end the table is what its retention leaves, without its orphans."""
    with Scene(tiny) as scene:
        table = scene.table("sales.db/orders")
        table.commit(8)
        planted = table.plant("meanwhile", copies=2)
        count = [0]
        lock = threading.Lock()

        def commit(request: Request) -> None:
            if request.function in (SCAN, WORKER):
                with lock:
                    count[0] += 1
                    if count[0] % 20 == 0 and count[0] <= 120:
                        table.commit()

        scene.system.aws.after.append(commit)
        scan = ask_for_scan(scene.system, table.location, execute=True)
        scene.system.settle()
        scene.system.aws.after.remove(commit)
        plan = scan.plan()
        assert plan is not None, scan.result()
        assert set(planted.goes) <= paths_of(plan)
        assert table.commits > 10
        assert scene.end() == []
        assert not table.has_orphans


@pytest.mark.long
def test_retention_goes_on_while_a_plan_is_carried_out(tiny: Build) -> None:
    """A plan of many batches, each of which takes a minute. A commit waits for its pass for one epoch at most."""
    slow = altered(tiny, tiny.folder.parent / "slow", {"model/safety.py": ("REST_MS = 90_000", "REST_MS = 12_000")})
    with Scene(slow) as scene:
        system = scene.system
        table = scene.table("sales.db/orders")
        table.commit(4)
        system.settle()
        table.plant("many", copies=8)
        committed: list[float] = []
        waits: list[float] = []

        def rest() -> None:
            """Let a minute and a half pass while the function waits for twelve seconds, in which a pass can begin."""
            for _ in range(6):
                system.clock.skip_to(system.clock.now() + 14.5)
                time.sleep(2)

        def take_long(request: Request) -> None:
            if request.function != "ExecuteBatch":
                return
            if request.key.endswith("/lease.json") and b'"expires_at_ms": 0' in request.body:
                threading.Thread(target=rest).start()
            if not request.key.endswith("-intent.ndjson.gz"):
                return
            if not committed:
                table.commit()
                committed.append(system.clock.now())
            system.clock.skip_to(system.clock.now() + 60)

        def expired(request: Request) -> None:
            if request.operation == "DeleteObject" and "/snapshot/snapshot-" in request.key and committed:
                waits.append(system.clock.now() - committed[0])

        system.aws.after += [take_long, expired]
        scan = ask_for_scan(system, table.location, execute=True)
        system.settle()
        plan = scan.plan()
        assert plan is not None and plan.header.action_count > 60
        assert scene.end() == []
        batch_s, held_again_s, rest_s = 60, 60, 90
        assert waits[0] <= EPOCH_MS / 1000 + batch_s + held_again_s + rest_s, waits


# --- what is told, and by whom it is asked for ---


def test_what_a_scan_may_not_do(watched: Watched) -> None:
    """Its functions write nothing below tables, and delete nothing anywhere."""
    scanned(old_table(watched.system, "db.db/asked"))
    watched.system.settle()
    asked = [it for it in watched.system.aws.log if it.function in (SCAN, WORKER)]
    assert len(asked) > 50
    assert not [it for it in asked if it.operation.startswith("Delete")]
    assert not [it for it in asked if it.operation == "PutObject" and it.bucket == watched.system.bucket]


def test_the_schedule_notes_orphans_and_then_removes_them(tiny: Build) -> None:
    """The first tour sees the table, the second has it scanned, and what that scan noted the third removes."""
    with running(tiny, parameters={"OrphanInterval": "2 d"}) as watched:
        system = watched.system
        old = old_table(system, "db.db/scheduled")
        for tour in range(3):
            if tour:
                system.pass_time(2 * DAY_S, step_s=2 * DAY_S)
            assert old.planted.problems(system.store(old.name), gone=False) == [], tour
            system.tick(TRIGGER)
            system.settle()
        assert len(scans_of(system, old.location)) == 2
        assert old.planted.grown_old().problems(system.store(old.name)) == []
        assert read_anew(old) == [] and watched.problems() == []


@pytest.mark.long
def test_a_deployment_that_observes_only_plans(tiny: Build) -> None:
    with running(tiny, mode="observe", parameters={"OrphanInterval": "2 d"}) as watched:
        system = watched.system
        old = old_table(system, "db.db/observed", commits=6)
        for _ in range(3):
            system.tick(TRIGGER)
            system.settle()
            system.pass_time(2 * DAY_S, step_s=2 * DAY_S)
        scan = scans_of(system, old.location)[-1]
        assert (result := scan.result()) is not None and result["status"] == "planned", scan.story()
        assert old.planted.problems(system.store(old.name), gone=False) == []
        assert watched.maintainers.changes == 0 and watched.problems() == []
