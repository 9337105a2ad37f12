"""Find out which files certainly do not exist.

Two answers have to agree: a listing of the place does not show the file, and a read finds no such object. Any other
answer (no permission, throttling, a time-out) leaves it open, so nothing may be given up. Three things only look like
losses, and are refused, too:

- No object at all below the root, after the reads: a disk may not be mounted, or the address may be wrong.
- A file where the path has a folder, on a local disk: what put it there may hide the folder.
- A file of this name elsewhere in the table: an option may have changed where readers look.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.roots import base_name
from lakesweep.runs.session import Table
from lakesweep.storage.listing import list_all
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import PAGE_KEYS, Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.fence import FenceRules
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.stores import TableStores, declared_roots

UNKNOWN = "existence_unknown"
_NO_VERSIONS = frozenset({"not_versioned", "not_implemented", "501"})
"""Codes of stores that keep no versions, or know none."""
_THERE = "too_large"
"""Error code of a read with a limit of zero bytes, if the object exists."""


@dataclass(slots=True)
class Unlisted:
    """The files that no listing showed."""

    paths: set[bytes] = field(default_factory=set)
    """`name_hash` of each path."""
    elsewhere: dict[bytes, str] = field(default_factory=dict)
    """`name_hash` of the last part of some path -> another path where a listing showed an object of this name, which
    nobody asked about."""
    empty_roots: list[str] = field(default_factory=list)
    """The external roots below which no listing showed any of the paths."""

    def has(self, path: str) -> bool:
        """Tell whether no listing showed this path."""
        return name_hash(path) in self.paths


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store with versions still has of files that are lost."""

    hidden: frozenset[str] = frozenset()
    """Paths at which one deletion hides an object, so that it can be restored."""
    doubtful: frozenset[str] = frozenset()
    """Paths of which other versions exist, or about which the store does not answer."""


@dataclass(slots=True)
class Existence:
    """Asks the stores of one table. What they answer is not kept."""

    table: Table
    """Its store caches nothing."""
    _stores: TableStores | None = field(default=None)

    @property
    def store(self) -> Store:
        """Return the table's store."""
        return self.table.store

    def unlisted(self, paths: Iterable[str]) -> Unlisted:
        """List the table, and each external root that has one of these paths. Return which of them were not there.

        Raises:
            RefusedError: A root is not declared (`existence_unknown`).
            StorageError: A listing failed.
        """
        found, names = Unlisted(), set[bytes]()
        roots: dict[str, Store] = {}
        for path in paths:
            found.paths.add(name_hash(path))
            names.add(name_hash(base_name(path)))
            if is_external(path) and not any(path.startswith(f"{root}/") for root in roots):
                root = self.stores().root_of(path)
                if root is None:
                    raise self._unknown(f"{path} lies outside the table and its declared external roots")
                roots[root], _ = self.stores().resolve(path)
        if found.paths:
            self._discard(found, names, self.store, "")
        for root, store in roots.items():
            left = len(found.paths)
            self._discard(found, names, store, f"{root}/")
            if len(found.paths) == left:
                found.empty_roots.append(root)
        return found

    def absent(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the paths at which the store says that there is no object.

        Raises:
            RefusedError: It gives another answer than yes or no, or a root shows no object (`existence_unknown`).
        """
        absent = set()
        for path, answer in self._asked(list(dict.fromkeys(paths))):
            if isinstance(answer, ObjectNotFoundError) and answer.code == ObjectNotFoundError.code:
                absent.add(path)
            elif isinstance(answer, StorageError) and answer.code != _THERE:
                raise self._unknown(f"{path}: {answer}") from answer
        # A root that is gone has no object for any path. So it has to show one after the answers.
        for root, (store, _) in self._by_root(absent).items():
            if next(iter(store.list("")), None) is None:
                raise self._unknown(
                    f"{root} shows no object at all; expected some, since the place may only be out of reach. If it "
                    "is really empty, put any object there"
                )
        return frozenset(absent)

    def kept(self, paths: Collection[str]) -> Kept:
        """Tell which lost files the stores still have as versions. A store that keeps no versions has none.

        Raises:
            StorageError: A request failed, so nothing tells whether an object can be restored.
        """
        hidden, doubtful = set[str](), set[str]()
        for store, found in self._by_root(paths).values():
            for start in range(0, len(found), PAGE_KEYS):
                part = found[start : start + PAGE_KEYS]
                try:
                    states = store.hidden([key for _, key in part])
                except AccessDeniedError:
                    doubtful.update(path for path, _ in part)
                    continue
                except StorageError as error:
                    if error.code not in _NO_VERSIONS:
                        raise
                    break
                for (path, _), state in zip(part, states, strict=True):
                    if state.code == "hidden":
                        hidden.add(path)
                    elif state.code != "unknown":
                        doubtful.add(path)
        return Kept(frozenset(hidden), frozenset(doubtful))

    def stores(self) -> TableStores:
        """Return the resolver for paths outside the table."""
        if self._stores is None:
            schemas = read_all_schemas(self.store, discover(self.store, ("schema", "branch")))
            rules = FenceRules(declared_roots(self.store.location, schemas))
            self._stores = TableStores(self.store, rules, self.table.open_store)
        return self._stores

    def _discard(self, unlisted: Unlisted, names: Collection[bytes], store: Store, prefix: str) -> None:
        """Take out what a store lists."""
        with closing(list_all(store)) as pages:
            for page in pages:
                self.table.check_time("the listing of a repair")
                for each in page:
                    path = f"{prefix}{each.key}"
                    if (key := name_hash(path)) in unlisted.paths:
                        unlisted.paths.remove(key)
                    elif (name := name_hash(base_name(path))) in names:
                        unlisted.elsewhere[name] = path

    def _asked(self, paths: Sequence[str]) -> Iterator[tuple[str, object]]:
        inside = [path for path in paths if not is_external(path)]
        with closing(read_many(self.store, inside, max_bytes=0)) as answers:
            yield from answers
        for path in paths:
            if is_external(path):
                store, key = self.stores().resolve(path)
                try:
                    yield path, store.read(key, max_bytes=0)
                except StorageError as error:
                    yield path, error

    def _by_root(self, paths: Iterable[str]) -> dict[str, tuple[Store, list[tuple[str, str]]]]:
        """Return root -> its store, and each path below it with its key there."""
        found: dict[str, tuple[Store, list[tuple[str, str]]]] = {}
        for path in paths:
            store, key = self.stores().resolve(path) if is_external(path) else (self.store, path)
            root = (self.stores().root_of(path) or path) if is_external(path) else self.store.location
            found.setdefault(root, (store, []))[1].append((path, key))
        return found

    def _unknown(self, why: str) -> RefusedError:
        return unknown(self.table, why)


def unknown(table: Table, why: object) -> RefusedError:
    """Return the error if nobody knows what exists."""
    return RefusedError(
        f"table {table.ref}: nothing may be given up, since it is not certain what exists: {why}", code=UNKNOWN
    )
