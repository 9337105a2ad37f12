"""Objects that have, or may have, rows of the erasure: data files, their indexes, orphan files and old versions."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lakesweep.errors import RefusedError
from lakesweep.model.erasure.places import REASONS, Kind, Place, State
from lakesweep.model.roots import base_name
from lakesweep.operations.erasure.places.listed import Objects
from lakesweep.operations.erasure.places.scene import ENDS, EXPIRE, ORPHANS, Scene
from lakesweep.storage.open import noncurrent_days
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.stores import declared_roots

_DAY_MS = 86_400_000
_OLD: Mapping[str, tuple[State, str, str | None]] = {
    "old holds": ("there", "old versions of data files with such rows", None),
    "old may_hold": (
        "unknown",
        "old versions of data files, or indexes, that may have such values",
        "the files could not be searched",
    ),
    "old orphan": (
        "unknown",
        "old versions of data files that no root needs",
        "they were deleted before the search, or by somebody else",
    ),
    "old metadata": (
        "unknown",
        "old versions of manifests and other metadata",
        "their statistics may be such values",
    ),
}


def file_places(scene: Scene) -> Iterator[Place]:
    """Yield the places of data files, and of objects that no root needs."""
    yield from _data_files(scene)
    yield from _old_versions(scene)
    yield _place(
        scene,
        Place(kind="orphan", words="files that no root needs", state="unknown", ends=ORPHANS),
        "orphan",
        "no root says what is in them",
    )
    yield _place(
        scene,
        Place(kind="other_object", words="objects that Paimon does not write there, and links", state="unknown"),
        "other_object",
        "somebody else wrote them",
    )


def _data_files(scene: Scene) -> Iterator[Place]:
    listed, erased = scene.listed, scene.erased
    whole = Place(kind="data_file", words="data files with such rows", state="gone")
    if outside := _outside(scene):
        why = "external roots are not listed"
        yield Place(kind="data_file", words=f"data files below {outside}", state="unknown", ends=EXPIRE, why=why)
    if erased.unread:
        why = f"the search could not read {len(erased.unread)} documents that name data files"
        yield Place(
            kind="data_file", words="data files that nobody knows", state="unknown", count=0,
            paths=scene.paths(erased.unread), ends="erase", why=why,
        )  # fmt: skip
    if listed.problem is not None:
        yield replace(whole, state="unknown", count=len(erased.names), why=f"no listing: {listed.problem}")
        return
    groups: dict[tuple[bool, bool], list[str]] = {}
    for name, key in listed.tainted.items():
        groups.setdefault((name in erased.holds, bool(scene.held.tainted.get(name))), []).append(key)
    for (is_sure, is_needed), paths in sorted(groups.items(), reverse=True):
        words = whole.words if is_sure else "data files that could not be searched"
        refs = scene.held.refs_in(scene.held.tainted[base_name(paths[0])]) if is_needed else []
        for path in paths[1:] if is_needed else ():
            refs += scene.held.refs_in(scene.held.tainted[base_name(path)])
        until = scene.until(refs) if refs else None
        reasons = [] if is_sure else sorted({REASONS[erased.may_hold[base_name(path)]] for path in paths})
        yield replace(
            whole,
            words=f"{words}, which roots need" if is_needed else f"{words}, which no root needs",
            state="there" if is_sure else "unknown",
            count=len(paths),
            paths=scene.paths(paths),
            until=None if until is None else until.says,
            until_ms=None if until is None else until.at_ms,
            ends=" and ".join(sorted({ENDS[ref.kind] for ref in refs}, reverse=True)) or ORPHANS,
            why="; ".join(reasons) or None,
        )
    if not groups:
        yield whole


def _outside(scene: Scene) -> str:
    """Return the external roots of the table in words; "" for none."""
    store = scene.view.table.store
    try:
        return ", ".join(declared_roots(store.location, read_all_schemas(store, scene.view.listing)))
    except RefusedError:
        return "roots that a schema names, which cannot be read"


def _old_versions(scene: Scene) -> Iterator[Place]:
    listed = scene.listed
    problem = listed.versions_problem or listed.problem
    gone = Place(kind="noncurrent", words="old versions in the bucket", state="gone")
    if problem is not None:
        yield replace(gone, state="unknown", why=f"the versions of the bucket could not be listed: {problem}")
        return
    found = [(kind, listed.objects[kind]) for kind in _OLD if kind in listed.objects]
    days = noncurrent_days(scene.view.table.store) if found else None
    for kind, objects in found:
        state, words, why = _OLD[kind]
        yield replace(
            gone,
            words=words,
            state=state,
            count=objects.count,
            paths=scene.paths(objects.paths),
            until=None if days is None else f"until the bucket's lifecycle rule deletes them, {days} days after",
            why=why,
        )
    if not found:
        yield gone


def _place(scene: Scene, place: Place, kind: str, why: str) -> Place:
    """Return a place of objects whose content is not known."""
    listed = scene.listed
    objects = listed.objects.get(kind, Objects())
    if listed.problem is not None:
        return replace(place, count=objects.count, why=f"no listing: {listed.problem}")
    if not objects.count:
        return Place(kind=place.kind, words=place.words, state="gone")
    return replace(place, count=objects.count, paths=scene.paths(objects.paths), why=why)


def unknown_objects(scene: Scene, kind: Kind, words: str, listed_as: str, why: str, ends: str | None = None) -> Place:
    """Return the place of objects of one kind whose content nobody can tell."""
    return _place(scene, Place(kind=kind, words=words, state="unknown", ends=ends), listed_as, why)
