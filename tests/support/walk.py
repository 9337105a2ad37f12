"""Every file name that the roots of a table refer to, found independently of `lakesweep`.

What can be read counts, as it is there at this moment: all entries of all manifests of all lists, additions and
deletions alike. What is missing is passed over, since a root may be on its way out.
"""

import functools
import io
import json
import re
from collections.abc import Sequence
from typing import Any

import fastavro

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.reader import all_roots

_SHARE = re.compile(r"(compacted-changelog-[^$]+\$\d+-\d+)-\d+-\d+(\..+)")
_LISTS = ("baseManifestList", "deltaManifestList", "changelogManifestList")


def referenced_names(store: Store) -> set[str]:
    """Return the names, without folders, of everything that any root of any branch refers to."""
    documents = [body for root in all_roots(store) if (body := _read(store, root)) is not None]
    found: set[str] = set()
    for document in map(json.loads, documents):
        found |= {document[key] for key in (*_LISTS, "indexManifest", "statistics") if document.get(key)}
        metas = [_names(store, document.get(key)) for key in _LISTS]
        manifests = set().union(*metas)
        found |= manifests.union(_names(store, document.get("indexManifest")))
        for manifest in manifests:
            found |= _names(store, manifest)
    return found


def _names(store: Store, name: str | None) -> frozenset[str]:
    data = _read(store, f"manifest/{name}") if name else None
    return frozenset() if data is None else _decoded(data)


def _read(store: Store, key: str) -> bytes | None:
    try:
        return store.read(key).data
    except ObjectNotFoundError:
        return None


@functools.lru_cache(maxsize=4096)
def _decoded(data: bytes) -> frozenset[str]:
    try:
        records: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    except Exception:
        return frozenset()  # nobody can know
    found: set[str] = set()
    for record in records:
        file = record.get("_FILE", record)
        name = file["_FILE_NAME"]
        share = _SHARE.fullmatch(name)
        found |= {name, *(file.get("_EXTRA_FILES") or ())} | ({share[1] + share[2]} if share else set())
        if file.get("_EXTERNAL_PATH"):
            found.add(file["_EXTERNAL_PATH"].rpartition("/")[2])
    return frozenset(found)


class WatchedStore(WrappingStore):
    """Notes what a run deletes, and fails it at once when a root that exists refers to that."""

    def __init__(self, store: Store, table: Store) -> None:
        """Watch.

        Args:
            store: What the run uses.
            table: The table as it is.
        """
        super().__init__(store)
        self._table = table
        self.deleted: set[str] = set()

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        needed = referenced_names(self._table)
        results = super().delete(requests)
        gone = {result.key for result in results if result.code == "deleted"}
        lost = {key for key in gone if key.rpartition("/")[2] in needed}
        assert not lost, f"deleted, and a root refers to it: {sorted(lost)}"
        self.deleted |= gone
        return results
