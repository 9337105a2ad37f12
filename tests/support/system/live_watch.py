"""Nothing that a root refers to is ever deleted: each deletion is held against the roots that are there right before.

What roots refer to is read from the bucket past the door, by the tests' own reader of names. So it costs time for each
commit, and none for each deletion between two.
"""

import threading
from collections.abc import Mapping

from werkzeug.wrappers import Response

from tests.support.reader import all_roots
from tests.support.system.backdoor import Backdoor
from tests.support.system.embedded_aws import EmbeddedAws, Request
from tests.support.walk import referenced_names

_TABLE_PARTS = 3
_DELETIONS = ("DeleteObject", "DeleteObjects")


class LiveWatch:
    """Watches all tables of a bucket."""

    def __init__(self, aws: EmbeddedAws, bucket: str, outside: Mapping[str, str] | None = None) -> None:
        """Begin at once.

        Args:
            aws: Where the bucket is.
            bucket: Its name.
            outside: Prefix of an external root in the bucket -> prefix of its table; neither ends with a slash.
        """
        self.problems: list[str] = []
        self.deleted: dict[str, str] = {}
        """Key -> the process that asked for its deletion first."""
        self._aws, self._bucket, self._outside = aws, bucket, dict(outside or {})
        self._known: dict[str, tuple[object, frozenset[str]]] = {}
        """Table -> its roots, and the names that they refer to."""
        self._lock = threading.Lock()
        aws.before.append(self._before)

    def _before(self, request: Request) -> Response | None:
        if request.bucket != self._bucket or request.operation not in _DELETIONS:
            return None
        keys = [request.key]
        if request.operation == "DeleteObjects":
            keys = [str(each["Key"]) for each in request.asked["Delete"]["Objects"]]
        with self._lock:
            for table in sorted({self._table_of(key) for key in keys}):
                live = self._live(table)
                lost = [key for key in keys if self._table_of(key) == table and key.rpartition("/")[2] in live]
                self.problems += (f"{request.caller} deletes {key}, and a root refers to it" for key in lost)
            for key in keys:
                self.deleted.setdefault(key, request.caller)
        return None

    def _table_of(self, key: str) -> str:
        for prefix, table in self._outside.items():
            if key.startswith(f"{prefix}/"):
                return table
        return "/".join(key.split("/")[:_TABLE_PARTS])

    def _live(self, table: str) -> frozenset[str]:
        store = Backdoor(self._aws, self._bucket, f"{table}/")
        with self._aws.alone() as s3:
            keys = s3.get_bucket(self._bucket).keys
            seen = [(key, keys[key].etag) for key in keys if key.startswith(f"{table}/") and _may_be_root(key)]
        known = self._known.get(table)
        if known is None or known[0] != seen:
            known = self._known[table] = seen, frozenset(referenced_names(store))
        return known[1]


def _may_be_root(key: str) -> bool:
    return key.rsplit("/", 2)[-2] in ("snapshot", "tag", "changelog")


def referenced_keys(store: Backdoor) -> set[str]:
    """Return the keys of a table's files that some root refers to, and of the roots."""
    names = referenced_names(store)  # type: ignore[arg-type]
    roots = all_roots(store)  # type: ignore[arg-type]
    return {each.key for each in store.list("") if each.key.rpartition("/")[2] in names} | set(roots)
