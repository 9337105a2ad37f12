"""Rows are deleted by rewriting data files, while others commit at every request, and while every request breaks.

The table has no deletion vectors. What is there at the end is what both would have left one after the other, in one of
the two orders. No row is reborn, none is lost, and none is there twice.
"""

from collections.abc import Callable, Mapping
from random import Random

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from tests.fault.rows_at_work import CATALOG, Busy, Crowd, did, fresh, of, scan
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.live_records import document_of
from tests.support.reader import TableReader, read_all
from tests.support.row_world import UNLOCKED, RowWorld, rows_of
from tests.support.world import HOUR_MS

WHERE = "id IN (4, 7, 21, 22, 23, 41)"
"""Some rows of two files, all rows of another, and a row that somebody may append."""
LEFT = ("manifest/", "dt=d/bucket-0/data-", "dt=e/bucket-0/data-")


class Scene(RowWorld):
    """Each partition has two data files; snapshot 6 has an older one, too."""

    def __init__(self) -> None:
        super().__init__(options={"deletion-vectors.enabled": "false"})
        old = self.append(4, 71)
        self.append(1, 2, 3, 4, 5, 6)
        self.append(7, 8, 9, 10)
        self.append(21, 22, 23, dt="e")
        self.append(31, 32, 33, 34, dt="e")
        self.append(11, 12)
        self.overwrite(old)
        self.now_ms += HOUR_MS

    def rewrite(self, *ids: int) -> None:
        """Take rows out as an engine does: data files with such rows leave, and one file gets their other rows."""
        rows = self.rows_by_file()
        names = [name for name, found in rows.items() if set(found) & set(ids)]
        for dt in {self.files[name].partition[0] for name in names}:
            own = [name for name in names if self.files[name].partition[0] == dt]
            kept = [each for name in own for each in rows[name] if each not in ids]
            self.foreign(adds=[self._write(kept, dt)] if kept else (), deletes=own, kind="OVERWRITE")


def scene() -> Scene:
    return fresh(Scene)


def _compact_and_expire(world: Scene) -> object:
    """Delete data files that a run may be about to read."""
    world.compact(*of(world, 1, 2, 7, 8))
    return world.expire(1, status="done")


OTHERS: Mapping[str, Callable[[Scene], object]] = {
    "appends": lambda world: world.append(41, 42),
    "deletes the same rows, and more": lambda world: world.delete("id IN (4, 5, 7, 21, 32)"),
    "deletes rows of another file": lambda world: world.delete("id = 31"),
    "rewrites the same file": lambda world: world.rewrite(2, 7),
    "rewrites another file": lambda world: world.rewrite(33),
    "compacts both files": lambda world: world.compact(*of(world, 1, 2, 7, 8)),
    "compacts, and expires": _compact_and_expire,
    "compacts as well": lambda world: world.merge(catalog=UNLOCKED),
    "overwrites a file": lambda world: world.overwrite(*of(world, 21)),
    "drops the partition": lambda world: world.run("drop-partition", partition=["dt=d"], **CATALOG),
    "rolls back": lambda world: world.run("rollback", snapshot=5),
    "brings an older file back": lambda world: world.run("rollback", snapshot=6, as_latest=True, **CATALOG),
    "expires": lambda world: world.expire(1, status="done"),
    "compacts manifests": lambda world: world.run("compact-manifest", **CATALOG),
}
MAY_END_OURS = ("rolls back", "expires", "compacts, and expires")


def ours(world: Scene, switch: Switch | None = None) -> RunReport:
    return world.delete(WHERE, switch or Switch(), catalog=UNLOCKED)


@pytest.mark.parametrize("other", OTHERS)
def test_another_acts_before_every_request(other: str) -> None:
    switch, alone = Switch(), scene()
    assert ours(alone, switch).status == "done"
    allowed = {tuple(after(OTHERS[other], first_is_ours=each)) for each in (True, False)}
    theirs = scene()
    did(lambda: OTHERS[other](theirs))
    for at in range(1 + list(OTHERS).index(other) % EVERY, len(switch.calls) + 1, EVERY):
        world, where = scene(), f"{other} at request {at}, {switch.calls[at - 1]}"
        others: list[bool] = []
        acting = Acting(at, lambda world=world, others=others: others.append(did(lambda: OTHERS[other](world))))
        is_committed = did(lambda world=world, acting=acting: ours(world, acting))
        rows = tuple(world.rows())
        if is_committed:
            assert rows in (allowed if others == [True] else {tuple(alone.rows())}), where
        else:
            assert rows == tuple((theirs if others == [True] else scene()).rows()), where
            assert other in MAY_END_OURS or not did(lambda: ours(theirs.copy())), f"{where}: it could have planned anew"
        judge(world, where)


def after(other: Callable[[Scene], object], *, first_is_ours: bool) -> list[int]:
    """Return what is left if one acts after the other."""
    world = scene()
    acts = [lambda: ours(world), lambda: other(world)]
    for act in acts if first_is_ours else reversed(acts):
        did(act)
    return world.rows()


def judge(world: Scene, where: str) -> None:
    """Look at every snapshot: it reads, its counts are right, and no row is there twice."""
    ids = world.ids()
    assert ids == list(range(ids[0], ids[-1] + 1)), where
    TableReader(world.store).read(f"snapshot/snapshot-{ids[-1]}")
    for each in ids:
        rows = world.rows(each)
        assert len(rows) == len(set(rows)) or 71 in rows, f"{where}: snapshot {each} has a row twice"
        assert document_of(world.store, each)["totalRecordCount"] == len(rows), where


def test_trouble_at_every_request(record_property: Callable[[str, object], None]) -> None:
    """A run fails in four ways. What is left over are young orphans, and the next run does the work."""
    switch, done = Switch(), scene()
    assert ours(done, switch).status == "done"
    for number, mode in enumerate(MODES):
        places = range(1 + number % EVERY, len(switch.calls) + 1, EVERY)
        for at in places:
            check(done, at, mode, f"{mode} at request {at}, {switch.calls[at - 1]}")
    record_property("calls", f"{len(places)} of {len(switch.calls)} requests, each in {len(MODES)} ways")


def check(done: Scene, at: int, mode: str, where: str) -> None:
    world, told = scene(), None
    before, rows = world.etags(), world.rows()
    try:
        told = ours(world, Switch(at, mode)).status
    except ProcessDeathError:
        pass
    except MaintenanceError as error:
        told = "done" if "is committed" in str(error) else "failed"
    is_there = len(world.ids()) == len(done.ids())
    assert told is None or (told == "done") == is_there, f"{where}: {told}"
    assert world.rows() == (done.rows() if is_there else rows), where
    needed = {path for needs in read_all(world.store).values() for path in needs.paths}
    leftovers = world.keys() - needed - before.keys() - {"snapshot/LATEST"}
    assert all(path.startswith(LEFT) for path in leftovers), leftovers
    assert before.items() - {"snapshot/LATEST": before["snapshot/LATEST"]}.items() <= world.etags().items(), where
    world.wait()
    scan(world, leftovers, scene())
    assert ours(world).status == ("nothing_to_do" if is_there else "done"), where
    assert (world.rows(), len(world.ids())) == (done.rows(), len(done.ids())), f"{where}: one commit is enough"
    judge(world, where)


def test_what_was_rewritten_is_used_again_after_an_append() -> None:
    """New files of others are not searched: they come after the deletion. After an overwrite all are."""
    for act, attempts, puts in ((lambda world: world.append(43), 2, 2), (lambda world: world.rewrite(2), 2, 3)):
        world, calls = scene(), list[str]()
        acting = Acting(lambda call: call.startswith("table put manifest/manifest-list"), lambda: act(world))  # noqa: B023
        report = ours(world, acting)
        calls += [each for each in acting.calls if each.startswith("table put dt=")]
        assert (report.status, rows_of(report).made[0].attempts, len(calls)) == ("done", attempts, puts), calls


def test_nothing_is_named_again_after_a_rollback() -> None:
    """The rollback comes while nothing was sent. Who deletes orphans may have taken what no snapshot named."""
    world, written = scene(), set[str]()
    former = world.keys()

    def act() -> None:
        written.update(key for key in world.keys() - former if "/data-" in key)
        world.run("rollback", snapshot=6)
        for path in written:
            world.lose(path)

    report = ours(world, Acting(lambda call: call.startswith("table put manifest/manifest-list"), act))
    assert written and report.status == "done", report
    judge(world, "after a rollback")
    assert not {path.rpartition("/")[2] for path in written} & set(world.live())


def test_a_writer_without_a_condition_replaces_the_snapshot() -> None:
    """The rows are deleted again, on that writer's snapshot; nothing that the lost one named is used again."""
    world, lost = scene(), set[str]()
    former, newest = world.keys(), world.ids()[-1]

    def replace() -> None:
        lost.update(world.keys() - former)
        world.lose(f"snapshot/snapshot-{newest + 1}")
        world.append(61)

    report = ours(world, Acting(lambda call: call == "table read snapshot/LATEST", replace))
    assert report.status == "done" and rows_of(report).made[0].replaced == 1, report
    needs = TableReader(world.store).read(f"snapshot/snapshot-{newest + 2}")
    assert any("/data-" in path for path in lost)
    assert not lost & (needs.paths - {f"snapshot/snapshot-{newest + 1}"})
    alone = scene()
    ours(alone)
    assert world.rows() == sorted([*alone.rows(), 61])


@pytest.mark.parametrize("seed", range(2 if EVERY > 1 else 40))
def test_many_at_once(seed: int) -> None:
    """Every row that no committed deletion or overwrite took is there once, whatever came in between."""
    random_, world = Random(seed), scene()
    crowd = Crowd(world, random_)

    def rewrite() -> None:
        ids = set(random_.sample(sorted(crowd.there), min(2, len(crowd.there))))
        world.rewrite(*ids)
        crowd.there.difference_update(ids)

    acts = (crowd.append, crowd.append, crowd.compact, crowd.overwrite, crowd.delete, crowd.delete, rewrite)

    def act() -> None:
        random_.choice(acts)()

    for _ in range(4):
        crowd.append()
        crowd.delete(Busy(act, random_, random_.choice((0.03, 0.1))))
        assert world.rows() == sorted(crowd.there)
    judge(world, f"seed {seed}")
