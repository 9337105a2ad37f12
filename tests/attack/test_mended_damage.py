"""What was damaged when it was read is believed no longer than it is damaged."""

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.cache import read_cache, write_cache
from lakesweep.model.identity import table_identity
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body
from lakesweep.storage.wrappers.remembering import Remembered
from lakesweep.table.discover import discover
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

OPTIONS = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}


class Scene:
    def __init__(self) -> None:
        self.counter = RequestCounter()
        self.store = MemoryStore("memory://bucket/t", self.counter)
        self.control = MemoryStore("memory://control", self.counter)
        self.table = TableBuilder(self.store, options=OPTIONS)
        self.table.commit("+A", "+B")
        self.table.commit("-A", "+C")
        self.table.tag("t", snapshot=1)
        self.table.commit("-B", "+D")

    @property
    def maintainer(self) -> Maintainer:
        """A run of its own: all that it knows is in the control location."""
        return Maintainer(self.store, control=self.control, counter=self.counter)


@pytest.mark.parametrize("kind", ["baseManifestList", "deltaManifestList", "manifest", "snapshot", "tag", "schema"])
def test_damage_that_was_mended_is_forgotten(kind: str) -> None:
    """A run met the damage and remembered the bytes. Then somebody brought the file back, in the same length."""
    scene = Scene()
    wanted = Maintainer(scene.store).maintain(execute=False)
    scene.maintainer.maintain(execute=False)
    area = ControlArea(scene.control, scene.store.location)
    identity = _identity(scene)
    known = read_cache(area)
    paths = [path for path in known if _kind(scene, path) == kind]
    assert paths
    for path in paths:
        body = known[path].body
        known[path] = Remembered(Body(b"\0" * len(body.data), body.etag))
    write_cache(area, known, identity=identity)

    found = scene.maintainer.maintain(execute=False)

    assert found.status == wanted.status == "planned", found.refusal
    assert found.plan is not None
    assert wanted.plan is not None
    assert {each.path for each in found.plan.actions} == {each.path for each in wanted.plan.actions}
    assert found.all_warnings() == wanted.all_warnings()
    assert scene.maintainer.maintain().status == "done"
    assert_roots_readable(scene.table)


def test_damage_that_is_still_there_is_reported_and_costs_one_read_more() -> None:
    scene = Scene()
    manifest = f"manifest/{scene.table.model(scene.table.root('t')).delta[0].name}"
    scene.table.corrupt(manifest, b"\0" * len(scene.store.read(manifest).data))
    first = scene.maintainer.maintain(execute=False)
    again = scene.maintainer.maintain(execute=False)
    assert (first.status, first.refusal) == (again.status, again.refusal)
    assert first.refusal is not None
    assert manifest in first.refusal.message


def _kind(scene: Scene, path: str) -> str:
    if not path.startswith("manifest/"):
        return path.split("/", maxsplit=1)[0]
    lists = {}
    for root in scene.table.roots():
        document = scene.table.document(root)
        lists |= {document[key]: key for key in ("baseManifestList", "deltaManifestList")}
    name = path.removeprefix("manifest/")
    return str(lists.get(name, "manifest" if name.startswith("manifest-") else "other"))


def _identity(scene: Scene) -> str:
    return table_identity(discover(scene.store))
