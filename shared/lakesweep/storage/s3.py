"""A store in an S3 bucket, or in anything that speaks S3 with conditional writes."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any

from lakesweep.errors import PreconditionFailedError, StorageError
from lakesweep.storage.keys import check_key, check_prefix
from lakesweep.storage.list_page import page_of
from lakesweep.storage.s3_client import translated
from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, StoredObject

MAX_DELETE_KEYS = 1000
MAX_SINGLE_DELETES = 16
"""So many conditional deletes go one by one, with the If-Match header that most servers honour. More travel in one
request with an ETag for each key, which AWS honours and some other servers ignore."""
_FAILED_CODES = {"PreconditionFailed": "precondition_failed", "AccessDenied": "access_denied"}


class S3Store:
    """Objects below one prefix of one bucket."""

    def __init__(self, bucket: str, prefix: str, client: Any) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client = client
        self._clock: tuple[float, float] | None = None

    @property
    def location(self) -> str:
        """Return `s3://bucket/prefix`."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        check_prefix(prefix, self.location)
        where = f"{self.location}/{prefix}"
        token: dict[str, str] = {}
        while True:
            with translated("list", where):
                response = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + prefix, **token)
            self._note_time(response)
            page = page_of(response, where)
            for found in page.objects:
                if not found.key.startswith(self._prefix):
                    raise StorageError(f"list {where}: expected keys below it, found {found.key!r}")
                key = found.key[len(self._prefix) :]
                if not key.endswith("/") and key:
                    yield StoredObject(key, found.size_bytes, found.etag, found.modified_ms)
            if not page.is_truncated:
                return
            assert page.next_token is not None
            token = {"ContinuationToken": page.next_token}

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        where = self._where(key)
        with translated("read", where):
            response = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
            self._note_time(response)
            length = response["ContentLength"]
            if max_bytes is not None and length > max_bytes:
                response["Body"].close()
                raise StorageError(f"{where}: expected at most {max_bytes} bytes, found {length}", code="too_large")
            data: bytes = response["Body"].read()
        if len(data) != length:
            raise StorageError(f"read {where}: expected {length} bytes, found {len(data)}")
        return Body(data, response["ETag"].strip('"'))

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object; see `Store.put`.

        The client repeats a request whose answer was lost, and then finds its own object in the way. So a failed
        condition is checked against what is there: an equal body means that this put has won.
        """
        where = self._where(key)
        conditions: dict[str, str] = {}
        if if_absent:
            conditions["IfNoneMatch"] = "*"
        if if_match is not None:
            conditions["IfMatch"] = f'"{if_match}"'
        try:
            with translated("put", where):
                response = self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data, **conditions)
        except PreconditionFailedError:
            if conditions and (found := self._read_if_equal(key, data)) is not None:
                return found
            raise
        self._note_time(response)
        etag: str = response["ETag"].strip('"')
        return etag

    def _read_if_equal(self, key: str, data: bytes) -> str | None:
        try:
            body = self.read(key)
        except StorageError:
            return None
        return body.etag if body.data == data else None

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 keys; see `Store.delete`."""
        if len(requests) > MAX_DELETE_KEYS:
            raise StorageError(f"{self.location}: expected at most {MAX_DELETE_KEYS} keys, found {len(requests)}")
        for request in requests:
            check_key(request.key, self.location)
        conditional = [request for request in requests if request.etag is not None]
        if len(conditional) > MAX_SINGLE_DELETES:
            conditional = []
        together = [request for request in requests if request not in conditional]
        results: dict[str, DeleteResult] = {}
        if conditional:
            with ThreadPoolExecutor(max_workers=len(conditional)) as pool:
                results |= {result.key: result for result in pool.map(self._delete_one, conditional)}
        if together:
            results |= self._delete_together(together)
        return [results[request.key] for request in requests]

    def _delete_one(self, request: DeleteRequest) -> DeleteResult:
        from botocore.exceptions import ClientError

        where = self._where(request.key)
        try:
            with translated("delete", where):
                response = self._client.delete_object(
                    Bucket=self._bucket, Key=self._prefix + request.key, IfMatch=f'"{request.etag}"'
                )
        except StorageError as error:
            if isinstance(error.__cause__, ClientError) and error.code != "no_such_bucket":
                code = {"not_found": "already_gone"}.get(error.code, error.code)
                return DeleteResult(request.key, code)
            raise
        self._note_time(response)
        return DeleteResult(request.key, "deleted", response.get("VersionId"))

    def _delete_together(self, requests: Sequence[DeleteRequest]) -> dict[str, DeleteResult]:
        objects = [
            {"Key": self._prefix + request.key} | ({"ETag": f'"{request.etag}"'} if request.etag is not None else {})
            for request in requests
        ]
        with translated("delete", f"{len(objects)} objects of {self.location}"):
            response = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects})
        self._note_time(response)
        cut = len(self._prefix)
        found = {
            entry["Key"][cut:]: DeleteResult(entry["Key"][cut:], "deleted", entry.get("DeleteMarkerVersionId"))
            for entry in response.get("Deleted", ())
        }
        for entry in response.get("Errors", ()):
            key = entry["Key"][cut:]
            code = str(entry.get("Code", "unknown"))
            gone = code == "NoSuchKey"
            found[key] = DeleteResult(key, "already_gone" if gone else _FAILED_CODES.get(code, code))
        return {request.key: found.get(request.key, DeleteResult(request.key, "not_in_answer")) for request in requests}

    def now_ms(self) -> int:
        """Return S3's clock: the Date header of the latest answer and the time since then.

        The header has whole seconds, so this is up to a second behind: ages come out younger, never older.
        """
        if self._clock is None:
            with translated("look at", self.location):
                self._note_time(self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1))
        if self._clock is None:
            raise StorageError(f"{self.location}: expected a Date header in the answers, found none")
        date, noted = self._clock
        return int((date + time.monotonic() - noted) * 1000)

    def _note_time(self, response: Any) -> None:
        date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date:
            self._clock = (parsedate_to_datetime(date).timestamp(), time.monotonic())

    def _where(self, key: str) -> str:
        check_key(key, self.location)
        return f"{self.location}/{key}"
