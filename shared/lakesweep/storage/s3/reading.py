"""Reads of objects in a bucket: by obstore, and by botocore where obstore has no certain answer."""

from typing import Any
from urllib.parse import quote, unquote

from lakesweep.errors import StorageError
from lakesweep.storage import stops
from lakesweep.storage.aws_client import s3_request
from lakesweep.storage.keys import check_range, too_short
from lakesweep.storage.s3.object_reader import NOT_REACHED, Fetched
from lakesweep.storage.s3.place import S3Place
from lakesweep.storage.store import Body

BODY_ATTEMPTS = 3
"""Attempts to read a body that was cut off on the way; botocore repeats a request only until the headers arrive."""
CONTROL = "lakesweep-control"
"""Metadata of the hint `snapshot/EARLIEST`: the control location of the maintainer that wrote it."""
_MAX_CONTROL = 1500
"""S3 allows 2 KB of metadata."""
_NO_SUCH_RANGE = frozenset({"InvalidRange", "416"})
"""The object ends before the range begins."""


class S3Reading(S3Place):
    """Reads objects, and notices which control location they name."""

    control = ""
    """The control location of the caller, which changes a table; empty if there is none."""
    other_control: str | None = None
    """Another control location that an object named when it was read. Text from the table, so only for a warning."""

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

    def _get(self, key: str, max_bytes: int | None, part: tuple[int, int] | None = None, **words: Any) -> Body:
        where = self._where(key)
        attempts, stop, tried_since_s = BODY_ATTEMPTS, stops.count, 0.0
        reader = None if "VersionId" in words else self._s3.reader(self._bucket)
        if reader is not None:
            found = reader.get(self._prefix + key, where, self._counter, part, max_bytes)
            if isinstance(found, Fetched):
                self._notice(found.control)
                body = _body(found, max_bytes, part, where)
                self._counter.add_read_bytes(len(body.data))
                return body
            if found.began_s and stop != stops.count:
                raise StorageError(f"read {where}: {found.why}; the run was stopped", code=NOT_REACHED)
            attempts -= found.is_cut
            tried_since_s = 0.0 if found.is_cut else found.began_s
        while True:
            attempts -= 1
            response = self._ask(
                "read", where, "get_object", tried_since_s=tried_since_s, Key=self._prefix + key, **words
            )
            tried_since_s = 0.0
            self._notice(response.get("Metadata", {}).get(CONTROL))
            stream, length, etag = response["Body"], response.get("ContentLength"), etag_of(response.get("ETag"), where)
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
                raise _too_large(length, max_bytes, where)
            try:
                with s3_request("read", where, self._counter):
                    data: bytes = stream.read()
            except (MemoryError, OverflowError) as error:
                stream.close()
                raise StorageError(
                    f"read {where}: expected an object that fits into memory, found {length} bytes", code="too_large"
                ) from error
            except StorageError:
                if attempts > 0 and stop == stops.count:
                    continue
                raise
            if len(data) != length:
                raise StorageError(f"read {where}: expected {length} bytes, found {len(data)}", code="cut_short")
            self._counter.add_read_bytes(length)
            return Body(data, etag)

    def _notice(self, mark: str | None) -> None:
        """Note the control location that an object names, if it is not the caller's."""
        if self.control and mark and mark != mark_of(self.control):
            self.other_control = unquote(mark[:_MAX_CONTROL])


def mark_of(control: str) -> str:
    """Return a control location as metadata, which takes ASCII alone; empty if it is too long."""
    mark = quote(control, safe="/:")
    return mark if len(mark) <= _MAX_CONTROL else ""


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


def _body(found: Fetched, max_bytes: int | None, part: tuple[int, int] | None, where: str) -> Body:
    """Return what the reader has fetched, if it is what was asked for."""
    etag = etag_of(found.etag, where)
    if part is not None and len(found.data) < part[1]:
        raise too_short(*part, len(found.data), where)
    if max_bytes is not None and found.size_bytes > max_bytes:
        raise _too_large(found.size_bytes, max_bytes, where)
    return Body(found.data, etag)


def _too_large(found: int, max_bytes: int, where: str) -> StorageError:
    return StorageError(f"{where}: expected at most {max_bytes} bytes, found {found}", code="too_large")


def etag_of(stated: str | None, where: str) -> str:
    """Return the ETag of an answer without quotes.

    Raises:
        StorageError: There is none.
    """
    etag = (stated or "").strip('"')
    if not etag:
        raise StorageError(f"{where}: expected an answer with an ETag, found none", code="no_etag")
    return etag
