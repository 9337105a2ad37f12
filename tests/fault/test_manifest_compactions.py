"""A compaction of manifests breaks or dies at every request: no file is lost, none comes back, none is there twice."""

from collections import Counter
from collections.abc import Callable

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.runs.committing.catalog import Catalog
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.live_records import Record, document_of, listed, live_records
from tests.support.raw_manifests import Made, RawManifests, deleted, entry
from tests.unit.format.samples import NEW_MANIFEST
from tests.unit.operations.manifests.manifest_world import FILES, ManifestWorld


def scene() -> ManifestWorld:
    """A table of two writers, whose compaction reads some manifests twice, and writes two."""
    world = ManifestWorld()
    RawManifests(world.store).snapshot(
        Made([entry("d"), entry("e")]),
        Made([entry("f"), deleted(entry("d"))]),
        Made([entry("a", "2"), entry("b", "2")], NEW_MANIFEST),
        delta=[Made([entry("c", "3"), deleted(entry("a", "2"))], NEW_MANIFEST)],
    )
    return world


def calls() -> list[str]:
    world, switch = scene(), Switch()
    assert world.compact(switch, catalog=UNLOCKED).status == "done"
    assert sum("put manifest/manifest-" in call and "-list-" not in call for call in switch.calls) == 2
    return switch.calls


UNLOCKED = Catalog(FILES.type)
"""Then a run also looks whether its snapshot stays."""


def test_trouble_at_every_request(record_property: Callable[[str, object], None]) -> None:
    names = calls()
    places = range(1, len(names) + 1, 1 if EVERY == 1 else 2)
    for mode in MODES:
        for at in places:
            check(scene(), at, mode, names[at - 1])
    record_property("calls", f"{len(places)} of {len(names)} requests, each in {len(MODES)} ways")


def check(world: ManifestWorld, at: int, mode: str, name: str) -> None:
    """Break one request, look at the table, and compact again."""
    before = live_records(world.store, 1)
    report, error = attempt(world, Switch(at, mode))
    where = f"{mode} at request {at}, {name}"
    look(world, before, where)
    if report is not None and report.status == "done":
        assert [made.snapshot_id for made in world.figures(report).made] == [2], where
    elif error is not None and "is committed" not in str(error):
        assert world.ids() == [1], f"{where}: an error says that nothing was committed: {error}"
    world.wait()
    exists = world.ids() == [1, 2]
    assert world.compact().status == ("nothing_to_do" if exists else "done"), where
    look(world, before, where)
    assert world.ids() == [1, 2], f"{where}: one compaction is enough"
    assert not any(line["_NUM_DELETED_FILES"] for line in listed(world.store, 2)), where


def attempt(world: ManifestWorld, switch: Switch) -> tuple[RunReport | None, MaintenanceError | None]:
    """Return the report, or the error; neither of a process that has died."""
    try:
        return world.compact(switch, catalog=UNLOCKED), None
    except MaintenanceError as error:
        return None, error
    except ProcessDeathError:
        return None, None


def look(world: ManifestWorld, before: Counter[Record], where: str) -> None:
    """Read each snapshot: all that it names is there, and it has the same files."""
    for snapshot_id in world.ids():
        assert live_records(world.store, snapshot_id) == before, where
        document = document_of(world.store, snapshot_id)
        for key in ("baseManifestList", "deltaManifestList"):
            size = len(world.store.read(f"manifest/{document[key]}").data)
            assert size == document[f"{key}Size"], where
        for line in listed(world.store, snapshot_id):
            body = world.store.read(f"manifest/{line['_FILE_NAME']}").data
            assert len(body) == line["_FILE_SIZE"], where
