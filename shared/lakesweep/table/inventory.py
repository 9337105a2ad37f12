"""S3 Inventory: a bucket's objects as S3 itself wrote them down, in place of a listing.

An *inventory* is a manifest (`manifest.json`), its checksum beside it, and *data files* with a row for each object. All
of them lie in the *destination bucket*; the rows are those of the *source bucket*, or of one prefix of it, which the
manifest does not name. It is hours or days old and no picture of one moment. So what it does not list is not known to
be absent: such an object simply stays. What it does list may be gone or written again by now: each candidate is looked
up again before it is planned for deletion (`revalidation.py`).

Source: Amazon S3 User Guide, "Cataloging and analyzing your data with S3 Inventory".
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, UnsupportedFormatError, UsageError
from lakesweep.format.json_document import (
    MAX_BYTES,
    check_str,
    describe,
    get_list,
    parse_object,
    require_int,
    require_str,
    wrong_type,
)
from lakesweep.storage.keys import is_key
from lakesweep.storage.location import parse_location
from lakesweep.storage.store import Store

InventoryFormat = Literal["CSV", "Parquet"]

MANIFEST = "manifest.json"
CHECKSUM = "manifest.checksum"
MAX_CHECKSUM_BYTES = 1024
MAX_FILE_BYTES = 2 << 30
"""A data file is held in memory while its rows are read. Those of AWS have a few million rows and some 100 MB."""
MAX_CREATED_MS = 253_402_300_800_000
"""The year 10000."""
NEEDED = ("key", "size", "lastmodifieddate", "etag")
VERSION_NEEDED = ("islatest", "isdeletemarker")
"""Columns that tell current objects from older versions and delete markers."""
VERSION_COLUMNS = frozenset({"versionid", *VERSION_NEEDED})
"""Any of them says that the inventory lists all versions, so a row may be one that is not there for readers."""
_CONFIGURED_AS = {"key": "Key", "size": "Size", "lastmodifieddate": "LastModifiedDate", "etag": "ETag"}
_PARQUET_COLUMN = re.compile(r"\b(?:required|optional)\s+\w+\s+(\w+)")
_MD5 = re.compile(r"[0-9a-f]{32}")
_DIGITS = re.compile(r"[0-9]{1,16}")


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """One data file, as the manifest names it."""

    key: str
    """In the destination bucket."""
    size_bytes: int
    md5: str
    """In hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A manifest that was checked. Small, and can be pickled: executors get it with each task."""

    root: str
    """Location of the destination bucket: a store that is opened there knows data files by their keys."""
    key: str
    """Of `manifest.json`, below the root."""
    md5: str
    """Of `manifest.json`: the same digits say that it is the same inventory."""
    bucket: str
    """The source bucket."""
    created_ms: int
    """When S3 began to scan the source bucket."""
    file_format: InventoryFormat
    columns: tuple[str, ...]
    """In their order, as `column_name` spells them."""
    files: tuple[InventoryFile, ...]

    @property
    def location(self) -> str:
        """Return where the manifest lies."""
        return f"{self.root}/{self.key}"

    @property
    def has_versions(self) -> bool:
        """Tell whether there are rows of older versions and delete markers."""
        return not VERSION_COLUMNS.isdisjoint(self.columns)

    def where(self, file: InventoryFile) -> str:
        """Return where a data file lies."""
        return f"{self.root}/{file.key}"

    def prefix(self, location: str) -> str | None:
        """Return what the keys below `location` begin with in the source bucket; `None` when it lies elsewhere."""
        place = parse_location(location)
        if place.scheme == "file" or place.bucket != self.bucket:
            return None
        return f"{place.path}/" if place.path else ""

    def to_json(self) -> dict[str, object]:
        """Return what a plan tells of it."""
        return {
            "location": self.location,
            "created_ms": self.created_ms,
            "format": self.file_format,
            "files": len(self.files),
            "bytes": sum(file.size_bytes for file in self.files),
        }


def place_of_inventory(uri: str) -> tuple[str, str]:
    """Return the location of the destination bucket and the key of the manifest in it.

    Args:
        uri: Of `manifest.json`, or of the folder in which it lies.

    Raises:
        UsageError: It names no folder in a bucket.
    """
    place = parse_location(uri)
    if place.scheme == "file" or not place.path:
        raise UsageError(
            f"inventory {uri!r}: expected s3://bucket/prefix/source-bucket/configuration/time/{MANIFEST}",
            code="bad_inventory",
        )
    key = place.path if place.path.rpartition("/")[2] == MANIFEST else f"{place.path}/{MANIFEST}"
    return f"{place.scheme}://{place.bucket}", key


def read_inventory(store: Store, key: str, bucket: str) -> Inventory:
    """Read a manifest and check it, without its data files.

    Args:
        store: Rooted at the destination bucket.
        key: Of `manifest.json`.
        bucket: Whose objects it has to list.

    Raises:
        RefusedError: It lists another bucket, or lacks a column, or is of a format that is not read here, or one of its
            two files is missing.
        FormatError: It is damaged.
        StorageError: A request failed.
    """
    path = f"{store.location}/{key}"
    body = _read(store, key, MAX_BYTES, "the manifest of an S3 Inventory")
    checksum_key = key.removesuffix(MANIFEST) + CHECKSUM
    stated = _read(store, checksum_key, MAX_CHECKSUM_BYTES, f"the checksum of {path}").decode("latin-1").strip().lower()
    md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
    if stated != md5:
        raise FormatError(
            f"{path}: expected the MD5 {describe(stated)}, which {CHECKSUM} states, found {md5}",
            code="inventory_damaged",
        )
    document = parse_object(body, path)
    source = require_str(document, "sourceBucket", path)
    if source != bucket:
        raise RefusedError(
            f"{path}: expected an inventory of the bucket {bucket}, found one of {describe(source)}",
            code="inventory_of_another_bucket",
        )
    file_format = _file_format(require_str(document, "fileFormat", path), path)
    return Inventory(
        root=store.location,
        key=key,
        md5=md5,
        bucket=source,
        created_ms=_created_ms(document, path),
        file_format=file_format,
        columns=_columns(require_str(document, "fileSchema", path), file_format, path),
        files=_files(document, path),
    )


def column_name(name: str) -> str:
    """Return a column's name in the one spelling for all formats: `LastModifiedDate` is `last_modified_date`."""
    return name.strip().replace("_", "").lower()


def missing_file(what: str, path: str) -> RefusedError:
    """Build the error for a file of an inventory that is not there."""
    return RefusedError(
        f"{path}: expected {what}, found nothing; it may be still on its way, or a lifecycle rule removed it",
        code="inventory_incomplete",
    )


def _read(store: Store, key: str, max_bytes: int, what: str) -> bytes:
    try:
        return store.read(key, max_bytes).data
    except ObjectNotFoundError as error:
        raise missing_file(what, f"{store.location}/{key}") from error


def _file_format(stated: str, path: str) -> InventoryFormat:
    if stated == "CSV":
        return "CSV"
    if stated == "Parquet":
        return "Parquet"
    raise UnsupportedFormatError(
        f"{path}: expected an inventory in CSV or Parquet, found {describe(stated)}; configure one of the two",
        code="inventory_format",
    )


def _created_ms(document: dict[str, object], path: str) -> int:
    """Return the time of creation, which is a number in quotes."""
    value = document.get("creationTimestamp")
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if type(value) is not int or not 0 < value < MAX_CREATED_MS:
        raise wrong_type(path, "creationTimestamp", "epoch milliseconds", value)
    return value


def _columns(schema: str, file_format: InventoryFormat, path: str) -> tuple[str, ...]:
    names = schema.split(",") if file_format == "CSV" else _PARQUET_COLUMN.findall(schema)
    columns = tuple(map(column_name, names))
    if len(set(columns)) < len(columns):
        raise FormatError(f"{path}: expected each column once in fileSchema, found {describe(schema)}")
    is_versioned = not VERSION_COLUMNS.isdisjoint(columns)
    for needed in (*NEEDED, *(VERSION_NEEDED if is_versioned else ())):
        if needed not in columns:
            raise RefusedError(
                f"{path}: expected the column {_CONFIGURED_AS.get(needed, needed)} in fileSchema, found "
                f"{describe(schema)}; add Size, LastModifiedDate and ETag to the inventory's configuration",
                code="inventory_columns",
            )
    return columns


def _files(document: dict[str, object], path: str) -> tuple[InventoryFile, ...]:
    if not isinstance(document.get("files"), list):  # an absent one is no empty one
        raise wrong_type(path, "files", "an array", document.get("files"))
    files = tuple(_file(entry, path) for entry in get_list(document, "files", path))
    if len({file.key for file in files}) < len(files):
        raise FormatError(f"{path}: expected each data file once, found one twice", code="inventory_damaged")
    return files


def _file(entry: object, path: str) -> InventoryFile:
    if not isinstance(entry, dict):
        raise wrong_type(path, "files", "objects", entry)
    key = check_str(entry.get("key"), path, "key")
    if not is_key(key):
        raise UnsupportedFormatError(
            f"{path}: expected a data file's key without empty or dot parts, found {describe(key)}; a destination "
            "prefix must not end with a slash",
            code="inventory_key",
        )
    size_bytes = require_int(entry, "size", path)
    if not 0 <= size_bytes <= MAX_FILE_BYTES:
        raise UnsupportedFormatError(
            f"{path}: expected data files of at most {MAX_FILE_BYTES} bytes, found {key} with {size_bytes}",
            code="inventory_file_size",
        )
    md5 = check_str(entry.get("MD5checksum"), path, "MD5checksum").lower()
    if not _MD5.fullmatch(md5):
        raise wrong_type(path, "MD5checksum", "32 hexadecimal digits", md5)
    return InventoryFile(key, size_bytes, md5)
