"""A store in an S3 bucket, or on any server that speaks S3 with conditional writes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from operator import lt
from typing import Any

from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.model.bucket_settings import BucketSettings, noncurrent_days_of
from lakesweep.storage.aws_client import was_repeated
from lakesweep.storage.guard import current_guard
from lakesweep.storage.keys import check_prefix, is_key
from lakesweep.storage.lifecycle import rules_of, versioning_of
from lakesweep.storage.list_page import ListPage, PageEntry, page_of
from lakesweep.storage.s3.deleting import S3Deleting
from lakesweep.storage.s3.reading import CONTROL, S3Reading, etag_of, mark_of
from lakesweep.storage.store import Body, Page, StoredObject, UndeleteRequest
from lakesweep.storage.version_counts import counted, counting
from lakesweep.storage.versions import Noncurrent, ObjectVersion, below_marker

_DIRECTORY_BUCKET = "--x-s3"
"""Only names of S3 Express buckets have this suffix. They list without order and without StartAfter, so nothing would
show that a listing is complete."""
_TOKEN = "lakesweep-put"
"""Metadata by which a conditional put recognises its own object."""
_HINT = "snapshot/EARLIEST"


class S3Store(S3Reading, S3Deleting):
    """Objects below one prefix of one bucket."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        for page in self.list_range(prefix):
            yield from page

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield objects of a range in pages; see `Store.list_range`."""
        where, below, cut = f"{self.location}/{prefix}", self._prefix + prefix, len(self._prefix)
        # `after` counts as the last key, so that a server without StartAfter is noticed.
        last = self._prefix + after if after else ""
        end = None if until is None else self._prefix + until
        for page in self._pages(prefix, **({"StartAfter": last} if after else {})):
            entries = page.entries
            if entries:
                _check_keys(entries, last, below, where)
                last = entries[-1][0]
            if end is not None and last > end:
                entries = tuple(entry for entry in entries if entry[0] <= end)
            found = [StoredObject(key[cut:], size, etag, time) for key, size, etag, time in entries if key[-1] != "/"]
            yield tuple(found)
            if end is not None and last >= end:
                return

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Store.folders`."""
        where, below = f"{self.location}/{prefix}", self._prefix + prefix
        last = ""
        for page in self._pages(prefix, Delimiter="/"):
            for folder in page.folders:
                last = _next_key(folder, last, below, where)
                name = folder.removeprefix(below).removesuffix("/")
                if is_key(name):  # Skip `a//b`, which is no path in a table.
                    yield name

    def _pages(self, prefix: str, **words: str) -> Iterator[ListPage]:
        check_prefix(prefix, self.location)
        where = f"{self.location}/{prefix}"
        if self._bucket.endswith(_DIRECTORY_BUCKET):
            raise StorageError(
                f"list {where}: expected a general purpose bucket, found a directory bucket, which lists in no order",
                code="no_order",
            )
        asked: dict[str, Any] = {"Prefix": self._prefix + prefix, **words}
        while True:
            page = page_of(self._ask("list", where, "list_objects_v2", **asked), where)
            yield page
            if page.next_token is None:
                return
            if page.next_token == asked.get("ContinuationToken"):
                raise StorageError(f"list {where}: expected another page, found the same again", code="damaged_page")
            asked["ContinuationToken"] = page.next_token
            asked.pop("StartAfter", None)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` may be folders; see `Store.folders_among`."""
        where = f"{self.location}/"
        page = page_of(self._ask("list", where, "list_objects_v2", Prefix=self._prefix, Delimiter="/"), where)
        listed = [folder.removeprefix(self._prefix) for folder in page.folders]
        if page.next_token is None:
            return frozenset(name for name in names if f"{name}/" in listed)
        # Names after this page are unknown.
        last = max([*listed, *(key.removeprefix(self._prefix) for key, *_ in page.entries)], default="")
        return frozenset(name for name in names if f"{name}/" in listed or f"{name}/" > last)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object; see `Store.put`.

        botocore repeats a request whose answer was lost, and the repetition then finds its own object. So conditional
        puts store a random word as metadata. When a repeated put fails, the word of the existing object shows whether
        this put wrote it. Equal bodies would not show it, since two writers may put the same body.
        """
        where = self._where(key)
        token = os.urandom(16).hex()
        metadata = {_TOKEN: token} if if_absent or if_match is not None else {}
        mark = mark_of(self.control)
        if mark and key == _HINT:
            metadata[CONTROL] = mark
        conditions: dict[str, Any] = {"Metadata": metadata} if metadata else {}
        if if_absent:
            conditions["IfNoneMatch"] = "*"
        if if_match is not None:
            conditions["IfMatch"] = f'"{if_match}"'
        try:
            full, guard = self._prefix + key, current_guard()
            response = self._ask("put", where, "put_object", guard, Key=full, Body=data, **conditions)
        except ObjectNotFoundError as error:  # S3 answers this if there is no object whose ETag could match.
            raise PreconditionFailedError(f"put {where}: expected ETag {if_match}, found nothing") from error
        except PreconditionFailedError as error:
            etag = self._etag_if_ours(key, token) if was_repeated(error) else None
            if etag is None:
                raise
            return etag
        return etag_of(response.get("ETag"), where)

    def _etag_if_ours(self, key: str, token: str) -> str | None:
        """Return the ETag of an object that has `token`; any failure except "not found" leaves the outcome unknown."""
        where = self._where(key)
        try:
            response = self._ask("read", where, "get_object", Key=self._prefix + key)
        except ObjectNotFoundError:
            return None
        response["Body"].close()
        return etag_of(response.get("ETag"), where) if response.get("Metadata", {}).get(_TOKEN) == token else None

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        """Return the object that `undelete` would restore; see `Store.read_deleted`."""
        code, version = below_marker(self._versions(request.key), request.version_id)
        if code != "restorable" or version is None:
            raise ObjectNotFoundError(f"{self._where(request.key)}: expected a deleted object ({code})")
        return self._get(request.key, max_bytes, VersionId=version.version_id)

    def noncurrent_days(self) -> int | None:
        """Return after how many days the bucket's lifecycle removes deleted objects for good.

        `None`: this is unknown, or nothing removes them.
        """
        try:
            response = self._ask("lifecycle", self.location, "get_bucket_lifecycle_configuration")
        except StorageError:
            return None
        return noncurrent_days_of(rules_of(response), self._prefix)

    def bucket_settings(self) -> BucketSettings:
        """Return what the bucket does with objects by itself.

        Raises:
            StorageError: A request failed, or the caller lacks the permission.
        """
        versioning = versioning_of(self._ask("look at", self.location, "get_bucket_versioning"))
        try:
            rules = tuple(rules_of(self._ask("look at", self.location, "get_bucket_lifecycle_configuration")))
        except StorageError as error:
            if error.code != "NoSuchLifecycleConfiguration":
                raise
            rules = ()
        return BucketSettings(self._bucket, self._prefix, versioning, rules)

    def noncurrent(self) -> Noncurrent | None:
        """Count the versions below the prefix that are not current; `None` if the bucket never kept any.

        Raises:
            StorageError: A request failed, or the caller lacks the permission.
        """
        state = self._ask("list", self.location, "get_bucket_versioning")
        if not state.get("Status"):
            return None
        versions = size_bytes = markers = 0
        with counting():
            for page in self._version_pages("list", self.location, self._prefix):
                found = counted(page)
                versions, size_bytes = versions + found.versions, size_bytes + found.bytes
                markers += found.markers
        return Noncurrent(versions, size_bytes, markers)

    def object_versions(self, below: str = "") -> Iterator[Sequence[ObjectVersion]] | None:
        """Return all versions of all objects below a prefix; see `KeepsVersions`."""
        if not self._ask("list", self.location, "get_bucket_versioning").get("Status"):
            return None
        pages = self._version_pages("list", self.location, self._prefix + below)
        return (tuple(_object_versions(page, len(self._prefix))) for page in pages)


def _object_versions(page: Mapping[str, Any], cut: int) -> Iterator[ObjectVersion]:
    for entry in page.get("Versions", ()):
        if not entry["Key"].endswith("/"):
            modified_ms = int(entry["LastModified"].timestamp() * 1000)
            yield ObjectVersion(entry["Key"][cut:], entry["Size"], modified_ms, bool(entry["IsLatest"]))


def _next_key(key: str, last: str, below: str, where: str) -> str:
    if not key.startswith(below) or key <= last:
        raise StorageError(
            f"list {where}: expected keys below it in ascending order, found {key!r} after {last!r}",
            code="damaged_page",
        )
    return key


def _check_keys(entries: Sequence[PageEntry], last: str, below: str, where: str) -> None:
    """Make sure that a page has the requested keys: they ascend from `last`, and all are below a prefix."""
    keys = [entry[0] for entry in entries]
    # Keys between two keys with the same beginning have this beginning, too.
    if keys[0] > last and keys[0].startswith(below) and keys[-1].startswith(below) and all(map(lt, keys, keys[1:])):
        return
    for key in keys:
        last = _next_key(key, last, below, where)
