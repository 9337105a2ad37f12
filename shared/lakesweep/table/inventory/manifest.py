"""S3 Inventory: S3's own list of the objects in a bucket, in place of a listing.

An *inventory* is a manifest (`manifest.json`), its checksum beside it, and *data files* with one row for each object.
All of them lie in the *destination bucket*. The rows describe the *source bucket*, or one prefix of it that the
manifest does not name.

An inventory is hours or days old, and shows no single moment. An object that it does not list may still exist, so it is
simply kept. An object that it lists may have been deleted or written again. So each candidate is looked up again before
its deletion is planned (`revalidation.py`).

Source: Amazon S3 User Guide, "Cataloging and analyzing your data with S3 Inventory".
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, UnsupportedFormatError, UsageError
from lakesweep.format.values.json_document import (
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
"""A data file is held in memory while its rows are read. AWS writes files of a few million rows and some 100 MB."""
MAX_CREATED_MS = 253_402_300_800_000
"""The year 10000."""
NEEDED = ("key", "size", "lastmodifieddate", "etag")
VERSION_NEEDED = ("islatest", "isdeletemarker")
"""Columns that distinguish current objects from older versions and delete markers."""
VERSION_COLUMNS = frozenset({"versionid", *VERSION_NEEDED})
"""If any of these columns exists, the inventory lists all versions. Then a row may be invisible to readers."""
_CONFIGURED_AS = {"key": "Key", "size": "Size", "lastmodifieddate": "LastModifiedDate", "etag": "ETag"}
_PARQUET_COLUMN = re.compile(r"\b(?:required|optional)\s+\w+\s+(\w+)")
_MD5 = re.compile(r"[0-9a-f]{32}")
_DIGITS = re.compile(r"[0-9]{1,16}")


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """One data file, as the manifest names it."""

    key: str
    """The key in the destination bucket."""
    size_bytes: int
    md5: str
    """In hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A checked manifest. It is small and can be pickled: executors get it with each task."""

    root: str
    """Location of the destination bucket: a store that is opened there finds data files by their keys."""
    key: str
    """Key of `manifest.json`, below the root."""
    md5: str
    """MD5 of `manifest.json`: equal digits mean the same inventory."""
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
        """Return the location of the manifest."""
        return f"{self.root}/{self.key}"

    @property
    def has_versions(self) -> bool:
        """Tell whether it has rows of older versions and delete markers."""
        return not VERSION_COLUMNS.isdisjoint(self.columns)

    def where(self, file: InventoryFile) -> str:
        """Return the location of a data file."""
        return f"{self.root}/{file.key}"

    def prefix(self, location: str) -> str | None:
        """Return the beginning of keys below `location` in the source bucket; `None` if it lies elsewhere."""
        place = parse_location(location)
        if place.scheme == "file" or place.bucket != self.bucket:
            return None
        return f"{place.path}/" if place.path else ""

    def to_json(self) -> dict[str, object]:
        """Return the description that a plan stores."""
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
        uri: The URI of `manifest.json`, or of its folder.

    Raises:
        UsageError: The URI names no folder in a bucket.
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
        key: The key of `manifest.json`.
        bucket: The bucket that the inventory must list.

    Raises:
        RefusedError: The inventory lists another bucket, lacks a column or has an unsupported format, or one of its two
            files is missing.
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
    """Return the normal spelling of a column's name: `LastModifiedDate` and `last_modified_date` become the same."""
    return name.strip().replace("_", "").lower()


def missing_file(what: str, path: str) -> RefusedError:
    """Build the error for a missing file of an inventory."""
    return RefusedError(
        f"{path}: expected {what}, found nothing; S3 may still be writing it, or a lifecycle rule deleted it",
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
    """Return the time of creation. The manifest has it as a number in quotes."""
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
    if not isinstance(document.get("files"), list):  # An absent list is not an empty one.
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
