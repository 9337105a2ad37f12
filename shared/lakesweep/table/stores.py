"""The store of a table, and those of its declared external roots.

A path in metadata is relative to the table root or an absolute URI. An absolute one is only ever resolved below a root
that some schema of the table declares (`data-file.external-paths`, `global-index.external-path`). That is enough to
look. What may be deleted there, the fence says (`table/fence.py`): schemas are written by whoever writes the table.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.format.schema import TableSchema
from lakesweep.format.uri import normalise_uri
from lakesweep.model.allowed import is_external
from lakesweep.model.stays import Stay
from lakesweep.storage.guard import Guard, GuardedStore
from lakesweep.storage.location import parse_location
from lakesweep.storage.store import Store
from lakesweep.table.fence import NOT_DECLARED, Fence, FenceRules, Opened

_EXTERNAL_OPTIONS = ("data-file.external-paths", "global-index.external-path")


def declared_roots(location: str, schemas: Iterable[tuple[str, TableSchema]]) -> tuple[str, ...]:
    """Return the normalised external roots that any of `schemas` declares, without closing slashes.

    Args:
        location: The table, for messages.
        schemas: Each with its path.

    Raises:
        RefusedError: One declares a root that means nothing, so which files may go cannot be known.
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
    """Those of the roots that are declared serve to look; nothing is deleted where no root is allowed."""
    open_store: Callable[[str], Store] | None = None
    _fence: list[Fence] = field(default_factory=list)
    """One, made when it is needed."""
    _opened: dict[str, Store] = field(default_factory=dict)
    """Declared root -> its store. Links in its path are followed when it is opened."""
    _changed: dict[str, Store] = field(default_factory=dict)
    """Allowed root on local disks -> its store for changes."""
    _guards: tuple[Guard, ...] = ()
    """Each is asked before each attempt to change something outside."""
    _meets_table: dict[str, bool | None] = field(default_factory=dict)

    @property
    def external_roots(self) -> tuple[str, ...]:
        """Return the external roots that schemas of the table declare."""
        return self.rules.declared

    def stays(self, files: Iterable[tuple[str, str]]) -> dict[str, Stay]:
        """Return path -> why it must not be deleted, of those among `files` (kind and path) that lie outside.

        Raises:
            OutOfTimeError: The caller has no time to look.
        """
        outside = [(kind, path) for kind, path in files if is_external(path)]
        return self._the_fence().stays(outside) if outside else {}

    def _the_fence(self) -> Fence:
        if not self._fence:
            self._fence.append(Fence(self.table.location, self.rules, self.open_store))
        return self._fence[0]

    def resolve_to_change(self, kind: str, path: str) -> tuple[Store, str]:
        """Return the store of a file that is deleted, or that comes back, and its key there: the last fence.

        Callers use what this returns, and do not resolve the path again: on local disks it may lead elsewhere by then.

        Raises:
            RefusedError: It lies outside, where it must stay as it is.
        """
        if not is_external(path):
            return self.table, path
        judged = self._the_fence().judge([(kind, path)])[path]
        if isinstance(judged, Stay):
            raise RefusedError(f"table {self.table.location}: {path} stays as it is: {judged.why}", code=judged.code)
        if judged.file.scheme != "file":
            return self.resolve(path)
        return self._open_to_change(judged), judged.file.path.removeprefix(f"{judged.root.path.rstrip('/')}/")

    def root_of(self, path: str) -> str | None:
        """Return the declared root that an external path lies below, `None` when there is none.

        A root in a store that cannot be opened does not count. Neither does one that leads back into the table: what an
        external path names there could be a snapshot or a schema.
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
        """Tell whether a root and the table overlap, `None` when no store can be opened there."""
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
        """Return the same stores, of which each asks a guard before each attempt to change something."""
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
