"""Rows are deleted, or brought back, while others commit at every request, and while every request breaks.

What is there at the end is what both would have left one after the other, in one of the two orders; or one of them was
refused. No row is reborn, and none is lost.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from random import Random

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from tests.fault.rows_at_work import CATALOG, Busy, Crowd, did, fresh, scan
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, Interleaved, ProcessDeathError, Switch
from tests.support.interleaving import Turns
from tests.support.reader import TableReader, read_all
from tests.support.row_world import UNLOCKED, RowWorld
from tests.support.world import HOUR_MS

STEP = max(EVERY // 2, 1)
"""Of the places where a run breaks."""


class Scene(RowWorld):
    """Each partition has two data files whose vectors share an index file; one file of `e` is about to lose all rows.

    Snapshot 7 has an older file, too. `second` deleted rows 2, 3 and 8, and `first` some before.
    """

    def __init__(self) -> None:
        super().__init__()
        old = self.append(4, 71)
        self.append(1, 2, 3, 4, 5, 6)
        self.append(7, 8, 9, 10)
        self.append(21, 22, 23, dt="e")
        self.append(31, 32, 33, 34, dt="e")
        self.first = self.deleted("id IN (1, 23, 34)")
        self.second = self.deleted("id IN (2, 3, 8)")
        self.overwrite(old)
        self.now_ms += HOUR_MS

    def named(self, place: int) -> str:
        """Return the name of a data file by its place."""
        return list(self.files)[1 + place]


def scene() -> Scene:
    return fresh(Scene)


Ours = Callable[[Scene, Switch], RunReport]
OURS: Mapping[str, Ours] = {
    "delete-rows": lambda world, switch: world.delete("id IN (4, 7, 21, 22, 41)", switch, catalog=UNLOCKED),
    "undo": lambda world, switch: world.undo(world.second, switch=switch),
}


def _drop(world: Scene) -> object:
    return world.run("drop-partition", partition=["dt=d"], **CATALOG)


def _as_latest(world: Scene, snapshot: int) -> object:
    return world.run("rollback", snapshot=snapshot, as_latest=True, **CATALOG)


OTHERS: Mapping[str, Callable[[Scene], object]] = {
    "appends": lambda world: world.append(41, 42),
    "deletes rows of the same vectors": lambda world: world.delete("id IN (5, 7)"),
    "deletes rows of another file": lambda world: world.delete("id = 31"),
    "deletes the same rows, and more": lambda world: world.delete("id IN (4, 5, 7, 21, 22, 32)"),
    "compacts one file": lambda world: world.compact(world.named(0)),
    "compacts both files": lambda world: world.compact(world.named(0), world.named(1)),
    "overwrites a file": lambda world: world.overwrite(world.named(2)),
    "leaves a vector behind": lambda world: world.overwrite(world.named(1), dangles=True),
    "drops the partition": _drop,
    "rolls back": lambda world: world.run("rollback", snapshot=6),
    "rolls back as latest": lambda world: _as_latest(world, 5),
    "brings an older file back": lambda world: _as_latest(world, 7),
    "expires": lambda world: world.expire(1, status="done"),
    "cleans vectors": lambda world: world.run("clean-deletion-vectors", **CATALOG),
    "compacts manifests": lambda world: world.run("compact-manifest", **CATALOG),
    "undoes the first deletion": lambda world: world.undo(world.first),
    "undoes the second deletion": lambda world: world.undo(world.second),
}

RETURN = (
    "rolls back as latest",
    "brings an older file back",
    "undoes the first deletion",
    "undoes the second deletion",
)
"""Those that bring rows back."""

ENDS_OURS = ("rolls back", "expires")
"""Those that may take away what a commit is built on, or what an undo has to read, so that a run is refused."""


def orders(ours: Ours, other: Callable[[Scene], object]) -> set[tuple[int, ...]]:
    """Return what is left if one acts after the other, in both orders."""
    found = set()
    for first_is_ours in (True, False):
        world = scene()
        acts = [lambda world=world: ours(world, Switch()), lambda world=world: other(world)]
        for act in acts if first_is_ours else reversed(acts):
            did(act)
        found.add(tuple(world.rows()))
    return found


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", OURS)
def test_another_acts_before_every_request(name: str, other: str) -> None:
    ours, switch, alone, theirs = OURS[name], Switch(), scene(), scene()
    did(lambda: ours(alone, switch))
    did(lambda: OTHERS[other](theirs))
    allowed = orders(ours, OTHERS[other])
    nothing_left = {tuple(theirs.rows())} if not did(lambda: ours(theirs.copy(), Switch())) else set()
    for at in range(1 + list(OTHERS).index(other) % EVERY, len(switch.calls) + 1, EVERY):
        world, where = scene(), f"{other} at request {at}, {switch.calls[at - 1]}"
        others = []
        acting = Acting(at, lambda world=world, others=others: others.append(did(lambda: OTHERS[other](world))))
        is_committed = did(lambda world=world, acting=acting: ours(world, acting))
        rows = tuple(world.rows())
        if is_committed and others == [True]:
            assert rows in allowed, where
        else:
            expected = alone if is_committed else theirs if others == [True] else scene()
            assert rows == tuple(expected.rows()), where
        assert is_committed or other in ENDS_OURS or rows in nothing_left, f"{where}: it could have planned anew"
        judge(world, where, grows=name != "undo" and other not in RETURN)


def judge(world: Scene, where: str, *, grows: bool) -> None:
    """Look at every snapshot: it reads, vectors belong to live files, and they only grow unless somebody undoes it."""
    ids = world.ids()
    assert ids == list(range(ids[0], ids[-1] + 1)), where
    TableReader(world.store).read(f"snapshot/snapshot-{ids[-1]}")
    vectors = {each: world.vectors(each) for each in ids}
    for before, after in pairwise(ids):
        live = set(world.live(after))
        for name, rows in vectors[before].items():
            if grows and name in live:
                assert set(rows) <= set(vectors[after].get(name, ())), f"{where}: rows of {name} are reborn"
        if "leaves a vector" not in where:
            assert vectors[after].keys() <= live, where


@pytest.mark.parametrize("name", OURS)
def test_trouble_at_every_request(name: str, record_property: Callable[[str, object], None]) -> None:
    """It fails in four ways. What is left over are young orphans, and the next run does the work."""
    ours, switch, done = OURS[name], Switch(), scene()
    assert ours(done, switch).status in ("done", "partial")
    for number, mode in enumerate(MODES):
        places = range(1 + number % STEP, len(switch.calls) + 1, STEP)
        for at in places:
            check(ours, done, at, mode, f"{mode} at request {at}, {switch.calls[at - 1]}")
    record_property("calls", f"{len(places)} of {len(switch.calls)} requests, each in {len(MODES)} ways")


def check(ours: Ours, done: Scene, at: int, mode: str, where: str) -> None:
    world, told = scene(), None
    before, rows = world.etags(), world.rows()
    try:
        told = ours(world, Switch(at, mode)).status
    except ProcessDeathError:
        pass
    except MaintenanceError as error:
        told = "done" if "is committed" in str(error) else "failed"
    is_there = len(world.ids()) == len(done.ids())
    if told is not None:
        assert (told in ("done", "partial", "nothing_to_do")) == is_there, f"{where}: {told}"
    assert world.rows() == (done.rows() if is_there else rows), where
    leftovers = (
        world.keys() - {path for needs in read_all(world.store).values() for path in needs.paths} - before.keys()
    )
    leftovers -= {"snapshot/LATEST"}
    assert all(path.startswith(("index/index-", "manifest/")) for path in leftovers), leftovers
    assert before.keys() <= world.keys(), where
    world.wait()
    scan(world, leftovers, scene())
    assert ours(world, Switch()).status in (("nothing_to_do",) if is_there else ("done", "partial")), where
    assert world.rows() == done.rows(), where
    assert len(world.ids()) == len(done.ids()), f"{where}: one commit is enough"
    judge(world, where, grows=ours is OURS["delete-rows"])


@pytest.mark.parametrize("seed", range(2 if EVERY > 1 else 6))
def test_two_deleters_take_turns(seed: int) -> None:
    """Request by request, in a random order. Both delete rows of the same vectors; each commit is there."""
    wheres = ("id IN (4, 7, 21, 22)", "id IN (4, 5, 9, 31)")
    for number in range(6):
        random_ = Random(100 * seed + number)
        world = scene()
        reports: dict[str, RunReport | MaintenanceError] = {}

        def turns(where: str, world: Scene = world, reports: dict = reports) -> Turns:
            def call(turn: Turns) -> None:
                try:
                    reports[where] = world.delete(where, Interleaved(lambda _: turn.pause()))
                except MaintenanceError as error:
                    reports[where] = error

            return Turns(call)

        interleave([turns(where) for where in wheres], random_)
        gone = set()
        for where, ids in zip(wheres, ({4, 7, 21, 22}, {4, 5, 9, 31}), strict=True):
            report = reports[where]
            if isinstance(report, RunReport) and report.status == "done":
                gone |= ids
            else:
                assert isinstance(report, MaintenanceError) or report.status in ("refused", "stale"), report
        assert gone
        everything = {4, 5, 6, 7, 9, 10, 21, 22, 31, 32, 33}
        assert world.rows() == sorted(everything - gone), reports
        judge(world, f"seed {seed}", grows=True)


@pytest.mark.parametrize("seed", range(4 if EVERY > 1 else 40))
def test_many_at_once(seed: int) -> None:
    """Every row that no committed deletion or overwrite took is there once, whatever came in between."""
    random_, world = Random(seed), scene()
    crowd = Crowd(world, random_)

    def maintain() -> None:
        operation = random_.choice(("clean-deletion-vectors", "compact-manifest"))
        did(lambda: world.run(operation, **CATALOG))

    acts = (
        *(crowd.append, crowd.append, crowd.compact, crowd.compact),
        *(crowd.overwrite, crowd.delete, crowd.delete, maintain),
    )

    def act() -> None:
        random_.choice(acts)()

    for _ in range(6):
        crowd.delete(Busy(act, random_, random_.choice((0.03, 0.1))))
        assert world.rows() == sorted(crowd.there)
    judge(world, f"seed {seed}", grows=True)


def interleave(turns: list[Turns], random_: Random) -> None:
    """Let some calls go on in a random order until all have ended."""
    left: list[Iterator[None]] = list(turns)
    while left:
        each = random_.choice(left)
        for _ in range(random_.choice((1, 1, 2, 5, 12))):
            if next(each, 0) == 0:
                left.remove(each)
                break
    for each in turns:
        each.close()


@pytest.mark.parametrize("name", OURS)
def test_a_writer_without_a_condition_replaces_the_snapshot(name: str) -> None:
    """The change is committed again, on that writer's; nothing that the lost snapshot named is used again."""
    world, lost = scene(), set[str]()
    former, newest = world.keys(), world.ids()[-1]

    def replace() -> None:
        lost.update(world.keys() - former)
        world.lose(f"snapshot/snapshot-{newest + 1}")
        world.append(61)

    report = OURS[name](world, Acting(lambda call: call == "table read snapshot/LATEST", replace))
    assert report.status in ("done", "partial"), report
    assert report.commits is not None and report.commits.made[0].replaced == 1
    needs = TableReader(world.store).read(f"snapshot/snapshot-{newest + 2}")
    assert not lost & (needs.paths - {f"snapshot/snapshot-{newest + 1}"})
    alone = scene()
    OURS[name](alone, Switch())
    assert world.rows() == sorted([*alone.rows(), 61])
