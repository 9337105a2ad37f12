"""Tables with a primary key are compacted while every request breaks, and while others act at every request.

Readers see the newest row of each key once, or what they saw before. The next run does the rest. What a run leaves
behind are young orphans.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.storage.store import DeleteRequest
from tests.fault.rows_at_work import CATALOG, did
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.keyed_world import KeyedWorld
from tests.support.live_records import document_of
from tests.support.reader import read_all
from tests.support.row_world import LOCKED, UNLOCKED

LEFT = ("index/index-", "manifest/", "dt=a/bucket-", "dt=b/bucket-")
VECTORS_OFF = {"deletion-vectors.enabled": "false"}


def made(options: Mapping[str, str] | None = None, *, rounds: int = 1) -> KeyedWorld:
    """Return a table with large files on level 5, and files above them.

    What waits on level 0 replaces rows, deletes some, and has keys of its own, so that one file only moves up.
    """
    world = KeyedWorld(options)
    world.put({(dt, number): f"old {number}" for dt in "ab" for number in range(12)})
    assert world.merge(full=True).status == "done"
    for round_ in range(1, rounds + 1):
        world.put({("a", round_): f"{round_}", ("a", 2 * round_): f"{round_}", ("b", 3): None})
        if round_ < rounds:
            assert world.merge().status == "done"
    world.put({("b", 100): "new", ("b", 102): "new"})
    world.now_ms += 3_600_000
    return world


SCENES: Mapping[str, tuple[Callable[[], KeyedWorld], dict[str, Any]]] = {
    "minor": (made, {}),
    "many runs": (lambda: made(rounds=4), {}),
    "full": (lambda: made(rounds=3), {"full": True}),
    "without vectors": (lambda: made(VECTORS_OFF), {"full": True}),
}
_MADE: dict[str, KeyedWorld] = {}


def fresh(scene: str) -> KeyedWorld:
    if scene not in _MADE:
        _MADE[scene] = SCENES[scene][0]()
    return _MADE[scene].copy()


@pytest.mark.parametrize("scene", SCENES)
def test_trouble_at_every_request(record_property: Callable[[str, object], None], scene: str) -> None:
    """A run fails in four ways. The next one does the work."""
    switch, done, how = Switch(), fresh(scene), SCENES[scene][1]
    assert done.merge(switch, **how).status == "done"
    assert done.seen() == done.model
    checked = 0
    for number, mode in enumerate(MODES):
        step = 4 * EVERY if EVERY > 1 else 1
        for at in range(1 + (number * EVERY + list(SCENES).index(scene)) % step, len(switch.calls) + 1, step):
            trouble(scene, at, mode, f"{mode} at request {at}, {switch.calls[at - 1]}")
            checked += 1
    record_property("calls", f"{checked} of {len(switch.calls)} requests in {len(MODES)} ways")


def trouble(scene: str, at: int, mode: str, where: str) -> None:
    world, how, told = fresh(scene), SCENES[scene][1], None
    before, files, count = world.seen(), world.keys(), len(world.ids())
    try:
        told = world.merge(Switch(at, mode), **how).status
    except ProcessDeathError:
        pass
    except MaintenanceError as error:
        told = "done" if "is committed" in str(error) else "failed"
    is_there = len(world.ids()) == count + 1
    assert told is None or (told == "done") == is_there, f"{where}: {told}"
    assert world.seen() == (world.model if is_there else before), where
    needed = {path for needs in read_all(world.store).values() for path in needs.paths}
    leftovers = world.keys() - needed - files - {"snapshot/LATEST"}
    assert all(path.startswith(LEFT) for path in leftovers), leftovers
    assert files <= world.keys(), where
    world.wait()
    orphans(world, leftovers, where)
    assert world.merge(**how).status == ("nothing_to_do" if is_there else "done"), where
    assert (world.seen(), len(world.ids())) == (world.model, count + 1), f"{where}: one commit is enough"


def orphans(world: KeyedWorld, leftovers: set[str], where: str) -> None:
    """Of the usual age there are none, and of any age these are all."""
    other, kept = world.copy(), world.keys()
    assert other.run("remove-orphan-files").status == "nothing_to_do", where
    report = other.run("remove-orphan-files", older_than="0 s", no_writers="the only writer is dead")
    assert report.status == ("done" if leftovers else "nothing_to_do"), report
    assert kept - other.keys() == leftovers, where


class Others:
    """What somebody else does to a table. Each act leaves in `model` what readers see in the end."""

    def __init__(self, world: KeyedWorld) -> None:
        self.world = world
        self._former = document_of(world.store, 3).get("indexManifest")
        self._mine = set(world.ids())

    def writes_new_keys(self) -> None:
        self.world.put({("a", 500): "n", ("b", 501): "n"})

    def writes_the_same_keys(self) -> None:
        self.world.put({("a", 1): "n", ("b", 3): "n", ("b", 100): "n"})

    def deletes_rows(self) -> None:
        self.world.put({("a", 1): None, ("a", 5): None, ("b", 100): None})

    def compacts(self) -> None:
        self.world.rival()

    def compacts_fully(self) -> None:
        self.world.rival(full=True, partitions=("dt=a",))

    def compacts_and_expires(self) -> None:
        self.world.rival(full=True)
        self.world.expire(1, status="done")

    def drops_a_partition(self) -> None:
        if self.world.run("drop-partition", partition=["dt=a"], **CATALOG).status == "done":
            self.world.model = {key: value for key, value in self.world.model.items() if key[0] != "a"}

    def rolls_back(self) -> None:
        if self.world.run("rollback", snapshot=3).status == "done":
            self.world.model = self.world.models[2]

    def rolls_back_as_latest(self) -> None:
        if self.world.run("rollback", snapshot=3, as_latest=True, **CATALOG).status == "done":
            self.world.model = self.world.models[2]

    def rolls_back_elsewhere(self) -> None:
        """With another control location."""
        control, self.world.control = self.world.control, self.world.new_control()
        try:
            self.rolls_back_as_latest()
        finally:
            self.world.control = control

    def tags_and_expires(self) -> None:
        self.world.run("create-tag", tag="t", status="done")
        self.world.expire(1, status="done")

    def cleans_vectors(self) -> None:
        self.world.run("clean-deletion-vectors", **CATALOG)

    def compacts_manifests(self) -> None:
        self.world.run("compact-manifest", **CATALOG)

    def overwrites_in_one_bucket(self) -> None:
        self.world.overwrite("a", {1: "r", 2: "r", 3: "r"})

    def forgets_marks(self) -> None:
        """Somebody has former vectors in mind."""
        self.world.document(indexManifest=self._former)

    def adds_a_column(self) -> None:
        self._alter(column=True)

    def switches_vectors_off(self) -> None:
        self._alter(**{"deletion-vectors.enabled": "false"})

    def lets_others_compact(self) -> None:
        self._alter(**{"write-only": "false"})

    def replaces_the_snapshot(self) -> None:
        newest = self.world.ids()[-1]
        if newest not in self._mine:
            self.world.store.delete([DeleteRequest(f"snapshot/snapshot-{newest}")])
            self.world.put({("a", 77): "racer"})

    def _alter(self, *, column: bool = False, **options: str) -> None:
        schema = json.loads(self.world.store.read("schema/schema-0").data)
        number = schema["highestFieldId"] + 1
        if column:
            schema["fields"].append({"id": number, "name": "x", "type": "STRING"})
        schema |= {"id": 1, "highestFieldId": number, "options": schema["options"] | options}
        self.world.store.put("schema/schema-1", json.dumps(schema).encode())


ACTS = [name for name in vars(Others) if not name.startswith("_")]
ENDS_OURS = ("compacts_and_expires", "tags_and_expires")
"""What is read first may be gone then."""
STATUSES = ("done", "partial", "stale", "nothing_to_do")


@pytest.mark.parametrize("act", ACTS)
def test_another_acts_before_every_request(record_property: Callable[[str, object], None], act: str) -> None:
    """Rows are there once, and none that is gone comes back. A run makes lost marks good."""
    checked = 0
    for place, scene in enumerate(("minor", "many runs", "full")):
        for catalog in (LOCKED, UNLOCKED):
            switch, how = Switch(), {**SCENES[scene][1], "catalog": catalog}
            fresh(scene).merge(switch, **how)
            step = 4 * EVERY if EVERY > 1 else 1
            first = (ACTS.index(act) + 5 * place + 2 * (catalog is LOCKED)) % step
            for at in range(1 + first, len(switch.calls) + 1, step):
                meanwhile(scene, act, at, how, f"{scene}, {act} at request {at}, {switch.calls[at - 1]}")
                checked += 1
    record_property("calls", f"{checked} requests")


def meanwhile(scene: str, act: str, at: int, how: dict[str, Any], where: str) -> None:
    world = fresh(scene)
    others, schemas = Others(world), world.keys("schema/")
    acting = Acting(at, lambda: did(getattr(others, act)))
    try:
        report = world.merge(acting, **how)
        is_altered = world.keys("schema/") != schemas
        assert report.status in STATUSES or act in ENDS_OURS or is_altered, f"{where}: {report}"
    except MaintenanceError as error:
        assert act in ENDS_OURS, f"{where}: {error}"
    assert acting.has_acted, where
    if act == "switches_vectors_off":
        return  # readers see what vectors had hidden
    told = [world.merge(sole_compactor=True) for _ in range(3)]
    assert all(each.status in ("done", "nothing_to_do") or act == "forgets_marks" for each in told), f"{where}: {told}"
    assert told[-1].status == "nothing_to_do", f"{where}: {told[-1]}"
    assert world.seen() == world.model, where
    assert world.merge(full=True, sole_compactor=True).status in ("done", "nothing_to_do"), where
    assert world.seen() == world.model, where
