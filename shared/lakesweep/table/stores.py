"""The store of a table, and the stores of its declared external roots.

A path in metadata is relative to the table root, or an absolute URI. An absolute URI is resolved only below a root that
some schema of the table declares (`data-file.external-paths`, `global-index.external-path`). This is enough for reads.
For deletions, the fence decides (`table/fence.py`), since the writers of the table also write its schemas.

`OutsideFiles` tells whether files outside the table exist. Callers ask one by one; one listing of each named root
answers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.uri import normalise_uri
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.paths.stays import Stay
from lakesweep.storage.guard import Guard, GuardedStore
from lakesweep.storage.location import parse_location
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.fence import NOT_DECLARED, Fence, FenceRules, Opened

_EXTERNAL_OPTIONS = ("data-file.external-paths", "global-index.external-path")


def declared_roots(location: str, schemas: Iterable[tuple[str, TableSchema]]) -> tuple[str, ...]:
    """Return the normalised external roots that any of `schemas` declares, without trailing slashes.

    Args:
        location: The table, for messages.
        schemas: Each schema with its path.

    Raises:
        RefusedError: A schema declares an invalid root, so it is unknown which files may be deleted.
    """
    found: dict[str, None] = {}
    for path, schema in schemas:
        for option in _EXTERNAL_OPTIONS:
            for item in schema.options.get(option, "").split(","):
                if item.strip():
                    try:
                        root = normalise_uri(item.strip())
                    except FormatError as error:
                        raise RefusedError(
                            f"table {location}: {path}, option {option}: {error}", code="bad_option"
                        ) from error
                    found[root.rstrip("/")] = None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class TableStores:
    """Resolves a plan's paths to a store and a key in it."""

    table: Store
    rules: FenceRules = field(default_factory=FenceRules)
    """Declared roots are enough for reads; nothing is deleted outside of allowed roots."""
    open_store: Callable[[str], Store] | None = None
    _fence: list[Fence] = field(default_factory=list)
    """The fence, built when it is needed."""
    _opened: dict[str, Store] = field(default_factory=dict)
    """Declared root -> its store. Links in the path of the root are followed when it is opened."""
    _changed: dict[str, Store] = field(default_factory=dict)
    """Allowed root on local disks -> its store for changes."""
    _guards: tuple[Guard, ...] = ()
    """Each guard is asked before each attempt to change something outside."""
    _meets_table: dict[str, bool | None] = field(default_factory=dict)

    @property
    def external_roots(self) -> tuple[str, ...]:
        """Return the external roots that schemas of the table declare."""
        return self.rules.declared

    def stays(self, files: Iterable[tuple[str, str]]) -> dict[str, Stay]:
        """Return path -> the reason to keep it, for each outside file among `files` (kind and path) that must be kept.

        Raises:
            OutOfTimeError: The caller has no time for the checks.
        """
        outside = [(kind, path) for kind, path in files if is_external(path)]
        return self._the_fence().stays(outside) if outside else {}

    def _the_fence(self) -> Fence:
        if not self._fence:
            self._fence.append(Fence(self.table.location, self.rules, self.open_store))
        return self._fence[0]

    def resolve_to_change(self, kind: str, path: str) -> tuple[Store, str]:
        """Return the store and the key of a file to delete or restore. This is the last check of the fence.

        Callers must use the result and not resolve the path again: on local disks it may lead elsewhere later.

        Raises:
            RefusedError: The file lies outside, where Lakesweep must not change it.
        """
        if not is_external(path):
            return self.table, path
        judged = self._the_fence().judge([(kind, path)])[path]
        if isinstance(judged, Stay):
            raise RefusedError(
                f"table {self.table.location}: Lakesweep must not change {path}: {judged.why}", code=judged.code
            )
        if judged.file.scheme != "file":
            return self.resolve(path)
        return self._open_to_change(judged), judged.file.path.removeprefix(f"{judged.root.path.rstrip('/')}/")

    def root_of(self, path: str) -> str | None:
        """Return the declared root above an external path, `None` if there is none.

        A root in a store that cannot be opened does not count. Neither does a root that leads back into the table:
        there, an external path could name a snapshot or a schema.
        """
        root = next((root for root in self.external_roots if path.startswith(f"{root}/")), None)
        if root is None:
            return None
        if root not in self._meets_table:
            self._meets_table[root] = self._meets(root)
        meets = self._meets_table[root]
        if meets is None or (meets and parse_location(self.table.location).contains(parse_location(path))):
            return None
        return root

    def _meets(self, root: str) -> bool | None:
        """Tell whether a root and the table overlap, `None` if no store can be opened there."""
        try:
            place, table = parse_location(root), parse_location(self.table.location)
        except UsageError:
            return None
        return place.contains(table) or table.contains(place)

    def resolve(self, path: str) -> tuple[Store, str]:
        """Return the store that holds `path` and its key there.

        Raises:
            RefusedError: An external path outside every declared root.
        """
        if not is_external(path):
            return self.table, path
        root = self.root_of(path)
        if root is None or self.open_store is None:
            raise RefusedError(
                f"table {self.table.location}: {path} lies outside the table and its declared external roots",
                code=NOT_DECLARED,
            )
        return self._open(root), path.removeprefix(f"{root}/")

    def guarded(self, guard: Guard) -> "TableStores":
        """Return the same stores; each asks the guard before each attempt to change something."""
        table = GuardedStore(self.table, guard)
        return replace(self, table=table, _guards=(*self._guards, guard), _opened={}, _changed={})

    def _open(self, root: str) -> Store:
        if root not in self._opened:
            assert self.open_store is not None
            self._opened[root] = self._guarded(self.open_store(root))
        return self._opened[root]

    def _open_to_change(self, judged: Opened) -> Store:
        root = judged.root.path
        if root not in self._changed:
            self._changed[root] = self._guarded(self._the_fence().open(judged.root))
        return self._changed[root]

    def _guarded(self, store: Store) -> Store:
        for guard in self._guards:
            store = GuardedStore(store, guard)
        return store


@dataclass(slots=True)
class OutsideFiles:
    """Tells whether a file outside a table exists. The first question sends the first request."""

    store: Store
    """The store of the table, whose schemas declare the external roots."""
    open_store: Callable[[str], Store] | None
    _stores: TableStores | None = None
    _keys: dict[str, frozenset[str]] = field(default_factory=dict)

    def __call__(self, path: str) -> bool:
        """Tell whether a file exists.

        Raises:
            RefusedError: It lies outside every declared root.
            StorageError: A request failed.
        """
        if self._stores is None:
            schemas = read_all_schemas(self.store, discover(self.store, ("schema", "branch")))
            self._stores = TableStores(
                self.store, FenceRules(declared_roots(self.store.location, schemas)), self.open_store
            )
        place, key = self._stores.resolve(path)
        if place.location not in self._keys:
            self._keys[place.location] = frozenset(entry.key for entry in place.list(""))
        return key in self._keys[place.location]
