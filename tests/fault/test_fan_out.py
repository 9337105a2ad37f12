"""A scan by many workers ends with one right plan, whatever becomes of its messages, its workers and its documents."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import AccessDeniedError, MaintenanceError, StorageError
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.fan_out.scan import advance
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from lakesweep.storage.store import Body, Page, Store, delete_all
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.engines_compared import Answer, ask, differences
from tests.support.fan_out import ANY, SCAN_ID, FanOut, Processes, Trouble, small_limits
from tests.support.fan_out_stage import SEED, fan_out, stage
from tests.support.faulty_store import FaultyStore
from tests.support.maintenance import assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import DAY_MS, OrphanScene
from tests.support.random_scene import OUTSIDE
from tests.support.sampling import seeds
from tests.support.walk import WatchedStore, referenced_names

EVERY = int(os.environ.get("LAKESWEEP_FAN_OUT_EVERY") or 23)
"""Of so many requests of a scan one is broken; 1 for all of them."""
ARGUMENTS = OrphanArguments()
FATES = {
    "lost": Trouble(lost=0.3),
    "doubled": Trouble(doubled=0.7),
    "late": Trouble(late=0.7),
    "all": ANY,
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch, LIST_PAGES=3, MATCH_ROWS=40)


@cache
def local_answer(seed: int = SEED, external: str | None = OUTSIDE) -> Answer:
    _, table, arguments = stage(seed, external)
    answer = ask(lambda: plan_remove_orphan_files(table, arguments), require_area(table))
    assert answer.plan is not None
    return answer


def answer_of(scan: FanOut) -> Answer:
    def planned() -> Any:
        ended = scan.run()
        assert ended.plan is not None, ended.refusal
        return ended.plan

    return ask(planned, require_area(scan.table))


def assert_right(scan: FanOut, where: object, expected: Answer | None = None) -> Answer:
    found = answer_of(scan)
    assert differences(expected or local_answer(), found) == {}, (where, scan.failures[-3:])
    return found


def test_one_plan_and_tasks_of_every_kind() -> None:
    """The scene that these tests stand on: splits, segments, several matches, and extra files of owners."""
    scene, table, arguments = stage()
    scan = fan_out(scene, table, arguments)
    assert_right(scan, "calm")
    kinds = Counter(body.split('"kind": "')[1].split('"')[0] for body in scan.delivered if body.startswith("{"))
    assert kinds["list"] > 5
    assert kinds["decode"] > 1
    assert kinds["match"] > 3
    assert any('"by_owner": true' in body for body in scan.delivered)
    assert any("list-0-1.3." in body for body in scan.delivered), "parts of parts"


@pytest.mark.parametrize("fate", FATES)
def test_whatever_becomes_of_messages(fate: str) -> None:
    for seed in seeds(15, 5):
        scene, table, arguments = stage()
        scan = fan_out(scene, table, arguments, seed, trouble=FATES[fate])
        assert_right(scan, seed)
        assert not scan.dead, seed


@pytest.mark.long
def test_each_message_is_lost_once() -> None:
    """In turn, each that a calm scan sends; also those that ask for a turn come back, since queues lose nothing."""
    scene, table, arguments = stage()
    calm = fan_out(scene, table, arguments)
    calm.run()
    tasks = [body for body in calm.delivered if body.startswith("{")]
    for number in range(len(tasks)):
        scene, table, arguments = stage()
        scan = fan_out(scene, table, arguments)
        seen = 0

        def drop(body: str, scan: FanOut = scan, number: int = number) -> None:
            nonlocal seen
            if body.startswith("{"):
                seen += 1
                if seen == number + 1:
                    raise Dropped

        scan.before = drop
        while scan.ended is None and scan.error is None:
            try:
                if not scan.step():
                    break
            except Dropped:
                pass
        scan.before = lambda body: None
        assert_right(scan, number)


class Dropped(Exception):
    """Takes a message away."""


def wrapped(processes: Processes) -> Callable[[Store, str], Store]:
    def wrap(store: Store, name: str) -> Store:
        processes.restart()
        return FaultyStore(store, processes, name)

    return wrap


def calls_of_a_scan() -> int:
    processes = Processes()
    scene, table, arguments = stage()
    fan_out(scene, table, arguments, wrap=wrapped(processes)).run()
    return len(processes.calls)


@pytest.mark.parametrize("mode", ["before", "after", "death", "death_after"])
def test_any_request_may_break(mode: str, record_property: Callable[[str, object], None]) -> None:
    """One request of a whole scan after another; those of all workers and of all folds are among them."""
    calls = calls_of_a_scan()
    assert calls > 200
    for at in range(1 + len(mode) % EVERY, calls + 1, EVERY):
        processes = Processes(at, mode)
        scene, table, arguments = stage()
        scan = fan_out(scene, table, arguments, wrap=wrapped(processes))
        where = f"{mode} at {at}"
        assert_right(scan, f"{where}: {processes.calls[at - 1] if len(processes.calls) >= at else None}")
    record_property("calls", calls)


@pytest.mark.parametrize("seed", range(20))
def test_many_requests_break_and_messages_get_lost(seed: int) -> None:
    """One request in two hundred, in any way, beside what becomes of messages."""
    random = Random(seed)
    scene, table, arguments = stage()

    class Unsteady(Processes):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            self.at = len(self.calls) + 1 if random.random() < 1 / 200 else None
            self.mode = random.choice(("before", "after", "death", "death_after"))
            return super()._run(name, call)

    scan = fan_out(scene, table, arguments, seed, wrap=wrapped(Unsteady()), trouble=ANY)
    assert_right(scan, seed)


class Throttled(WrappingStore):
    """Answers one listing in three that it is asked too much."""

    random = Random(0)

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        for page in self._store.list_range(prefix, after, until):
            if self.random.random() < 1 / 3:
                raise StorageError("list: slow down", code="SlowDown")
            yield page


def test_listings_are_throttled() -> None:
    for seed in seeds(10, 3):
        scene, table, arguments = stage()
        Throttled.random = Random(seed)
        scan = fan_out(
            scene, table, arguments, seed, wrap=lambda store, name: store if name == "control" else Throttled(store)
        )
        assert_right(scan, seed)


@pytest.mark.parametrize("fate", [Trouble(), ANY], ids=["calm", "all"])
def test_two_scans_of_one_table_at_once(fate: Trouble) -> None:
    """Message by message, in any order. Both plan the same, and the index of segments is that of one of them."""
    for seed in seeds(10, 3):
        scene, table, arguments = stage()
        random = Random(seed)
        scans = [
            fan_out(scene, table, arguments, seed + number, scan_id=f"scan-{number}", trouble=fate)
            for number in range(2)
        ]
        while any(scan.ended is None for scan in scans):
            scan = random.choice([scan for scan in scans if scan.ended is None])
            assert scan.step() or scan.ended is not None, (seed, scan.failures[-3:])
        for scan in scans:
            assert_right(scan, seed)


@pytest.mark.long
def test_two_take_a_turn_at_once() -> None:
    """Each turn, and before each request of it another one takes the same from beginning to end."""
    number = turns = 0
    while True:
        scene, table, arguments = stage()
        scan = fan_out(scene, table, arguments)
        counted, is_inner, did = 0, False, False

        class Interrupting(Processes):
            def _run(self, name: str, call: Callable[[], object]) -> object:
                nonlocal counted, is_inner, did
                if not is_inner and scan.turn_under_way and not did:  # noqa: B023
                    counted += 1
                    if counted == number:  # noqa: B023
                        is_inner = did = True
                        try:
                            ended = advance(scan.table, SCAN_ID, scan.turn_under_way, scan)  # noqa: B023
                            scan.ended = scan.ended or ended  # noqa: B023
                        finally:
                            is_inner = False
                return super()._run(name, call)

        scan.wrap = wrapped(Interrupting())
        assert_right(scan, number)
        if number and not did:
            break
        number += 3
        turns += did
    assert turns > 20


Damage = Callable[[bytes, Random], bytes | None]


def flipped(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    bit = random.randrange(8 * len(data))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


DAMAGES: dict[str, Damage] = {
    "flipped": flipped,
    "cut": lambda data, random: data[: random.randrange(len(data))],
    "empty": lambda data, random: b"",
    "gone": lambda data, random: None,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_documents_never_make_another_plan(damage: str, record_property: Callable[[str, object], None]) -> None:
    """Any document of the scan, its segments and the index, at any time. What ends with a plan ends with the right one.

    The next scan, undamaged, ends right; it may meet segments that the first one left damaged.
    """
    ends: Counter[str] = Counter()
    for seed in seeds(10, 4):
        random = Random(f"{damage} {seed}")
        scene, table, arguments = stage()
        before = fan_out(scene, table, arguments, scan_id="earlier")
        if seed % 2:
            assert_right(before, seed)
        control = scene.control
        scan = fan_out(scene, table, arguments, seed)
        when = random.randrange(40)
        while scan.ended is None and scan.error is None and scan.deliveries < when and scan.step():
            pass
        names = [entry.key for entry in control.list("") if entry.key.startswith(("scans/", "names/"))]
        names = [name for name in names if not name.endswith("result.json")]
        if not names:
            continue
        key = random.choice(names)
        data = DAMAGES[damage](control.read(key).data, random)
        if data is None:
            control.delete(delete_all([key]))
        else:
            control.put(key, data)
        try:
            ended = scan.run()
        except (MaintenanceError, AssertionError) as error:
            ends[getattr(error, "code", "stalled")] += 1
        else:
            ends[ended.status] += 1
            if ended.plan is not None:
                found = ask(lambda: ended.plan, require_area(table))  # type: ignore[return-value,arg-type]  # noqa: B023
                assert found.paths <= local_answer().paths, (seed, key)
                assert differences(local_answer(), found) == {}, (seed, key)
        for number in range(3):
            again = fan_out(scene, table, arguments, scan_id=f"later-{number}")
            try:
                found = answer_of(again)
            except AssertionError:
                continue
            if "error" not in found.facts:
                assert differences(local_answer(), found) == {}, (seed, key)
                break
        else:
            raise AssertionError(f"{damage} {seed}: {key}: no later scan ends")
    record_property("ends", dict(ends))


class Denying(WrappingStore):
    """Refuses to read some keys."""

    denied: Callable[[str], bool] = staticmethod(lambda key: False)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        if self.denied(key):
            raise AccessDeniedError(f"read {key}: denied")
        return self._store.read(key, max_bytes)

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        if self.denied(f"list {prefix}"):
            raise AccessDeniedError(f"list {prefix}: denied")
        return self._store.list_range(prefix, after, until)


@pytest.mark.parametrize(
    "what", ["manifest/manifest-", "manifest/manifest-list-", "snapshot/snapshot-", "schema/", "list "]
)
def test_what_may_not_be_read_ends_the_scan(what: str) -> None:
    """Refused with the store's own word, and nothing is planned; when it may be read again the next scan plans."""
    scene, table, arguments = stage(external=None)
    plans = {entry.key for entry in scene.control.list("")}
    Denying.denied = staticmethod(lambda key: key.startswith(what))  # type: ignore[assignment]
    scan = fan_out(scene, table, arguments, wrap=lambda store, name: store if name == "control" else Denying(store))
    try:
        ended = scan.run()
    except MaintenanceError as error:
        code = error.code
    else:
        assert ended.plan is None
        assert ended.refusal is not None
        code = ended.refusal["code"]
    assert code == "access_denied", what
    made = {entry.key for entry in scene.control.list("")} - plans
    assert not [key for key in made if "/plans/" in key and key.endswith("header.json")]
    assert_right(fan_out(scene, table, arguments, scan_id="again"), what, local_answer(SEED, None))


def test_what_others_may_not_read_beside_the_table() -> None:
    """A root outside that is not this table's own: it is told of, as the local engine tells of it."""
    for seed in seeds(20, 8):
        scene, table, arguments = stage(seed)
        if arguments.owned_external:
            continue

        def opened(location: str, scene: OrphanScene = scene) -> Store:
            denying = Denying(scene.external)  # type: ignore[arg-type]
            denying.denied = lambda key: True  # type: ignore[method-assign]
            return denying

        closed = replace(table, open_store=opened)
        apart = replace(closed, area=ControlArea(MemoryStore("memory://apart"), closed.ref.location))
        local = ask(lambda: plan_remove_orphan_files(apart, arguments), require_area(apart))  # noqa: B023
        found = answer_of(fan_out(scene, closed, arguments))
        assert differences(local, found) == {}, seed


def test_plans_are_carried_out() -> None:
    """By the way that all plans go. Nothing that a root needs goes, and the next scan finds nothing."""
    for seed in seeds(12, 4):
        scene, table, arguments = stage(seed, None)
        answer = answer_of(fan_out(scene, table, arguments))
        if answer.plan is None or answer.plan.is_empty:
            continue
        watched = WatchedStore(scene.store, scene.store)
        report = scene.maintainer(watched).execute(answer.plan.header.plan_id, confirm=answer.plan.header.plan_id)
        assert report.status == "done", seed
        assert set(watched.deleted) == answer.paths, seed
        needed = referenced_names(scene.store)
        assert not {path for path in answer.paths if path.rpartition("/")[2] in needed}, seed
        again = answer_of(fan_out(scene, table, arguments, scan_id="again"))
        assert again.paths == set(), seed


def test_a_repeat_run_decodes_only_what_is_new() -> None:
    """And says the same as the local engine, which decodes everything."""
    scene = OrphanScene()
    for number in range(30):
        scene.table.commit(f"+A{number}")
    orphans = {scene.orphan(str(number)) for number in range(10)}
    scene.age()
    table = replace(scene.maintainer().table, sleep=lambda _: None)
    first = fan_out(scene, table, ARGUMENTS, scan_id="first")
    assert answer_of(first).paths == orphans
    assert first.ended is not None
    entries = int(str(first.ended.result["entries_decoded"]))
    assert entries >= 30
    scene.table.commit("+N")
    scene.now_ms += 7 * DAY_MS
    second = fan_out(scene, table, ARGUMENTS, scan_id="second")
    local = ask(lambda: plan_remove_orphan_files(table, ARGUMENTS), require_area(table))
    assert_right(second, "second", local)
    assert second.ended is not None
    assert int(str(second.ended.result["entries_decoded"])) <= 2
    assert_roots_readable(scene.table)


@pytest.mark.long
def test_segments_are_rewritten_and_vanish() -> None:
    """A scan a week for half a year, while a rule of the bucket removes what is older than forty days."""
    scene = OrphanScene()
    table = replace(scene.maintainer().table, sleep=lambda _: None)
    decoded: list[int] = []
    for week in range(26):
        for number in range(3):
            scene.table.commit(f"+A{week}-{number}")
        if week > 2:
            for number in range(3):
                scene.table.remove(f"snapshot/snapshot-{3 * (week - 3) + number + 1}")
        scene.orphan(str(week))
        scene.now_ms += 7 * DAY_MS
        local = ask(lambda: plan_remove_orphan_files(table, ARGUMENTS), require_area(table))
        scan = fan_out(scene, table, ARGUMENTS, scan_id=f"week-{week}")
        assert_right(scan, week, local)
        assert scan.ended is not None
        decoded.append(int(str(scan.ended.result["entries_decoded"])))
        old = [
            entry.key
            for entry in scene.control.list("")
            if entry.key.startswith("names/") and entry.modified_ms < scene.now_ms - 40 * DAY_MS
        ]
        scene.control.delete(delete_all(old))
    assert max(decoded[3:]) <= 12, decoded
