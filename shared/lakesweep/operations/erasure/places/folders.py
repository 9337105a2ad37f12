"""Names of partitions: the folders of data files."""

from collections.abc import Iterator
from dataclasses import replace

from lakesweep.errors import StorageError
from lakesweep.model.erasure.places import Place
from lakesweep.operations.erasure.places.held import partition_folder
from lakesweep.operations.erasure.places.scene import EXPIRE, Scene
from lakesweep.storage.store import Store


def partition_folders(scene: Scene) -> Iterator[Place]:
    """Yield the folders of tainted files, if the condition names partition keys.

    A folder in S3 exists as long as an object in it. On local disks an empty one may be left.
    """
    place = Place(kind="partition_name", words="folders of partitions", state="gone")
    if not scene.keys:
        return
    if scene.listed.problem is not None:
        yield replace(place, state="unknown", why=f"no listing: {scene.listed.problem}")
        return
    there = {_above(key.rpartition("/")[0]) for name, key in scene.listed.tainted.items() if name in scene.erased.holds}
    named = {partition_folder(scene.view, each) for found in scene.held.naming for each in found.taint.partitions}
    others = {folder.rstrip("/") for folder in named if folder} - there
    left = {folder for folder in others if any(_is_in(each, folder) for each in scene.listed.folders)}
    if there:
        yield replace(place, state="there", count=len(there), ends=EXPIRE)
    if left:
        why = "objects in them belong to other rows of the partition, or to none"
        yield replace(place, state="unknown", count=len(left), why=why)
    try:
        empty = (
            sum(1 for _ in _empty(scene.view.table.store, scene)) if scene.view.table.store.location[:1] == "/" else 0
        )
        why = "they may be left of partitions with such rows"
    except StorageError as error:
        empty, why = 1, f"no listing: {error}"
    if empty:
        yield replace(place, words="empty folders of partitions", state="unknown", count=empty, why=why)
    if not (there or left or empty):
        yield place


def _above(folder: str) -> str:
    return folder.rpartition("/")[0]


def _is_in(folder: str, partition: str) -> bool:
    return f"{folder}/".startswith(f"{partition}/")


def _empty(store: Store, scene: Scene) -> Iterator[str]:
    """Yield the folders of partitions without any object."""
    full = {each.split("/")[0] for each in scene.listed.folders}
    nested: dict[str, set[str]] = {}
    for each in scene.listed.folders:
        parts = each.split("/")
        for depth in range(1, len(parts)):
            nested.setdefault("/".join(parts[:depth]), set()).add(parts[depth])

    def walk(above: str, depth: int) -> Iterator[str]:
        known = nested.get(above, set()) if above else full
        for name in store.folders(f"{above}/" if above else ""):
            if "=" not in name:
                continue
            if name not in known:
                yield f"{above}/{name}"
            elif depth > 1:
                yield from walk(f"{above}/{name}" if above else name, depth - 1)

    yield from walk("", len(scene.view.schema.partition_keys))
