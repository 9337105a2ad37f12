"""Links and folders below an allowed external root, which somebody swaps between the look and the deletion."""

import ctypes
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import MaintenanceError
from lakesweep.execute.deletions.deleting import send
from lakesweep.model.plan import Delete
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.open import open_store
from lakesweep.storage.store import Store
from lakesweep.table.fence import FenceRules
from lakesweep.table.stores import TableStores

NAME = "data-11111111-2222-3333-4444-000000000001-0.parquet"
FILE = f"bucket-0/{NAME}"


class Scene:
    """A table that declares `ext/root`, an allowed root `ext`, and a table of somebody else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ext = folder / "ext"
        self.good = self._filled(self.ext / "good")
        self.root = self.ext / "root"

    def _filled(self, place: Path) -> Path:
        (place / "bucket-0").mkdir(parents=True)
        (place / FILE).write_bytes(str(place).encode())
        return place

    def victim(self, place: Path) -> Path:
        """Make a table of which the file is live."""
        for document in ("snapshot/snapshot-1", "schema/schema-0"):
            (place / document).parent.mkdir(parents=True)
            (place / document).write_bytes(b"{}")
        return self._filled(place)

    def stores(self, opened: Callable[[str], Store] = open_store) -> TableStores:
        rules = FenceRules((str(self.root),), (str(self.ext),), str(self.folder / "control"))
        return TableStores(LocalStore(str(self.folder / "mine")), rules, opened)

    def link(self, target: str) -> None:
        self.root.unlink(missing_ok=True)
        self.root.symlink_to(target)

    def delete(self, stores: TableStores, before: Callable[[], None] = lambda: None) -> str:
        """Delete the file below the declared root, as a run does, and return what became of it."""
        path = f"{self.root}/{FILE}"
        try:
            return send(stores, [Delete("data", "data", path, 1, "a test")], before)[path].code
        except MaintenanceError as error:
            return error.code


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path.resolve())


def exchange(one: Path, other: Path) -> None:
    """Let two names change places at once."""
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    assert ctypes.CDLL(None, use_errno=True).renameat2(here, os.fsencode(one), here, os.fsencode(other), both) == 0


def test_a_link_that_is_turned_after_the_look_leads_no_deletion_elsewhere(scene: Scene) -> None:
    """What the fence decided about goes, whatever the link says by then."""
    victim = scene.victim(scene.folder / "victim")
    scene.link("good")
    assert scene.delete(scene.stores(), lambda: scene.link("../victim")) == "deleted"
    assert (victim / FILE).exists()
    assert not (scene.good / FILE).exists()


@pytest.mark.parametrize("at", range(12))
@pytest.mark.parametrize("place", ["victim", "ext/victim"])
def test_a_link_that_is_turned_at_any_opening_leads_no_deletion_elsewhere(scene: Scene, place: str, at: int) -> None:
    """Also where the other table lies below the allowed root."""
    victim = scene.victim(scene.folder / place)
    count = itertools.count()  # the fence looks in threads

    def opened(location: str) -> Store:
        if next(count) == at:
            scene.link(str(victim))
        return open_store(location)

    scene.link("good")
    stores = scene.stores(opened)
    for _ in range(2):  # a second run of the same call finds what the first one opened
        scene.delete(stores)
    assert (victim / FILE).exists()


def test_a_link_that_is_turned_back_and_forth_leads_no_deletion_elsewhere(scene: Scene) -> None:
    """Each question finds the good folder, and each deletion the other table."""
    victim = scene.victim(scene.folder / "victim")
    scene.link("good")
    stores = scene.stores()
    for _ in range(3):
        scene.link("good")
        scene.delete(stores, lambda: scene.link("../victim"))
    assert (victim / FILE).exists()


@pytest.mark.parametrize("part", ["ext/root", "ext/root/bucket-0", "ext"])
def test_a_folder_that_becomes_a_link_after_the_look_keeps_the_file(scene: Scene, part: str) -> None:
    scene.victim(scene.folder / "victim")
    scene.good.rename(scene.root)
    elsewhere = scene.folder / "elsewhere"
    for lead in ("root/bucket-0", "bucket-0"):
        (elsewhere / lead).mkdir(parents=True)
        (elsewhere / lead / NAME).write_bytes(b"somebody's")
    (elsewhere / NAME).write_bytes(b"somebody's")
    link = scene.folder / "link"
    link.symlink_to(elsewhere)
    code = scene.delete(scene.stores(), lambda: exchange(scene.folder / part, link))
    assert code in ("is_link", "moved")
    assert len([each for each in elsewhere.rglob(NAME) if each.exists()]) == 3


@pytest.mark.parametrize("part", ["", "bucket-0"])
def test_a_folder_that_changes_places_with_another_table_after_the_look_keeps_its_file(scene: Scene, part: str) -> None:
    """Who may write the folder around a table may rename it, without the right to write in it."""
    victim = scene.victim(scene.ext / "victim")
    scene.good.rename(scene.root)
    body = (victim / FILE).read_bytes()
    assert scene.delete(scene.stores(), lambda: exchange(scene.root / part, victim / part)) == "moved"
    assert (scene.root / FILE).read_bytes() == body


def test_a_folder_that_changes_places_between_two_looks_keeps_its_file(scene: Scene) -> None:
    """The looks for `snapshot/` and `schema/` are at the folder that loses the file."""
    victim = scene.victim(scene.ext / "victim")
    scene.good.rename(scene.root)
    body = (victim / FILE).read_bytes()
    stores = scene.stores()
    assert stores.stays([("data", f"{scene.root}/{FILE}")]) == {}
    exchange(scene.root, victim)
    assert scene.delete(stores) == "moved"
    assert (scene.root / FILE).read_bytes() == body


def test_a_folder_that_was_not_there_at_the_look_keeps_its_file(scene: Scene) -> None:
    """Somebody moves another table to where nothing was."""
    victim = scene.victim(scene.ext / "victim")
    assert scene.delete(scene.stores(), lambda: victim.rename(scene.root)) == "moved"
    assert (scene.root / FILE).exists()


def test_of_a_swapped_folder_all_files_stay(scene: Scene) -> None:
    """Not only the first one of a request."""
    scene.good.rename(scene.root)
    other = scene.victim(scene.ext / "victim")
    paths = []
    for number in range(3):
        name = f"data-11111111-2222-3333-4444-{number:012d}-0.parquet"
        (other / "bucket-0" / name).write_bytes(b"live")
        paths.append(f"{scene.root}/bucket-0/{name}")
    deletes = [Delete("data", "data", path, 1, "a test") for path in paths]
    found = send(scene.stores(), deletes, lambda: exchange(scene.root, other))
    assert {result.code for result in found.values()} == {"moved"}
    assert all(Path(path).exists() for path in paths)


def test_an_allowed_root_that_became_a_link_allows_nothing(scene: Scene) -> None:
    """The operator's own spelling is resolved once, when the call begins."""
    elsewhere = scene.folder / "elsewhere"
    scene.good.rename(scene.root)
    scene.ext.rename(elsewhere)
    scene.ext.symlink_to(elsewhere)
    assert scene.delete(scene.stores()) == "external_root_not_allowed"
    assert (elsewhere / "root" / FILE).exists()


def test_a_plain_link_below_an_allowed_root_still_leads_to_files_there(scene: Scene) -> None:
    scene.link("good")
    assert scene.delete(scene.stores()) == "deleted"
    assert not (scene.good / FILE).exists()


def test_a_link_to_a_table_that_is_turned_moves_no_control_documents(scene: Scene) -> None:
    """A call that began with one table's lease goes on with that lease, plan and ledger."""
    scene.link("good")
    area = ControlArea(LocalStore(str(scene.folder / "control")), str(scene.root))
    before = area.path("lease.json")
    scene.link("../victim")
    assert area.path("lease.json") == before
