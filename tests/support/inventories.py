"""S3 Inventories for tests, as S3 writes them: a manifest, its checksum, and data files in CSV or Parquet.

rows = rows_of_store(table_store, below="db.db/t/")
manifest_key = write_inventory(MemoryStore("memory://inventories"), "warehouse", rows)
"""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote_plus

from lakesweep.model.plan import Delete
from lakesweep.storage.store import Page, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from lakesweep.table.inventory.manifest import read_inventory
from lakesweep.table.inventory.rows import list_inventory
from lakesweep.table.revalidation import revalidate
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import OPERATION, S3Scene

CREATED_MS = 1_795_000_000_000
VERSION_COLUMNS = ("VersionId", "IsLatest", "IsDeleteMarker")
COLUMNS = ("Size", "LastModifiedDate", "ETag", "StorageClass", "IsMultipartUploaded")
"""What is configured beside Bucket and Key."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARQUET = {
    "Bucket": ("bucket", "required binary bucket (STRING)"),
    "Key": ("key", "required binary key (STRING)"),
    "VersionId": ("version_id", "optional binary version_id (STRING)"),
    "IsLatest": ("is_latest", "optional boolean is_latest"),
    "IsDeleteMarker": ("is_delete_marker", "optional boolean is_delete_marker"),
    "Size": ("size", "optional int64 size"),
    "LastModifiedDate": ("last_modified_date", "optional int64 last_modified_date (TIMESTAMP(MILLIS,true))"),
    "ETag": ("e_tag", "optional binary e_tag (STRING)"),
    "StorageClass": ("storage_class", "optional binary storage_class (STRING)"),
    "IsMultipartUploaded": ("is_multipart_uploaded", "optional boolean is_multipart_uploaded"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One object, one older version, or one delete marker."""

    key: str
    size_bytes: int | None
    etag: str | None
    modified_ms: int
    version_id: str = ""
    is_latest: bool = True
    is_delete_marker: bool = False


def rows_of_store(store: Store, below: str = "") -> list[Row]:
    """Return a row for each object of a store.

    Args:
        store: What it lists is what is there.
        below: What the store's keys begin with in their bucket.
    """
    return [Row(below + each.key, each.size_bytes, each.etag, each.modified_ms) for each in store.list("")]


def rows_of_versions(client: Any, bucket: str) -> list[Row]:
    """Return a row for each version and delete marker of a bucket."""
    rows: list[Row] = []
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for entry in page.get("Versions", ()):
            etag, time_ms = entry["ETag"].strip('"'), _epoch_ms(entry["LastModified"])
            rows.append(Row(entry["Key"], entry["Size"], etag, time_ms, entry["VersionId"], entry["IsLatest"]))
        for entry in page.get("DeleteMarkers", ()):
            time_ms = _epoch_ms(entry["LastModified"])
            rows.append(Row(entry["Key"], None, None, time_ms, entry["VersionId"], entry["IsLatest"], True))
    return rows


def write_inventory(
    destination: Store,
    bucket: str,
    rows: Iterable[Row],
    *,
    file_format: str = "CSV",
    versions: bool = False,
    files: int = 2,
    created_ms: int = CREATED_MS,
    prefix: str = "inventory",
    columns: Sequence[str] = COLUMNS,
    encode: Callable[[str], str] | None = None,
    change: Callable[[dict[str, Any]], None] = lambda manifest: None,
) -> str:
    """Write an inventory and return the key of its manifest.

    Args:
        destination: A store of the whole destination bucket.
        bucket: The source bucket.
        rows: Of objects, or of all versions.
        file_format: `CSV` or `Parquet`.
        versions: Whether there are columns for versions.
        files: Data files, which get rows in turn.
        created_ms: Of the manifest.
        prefix: In the destination bucket; empty for none.
        columns: Beside those of the key and of versions.
        encode: How keys are encoded in CSV, if not as S3 does.
        change: Changes the manifest before it and its checksum are written.
    """
    folder = f"{prefix}/{bucket}/daily" if prefix else f"{bucket}/daily"
    names = ("Bucket", "Key", *(VERSION_COLUMNS if versions else ()), *columns)
    parts: list[list[Row]] = [[] for _ in range(files)]
    for number, row in enumerate(rows):
        parts[number % files].append(row)
    named = []
    for number, part in enumerate(parts):
        data = csv_file(bucket, part, names, encode) if file_format == "CSV" else parquet_file(bucket, part, names)
        key = f"{folder}/data/{number:08x}.{'csv.gz' if file_format == 'CSV' else 'parquet'}"
        destination.put(key, data)
        named.append(manifest_entry(key, data))
    schema = ", ".join(names) if file_format == "CSV" else parquet_schema(names)
    manifest: dict[str, Any] = {
        "sourceBucket": bucket,
        "destinationBucket": f"arn:aws:s3:::{destination.location.rpartition('/')[2]}",
        "version": "2016-11-30",
        "creationTimestamp": str(created_ms),
        "fileFormat": file_format,
        "fileSchema": schema,
        "files": named,
    }
    change(manifest)
    key = f"{folder}/{_EPOCH + timedelta(milliseconds=created_ms):%Y-%m-%dT%H-%MZ}/manifest.json"
    write_manifest(destination, key, json.dumps(manifest, indent=2).encode())
    return key


def write_manifest(destination: Store, key: str, body: bytes) -> None:
    """Write a manifest with its checksum."""
    destination.put(key, body)
    destination.put(key.removesuffix("manifest.json") + "manifest.checksum", _md5(body).encode())


def manifest_entry(key: str, data: bytes) -> dict[str, Any]:
    """Return what a manifest says of a data file."""
    return {"key": key, "size": len(data), "MD5checksum": _md5(data)}


def csv_file(
    bucket: str, rows: Iterable[Row], names: Sequence[str], encode: Callable[[str], str] | None = None
) -> bytes:
    """Return a data file in CSV: every value in quotes, keys URL-encoded, no header."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in rows:
        values = {
            "Bucket": bucket,
            "Key": (encode or _url_encoded)(row.key),
            "VersionId": row.version_id,
            "IsLatest": str(row.is_latest).lower(),
            "IsDeleteMarker": str(row.is_delete_marker).lower(),
            "Size": "" if row.size_bytes is None else row.size_bytes,
            "LastModifiedDate": _iso(row.modified_ms),
            "ETag": row.etag or "",
            "StorageClass": "" if row.is_delete_marker else "STANDARD",
            "IsMultipartUploaded": "false",
        }
        writer.writerow([values[name] for name in names])
    return gzip.compress(text.getvalue().encode(), compresslevel=1, mtime=0)


def parquet_file(bucket: str, rows: Sequence[Row], names: Sequence[str]) -> bytes:
    """Return a data file in Parquet, of several row groups."""
    import pyarrow
    from pyarrow import parquet

    text, flag = pyarrow.string(), pyarrow.bool_()
    columns: dict[str, tuple[list[Any], Any]] = {
        "Bucket": ([bucket] * len(rows), text),
        "Key": ([row.key for row in rows], text),
        "VersionId": ([row.version_id or None for row in rows], text),
        "IsLatest": ([row.is_latest for row in rows], flag),
        "IsDeleteMarker": ([row.is_delete_marker for row in rows], flag),
        "Size": ([row.size_bytes for row in rows], pyarrow.int64()),
        "LastModifiedDate": ([row.modified_ms for row in rows], pyarrow.timestamp("ms", "UTC")),
        "ETag": ([row.etag for row in rows], text),
        "StorageClass": ([None if row.is_delete_marker else "STANDARD" for row in rows], text),
        "IsMultipartUploaded": ([False] * len(rows), flag),
    }
    fields = [
        pyarrow.field(_PARQUET[name][0], columns[name][1], nullable=name not in ("Bucket", "Key")) for name in names
    ]
    table = pyarrow.Table.from_arrays(
        [pyarrow.array(columns[name][0], field.type) for name, field in zip(names, fields, strict=True)],
        schema=pyarrow.schema(fields),
    )
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink, compression="snappy", row_group_size=5000, store_schema=False)
    return bytes(sink.getvalue())


def parquet_schema(names: Sequence[str]) -> str:
    """Return what a manifest says of the columns of Parquet files."""
    return f"message s3.inventory {{  {';  '.join(_PARQUET[name][1] for name in names)};}}"


def _url_encoded(key: str) -> str:
    return quote_plus(key, safe="/*-._")


def _iso(epoch_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _epoch_ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


class FromInventory(WrappingStore):
    """A table whose listing as a whole is that of an inventory, without what is not that object any more."""

    def __init__(self, store: Store, pages: list[Page]) -> None:
        super().__init__(store)
        self.reads_wait = False  # so that `list_all` asks for one range
        objects = [each for page in pages for each in page]
        still = revalidate(store, objects)
        self.pages = [tuple(each for each in objects if each.key in still)]

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        if prefix or after or until is not None:
            return super().list_range(prefix, after, until)
        return iter(self.pages)


def scene_of(bucket: str | None = None) -> S3Scene:
    """Return a table with a live file and three orphans in folders whose names are not plain, all of them old."""
    scene = S3Scene(bucket=bucket)
    scene.table.commit("+A", partition=("a:b/c%",))
    for number, folder in enumerate(FOLDERS):
        scene.orphan(f"orphan {number}", folder=folder)
    scene.age()
    return scene


def from_inventory(scene: S3Scene, rows: list[Row], file_format: str, *, versions: bool = False) -> FromInventory:
    """Return the table as it is seen through an inventory."""
    at = MemoryStore("memory://inventories")
    created_ms = scene.store.now_ms()
    key = write_inventory(at, scene.bucket, rows, file_format=file_format, versions=versions, created_ms=created_ms)
    inventory = read_inventory(at, key, scene.bucket)
    prefix = inventory.prefix(scene.store.location)
    assert prefix is not None
    return FromInventory(scene.store, list(list_inventory(inventory, at, prefix)))


def deletes_of(scene: S3Scene, store: Store | None = None) -> dict[str, Delete]:
    """Return what a scan plans to delete."""
    report = scene.maintainer(store).run(OPERATION, execute=False)
    assert report.plan is not None
    return {delete.path: delete for delete in report.plan.deletes}


FOLDERS = ("dt=a%3Ab%2Fc%25/bucket-0/", "dt=a%253Ab%252Fc%2525/bucket-0/", "dt=a b+ü/bucket-0/")
