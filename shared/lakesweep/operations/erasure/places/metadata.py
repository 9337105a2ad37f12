"""Metadata that may have values of erased rows: manifests, lists, statistics, indexes, and names of partitions."""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import or_

from lakesweep.model.erasure.places import Place
from lakesweep.model.roots import base_name
from lakesweep.operations.erasure.places.files import unknown_objects
from lakesweep.operations.erasure.places.folders import partition_folders
from lakesweep.operations.erasure.places.held import NamingManifest
from lakesweep.operations.erasure.places.listed import SAMPLE
from lakesweep.operations.erasure.places.orphaned import orphan_manifests
from lakesweep.operations.erasure.places.scene import COMPACT, EXPIRE, ORPHANS, Scene, in_words
from lakesweep.operations.erasure.places.statistics import has_bounds
from lakesweep.operations.erasure.places.stats import Taint

_ICEBERG = "metadata.iceberg.storage"
_STATS = "a smallest or largest value in their statistics may be such a value"


def metadata_places(scene: Scene) -> Iterator[Place]:
    """Yield the places of metadata."""
    orphans = orphan_manifests(scene.view.table.store, scene.listed.manifests, scene.erased, scene.held.names)
    yield from _manifests(scene, orphans)
    yield from _lists(scene, orphans)
    yield from _indexes(scene, orphans)
    yield _statistics(scene)
    yield from _iceberg(scene)
    yield from partition_folders(scene)


def _tells(scene: Scene, taint: Taint) -> bool:
    return bool(taint.stats or taint.indexes or taint.strangers or not taint.is_known or (scene.keys and taint.entries))


def _manifests(scene: Scene, orphans: dict[str, Taint]) -> Iterator[Place]:
    held, listed = scene.held, scene.listed
    place = Place(kind="manifest", words="manifests", state="gone")
    groups: dict[tuple[bool, bool], list[NamingManifest]] = {}
    for each in held.naming:
        if _tells(scene, each.taint):
            is_sure = bool(scene.keys) and bool(each.taint.partitions)
            groups.setdefault((is_sure, each.taint.is_known), []).append(each)
    for (is_sure, is_known), found in groups.items():
        refs = held.refs_in(reduce(or_, (each.named_by for each in found)))
        until = scene.until(refs)
        why = _STATS if is_known else "they cannot be read"
        yield replace(
            place,
            words=f"manifests of {in_words(refs)}",
            state="there" if is_sure else "unknown",
            count=len(found),
            paths=tuple(f"manifest/{each.name}" for each in found[:SAMPLE]),
            until=None if until is None else until.says,
            until_ms=None if until is None else until.at_ms,
            ends=f"{COMPACT}, then {EXPIRE}",
            why=None if is_sure else why,
        )
    if held.unread_manifests:
        yield replace(
            place,
            words="manifests and lists that roots name",
            state="unknown",
            count=len(held.unread_manifests),
            paths=tuple(sorted(held.unread_manifests)[:SAMPLE]),
            ends=EXPIRE,
            why="they cannot be read",
        )
    telling = {name: taint for name, taint in orphans.items() if _tells(scene, taint)}
    if telling or listed.problem is not None:
        yield replace(
            place,
            words="manifests that no root names",
            state="unknown",
            count=len(telling),
            paths=tuple(f"manifest/{name}" for name in sorted(telling)[:SAMPLE]),
            ends=ORPHANS,
            why=_STATS if listed.problem is None else f"no listing: {listed.problem}",
        )
    if not (groups or held.unread_manifests or telling or listed.problem):
        yield place


def _lists(scene: Scene, orphans: dict[str, Taint]) -> Iterator[Place]:
    """Yield the lists: their ranges of partitions are values only if the condition names partition keys."""
    held, place = scene.held, Place(kind="manifest_list", words="manifest lists", state="gone")
    roots = reduce(or_, (each.named_by for each in held.naming), 0) if scene.keys else 0
    if roots:
        refs = held.refs_in(roots)
        until = scene.until(refs)
        yield replace(
            place,
            words=f"manifest lists of {in_words(refs)}",
            state="unknown",
            count=len(refs),
            until=None if until is None else until.says,
            until_ms=None if until is None else until.at_ms,
            ends=f"{COMPACT}, then {EXPIRE}",
            why="a bound of their partitions may be such a value",
        )
    lists = scene.listed.lists if scene.keys else []
    if lists:
        yield replace(
            place,
            words="manifest lists that no root names",
            state="unknown",
            count=len(lists),
            paths=tuple(f"manifest/{name}" for name in sorted(lists)[:SAMPLE]),
            ends=ORPHANS,
            why="a bound of their partitions may be such a value",
        )
    if scene.keys and scene.listed.problem is not None:
        yield replace(place, state="unknown", why=f"no listing: {scene.listed.problem}")
    elif not (roots or lists):
        yield place


def _indexes(scene: Scene, orphans: dict[str, Taint]) -> Iterator[Place]:
    inside = sum(each.taint.indexes for each in scene.held.naming) + sum(each.indexes for each in orphans.values())
    why = "an index may contain values of rows"
    if inside:
        yield Place(
            kind="file_index", words="indexes inside of manifests", state="unknown", count=inside,
            ends=f"{COMPACT}, then {EXPIRE}", why=why,
        )  # fmt: skip
    beside = unknown_objects(scene, "file_index", "indexes beside data files with such rows", "sidecar", why, EXPIRE)
    if not inside or beside.state != "gone":
        yield beside
    yield unknown_objects(scene, "global_index", "global indexes", "global_index", why)


def _statistics(scene: Scene) -> Place:
    """Return the statistics files; one that was written after the erasure, and only of other roots, is none."""
    listed, held, place = scene.listed, scene.held, Place(kind="statistics", words="statistics files", state="gone")
    if listed.problem is not None:
        return replace(place, state="unknown", why=f"no listing: {listed.problem}")
    tainted = reduce(or_, held.tainted.values(), 0)
    named = {each.path: each.named_by for each in held.holders.named() if each.kind == "statistics"}
    found = [
        key
        for key, modified_ms in sorted(listed.statistics.items())
        if (scene.erased_ms is None or modified_ms <= scene.erased_ms or named.get(key, 0) & tainted)
        and has_bounds(scene.view.table.store, key) is not False
    ]
    if not found:
        return place
    refs = held.refs_in(reduce(or_, (named.get(key, 0) for key in found)))
    until = scene.until(refs) if refs else None
    return replace(
        place,
        state="unknown",
        count=len(found),
        paths=tuple(found[:SAMPLE]),
        until=None if until is None else until.says,
        until_ms=None if until is None else until.at_ms,
        ends=f"ANALYZE in Spark, then {EXPIRE}",
        why="a smallest or largest value in them may be such a value",
    )


def _iceberg(scene: Scene) -> Iterator[Place]:
    why = "bounds in it may be such values, and Lakesweep does not read it"
    beside = unknown_objects(scene, "iceberg", "metadata for Iceberg readers", "iceberg", why)
    stated = scene.view.schema.options.get(_ICEBERG, "disabled").lower()
    if stated not in ("", "disabled", "table-location"):
        words = f"metadata for Iceberg readers outside the table ({_ICEBERG} is {base_name(stated)})"
        yield Place(kind="iceberg", words=words, state="unknown", why=why)
        if beside.state == "gone":
            return
    yield beside
