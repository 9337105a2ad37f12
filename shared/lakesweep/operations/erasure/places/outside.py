"""Places outside the table: Lakesweep's own documents, and Spark's logs."""

from collections.abc import Iterator
from dataclasses import replace

from lakesweep.control.area import ControlArea
from lakesweep.errors import MaintenanceError, StorageError
from lakesweep.model.erasure.places import OLD_CACHES, Place
from lakesweep.operations.erasure.places.orphaned import cached_manifests
from lakesweep.operations.erasure.places.scene import Scene
from lakesweep.storage.open import noncurrent_days, object_versions

_CACHE = "cache.bin"
_NAMES = ("plans/", "ledger/", "reports/", "orphans.ndjson.gz", "lease.json")
"""Documents that contain paths of data files, or names of partitions."""


def outside_places(scene: Scene) -> Iterator[Place]:
    """Yield the places outside the table."""
    yield from _control(scene)
    yield Place(
        kind="event_log",
        words="Spark's event logs, and the history of statements",
        state="unknown",
        why="the text of a statement, and Spark's plans, show the values of a condition; Lakesweep cannot see them",
    )


def _control(scene: Scene) -> Iterator[Place]:
    """Yield the control location. No document in it has values of rows, but for copies of manifests and names."""
    area = scene.view.table.area
    place = Place(kind="control", words="documents of Lakesweep, none of which has values of rows", state="gone")
    if area is None:
        return
    found = False
    cache = replace(
        place, words="copies of manifests in the metadata cache", state="unknown", count=1,
        paths=(area.path(_CACHE),), ends="delete the cache, which is safe",
    )  # fmt: skip
    try:
        cached = cached_manifests(area, scene.erased, scene.held.names)
        names = [name for name in area.names("") if name.startswith(_NAMES)] if scene.keys else []
    except MaintenanceError as error:
        yield replace(cache, paths=(), why=f"the control location could not be read: {error}")
        return
    if cached is None or any(
        scene.keys or each.stats or each.indexes or each.strangers or not each.is_known for each in cached.values()
    ):
        found = True
        why = "it cannot be read" if cached is None else "statistics of manifests in it may be such values"
        yield replace(cache, why=why)
    for old in _old_caches(scene, area):
        found = True
        yield old
    if names:
        found = True
        yield replace(
            place,
            words="plans, ledger and reports of Lakesweep",
            state="unknown",
            count=len(names),
            paths=tuple(area.path(name) for name in sorted(names)[:5]),
            why="paths of data files in them contain the names of their partitions",
        )
    if not found:
        yield place


def _old_caches(scene: Scene, area: ControlArea) -> Iterator[Place]:
    """Yield the old versions of the cache, if a bucket keeps some from before the manifests were gone."""
    place, key = Place(kind="control", words=OLD_CACHES, state="unknown"), area.prefix + _CACHE
    try:
        pages = object_versions(area.store, key) or ()
        versions = [each for page in pages for each in page if each.key == key and not each.is_current]
    except StorageError as error:
        yield replace(place, why=f"the versions of its bucket could not be listed: {error}")
        return
    old = [each for each in versions if scene.clean_ms is None or each.modified_ms <= scene.clean_ms]
    if old:
        days = noncurrent_days(area.store)
        yield replace(
            place,
            count=len(old),
            paths=(area.path(_CACHE),),
            until=None if days is None else f"until the bucket's lifecycle rule deletes them, {days} days after",
            why="statistics of manifests in them may be such values",
        )
