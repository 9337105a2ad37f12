"""A table's store without HTTP, for a writer of thousands of commits: it puts straight into moto.

What is put is told to EventBridge as if it had come through the door. No role is asked, nothing is logged and nothing
is slowed down, so it is for writing and for looking at what is left, never for what is tested.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, StoredObject
from tests.support.system.embedded_aws import EmbeddedAws


class Backdoor:
    """As much of a `Store` as the builder and the reader of tables need."""

    def __init__(self, aws: EmbeddedAws, bucket: str, prefix: str) -> None:
        """Open it.

        Args:
            aws: Where the bucket is.
            bucket: Its name.
            prefix: Of every key, with its closing slash.
        """
        self.location = f"s3://{bucket}/{prefix}".rstrip("/")
        self.put_count = 0
        self._aws, self._bucket, self._prefix = aws, bucket, prefix

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object."""
        assert not if_absent and if_match is None, "this writer is alone"
        self.put_count += 1
        with self._aws.alone() as s3:
            written = s3.put_object(self._bucket, self._prefix + key, data)
        return str(written.etag)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object."""
        with self._aws.alone() as s3:
            found = s3.get_bucket(self._bucket).keys.get(self._prefix + key)
            if found is None:
                raise ObjectNotFoundError(f"{self.location}/{key}")
            return Body(found.value, found.etag)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects below a folder."""
        with self._aws.alone() as s3:
            keys = s3.get_bucket(self._bucket).keys
            found = [(name, keys[name]) for name in keys if name.startswith(self._prefix + prefix)]
            entries = [StoredObject(name.removeprefix(self._prefix), it.size, it.etag, 0) for name, it in found]
        yield from sorted(entries, key=lambda entry: entry.key)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete some objects."""
        with self._aws.alone() as s3:
            for request in requests:
                s3.delete_object(self._bucket, self._prefix + request.key)
        return [DeleteResult(request.key, "deleted") for request in requests]

    def age(self, by_s: float, keys: Iterable[str] | None = None) -> None:
        """Let objects have been written earlier than they were: LastModified is all that tells their age.

        Args:
            by_s: So much earlier.
            keys: Which ones; all if none are named. What is not there is left out.
        """
        by = timedelta(seconds=by_s)
        with self._aws.alone() as s3:
            found = s3.get_bucket(self._bucket).keys
            mine = (key for key in found if key.startswith(self._prefix))
            for key in mine if keys is None else [self._prefix + key for key in keys]:
                if (stored := found.get(key)) is not None:
                    stored.last_modified -= by

    def now_ms(self) -> int:
        """Return the time of the system."""
        return int(self._aws.clock.now() * 1000)
