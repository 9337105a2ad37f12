"""A store in memory whose ETags follow from content, as those of S3 do."""

from tests.support.memory_store import MemoryStore


class ContentStore(MemoryStore):
    """A store whose ETags follow from content, as those of S3 do."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        super().put(key, data, if_absent=if_absent, if_match=if_match)
        etag = f"{hash(bytes(data)):x}"
        with self._lock:
            body, _, modified_ms = self._objects[key]
            self._objects[key] = (body, etag, modified_ms)
        return etag
