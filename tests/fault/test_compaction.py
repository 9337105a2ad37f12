"""Data files are compacted while others commit at every request, and while every request breaks.

Rows stay whatever happens: what is there at the end is what the others would have left before or after. No row is there
twice, and none is reborn. What a run leaves behind are young orphans.
"""

import json
from collections.abc import Callable, Mapping
from random import Random

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from tests.fault.rows_at_work import CATALOG, Busy, Crowd, did, fresh, of, scan
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.live_records import document_of
from tests.support.reader import TableReader, read_all
from tests.support.row_world import LOCKED, UNLOCKED, RowWorld, compacted
from tests.support.rows_read import read_rows
from tests.support.world import HOUR_MS

LEFT = ("index/index-", "manifest/", "dt=d/bucket-0/data-", "dt=e/bucket-0/data-")


class Scene(RowWorld):
    """Each partition has two data files whose vectors share an index file. `second` deleted rows 2, 3 and 8."""

    def __init__(self) -> None:
        super().__init__()
        self.append(1, 2, 3, 4, 5, 6)
        self.append(7, 8, 9, 10)
        self.append(21, 22, 23, dt="e")
        self.append(31, 32, 33, 34, dt="e")
        self.deleted("id IN (1, 23, 34)")
        self.second = self.deleted("id IN (2, 3, 8)")
        self.now_ms += HOUR_MS


def scene() -> Scene:
    return fresh(Scene)


def _compact_and_expire(world: Scene) -> object:
    """Delete data files that a run may be about to read."""
    world.compact(*of(world, 4, 5, 6, 7, 9, 10))
    return world.expire(1, status="done")


OTHERS: Mapping[str, Callable[[Scene], object]] = {
    "appends": lambda world: world.append(41, 42),
    "deletes a row": lambda world: world.delete("id IN (5, 32)"),
    "deletes every row of a file": lambda world: world.delete("id IN (31, 32, 33)"),
    "compacts one partition": lambda world: world.compact(*of(world, 4, 5, 6, 7, 9, 10)),
    "compacts, and expires": _compact_and_expire,
    "compacts as well": lambda world: world.merge(catalog=UNLOCKED),
    "overwrites a file": lambda world: world.overwrite(*of(world, 22)),
    "leaves a vector behind": lambda world: world.overwrite(*of(world, 7), dangles=True),
    "drops the partition": lambda world: world.run("drop-partition", partition=["dt=d"], **CATALOG),
    "rolls back": lambda world: world.run("rollback", snapshot=5),
    "rolls back as latest": lambda world: world.run("rollback", snapshot=5, as_latest=True, **CATALOG),
    "expires": lambda world: world.expire(1, status="done"),
    "cleans vectors": lambda world: world.run("clean-deletion-vectors", **CATALOG),
    "compacts manifests": lambda world: world.run("compact-manifest", **CATALOG),
    "undoes a deletion": lambda world: world.undo(world.second),
}
MAY_END_OURS = ("rolls back", "expires", "compacts, and expires")


def allowed_after(other: Callable[[Scene], object]) -> set[tuple[int, ...]]:
    """Return what is left if one acts after the other, in both orders."""
    found = set()
    for first_is_ours in (True, False):
        world = scene()
        acts = [lambda world=world: world.merge(), lambda world=world: other(world)]
        for act in acts if first_is_ours else reversed(acts):
            did(act)
        found.add(tuple(world.rows()))
    return found


@pytest.mark.parametrize("catalog", [LOCKED, UNLOCKED], ids=["locked", "unlocked"])
@pytest.mark.parametrize("other", OTHERS)
def test_another_acts_before_every_request(other: str, catalog: object) -> None:
    switch, alone = Switch(), scene()
    assert alone.merge(switch, catalog=catalog).status == "done"
    allowed = allowed_after(OTHERS[other])
    step = 2 * EVERY if EVERY > 1 else 1
    first = (1 + 3 * list(OTHERS).index(other) + (catalog is LOCKED)) % step
    for at in range(1 + first, len(switch.calls) + 1, step):
        world, where = scene(), f"{other} at request {at}, {switch.calls[at - 1]}"
        before, others = world.rows(), []
        acting = Acting(at, lambda world=world, others=others: others.append(did(lambda: OTHERS[other](world))))
        try:
            report = world.merge(acting, catalog=catalog)
            assert report.status in ("done", "partial", "stale", "nothing_to_do") or other in MAY_END_OURS, where
        except MaintenanceError:
            assert other in MAY_END_OURS, where
        assert acting.has_acted
        assert tuple(world.rows()) in (allowed if others == [True] else {tuple(before)}), where
        judge(world, where)


def judge(world: RowWorld, where: str) -> None:
    """Look at every snapshot: it reads, no row is there twice, and a compaction changes no row."""
    ids = world.ids()
    assert ids == list(range(ids[0], ids[-1] + 1)), where
    TableReader(world.store).read(f"snapshot/snapshot-{ids[-1]}")
    former = None
    for each in ids:
        rows = world.rows(each)
        assert len(rows) == len(set(rows)), f"{where}: snapshot {each} has a row twice"
        document = document_of(world.store, each)
        if document["commitKind"] == "COMPACT" and former is not None:
            assert rows == former, f"{where}: compaction {each} changed rows"
        if "leaves a vector" not in where:
            assert world.vectors(each).keys() <= set(world.live(each)), where
        total = sum(entry["_FILE"]["_ROW_COUNT"] for entry in world.entries(each).values())
        assert document["totalRecordCount"] == total, where
        former = rows


def test_trouble_at_every_request(record_property: Callable[[str, object], None]) -> None:
    """A run fails in four ways. What is left over are young orphans, and the next run does the work."""
    switch, done = Switch(), scene()
    assert done.merge(switch).status == "done"
    for number, mode in enumerate(MODES):
        places = range(1 + number % EVERY, len(switch.calls) + 1, EVERY)
        for at in places:
            check(done, at, mode, f"{mode} at request {at}, {switch.calls[at - 1]}")
    record_property("calls", f"{len(places)} of {len(switch.calls)} requests, each in {len(MODES)} ways")


def check(done: Scene, at: int, mode: str, where: str) -> None:
    world, told = scene(), None
    before, rows = world.etags(), world.rows()
    try:
        told = world.merge(Switch(at, mode)).status
    except ProcessDeathError:
        pass
    except MaintenanceError as error:
        told = "done" if "is committed" in str(error) else "failed"
    is_there = len(world.ids()) == len(done.ids())
    assert told is None or (told == "done") == is_there, f"{where}: {told}"
    assert world.rows() == rows, where
    needed = {path for needs in read_all(world.store).values() for path in needs.paths}
    leftovers = world.keys() - needed - before.keys() - {"snapshot/LATEST"}
    assert all(path.startswith(LEFT) for path in leftovers), leftovers
    assert before.items() - {"snapshot/LATEST": before["snapshot/LATEST"]}.items() <= world.etags().items(), where
    world.wait()
    scan(world, leftovers, scene())
    assert world.merge().status == ("nothing_to_do" if is_there else "done"), where
    assert (world.rows(), len(world.ids())) == (rows, len(done.ids())), f"{where}: one commit is enough"
    judge(world, where)


def test_a_writer_without_a_condition_replaces_the_snapshot() -> None:
    """The files are merged again, on that writer's snapshot; nothing that the lost one named is used again."""
    world, lost = scene(), set[str]()
    rows, former, newest = world.rows(), world.keys(), world.ids()[-1]

    def replace() -> None:
        lost.update(world.keys() - former)
        world.lose(f"snapshot/snapshot-{newest + 1}")
        world.append(61)

    acting = Acting(lambda call: call == "table read snapshot/LATEST", replace)
    report = world.merge(acting, catalog=UNLOCKED)
    assert acting.has_acted and report.status == "done", report
    assert compacted(report).made[0].replaced == 1
    needs = TableReader(world.store).read(f"snapshot/snapshot-{newest + 2}")
    assert any("/data-" in path for path in lost)
    assert not lost & (needs.paths - {f"snapshot/snapshot-{newest + 1}"})
    assert world.rows() == sorted([*rows, 61])


def test_what_was_rewritten_is_used_again_after_an_append() -> None:
    """Only then: each attempt after a snapshot was sent, or after a rollback, rewrites anew."""
    world, calls = scene(), list[str]()
    acting = Acting(lambda call: call.startswith("table put manifest/manifest-list"), lambda: world.append(41))
    report = world.merge(acting)
    calls += [each for each in acting.calls if each.startswith("table put dt=")]
    assert (report.status, len(calls)) == ("done", 2), calls
    assert compacted(report).made[0].attempts == 2


def test_nothing_is_named_again_after_a_rollback() -> None:
    """The rollback comes while nothing was sent. Who deletes orphans may have taken what no snapshot named."""
    world, written = scene(), set[str]()
    former = world.keys()

    def act() -> None:
        written.update(key for key in world.keys() - former if "/data-" in key)
        world.run("rollback", snapshot=5)
        for path in written:
            world.lose(path)

    acting = Acting(lambda call: call.startswith("table put manifest/manifest-list"), act)
    report = world.merge(acting)
    assert acting.has_acted and written and report.status == "done", report
    judge(world, "after a rollback")
    assert not {path.rpartition("/")[2] for path in written} & set(world.live())


def test_a_schema_that_comes_meanwhile() -> None:
    """The new files have the columns of the former one, so they are not committed."""
    world = scene()
    document, former = json.loads(world.store.read("schema/schema-0").data), world.ids()

    def act() -> None:
        world.store.put("schema/schema-1", json.dumps({**document, "id": 1}).encode())
        world.append(41)

    acting = Acting(lambda call: call.startswith("table put manifest/manifest-list"), act)
    report = world.merge(acting)
    assert report.refusal is not None and "schema 1 came" in report.refusal.message, report
    assert world.ids() == [*former, former[-1] + 1]
    assert world.merge().status == "done"
    judge(world, "a schema")


def test_vectors_of_files_that_are_gone_are_not_copied() -> None:
    """Beside one, Paimon refuses commits about other files."""
    world = scene()
    world.append(11, 12)
    world.deleted("id IN (4, 11)")
    world.overwrite(*of(world, 12), dangles=True)
    assert world.merge(partitions=("dt=d",)).status == "done"
    assert world.vectors().keys() <= set(world.live())


def test_a_branch_is_compacted_alone() -> None:
    """Main keeps its files and vectors, which the branch shared."""
    world = scene()
    assert world.run("create-tag", tag="t").status == "done"
    assert world.run("create-branch", branch="b", tag="t").status == "done"
    before = world.rows(), world.vectors(), world.ids()
    report = compact(world.maintainer(branch="b").table, CompactArguments(LOCKED, full=True), execute=True)
    assert (report.status, compacted(report).written_files) == ("done", 2), report
    assert (world.rows(), world.vectors(), world.ids()) == before
    assert sorted(row["id"] for row in read_rows(world.store, branch="b")) == before[0]


@pytest.mark.parametrize("seed", range(2 if EVERY > 1 else 40))
def test_many_at_once(seed: int) -> None:
    """Every row that no committed deletion or overwrite took is there once, whatever came in between."""
    random_, world = Random(seed), scene()
    crowd = Crowd(world, random_)

    def merge() -> None:
        did(lambda: world.merge(catalog=crowd.catalog()))

    acts = (
        *(crowd.append, crowd.append, crowd.append, crowd.compact),
        *(crowd.overwrite, crowd.delete, crowd.delete, merge),
    )

    def act() -> None:
        random_.choice(acts)()

    for _ in range(4):
        crowd.append()
        crowd.append()
        busy = Busy(act, random_, random_.choice((0.03, 0.1)))
        try:
            report: RunReport | None = world.merge(busy, catalog=crowd.catalog())
        except MaintenanceError:
            report = None
        assert report is None or report.status in ("done", "partial", "stale", "nothing_to_do"), report
        assert world.rows() == sorted(crowd.there)
    judge(world, f"seed {seed}")
