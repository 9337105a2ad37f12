"""Tell whether files outside the table exist. Callers ask one by one; one listing of each named root answers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.fence import FenceRules
from lakesweep.table.stores import TableStores, declared_roots


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
