"""Two repairs at once, and metadata that somebody wrote by hand."""

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

from lakesweep.errors import MaintenanceError
from tests.support.faulty_store import Interleaved, Switch
from tests.unit.operations.repair.repair_world import (
    RepairWorld,
    calls_of_a_repair,
    lossy,
    manifest_of,
    refusal_of,
    repair_of,
    vanish,
)


@pytest.mark.parametrize("other", ["files", "manifests"])
@pytest.mark.parametrize("at", range(1, len(calls_of_a_repair()) + 1))
def test_another_repair_runs_before_any_request(at: int, other: str) -> None:
    """Each loss is left out once, and nothing else."""
    world = lossy()
    if other == "manifests":
        vanish(world, manifest_of(world, "snapshot/snapshot-2"))
    has_begun = False

    def repair(number: int) -> None:
        nonlocal has_begun
        if number == at and not has_begun:
            has_begun = True
            getattr(world, other)(Switch())

    try:
        world.files(Interleaved(repair))
    except MaintenanceError:
        pass
    world.wait()
    world.manifests()
    world.files()
    assert world.live() == ({"A", "C", "D"} if other == "files" else {"A", "C"})
    assert world.newest().document["totalRecordCount"] == 10 * len(world.live())
    assert world.ids() == ([1, 2, 3] if other == "files" else [1, 2, 3, 4])


def rewrite(world: RepairWorld, name: str, change: Callable[[list[Any]], object]) -> int:
    """Change the records of a manifest or list; return its size."""
    reader = fastavro.reader(io.BytesIO(world.store.read(f"manifest/{name}").data))
    records, out = list(reader), io.BytesIO()
    change(records)
    assert isinstance(reader.writer_schema, dict)
    fastavro.writer(out, reader.writer_schema, records)
    world.store.put(f"manifest/{name}", out.getvalue())
    return len(out.getvalue())


def rewrite_list(world: RepairWorld, snapshot: int, change: Callable[[list[Any]], object]) -> None:
    """Change the records of the base list of a snapshot, and what the snapshot says of its size."""
    document = world.table.document(f"snapshot/snapshot-{snapshot}")
    document["baseManifestListSize"] = rewrite(world, document["baseManifestList"], change)
    world.store.put(f"snapshot/snapshot-{snapshot}", json.dumps(document).encode())


@pytest.mark.parametrize("lost", ["nothing", "manifest", "file"])
@pytest.mark.parametrize("repair", ["files", "manifests"])
def test_a_manifest_that_is_listed_twice_refuses(repair: str, lost: str) -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    rewrite_list(world, 3, lambda records: records.append(records[0]))
    if lost != "nothing":
        vanish(world, manifest_of(world, "snapshot/snapshot-1") if lost == "manifest" else world.table.path("A"))
    before = world.bodies()
    for execute in (False, True):
        report = getattr(world, repair)(execute=execute)
        assert refusal_of(report) == "corrupt_manifests" and report.refusal is not None
        assert ("twice" in report.refusal.message) or (repair, lost) == ("files", "manifest")
    assert world.bodies() == before


NAMES = ["../../snapshot/snapshot-1", "/etc/passwd", "a//b", "", ".", "..", "a\0b", "x" * 2000, "plain"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("repair", ["files", "manifests"])
def test_a_name_that_no_file_can_have_is_not_given_up(repair: str, name: str) -> None:
    """A store has no answer about it."""
    world = RepairWorld()
    world.fill("A", "B")
    manifest = manifest_of(world, "snapshot/snapshot-1").removeprefix("manifest/")

    def rename(records: list[Any]) -> None:
        records[0]["_FILE"]["_FILE_NAME"] = name

    size = rewrite(world, manifest, rename)
    rewrite_list(world, 2, lambda records: records[0].update(_FILE_SIZE=size))
    before = world.bodies()
    report = getattr(world, repair)(execute=False)
    if name == "plain":
        found = repair_of(report)
        assert (*(each.path for each in found.files), *found.left_files) == ("dt=dA/bucket-0/plain",)
        return
    assert report.status == "refused" and report.refusal is not None
    assert "size" not in report.refusal.message, report
    assert getattr(world, repair)().status == "refused"
    assert world.bodies() == before
