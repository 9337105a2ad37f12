"""A rollback to a snapshot while an expiry takes files that are live again there, and the other way round.

With an expiry of ours, at whatever request the other one comes in: either the target reads completely afterwards, or
the rollback did not take place. An engine's expiry asks nobody, and goes on with what it has chosen. What it took is
noticed until the last look; everything after that is not, and that is the window that `docs/safety.md` names.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from random import Random

import pytest

from lakesweep.control.lease import read_lease
from lakesweep.errors import LeaseHeldError, MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import delete_all
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.interleaving import Turns
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, read_all, read_root
from tests.support.table_builder import TableBuilder
from tests.support.world import HOUR_MS, World

TAGGED, TARGET, END, NEWEST = 2, 3, 5, 6


@cache
def history() -> dict[str, bytes]:
    """Return six snapshots, each of which deletes a file of an earlier one; a tag holds one that expires."""
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store)
    for number in range(1, NEWEST + 1):
        gone = [f"-F{number - 2}"] if number > 2 else []
        table.commit(*gone, f"+F{number}", index={f"i{number}": {f"F{number}": (1,)}})
    table.tag("old", snapshot=TAGGED)
    table.tag("young", snapshot=END)
    table.hint("LATEST", NEWEST)
    table.hint("EARLIEST", 1)
    return {entry.key: store.read(entry.key).data for entry in store.list("")}


class RollbackWorld(World):
    """The table of that history, an hour later."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore("memory://bucket/t", clock=self.clock)
        for key, data in history().items():
            self.store.put(key, data)
        self.now_ms += HOUR_MS

    def check(self, where: object = "") -> None:
        """Fail unless every root reads, and the history has no hole."""
        try:
            read_all(self.store)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        ids = self.ids()
        assert ids and ids == list(range(ids[0], ids[-1] + 1)), (where, ids)

    def is_rolled_back(self) -> bool:
        return self.ids()[-1] == TARGET


Call = Callable[[Maintainer], RunReport]


def roll_back(maintainer: Maintainer, **target: object) -> RunReport:
    return maintainer.run("rollback", **(target or {"snapshot": TARGET}))


def roll_back_to_the_tag(maintainer: Maintainer) -> RunReport:
    return roll_back(maintainer, tag="old")


def expire(maintainer: Maintainer) -> RunReport:
    return maintainer.expire(retain_max=NEWEST - END + 1, retain_min=NEWEST - END + 1)


def delete_the_tag(maintainer: Maintainer) -> RunReport:
    return maintainer.run("delete-tag", tag=["old"])


def ended(call: Call, maintainer: Maintainer) -> str:
    """Return how a call ended: its status, the code of a refusal, or that the lease was held."""
    try:
        report = call(maintainer)
    except LeaseHeldError:
        return "held"
    except MaintenanceError as error:
        return error.code
    return report.refusal.code if report.status in ("refused", "stale") and report.refusal else report.status


@cache
def count_of(call: Call) -> int:
    world, switch = RollbackWorld(), Switch()
    assert call(world.maintainer(switch)).status == "done"
    world.check()
    return len(switch.calls)


PAIRS: dict[str, tuple[Call, Call]] = {
    "rollback during an expiry": (expire, roll_back),
    "expiry during a rollback": (roll_back, expire),
    "rollback to a tag during an expiry": (expire, roll_back_to_the_tag),
    "expiry during a rollback to a tag": (roll_back_to_the_tag, expire),
    "rollback during another": (roll_back_to_the_tag, roll_back),
    "the target tag goes during a rollback": (roll_back_to_the_tag, delete_the_tag),
    "rollback to a tag that goes": (delete_the_tag, roll_back_to_the_tag),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_the_other_comes_whole_before_each_request(pair: str) -> None:
    """With one lease: the target reads, or the rollback did not take place."""
    first, second = PAIRS[pair]
    seen = set()
    for number in range(1, count_of(first) + 1, EVERY):
        world = RollbackWorld()
        results: list[str] = []
        switch = Acting(number, lambda: results.append(ended(second, world.maintainer())))  # noqa: B023
        results.insert(0, ended(first, world.maintainer(switch)))
        where = (number, switch.calls[number - 1 : number], results)
        world.check(where)
        seen.add(tuple(results[:2]))
        for call, result in zip((first, second), results, strict=False):
            if result == "done" and call in (roll_back, roll_back_to_the_tag) and call is not expire:
                assert world.ids()[-1] <= TARGET, where
        world.wait()
        if number % 3 == 0:
            for call in (expire, roll_back_to_the_tag):
                ended(call, world.maintainer())
                world.check(where)
    assert len(seen) > 1, seen


@pytest.mark.parametrize("pair", list(PAIRS)[:4])
def test_a_rollback_and_an_expiry_take_turns(pair: str) -> None:
    """The one comes so far, the other so far, then the one ends, then the other."""
    first, second = PAIRS[pair]
    random = Random(pair)
    for _ in range(120 // EVERY):
        world = RollbackWorld()
        places = [random.randrange(count_of(first) + 1), random.randrange(count_of(second) + 1)]
        turns = [in_turns(world, call) for call in (first, second)]
        for turn, count in zip(turns, places, strict=True):
            for _ in range(count):
                next(turn, None)
        for turn in turns:
            with suppress(MaintenanceError):
                for _ in turn:
                    pass
        world.check(places)
        world.wait()
        ended(expire, world.maintainer())
        world.check(places)


def in_turns(world: RollbackWorld, call: Call) -> Iterator[None]:
    """Make a call that stops before each of its requests."""

    def run(turns: Turns) -> None:
        class Pausing(Switch):
            def _run(self, name: str, call: Callable[[], object]) -> object:
                turns.pause()
                return super()._run(name, call)

        with suppress(MaintenanceError):
            call(world.maintainer(Pausing()))

    return Turns(run)


@pytest.mark.parametrize("mode", ["death", "death_after"])
def test_an_expiry_that_died_anywhere_refuses_the_rollback_or_lets_it_be_whole(mode: str) -> None:
    """A refusal names the run and the plan, and finishes nothing: what is not gone yet can still be had back."""
    codes = set()
    for number in range(1, count_of(expire) + 1, EVERY):
        world = RollbackWorld()
        with suppress(ProcessDeathError):
            expire(world.maintainer(Switch(number, mode)))
        world.wait()
        intent = read_lease(world.maintainer().table.area).intent  # type: ignore[arg-type]
        before = world.bodies()
        planned = world.maintainer().run("rollback", execute=False, snapshot=TARGET)
        report = roll_back(world.maintainer())
        assert planned.status == ("planned" if report.status == "done" else "refused")
        codes.add(report.refusal.code if report.refusal else report.status)
        if report.status == "done":
            assert world.is_rolled_back()
        else:
            assert report.status == "refused" and report.refusal is not None, report
            if intent is not None:
                assert report.refusal.code == "expiry_under_way", (number, report.refusal)
                assert intent.plan_id in report.refusal.message and intent.runs[-1] in report.refusal.message
            assert world.bodies() == before
        if intent is None:
            world.check(number)
        # Whoever comes next finishes what was begun.
        assert ended(roll_back_to_the_tag, world.maintainer()) == "done"
        world.check(number)
        assert world.ids()[-1] == TAGGED
    assert {"done", "expiry_under_way"} <= codes


def test_a_stored_rollback_is_refused_while_an_expiry_that_died_takes_its_target() -> None:
    """As the call is: whoever executed it would first finish what makes it impossible."""
    codes = set()
    for number in range(min(EVERY, 2), count_of(expire) + 1, EVERY):
        world = RollbackWorld()
        planned = world.maintainer().run("rollback", execute=False, snapshot=TARGET)
        assert planned.plan is not None
        with suppress(ProcessDeathError):
            expire(world.maintainer(Switch(number, "death_after")))
        world.wait()
        intent = read_lease(world.maintainer().table.area).intent  # type: ignore[arg-type]
        before = world.bodies()
        report = world.maintainer().execute(planned.plan.header.plan_id)
        codes.add(report.refusal.code if report.refusal else report.status)
        if intent is None:
            world.check(number)
        else:
            assert report.refusal is not None and report.refusal.code == "expiry_under_way", (number, report.refusal)
            assert world.bodies() == before
    assert {"done", "expiry_under_way"} <= codes


def test_a_later_target_than_what_goes_is_no_conflict() -> None:
    """The expiry is finished first, and said so."""
    for number in range(1, count_of(expire) + 1, EVERY):
        world = RollbackWorld()
        with suppress(ProcessDeathError):
            expire(world.maintainer(Switch(number, "death_after")))
        world.wait()
        report = roll_back(world.maintainer(), snapshot=END)
        assert report.status == "done", report.refusal
        world.check(number)
        assert world.ids()[-1] == END


def test_a_version_that_is_not_there_finishes_nothing() -> None:
    """The caller may want something else than what the begun expiry would leave."""
    world = RollbackWorld()
    with suppress(ProcessDeathError):
        expire(world.maintainer(Switch(count_of(expire) // 2, "death")))
    world.wait()
    before = world.bodies()
    assert ended(lambda maintainer: roll_back(maintainer, tag="nope"), world.maintainer()) == "no_such_version"
    assert ended(lambda maintainer: roll_back(maintainer, watermark=7), world.maintainer()) == "no_such_version"
    assert world.bodies() == before


@pytest.mark.parametrize("target", [{"snapshot": TARGET}, {"tag": "old"}])
@pytest.mark.parametrize("mode", ["before", "after", "death", "death_after"])
def test_a_rollback_that_breaks_anywhere_is_finished_by_an_expiry(target: dict[str, object], mode: str) -> None:
    """Every root reads in between; the end is the same, whichever operation comes next."""

    def call(maintainer: Maintainer) -> RunReport:
        return roll_back(maintainer, **target)

    whole = RollbackWorld()
    assert call(whole.maintainer()).status == "done"
    for number in range(1, count_of(roll_back) + 1, EVERY):
        world = RollbackWorld()
        with suppress(ProcessDeathError, MaintenanceError):
            call(world.maintainer(Switch(number, mode)))
        world.check(number)
        world.wait()
        has_begun = read_lease(world.maintainer().table.area).intent is not None  # type: ignore[arg-type]
        if has_begun:
            result = ended(lambda maintainer: maintainer.expire(retain_max=99, retain_min=99), world.maintainer())
            assert result in ("done", "nothing_to_do"), (number, result)
        else:
            call(world.maintainer())
        assert world.bodies() == whole.bodies(), (number, has_begun)


def engine_expires(store: MemoryStore) -> Iterator[None]:
    """Expire to `END` as the engine does: tags and range once, then files, then documents, then the hint."""
    roots = all_roots(store)
    ids = sorted(int(root.rpartition("-")[2]) for root in roots if root.startswith("snapshot/"))
    going = [f"snapshot/snapshot-{number}" for number in ids[:-1] if number < END]
    needed = {path for root in roots if root not in going for path in read_root(store, root).paths}
    files = {path for root in going for path in read_root(store, root).paths} - needed - set(going)
    yield
    for path in (*sorted(files, key=lambda path: (path.startswith("manifest/"), path)), *going):
        store.delete(delete_all([path]))
        yield
    store.put("snapshot/EARLIEST", str(min(END, ids[-1])).encode())


def test_an_engines_expiry_before_each_request_is_noticed_until_the_last_look() -> None:
    """Whole at once: the rollback is done and its target reads, or the newest snapshot is what it was."""
    calls, results = count_of(roll_back), set()
    for number in range(1, calls + 1):
        world = RollbackWorld()
        switch = Acting(number, lambda: [None for _ in engine_expires(world.store)] and None)  # noqa: B023
        result = ended(roll_back, world.maintainer(switch))
        results.add(result)
        looks = [at for at, call in enumerate(switch.calls, 1) if call == "table list "]
        where = (number, result, switch.calls[number - 1], world.ids())
        if result == "done" and number > looks[-1]:
            continue  # after the last look
        check_newest(world, where)
        if result == "done":
            assert world.is_rolled_back(), where
        else:
            assert world.ids()[-1] == NEWEST, where
    assert {"done", "target_lost_files"} <= results or {"done", "stale"} <= results


def reads(store: MemoryStore, root: str) -> bool:
    with suppress(AssertionError):
        return bool(read_root(store, root).paths)
    return False


def check_newest(world: RollbackWorld, where: object) -> None:
    """Fail unless the newest snapshot and every tag reads."""
    for root in (f"snapshot/snapshot-{world.ids()[-1]}", "tag/tag-old"):
        try:
            read_root(world.store, root)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error


@pytest.mark.parametrize("begun", [1, 3, 6, 10])
def test_an_engines_expiry_that_is_under_way_is_noticed(begun: int) -> None:
    """It has taken files before the rollback begins: refused, with their names; nothing changes."""
    world = RollbackWorld()
    steps = engine_expires(world.store)
    next(steps)
    for _ in range(begun):
        next(steps)
    before = world.bodies()
    planned = world.maintainer().run("rollback", execute=False, snapshot=TARGET)
    result = ended(roll_back, world.maintainer())
    if planned.status == "planned":  # it has not come to files of the target yet
        assert result == "done"
        return
    assert planned.refusal is not None and planned.refusal.code == "target_lost_files"
    assert result == "target_lost_files"
    assert world.bodies() == before


@pytest.mark.parametrize("pace", [1, 2, 5])
def test_an_engines_expiry_in_turns(pace: int) -> None:
    """So many of its requests before each of ours, from some request on, and the rest after the end."""
    for start in range(1, count_of(roll_back) + 1, EVERY):
        world = RollbackWorld()
        steps = engine_expires(world.store)
        looks: list[bool] = []

        class Pacing(Switch):
            def _run(self, name: str, call: Callable[[], object]) -> object:
                if len(self.calls) + 1 >= start:  # noqa: B023
                    for _ in range(pace):
                        next(steps, None)  # noqa: B023
                if name == "table list ":
                    looks.append(reads(world.store, f"snapshot/snapshot-{TARGET}"))  # noqa: B023
                return super()._run(name, call)

        switch = Pacing()
        result = ended(roll_back, world.maintainer(switch))
        assert result != "done" or looks[-1], start
        is_over = next(steps, "over") == "over"
        for _ in steps:
            pass
        where = (start, pace, result, world.ids())
        if result == "done":
            continue  # it took files after the last look, or none of the target
        assert world.ids()[-1] == NEWEST, (where, is_over)
        check_newest(world, where)
