"""Deletions in a bucket, and what its versions bring back."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakesweep.errors import LeaseLostError, StorageError
from lakesweep.model.safety import DELETES_BEGIN_WITHIN_S
from lakesweep.storage.aws_client import was_sent
from lakesweep.storage.clock import monotonic_s
from lakesweep.storage.guard import Guard, LateDeleteError, current_guard
from lakesweep.storage.keys import SINGLE_DELETES, check_count, count_deletes, is_key
from lakesweep.storage.s3.place import S3Place
from lakesweep.storage.store import DeleteRequest, DeleteResult, HiddenState, UndeleteRequest, UndeleteResult
from lakesweep.storage.versions import KeyVersion, below_marker, hidden_state, newest_marker, versions_of

WINDOW_DELETES = SINGLE_DELETES
"""Concurrent single deletes."""
_PAUSE_S = 1
_PASSING = frozenset({"InternalError", "SlowDown", "ServiceUnavailable", "OperationAborted"})
_CODES = {"PreconditionFailed": "precondition_failed", "AccessDenied": "access_denied", "NoSuchKey": "already_gone"}
_SINGLE_CODES = {"not_found": "already_gone", "not_implemented": "unsupported_condition"}
_NO_XML = re.compile("[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
"""Characters that XML cannot contain or that parsers change: keys with them are not sent in a DeleteObjects
document."""


class S3Deleting(S3Place):
    """Deletes, and removes delete markers."""

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
        objects = [
            {"Key": self._prefix + request.key} | ({} if request.etag is None else {"ETag": f'"{request.etag}"'})
            for request in requests
        ]
        try:
            return self._delete_objects("delete", objects, work.guard)
        except LeaseLostError as error:
            return {request.key: work.refused(request.key, error) for request in requests}

    def _delete_objects(
        self, operation: str, objects: Sequence[Mapping[str, object]], guard: Guard
    ) -> dict[str, DeleteResult]:
        """Delete objects or versions in one request, and return the result of each key."""
        where = f"{len(objects)} objects of {self.location}"
        # Not Quiet: only the long answer has the versions that `undelete` needs.
        asked = {"Objects": objects, "Quiet": False}
        response = self._ask(operation, where, "delete_objects", guard, Delete=asked)
        deleted = {entry.get("Key"): entry for entry in response.get("Deleted", ())}
        failed = {entry.get("Key"): str(entry.get("Code", "unknown")) for entry in response.get("Errors", ())}
        results = {}
        for full in (str(each["Key"]) for each in objects):
            code, version_id = "not_in_answer", None
            if full in failed:  # Checked first: a key in both lists has failed.
                code = _CODES.get(failed[full], failed[full])
            elif full in deleted:
                code, version_id = "deleted", deleted[full].get("DeleteMarkerVersionId")
            key = full.removeprefix(self._prefix)
            results[key] = DeleteResult(key, code, version_id)
        return results

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
        condition: dict[str, Any] = {} if request.etag is None else {"IfMatch": f'"{request.etag}"'}
        try:
            where, key = self._where(request.key), self._prefix + request.key
            response = self._ask("delete", where, "delete_object", work.guard, Key=key, **condition)
        except LeaseLostError as error:
            return work.refused(request.key, error)
        except StorageError as error:
            return DeleteResult(request.key, _SINGLE_CODES.get(error.code, error.code))
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
        full = self._prefix + key
        found: tuple[KeyVersion, ...] = ()
        for page in self._version_pages("list versions of", self._where(key), full):
            found += tuple(versions_of(page, full))
            # Longer keys follow the key itself, so its own versions end with the first page that contains a longer key.
            if page.get("NextKeyMarker") != full:
                break
        return found

    def _version_pages(self, operation: str, where: str, prefix: str) -> Iterator[Mapping[str, Any]]:
        """Yield the pages of a listing of versions."""
        asked: dict[str, Any] = {"Prefix": prefix}
        while True:
            page = self._ask(operation, where, "list_object_versions", **asked)
            yield page
            if not page.get("IsTruncated"):
                return
            asked |= {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    def _delete_markers(self, requests: Sequence[UndeleteRequest]) -> dict[str, str]:
        """Remove delete markers in one request, and return key -> code of the failed ones."""
        if not requests:
            return {}
        objects = [{"Key": self._prefix + request.key, "VersionId": request.version_id} for request in requests]
        results = self._delete_objects("undelete", objects, current_guard())
        return {key: result.code for key, result in results.items() if result.code != "deleted"}

    def _delete_markers_singly(self, requests: Sequence[UndeleteRequest]) -> dict[str, str]:
        failed: dict[str, str] = {}
        for request in requests:
            try:
                words: dict[str, Any] = {"Key": self._prefix + request.key, "VersionId": request.version_id}
                self._ask("undelete", self._where(request.key), "delete_object", current_guard(), **words)
            except StorageError as error:
                failed[request.key] = error.code
        return failed


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
