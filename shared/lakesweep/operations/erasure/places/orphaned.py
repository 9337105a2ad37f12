"""Manifests that no root names, and manifests in the metadata cache: what they tell of tainted files."""

from collections.abc import Callable, Mapping
from contextlib import closing

from lakesweep.control.area import ControlArea
from lakesweep.control.cache import fetch_cache, unpack_cache
from lakesweep.errors import FormatError, ObjectNotFoundError, StorageError
from lakesweep.format.file_names import MANIFEST
from lakesweep.format.row_entries import read_row_entries
from lakesweep.model.erasure.places import ErasedFiles
from lakesweep.operations.erasure.places.stats import Taint, taint_of
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MAX_METADATA_BYTES

MOST = 10_000
"""More manifests without a root are not read; `remove-orphan-files` deletes them."""
_UNREAD = Taint(is_known=False)
IsKnown = Callable[[str], bool]


def orphan_manifests(
    store: Store, sizes: Mapping[str, int], erased: ErasedFiles, is_known: IsKnown
) -> dict[str, Taint]:
    """Return name -> what a manifest tells, for each that tells something or cannot be read.

    Args:
        store: The table's store.
        sizes: Name of a manifest -> its size in bytes.
        erased: The tainted files.
        is_known: See `taint_of`.
    """
    found = dict.fromkeys(list(sizes)[MOST:], _UNREAD)
    keys = {f"manifest/{name}": size for name, size in list(sizes.items())[:MOST]}
    with closing(read_many(store, keys, max_bytes=MAX_METADATA_BYTES, sizes=keys)) as bodies:
        for key, body in bodies:
            name = key.removeprefix("manifest/")
            if isinstance(body, ObjectNotFoundError):
                continue  # somebody has deleted it since
            taint = _UNREAD if isinstance(body, StorageError) else _taint(body.data, key, erased, is_known)
            if _tells(taint):
                found[name] = taint
    return found


def cached_manifests(area: ControlArea, erased: ErasedFiles, is_known: IsKnown) -> dict[str, Taint] | None:
    """Return what the manifests of a metadata cache tell, as `orphan_manifests`; `None`: it cannot be read.

    Raises:
        StorageError: The cache could not be read, and does exist.
    """
    data = fetch_cache(area)
    if data is None:
        return {}
    objects = unpack_cache(area, data)
    if not objects:
        return None
    taints = {
        key: _taint(known.body.data, key, erased, is_known)
        for key, known in objects.items()
        if MANIFEST.fullmatch(key.removeprefix("manifest/"))
    }
    return {key: taint for key, taint in taints.items() if _tells(taint)}


def _tells(taint: Taint) -> bool:
    return bool(taint.entries or taint.strangers or not taint.is_known)


def _taint(data: bytes, path: str, erased: ErasedFiles, is_known: IsKnown) -> Taint:
    try:
        return taint_of(read_row_entries(data, path, with_stats=True), erased, is_known)
    except FormatError:
        return _UNREAD
