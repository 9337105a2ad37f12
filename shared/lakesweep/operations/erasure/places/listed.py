"""What one listing of a table shows: tainted files that exist, and objects that no root needs.

In a versioned bucket the listing also shows what was replaced or deleted. An object that no root needs, written long
after the erasure, counts as free of its values: so much later no writer is left that has read the rows before.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from lakesweep.errors import RefusedError, StorageError
from lakesweep.format.file_names import GLOBAL_INDEX
from lakesweep.model.erasure.places import ErasedFiles
from lakesweep.model.paths.file_class import FileClasses
from lakesweep.model.paths.layout import layout_of
from lakesweep.model.roots import base_name
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.erasure.places.held import Held
from lakesweep.runs.view import TableView
from lakesweep.storage.listing import list_all
from lakesweep.storage.open import object_versions
from lakesweep.storage.versions import ObjectVersion
from lakesweep.table.documents import read_all_schemas

SAMPLE = 5
_ROWS = frozenset(("data", "changelog", "extra", "temp", "pack", "hive_temp"))
"""Kinds of files that can have rows."""
_DOCUMENTS = tuple(f"{name}/" for name in ("snapshot", "changelog", "tag", "schema", "consumer", "service", "branch"))
"""Folders of documents without values of rows, finished or not."""
_METADATA = frozenset(("manifest", "manifest_list", "statistics", "iceberg"))
_OTHERS = frozenset(("foreign", "cache", "copy_into"))


@dataclass(slots=True)
class Objects:
    """Some objects of one kind."""

    count: int = 0
    paths: list[str] = field(default_factory=list)
    """A few of them."""
    newest_ms: int = 0

    def add(self, key: str, modified_ms: int) -> None:
        """Note an object."""
        self.count += 1
        self.newest_ms = max(self.newest_ms, modified_ms)
        if len(self.paths) < SAMPLE:
            self.paths.append(key)


@dataclass(slots=True)
class Listed:
    """What the listing shows. Without `problem` it is complete."""

    problem: str | None = None
    """Why the listing failed."""
    versions_problem: str | None = None
    """Why versions could not be listed."""
    keeps_versions: bool = False
    tainted: dict[str, str] = field(default_factory=dict)
    """Name of a tainted file that exists -> its key."""
    objects: defaultdict[str, Objects] = field(default_factory=lambda: defaultdict(Objects))
    """By kind: `orphan`, `sidecar`, `statistics`, `iceberg`, `global_index`, `other_object`, and for versions that are
    not current `old holds`, `old may_hold`, `old orphan`, `old metadata`."""
    statistics: dict[str, int] = field(default_factory=dict)
    """Key of a statistics file -> when it was written."""
    manifests: dict[str, int] = field(default_factory=dict)
    """Name of a manifest that no root names -> its size in bytes."""
    lists: list[str] = field(default_factory=list)
    """Names of manifest lists that no root names."""
    folders: set[str] = field(default_factory=set)
    """The folders of all objects, if the condition names partition keys."""


def listed_objects(
    view: TableView, erased: ErasedFiles, held: Held, erased_ms: int | None, keys: Collection[str]
) -> Listed:
    """List the table once, with all versions if the store keeps some and the caller may list them."""
    found = Listed()
    try:
        schemas = [schema for _, schema in read_all_schemas(view.table.store, view.listing)]
    except RefusedError:  # then data files are objects that nobody knows
        schemas = []
    classes = FileClasses(layout_of(schemas))
    taking = _Taking(found, classes, erased, held, erased_ms, has_keys=bool(keys), own=view.own.name)
    try:
        for version in _versions(view, found):
            taking.take(version)
    except StorageError as error:
        found.problem = str(error)
    return found


def _versions(view: TableView, found: Listed) -> Iterator[ObjectVersion]:
    store = view.table.store
    pages: Iterator[Sequence[ObjectVersion]] | None = None
    try:
        pages = object_versions(store)
        first = None if pages is None else next(pages, ())
    except StorageError as error:
        found.versions_problem, first = str(error), None
    if pages is not None and first is not None:
        found.keeps_versions = True
        yield from first
        for page in pages:
            yield from page
        return
    with closing(list_all(store)) as listing:
        for objects in listing:
            for each in objects:
                if each.is_link:
                    found.objects["other_object"].add(each.key, each.modified_ms)
                else:
                    yield ObjectVersion(each.key, each.size_bytes, each.modified_ms, is_current=True)


class _Taking:
    """Puts objects where they belong."""

    def __init__(
        self,
        found: Listed,
        classes: FileClasses,
        erased: ErasedFiles,
        held: Held,
        erased_ms: int | None,
        *,
        has_keys: bool,
        own: str,
    ) -> None:
        self._found, self._classes, self._erased, self._held = found, classes, erased, held
        self._keys = has_keys
        others = erased.open - {own}
        self._settled_ms = None if erased_ms is None or others else erased_ms + ORPHAN_AGE_MS
        """`None`: a branch has the rows, and may write copies at any time."""
        self._tainted = erased.names
        self._named = {each.name for each in held.holders.named()}

    def take(self, each: ObjectVersion) -> None:
        """Take one version of an object."""
        found, name = self._found, base_name(each.key)
        if each.is_current and self._keys:
            found.folders.add(each.key.rpartition("/")[0])
        if name in self._tainted:
            if each.is_current:
                found.tainted[name] = each.key
            else:
                self._note("old holds" if name in self._erased.holds else "old may_hold", each)
            return
        known = self._classes.classify(each.key)
        if known.kind == "temp" and each.key.startswith(_DOCUMENTS):
            return
        if known.kind in _ROWS:
            self._take_rows(each, name, known.owner)
        elif each.is_current:
            self._take_current(each, name, known.kind)
        elif (known.kind in _METADATA or GLOBAL_INDEX.fullmatch(name)) and not self._is_settled(each):
            self._note("old metadata", each)

    def _take_rows(self, each: ObjectVersion, name: str, owner: str | None) -> None:
        if owner in self._tainted:
            self._note("sidecar" if each.is_current else "old may_hold", each)
        elif not (self._held.needs([name, owner or name]) or self._is_settled(each)):
            self._note("orphan" if each.is_current else "old orphan", each)

    def _take_current(self, each: ObjectVersion, name: str, kind: str) -> None:
        found = self._found
        if kind == "manifest" and name not in self._named:
            if not self._is_settled(each):
                found.manifests[name] = each.size_bytes
        elif kind == "manifest_list" and name not in self._named:
            found.lists.append(name)
        elif kind == "statistics":
            found.statistics[each.key] = each.modified_ms
        elif kind == "iceberg":
            self._note("iceberg", each)
        elif kind == "index" and GLOBAL_INDEX.fullmatch(name):
            self._note("global_index", each)
        elif kind in _OTHERS:
            self._note("other_object", each)

    def _is_settled(self, each: ObjectVersion) -> bool:
        return self._settled_ms is not None and each.modified_ms > self._settled_ms

    def _note(self, kind: str, each: ObjectVersion) -> None:
        self._found.objects[kind].add(each.key, each.modified_ms)
