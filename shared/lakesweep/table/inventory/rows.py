"""Rows of an S3 Inventory, in the form of a listing of one folder.

As in a listing, only current versions of objects below the folder count. Older versions, delete markers and directory
markers are dropped. Keys become relative to the folder, times become epoch milliseconds, ETags lose their quotes. In
CSV, all keys are URL-encoded with `+` for a space; they are decoded once. An unclear row fails the whole inventory,
since nobody could say which object it describes.
"""

import csv
import gzip
import hashlib
import re
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from itertools import islice
from operator import attrgetter
from typing import TextIO
from urllib.parse import unquote_plus

from lakesweep.errors import FormatError, ObjectNotFoundError, StorageError
from lakesweep.format.values.json_document import MAX_NAME_BYTES, describe
from lakesweep.storage.store import PAGE_KEYS, Page, Store, StoredObject
from lakesweep.table.inventory.manifest import Inventory, InventoryFile, missing_file

MAX_LINE = 1 << 20
"""Characters of a line. A key takes 3 KB; a list of grants, the longest other column, takes some 20 KB."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)
_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_FLAGS = {"true": True, "false": False}
_DAMAGE = (ValueError, csv.Error, OSError, EOFError, zlib.error)
"""The exceptions that damage causes; text that is not UTF-8 causes a `ValueError`."""


def list_inventory(inventory: Inventory, store: Store, prefix: str) -> Generator[Page, None, None]:
    """Yield every object below a prefix that an inventory lists, in pages as `list_all` does.

    Args:
        inventory: The inventory from `read_inventory`.
        store: Rooted at the destination bucket.
        prefix: The prefix from `Inventory.prefix`.

    Raises:
        FormatError: A data file is not the one that the manifest describes, or a row is unclear.
        RefusedError: A data file is missing.
        StorageError: A request failed; the objects so far are not all.
    """
    for file in inventory.files:
        yield from rows_of(read_file(store, inventory, file), inventory, file, prefix)


def read_file(store: Store, inventory: Inventory, file: InventoryFile) -> bytes:
    """Return the bytes of a data file.

    Raises:
        FormatError: The file is longer than the manifest says.
        RefusedError: The file is missing.
        StorageError: The request failed.
    """
    try:
        return store.read(file.key, file.size_bytes).data
    except ObjectNotFoundError as error:
        raise missing_file(f"a data file of {inventory.location}", inventory.where(file)) from error
    except StorageError as error:
        if error.code == "too_large":
            raise FormatError(str(error), code="inventory_damaged") from error
        raise


def rows_of(data: bytes, inventory: Inventory, file: InventoryFile, prefix: str) -> Generator[Page, None, None]:
    """Yield the objects of one data file that are below a prefix, in pages that are not empty.

    Keys ascend within a page. This file or another may list an object twice, since an inventory shows no single moment.
    Besides `data`, memory holds one page for CSV, and some thousand rows for Parquet.

    Args:
        data: The bytes of the file. No row of them is used before size and MD5 are checked.
        inventory: The inventory of the file.
        file: The description of the file.
        prefix: The prefix from `Inventory.prefix`.

    Raises:
        FormatError: The file is damaged, or a row is unclear.
        UnsupportedFormatError: The file is Parquet, and pyarrow is missing.
    """
    where = inventory.where(file)
    _check(data, file, where)
    if inventory.file_format == "CSV":
        found = _csv_objects(data, inventory, where, prefix)
    else:
        from lakesweep.table.inventory.parquet import parquet_objects

        found = parquet_objects(data, inventory, where, prefix)
    with closing(found) as objects:
        while page := sorted(islice(objects, PAGE_KEYS), key=attrgetter("key")):
            yield tuple(page)


def _check(data: bytes, file: InventoryFile, where: str) -> None:
    if len(data) != file.size_bytes:
        raise FormatError(f"{where}: expected {file.size_bytes} bytes, found {len(data)}", code="inventory_damaged")
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if md5 != file.md5:
        raise FormatError(f"{where}: expected the MD5 {file.md5}, found {md5}", code="inventory_damaged")


def _csv_objects(data: bytes, inventory: Inventory, where: str, prefix: str) -> Generator[StoredObject, None, None]:
    columns = inventory.columns
    width, cut = len(columns), len(prefix)
    key_at, size_at, time_at, etag_at = map(columns.index, ("key", "size", "lastmodifieddate", "etag"))
    bucket_at = columns.index("bucket") if "bucket" in columns else -1
    flags_at = (columns.index("islatest"), columns.index("isdeletemarker")) if inventory.has_versions else None
    decoded = _KeyDecoder().decoded
    with gzip.open(BytesIO(data), "rt", encoding="utf-8", newline="") as text:
        rows = csv.reader(_lines(text), strict=True)
        try:
            for row in rows:
                if len(row) != width:
                    raise ValueError(f"expected {width} columns, found {len(row)}")
                if bucket_at >= 0 and row[bucket_at] != inventory.bucket:
                    raise ValueError(f"expected the bucket {inventory.bucket}, found {describe(row[bucket_at])}")
                if flags_at is not None:
                    is_latest, is_marker = (_flag(row[at]) for at in flags_at)
                    if is_marker or not is_latest:
                        continue
                key = decoded(row[key_at])
                if key.startswith(prefix) and not key.endswith("/"):
                    if 4 * len(key) > MAX_NAME_BYTES and len(key.encode()) > MAX_NAME_BYTES:
                        raise ValueError(f"expected keys of at most {MAX_NAME_BYTES} bytes, found {describe(key)}")
                    yield StoredObject(key[cut:], _size(row[size_at]), _etag(row[etag_at]), epoch_ms(row[time_at]))
        except _DAMAGE as error:
            raise FormatError(f"{where}, line {rows.line_num}: {error}", code="inventory_damaged") from error


def _lines(text: TextIO) -> Iterator[str]:
    # A few bytes of gzip can hold a line of gigabytes.
    while line := text.readline(MAX_LINE):
        if len(line) == MAX_LINE and line[-1] != "\n":
            raise ValueError(f"expected lines of at most {MAX_LINE} characters, found more")
        yield line


class _KeyDecoder:
    """Decodes keys. A folder that a key shares with the previous one is decoded only once.

    No escape spans a slash, since the parts would not be UTF-8.
    """

    def __init__(self) -> None:
        self._folder = ("", "")

    def decoded(self, key: str) -> str:
        if not key:
            raise ValueError("expected a key, found nothing")
        folder, slash, name = key.rpartition("/")
        if folder != self._folder[0]:
            self._folder = (folder, _unquote(folder))
        return self._folder[1] + slash + _unquote(name)


def _unquote(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    if _BROKEN_ESCAPE.search(text):
        raise ValueError(f"expected a URL-encoded key, found {describe(text)}")
    return unquote_plus(text, errors="strict")


def _flag(text: str) -> bool:
    flag = _FLAGS.get(text.lower())
    if flag is None:
        raise ValueError(f"expected true or false, found {describe(text)}")
    return flag


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"expected a size, found {describe(text)}")
    return int(text)


def _etag(text: str) -> str:
    etag = text.strip('"')
    if not etag:
        raise ValueError("expected an ETag, found nothing")
    return etag


@lru_cache(maxsize=4096)
def epoch_ms(text: str) -> int:
    """Return a time in UTC as epoch milliseconds.

    Raises:
        ValueError: The text is no such time.
    """
    if not _TIME.fullmatch(text):
        raise ValueError(f"expected a time such as 2026-01-31T12:00:00.000Z, found {describe(text)}")
    return (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND
