"""A store in an S3 bucket, or on any server that speaks S3 with conditional writes."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from operator import lt
from typing import Any
from urllib.parse import urlsplit

from lakesweep.errors import LeaseLostError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.model.safety import DELETES_BEGIN_WITHIN_S
from lakesweep.storage.aws_client import s3_request, was_repeated, was_sent
from lakesweep.storage.clock import CLOCKS, monotonic_s
from lakesweep.storage.guard import Guard, LateDeleteError, current_guard
from lakesweep.storage.keys import (
    SINGLE_DELETES,
    check_count,
    check_key,
    check_prefix,
    check_range,
    count_deletes,
    is_key,
    too_short,
)
from lakesweep.storage.list_page import ListPage, PageEntry, page_of
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import (
    Body,
    DeleteRequest,
    DeleteResult,
    HiddenState,
    Page,
    StoredObject,
    UndeleteRequest,
    UndeleteResult,
)
from lakesweep.storage.versions import (
    KeyVersion,
    Noncurrent,
    below_marker,
    hidden_state,
    newest_marker,
    noncurrent_days_of,
    versions_of,
)

BODY_ATTEMPTS = 3
"""Attempts to read a body that was cut off on the way; botocore repeats a request only until the headers arrive."""
WINDOW_DELETES = SINGLE_DELETES
"""Concurrent single deletes."""
_PAUSE_S = 1
_AWS = (".amazonaws.com", ".amazonaws.com.cn")
_DIRECTORY_BUCKET = "--x-s3"
"""Only names of S3 Express buckets have this suffix. They list without order and without StartAfter, so nothing would
show that a listing is complete."""
_TOKEN = "lakesweep-put"
"""Metadata by which a conditional put recognises its own object."""
_PASSING = frozenset({"InternalError", "SlowDown", "ServiceUnavailable", "OperationAborted"})
_CODES = {"PreconditionFailed": "precondition_failed", "AccessDenied": "access_denied", "NoSuchKey": "already_gone"}
_NO_SUCH_RANGE = frozenset({"InvalidRange", "416"})
"""The object ends before the range begins."""
_SINGLE_CODES = {"not_found": "already_gone", "not_implemented": "unsupported_condition"}
_NO_XML = re.compile("[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
"""Characters that XML cannot contain or that parsers change: keys with them are not sent in a DeleteObjects
document."""


class S3Store:
    """Objects below one prefix of one bucket."""

    def __init__(self, bucket: str, prefix: str, client: Any, counter: RequestCounter | None = None) -> None:
        """Build a store; this sends no request.

        Args:
            bucket: Its name.
            prefix: The root's key, outer slashes do not matter; `""` for the whole bucket.
            client: The client from `make_client`.
            counter: Counts attempts, deleted keys and bytes read.
        """
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client = client
        self._counter = counter or RequestCounter()
        self._clock: tuple[str, float] | None = None

    @property
    def location(self) -> str:
        """Return `s3://bucket/prefix`."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def endpoint(self) -> str:
        """Return the S3 server in one spelling and without a password; empty for AWS."""
        place = urlsplit(self._client.meta.endpoint_url)
        host = (place.hostname or "").lower()
        if host.endswith(_AWS):
            return ""
        port = place.port or (443 if place.scheme == "https" else 80)
        return f"{host}:{port}{place.path.rstrip('/')}"

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
            yield tuple(
                StoredObject(key[cut:], size_bytes, etag, modified_ms)
                for key, size_bytes, etag, modified_ms in entries
                if key[-1] != "/"
            )
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
        asked = {"Bucket": self._bucket, "Prefix": self._prefix + prefix, **words}
        while True:
            with s3_request("list", where, self._counter):
                response = self._client.list_objects_v2(**asked)
            self._note_time(response)
            page = page_of(response, where)
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
        with s3_request("list", where, self._counter):
            response = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, Delimiter="/")
        self._note_time(response)
        page = page_of(response, where)
        listed = [folder.removeprefix(self._prefix) for folder in page.folders]
        if page.next_token is None:
            return frozenset(name for name in names if f"{name}/" in listed)
        # Names after this page are unknown.
        last = max([*listed, *(key.removeprefix(self._prefix) for key, *_ in page.entries)], default="")
        return frozenset(name for name in names if f"{name}/" in listed or f"{name}/" > last)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        return self._get(key, max_bytes)

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one object; see `Store.read_range`.

        A server without ranges would send the whole object. This is an error (`no_range`), and nothing is loaded.
        """
        where = self._where(key)
        check_range(start, length, where)
        try:
            return self._get(key, None, (start, length), Range=f"bytes={start}-{start + length - 1}")
        except StorageError as error:
            if error.code in _NO_SUCH_RANGE:
                raise too_short(start, length, 0, where) from error
            raise

    def _get(self, key: str, max_bytes: int | None, part: tuple[int, int] | None = None, **words: str) -> Body:
        where = self._where(key)
        attempts = BODY_ATTEMPTS
        while True:
            attempts -= 1
            with s3_request("read", where, self._counter):
                response = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, **words)
            self._note_time(response)
            stream, length, etag = response["Body"], response.get("ContentLength"), _etag(response, where)
            if length is None:
                raise StorageError(f"read {where}: expected an answer with its length, found none", code="no_length")
            if part is not None:
                try:
                    _check_part(response, length, *part, where)
                except StorageError:
                    stream.close()
                    raise
            if max_bytes is not None and length > max_bytes:
                stream.close()
                raise StorageError(f"{where}: expected at most {max_bytes} bytes, found {length}", code="too_large")
            try:
                with s3_request("read", where, self._counter):
                    data: bytes = stream.read()
            except StorageError:
                if attempts > 0:
                    continue
                raise
            if len(data) != length:
                raise StorageError(f"read {where}: expected {length} bytes, found {len(data)}", code="cut_short")
            self._counter.add_read_bytes(length)
            return Body(data, etag)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object; see `Store.put`.

        botocore repeats a request whose answer was lost, and the repetition then finds its own object. So conditional
        puts store a random word as metadata. When a repeated put fails, the word of the existing object shows whether
        this put wrote it. Equal bodies would not show it, since two writers may put the same body.
        """
        where = self._where(key)
        token = os.urandom(16).hex()
        conditions: dict[str, Any] = {"Metadata": {_TOKEN: token}} if if_absent or if_match is not None else {}
        if if_absent:
            conditions["IfNoneMatch"] = "*"
        if if_match is not None:
            conditions["IfMatch"] = f'"{if_match}"'
        try:
            with s3_request("put", where, self._counter, current_guard()):
                response = self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data, **conditions)
        except ObjectNotFoundError as error:  # S3 answers this if there is no object whose ETag could match.
            raise PreconditionFailedError(f"put {where}: expected ETag {if_match}, found nothing") from error
        except PreconditionFailedError as error:
            etag = self._etag_if_ours(key, token) if was_repeated(error) else None
            if etag is None:
                raise
            return etag
        self._note_time(response)
        return _etag(response, where)

    def _etag_if_ours(self, key: str, token: str) -> str | None:
        """Return the ETag of an object that has `token`; any failure except "not found" leaves the outcome unknown."""
        where = self._where(key)
        try:
            with s3_request("read", where, self._counter):
                response = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
        except ObjectNotFoundError:
            return None
        response["Body"].close()
        return _etag(response, where) if response.get("Metadata", {}).get(_TOKEN) == token else None

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 keys; see `Store.delete`.

        There are further codes, and all of them are failures:

        - `unsupported_condition`: the server says that it has no If-Match for deletes; the object is kept.
        - `not_tried`: earlier windows took too long.
        - `not_in_answer`: S3 said nothing about this key.
        - Error codes of S3 and botocore.

        Up to 16 conditional deletes are sent singly, with the If-Match header that most servers check. More deletes are
        sent in one request with an ETag for each key. AWS checks both. Some servers ignore the latter or both, and
        their answer does not show it. In a versioned bucket, a repeated request whose first answer was lost leaves two
        markers; the result names the second.
        """
        count_deletes(requests, self.location)
        started = monotonic_s()
        many = sum(request.etag is not None for request in requests) > WINDOW_DELETES
        together = [r for r in requests if (many or r.etag is None) and is_key(r.key) and not _NO_XML.search(r.key)]
        work = _Deleting(current_guard())
        results = self._delete_together(together, work)
        again = [request for request in together if results[request.key].code in _PASSING]
        if any(results[request.key].code == "SlowDown" for request in again):
            self._counter.add_throttled()
        if again and monotonic_s() - started < DELETES_BEGIN_WITHIN_S:
            time.sleep(_PAUSE_S)
            results |= self._delete_together(again, work)
        single = [r for r in requests if is_key(r.key) and r.key not in results]
        singly = iter(self._delete_singly(single, started + DELETES_BEGIN_WITHIN_S, work))
        answers: list[DeleteResult] = []
        for request in requests:
            if not is_key(request.key):
                answers.append(DeleteResult(request.key, "bad_key"))
            elif request.key in results:
                answers.append(results[request.key])
            else:
                answers.append(next(singly))
        self._counter.add_deleted_keys(sum(answer.code == "deleted" for answer in answers))
        if work.refusal is not None:
            raise LateDeleteError(work.refusal, [each for each in answers if each.key not in work.unanswered])
        return answers

    def _delete_together(self, requests: Sequence[DeleteRequest], work: "_Deleting") -> dict[str, DeleteResult]:
        if not requests:
            return {}
        keys = [request.key for request in requests]
        objects = [
            {"Key": self._prefix + request.key} | ({} if request.etag is None else {"ETag": f'"{request.etag}"'})
            for request in requests
        ]
        try:
            with s3_request("delete", f"{len(keys)} objects of {self.location}", self._counter, work.guard):
                # Not Quiet: only the long answer has the versions that `undelete` needs.
                response = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": False})
        except LeaseLostError as error:
            return {key: work.refused(key, error) for key in keys}
        self._note_time(response)
        deleted = {entry.get("Key"): entry for entry in response.get("Deleted", ())}
        failed = {entry.get("Key"): str(entry.get("Code", "unknown")) for entry in response.get("Errors", ())}
        return {key: _result(key, deleted.get(self._prefix + key), failed.get(self._prefix + key)) for key in keys}

    def _delete_singly(
        self, requests: Sequence[DeleteRequest], begin_before: float, work: "_Deleting"
    ) -> Sequence[DeleteResult]:
        """Delete one by one, in windows: a window begins when every request of the previous one has its answer."""
        results: list[DeleteResult] = []
        if not requests:
            return results
        with ThreadPoolExecutor(max_workers=min(WINDOW_DELETES, len(requests)), thread_name_prefix="delete") as pool:
            while len(results) < len(requests) and monotonic_s() < begin_before:
                window = requests[len(results) : len(results) + WINDOW_DELETES]
                results += pool.map(lambda request: self._delete_one(request, work), window)
        return results + [DeleteResult(request.key, "not_tried") for request in requests[len(results) :]]

    def _delete_one(self, request: DeleteRequest, work: "_Deleting") -> DeleteResult:
        condition = {} if request.etag is None else {"IfMatch": f'"{request.etag}"'}
        try:
            with s3_request("delete", self._where(request.key), self._counter, work.guard):
                response = self._client.delete_object(Bucket=self._bucket, Key=self._prefix + request.key, **condition)
        except LeaseLostError as error:
            return work.refused(request.key, error)
        except StorageError as error:
            return DeleteResult(request.key, _SINGLE_CODES.get(error.code, error.code))
        self._note_time(response)
        return DeleteResult(request.key, "deleted", response.get("VersionId") if response.get("DeleteMarker") else None)

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Remove the delete markers of up to 1 000 keys; see `Store.undelete`.

        Deleting a version in S3 is final. So each key's versions are listed first (one request for each key), and only
        listed delete markers are deleted. An object that is written later lies above the marker and is not touched.
        """
        check_count(requests, self.location)
        found: list[UndeleteResult] = []
        if requests:
            workers = min(WINDOW_DELETES, len(requests))
            with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="undelete") as pool:
                found = list(pool.map(self._undeletable, requests))
        going = [
            request
            for request, state in zip(requests, found, strict=True)
            if state.code == "restorable" and not only_check
        ]
        failed = self._delete_markers([request for request in going if not _NO_XML.search(request.key)])
        failed |= self._delete_markers_singly([request for request in going if _NO_XML.search(request.key)])
        gone = {request.key for request in going}
        return [
            UndeleteResult(state.key, failed.get(state.key, "restored"), state.etag) if state.key in gone else state
            for state in found
        ]

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        """Tell whether deletions hide objects; see `Store.hidden`. Lists the versions of each key."""
        if not keys:
            return []
        with ThreadPoolExecutor(max_workers=min(WINDOW_DELETES, len(keys)), thread_name_prefix="versions") as pool:
            return list(pool.map(lambda key: hidden_state(self._versions(key)), keys))

    def _undeletable(self, request: UndeleteRequest) -> UndeleteResult:
        if not is_key(request.key):
            return UndeleteResult(request.key, "bad_key")
        versions = self._versions(request.key)
        marker = request.version_id or newest_marker(versions)
        code, version = below_marker(versions, marker)
        return UndeleteResult(request.key, code, version.etag if version else None, marker)

    def _versions(self, key: str) -> Sequence[KeyVersion]:
        """Return the versions and delete markers of one key."""
        where, full = self._where(key), self._prefix + key
        asked = {"Bucket": self._bucket, "Prefix": full}
        found: tuple[KeyVersion, ...] = ()
        while True:
            with s3_request("list versions of", where, self._counter):
                page = self._client.list_object_versions(**asked)
            self._note_time(page)
            found += tuple(versions_of(page, full))
            # Longer keys follow the key itself, so its own versions end with the first page that contains a longer key.
            if not page.get("IsTruncated") or page.get("NextKeyMarker") != full:
                return found
            asked |= {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    def _delete_markers(self, requests: Sequence[UndeleteRequest]) -> dict[str, str]:
        """Remove delete markers in one request, and return key -> code of the failed ones."""
        if not requests:
            return {}
        objects = [{"Key": self._prefix + request.key, "VersionId": request.version_id} for request in requests]
        with s3_request("undelete", f"{len(objects)} objects of {self.location}", self._counter, current_guard()):
            response = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": False})
        self._note_time(response)
        deleted = {entry.get("Key") for entry in response.get("Deleted", ())}
        failed = {entry.get("Key"): str(entry.get("Code", "unknown")) for entry in response.get("Errors", ())}
        return {
            request.key: _CODES.get(failed[key], failed[key]) if key in failed else "not_in_answer"
            for request in requests
            if (key := self._prefix + request.key) in failed or key not in deleted
        }

    def _delete_markers_singly(self, requests: Sequence[UndeleteRequest]) -> dict[str, str]:
        failed: dict[str, str] = {}
        for request in requests:
            try:
                with s3_request("undelete", self._where(request.key), self._counter, current_guard()):
                    self._client.delete_object(
                        Bucket=self._bucket, Key=self._prefix + request.key, VersionId=request.version_id
                    )
            except StorageError as error:
                failed[request.key] = error.code
        return failed

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
            with s3_request("lifecycle", self.location, self._counter):
                response = self._client.get_bucket_lifecycle_configuration(Bucket=self._bucket)
        except StorageError:
            return None
        return noncurrent_days_of(response, self._prefix)

    def noncurrent(self) -> Noncurrent | None:
        """Count the versions below the prefix that are not current; `None` if the bucket never kept any.

        Raises:
            StorageError: A request failed, or the caller lacks the permission.
        """
        with s3_request("list", self.location, self._counter):
            state = self._client.get_bucket_versioning(Bucket=self._bucket)
        if not state.get("Status"):
            return None
        versions = size_bytes = markers = 0
        asked: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix}
        while True:
            with s3_request("list", self.location, self._counter):
                page = self._client.list_object_versions(**asked)
            self._note_time(page)
            markers += len(page.get("DeleteMarkers", ()))
            old = [entry["Size"] for entry in page.get("Versions", ()) if not entry["IsLatest"]]
            versions, size_bytes = versions + len(old), size_bytes + sum(old)
            if not page.get("IsTruncated"):
                return Noncurrent(versions, size_bytes, markers)
            asked |= {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    def now_ms(self) -> int:
        """Return S3's clock: the Date header of the latest answer, plus the time since it arrived.

        Without an answer yet, this sends a request. The header has whole seconds and takes a while to arrive. So the
        result is up to about one second behind S3, and never ahead: objects appear younger than they are.
        """
        if self._clock is None:
            with s3_request("list", self.location, self._counter):
                response = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
            self._note_time(response)
        if self._clock is None:
            raise StorageError(f"{self.location}: expected a Date header in the answers, found none", code="no_date")
        date, noted = self._clock
        try:
            seconds = parsedate_to_datetime(date).timestamp()
        except ValueError as error:
            raise StorageError(f"{self.location}: expected a date in the Date header, found {date!r}") from error
        return int((seconds + CLOCKS.boot_s() - noted) * 1000)

    def _note_time(self, response: Any) -> None:
        date = response["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        if date:
            self._clock = (date, CLOCKS.boot_s())

    def _where(self, key: str) -> str:
        return f"{self.location}/{check_key(key, self.location)}"


class _Deleting:
    """One call of `delete`, with all its threads."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.refusal: LeaseLostError | None = None
        self.unanswered: set[str] = set()
        """Keys that were sent, but had no answer before the guard refused another attempt."""

    def refused(self, key: str, error: LeaseLostError) -> DeleteResult:
        """Note the guard's error for a key, in the thread that should delete it."""
        self.refusal = error
        if was_sent():
            self.unanswered.add(key)
        return DeleteResult(key, "not_tried")


def _result(key: str, deleted: Any, failed: str | None) -> DeleteResult:
    if failed is not None:  # Checked first: a key in both lists has failed.
        return DeleteResult(key, _CODES.get(failed, failed))
    if deleted is None:
        return DeleteResult(key, "not_in_answer")
    return DeleteResult(key, "deleted", deleted.get("DeleteMarkerVersionId"))


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


def _check_part(response: Any, found: int, start: int, length: int, where: str) -> None:
    """Make sure that an answer has the requested bytes."""
    said = str(response.get("ContentRange", ""))
    if not said.startswith(f"bytes {start}-{start + found - 1}/") or found > length:
        raise StorageError(
            f"read {where}: expected {length} bytes from byte {start}, found {found} bytes with the content range "
            f"{said or 'of the whole object'!r}",
            code="no_range",
        )
    if found < length:
        raise too_short(start, length, found, where)


def _etag(response: Any, where: str) -> str:
    etag = response.get("ETag")
    if not etag:
        raise StorageError(f"{where}: expected an answer with an ETag, found none", code="no_etag")
    return str(etag).strip('"')
