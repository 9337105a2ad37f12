"""What was damaged when it was read is believed no longer than it is damaged."""

import pytest

from lakesweep.control.cache import read_cache, write_cache
from lakesweep.model.identity import table_identity
from lakesweep.storage.store import Body
from lakesweep.storage.wrappers.remembering import Remembered
from lakesweep.table.discover import discover
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.world import World

OPTIONS = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}


class TaggedWorld(World):
    """Each run of it knows what is in the control location, and nothing else."""

    def __init__(self) -> None:
        super().__init__(options=OPTIONS)
        self.table.commit("+A", "+B")
        self.table.commit("-A", "+C")
        self.table.tag("t", snapshot=1)
        self.table.commit("-B", "+D")


@pytest.mark.parametrize("kind", ["baseManifestList", "deltaManifestList", "manifest", "snapshot", "tag", "schema"])
def test_damage_that_was_mended_is_forgotten(kind: str) -> None:
    """A run met the damage and remembered the bytes. Then somebody brought the file back, in the same length."""
    world = TaggedWorld()
    wanted = Maintainer(world.store).maintain(execute=False)
    world.maintain(execute=False)
    area = world.area
    identity = _identity(world)
    known = read_cache(area)
    paths = [path for path in known if _kind(world, path) == kind]
    assert paths
    for path in paths:
        body = known[path].body
        known[path] = Remembered(Body(b"\0" * len(body.data), body.etag))
    write_cache(area, known, identity=identity)

    found = world.maintain(execute=False)

    assert found.status == wanted.status == "planned", found.refusal
    assert found.plan is not None
    assert wanted.plan is not None
    assert {each.path for each in found.plan.actions} == {each.path for each in wanted.plan.actions}
    assert found.all_warnings() == wanted.all_warnings()
    assert world.maintain().status == "done"
    assert_roots_readable(world.table)


def test_damage_that_is_still_there_is_reported_and_costs_one_read_more() -> None:
    world = TaggedWorld()
    manifest = f"manifest/{world.table.model(world.table.root('t')).delta[0].name}"
    world.table.corrupt(manifest, b"\0" * len(world.store.read(manifest).data))
    first = world.maintain(execute=False)
    again = world.maintain(execute=False)
    assert (first.status, first.refusal) == (again.status, again.refusal)
    assert first.refusal is not None
    assert manifest in first.refusal.message


def _kind(world: TaggedWorld, path: str) -> str:
    if not path.startswith("manifest/"):
        return path.split("/", maxsplit=1)[0]
    lists = {}
    for root in world.table.roots():
        document = world.table.document(root)
        lists |= {document[key]: key for key in ("baseManifestList", "deltaManifestList")}
    name = path.removeprefix("manifest/")
    return str(lists.get(name, "manifest" if name.startswith("manifest-") else "other"))


def _identity(world: TaggedWorld) -> str:
    return table_identity(discover(world.store))
