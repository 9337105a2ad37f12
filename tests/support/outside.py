"""Stores outside a table: any folder of them can be opened, as a bucket's can."""

from collections.abc import Callable, Iterator, Sequence

from lakesweep.storage.store import Store, StoredObject
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.memory_store import MemoryStore


class _Folder(WrappingStore):
    """A folder of a store, as far as somebody looks whether something lies in it."""

    def __init__(self, store: Store, folder: str) -> None:
        super().__init__(store)
        self._folder = f"{folder}/"

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return self._store.list(self._folder + prefix)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset(name for name in names if next(iter(self.list(f"{name}/")), None) is not None)


def opener(*stores: Store) -> Callable[[str], Store]:
    """Return what opens these stores and every folder in them; elsewhere nothing lies."""

    def opened(location: str) -> Store:
        for store in stores:
            if location == store.location:
                return store
            if location.startswith(f"{store.location}/"):
                return _Folder(store, location.removeprefix(f"{store.location}/"))
        return MemoryStore(location)

    return opened
