"""What is merely unreadable is never given up: each kind of file, each answer, each repair."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesweep.errors import AccessDeniedError, MaintenanceError, StorageError
from lakesweep.model.report import RunReport
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.remove_unexisting_files import remove_unexisting_files
from lakesweep.operations.repair.remove_unexisting_manifests import remove_unexisting_manifests
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import StoredObject
from tests.support.faulty_store import Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import read_root
from tests.support.table_builder import TableBuilder
from tests.unit.operations.repair.repair_world import FILES, RepairWorld, manifest_of, refusal_of, repair_of, vanish

UNAWARE = {"bucket": "-1", "deletion-vectors.enabled": "true"}
ANSWERS = {
    "403": AccessDeniedError("read: denied"),
    "503": StorageError("read: slow down", code="SlowDown"),
    "archived": StorageError("read: archived", code="InvalidObjectState"),
    "no bucket": StorageError("read: no bucket", code="no_such_bucket"),
    "bare 404": StorageError("read: a proxy says so", code="404"),
    "damaged": None,
}
KINDS = ("snapshot", "schema", "base list", "delta list", "manifest", "index manifest", "index file", "data file",
         "side file", "statistics")  # fmt: skip
READ = ("snapshot", "schema", "base list", "delta list", "manifest", "index manifest")
"""What a repair reads; of the others it only asks whether they exist."""
CASES = [
    (kind, answer, is_hidden)
    for kind in KINDS
    for answer in ANSWERS
    for is_hidden in (False, True)
    if answer != "damaged" or (kind in READ and not is_hidden)
]
REPAIRS = {"files": remove_unexisting_files, "manifests": remove_unexisting_manifests}


class Unreadable(Switch):
    """No listing shows an object, if it is hidden, and each read of it has this answer."""

    def __init__(self, path: str, answer: StorageError, *, is_hidden: bool) -> None:
        super().__init__()
        self._path, self._answer, self._is_hidden = path, answer, is_hidden
        self.answered = 0

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if name.startswith(f"table read {self._path}"):
            self.answered += 1
            raise self._answer
        found = super()._run(name, call)
        if self._is_hidden and name.startswith("table list") and isinstance(found, list | tuple):
            return [each for each in found if not isinstance(each, StoredObject) or each.key != self._path]
        return found


def table_of_all(lost: str) -> tuple[RepairWorld, dict[str, str]]:
    """Return a table that has lost something, and a path of each kind that its newest snapshot needs."""
    world = RepairWorld(options=UNAWARE)
    files = {name: (f"d{name}",) for name in "ABCD"}
    world.table.commit("+A", "+B", partition=files, index={"I": {"A": [1]}}, extra={"A": ["index"]})
    world.table.commit("+C", partition=files)
    world.table.commit("+D", partition=files)
    world.table.commit(statistics="S", kind="ANALYZE")
    world.now_ms += 3_600_000
    document = world.table.document("snapshot/snapshot-4")
    paths = {
        "snapshot": "snapshot/snapshot-4",
        "schema": "schema/schema-0",
        "base list": f"manifest/{document['baseManifestList']}",
        "delta list": f"manifest/{document['deltaManifestList']}",
        "manifest": manifest_of(world, "snapshot/snapshot-1"),
        "index manifest": f"manifest/{document['indexManifest']}",
        "index file": world.table.path("I"),
        "data file": world.table.path("A"),
        "side file": world.table.path("A", "index"),
        "statistics": f"statistics/{document['statistics']}",
    }
    vanish(world, world.table.path("B") if lost == "files" else manifest_of(world, "snapshot/snapshot-2"))
    return world, paths


@pytest.mark.parametrize(("kind", "answer", "is_hidden"), CASES)
@pytest.mark.parametrize("repair", REPAIRS)
def test_what_is_unreadable_is_not_given_up(repair: str, kind: str, answer: str, is_hidden: bool) -> None:
    """A file that a listing shows is not read, so it stays named. What is read, or not listed, has to answer."""
    world, paths = table_of_all(repair)
    accepted = repair_of(getattr(world, repair)(execute=False)).loss_id
    path, error = paths[kind], ANSWERS[answer]
    switch = Switch() if error is None else Unreadable(path, error, is_hidden=is_hidden)
    if error is None:
        world.table.corrupt(path, world.store.read(path).data[:-20] + b"x" * 20)
    before = world.bodies()
    for execute in (False, True):
        try:
            report = getattr(world, repair)(switch, execute=execute, accept_loss=accepted)
        except MaintenanceError:
            report = None
        if report is None or report.status == "refused":
            assert world.bodies() == before
        else:
            assert not is_hidden and kind not in READ, report
            assert report.status == ("done" if execute else "planned")
    if world.bodies() != before and kind != "statistics":
        assert path in read_root(world.store, "snapshot/snapshot-5").paths


@pytest.mark.parametrize("answer", [each for each in ANSWERS if each != "damaged"])
@pytest.mark.parametrize("hint", ["LATEST", "EARLIEST"])
def test_a_hint_that_is_unreadable_is_not_written(hint: str, answer: str) -> None:
    world = RepairWorld()
    world.fill("A", "B", "C")
    world.table.hint("LATEST", 2)
    world.table.hint("EARLIEST", 2)
    before, error = world.bodies(), ANSWERS[answer]
    assert error is not None
    for execute in (False, True):
        with pytest.raises(StorageError):
            world.maintainer(Unreadable(f"snapshot/{hint}", error, is_hidden=False)).run(
                "repair-hints", execute=execute
            )
    assert world.bodies() == before


@pytest.mark.parametrize("answer", [each for each in ANSWERS if each != "damaged"])
def test_a_snapshot_that_may_exist_is_not_given_up_by_a_hint(answer: str) -> None:
    world = RepairWorld()
    world.fill("A", "B")
    world.table.hint("LATEST", 9)
    error = ANSWERS[answer]
    assert error is not None
    report = world.maintainer(Unreadable("snapshot/snapshot-9", error, is_hidden=True)).run("repair-hints")
    assert refusal_of(report) == "existence_unknown"
    assert world.store.read("snapshot/LATEST").data == b"9"


# A local disk.


def local(folder: Path, repair: str, *, execute: bool = True, accepts: bool = True) -> RunReport:
    maintainer, accepted = Maintainer(LocalStore(folder), control=MemoryStore()), None
    if execute and accepts:
        shown = local(folder, repair, execute=False)
        accepted = None if shown.commits is None else repair_of(shown).loss_id
    return REPAIRS[repair](maintainer.table, RepairArguments(FILES, accepted), execute=execute)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = TableBuilder(LocalStore(tmp_path / "t"), partition_keys=["dt"])
    for name in "ABC":
        table.commit(f"+{name}", partition=(f"d{name}",))
    return tmp_path / "t"


def bodies(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", ["dt=dB", "dt=dB/bucket-0"])
def test_a_file_where_a_folder_was_hides_what_lies_below(folder: Path, place: str) -> None:
    shutil.move(folder / place, folder.parent / "away")
    (folder / place).write_text("offline")
    before = bodies(folder)
    for execute in (False, True):
        report = local(folder, "files", execute=execute)
        assert refusal_of(report) == "existence_unknown"
    assert bodies(folder) == before


@pytest.mark.parametrize("place", ["dt=dB", "dt=dB/bucket-0"])
def test_a_folder_that_is_certainly_gone_counts(folder: Path, place: str) -> None:
    """But a partition without any file is doubtful, since a lost mount looks the same."""
    shutil.rmtree(folder / place)
    shown = local(folder, "files", execute=False)
    assert any("lost mount" in each for each in repair_of(shown).doubts)
    assert refusal_of(local(folder, "files", accepts=False)) == "loss_not_accepted"
    assert local(folder, "files").status == "done"


def test_links_are_not_followed_and_not_given_up(folder: Path) -> None:
    shutil.move(folder / "dt=dB", folder.parent / "away")
    (folder / "dt=dB").symlink_to(folder.parent / "nowhere")
    (file,) = (folder / "dt=dC/bucket-0").iterdir()
    file.rename(folder.parent / "file")
    file.symlink_to(folder.parent / "file")
    before = bodies(folder)
    assert refusal_of(local(folder, "files")) == "existence_unknown"
    assert bodies(folder) == before
