"""The metadata cache of a table, kept between runs: `cache.bin`.

A header line of JSON names the objects, and their bodies follow in the same order. Everything is compressed. A lost or
damaged cache costs requests and nothing else. The cached manifests decide what a plan deletes, so the cache is sealed
where a plan key is configured (`control/sealed.py`).
"""

import json
import zlib
from collections.abc import Mapping

from lakesweep.control.area import ControlArea
from lakesweep.control.sealed import believed, put_sealed
from lakesweep.errors import ObjectNotFoundError
from lakesweep.format.values.json_document import MAX_SEPARATORS, SEPARATORS
from lakesweep.storage.store import Body
from lakesweep.storage.wrappers.remembering import MAX_TOTAL_BYTES, Remembered

CACHE_FORMAT_VERSION = 1
_NAME = "cache.bin"


def fetch_cache(area: ControlArea, name: str = _NAME) -> bytes | None:
    """Return the stored form of the cache, `None` if there is none.

    Raises:
        StorageError: A request failed for another reason than absence.
    """
    try:
        return area.read(name).data
    except ObjectNotFoundError:
        return None


def read_cache(
    area: ControlArea, name: str = _NAME, *, identity: str | None = None, max_total_bytes: int = MAX_TOTAL_BYTES
) -> dict[str, Remembered]:
    """Return key -> cached object; empty if there is no usable cache. See `fetch_cache` and `unpack_cache`."""
    return unpack_cache(area, fetch_cache(area, name), name, identity=identity, max_total_bytes=max_total_bytes)


def unpack_cache(
    area: ControlArea,
    data: bytes | None,
    name: str = _NAME,
    *,
    identity: str | None = None,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> dict[str, Remembered]:
    """Return key -> cached object; empty if the cache is not usable.

    Args:
        area: Of the table.
        data: The stored form of the cache.
        name: Of the document.
        identity: Of the present table. The cache of an earlier table at the same place is not used. `None`: accept any.
        max_total_bytes: Limit of the writer for all objects. A cache that unpacks to more than twice as much is not
            used.
    """
    known = None if data is None else believed(area, name, data)
    if known is None:
        return {}
    try:
        return _unpack(known, area.table, identity, 2 * max_total_bytes)
    except (zlib.error, ValueError, TypeError, KeyError, RecursionError):
        return {}


def write_cache(area: ControlArea, objects: Mapping[str, Remembered], name: str = _NAME, *, identity: str = "") -> None:
    """Replace the cache. Of two writers the last one wins; both caches were correct."""
    rows = [[key, known.body.etag, known.idle_runs, len(known.body.data)] for key, known in objects.items()]
    header = {"format_version": CACHE_FORMAT_VERSION, "table": area.table, "identity": identity, "objects": rows}
    packer = zlib.compressobj(level=1)
    parts = [packer.compress(json.dumps(header).encode() + b"\n")]
    parts += (packer.compress(known.body.data) for known in objects.values())
    put_sealed(area, name, b"".join((*parts, packer.flush())))


def _unpack(data: bytes, table: str, identity: str | None, max_bytes: int) -> dict[str, Remembered]:
    unzip = zlib.decompressobj()
    text = unzip.decompress(data, max_bytes)
    if not unzip.eof:
        raise ValueError("cut off or too large")
    start = text.index(b"\n") + 1  # the bodies are cut out of `text`, which may be large
    if sum(text.count(sign, 0, start) for sign in SEPARATORS) > MAX_SEPARATORS:
        raise ValueError("more objects than fit")
    header = json.loads(text[:start])
    if header["format_version"] != CACHE_FORMAT_VERSION or header["table"] != table:
        return {}
    if identity is not None and header["identity"] != identity:
        return {}
    found: dict[str, Remembered] = {}
    for key, etag, idle_runs, size in header["objects"]:
        if not (isinstance(key, str) and isinstance(etag, str) and type(idle_runs) is int and type(size) is int):
            raise ValueError("not an object")
        found[key] = Remembered(Body(text[start : start + size], etag), idle_runs)
        start += size
    if start != len(text) or any(size < 0 for *_, size in header["objects"]):
        raise ValueError("bodies of other lengths")
    return found
