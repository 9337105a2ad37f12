"""Nothing that a root refers to is ever deleted: each deletion is held against the roots that are there right before.

What roots need is read from the bucket past the door, by the tests' own reader. So it costs time for each commit, and
none for each deletion between two. A root that cannot be read whole is on its way out, and needs nothing.
"""

import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from werkzeug.wrappers import Response

from tests.support.reader import TableReader, UnreadableRootError, all_roots
from tests.support.system.backdoor import Backdoor
from tests.support.system.embedded_aws import EmbeddedAws, Request
from tests.support.walk import referenced_names

_TABLE_PARTS = 3
_DELETIONS = ("DeleteObject", "DeleteObjects")


class LiveWatch:
    """Watches all tables of a bucket."""

    def __init__(self, aws: EmbeddedAws, bucket: str, apart_from: Collection[str] = ()) -> None:
        """Begin at once.

        Args:
            aws: Where the bucket is.
            bucket: Its name.
            apart_from: Prefixes of tables that are too large for this, without their closing slashes.
        """
        self.outside: dict[str, str] = {}
        """Prefix of an external root in the bucket -> prefix of its table; neither ends with a slash."""
        self.problems: list[str] = []
        self.deleted: dict[str, str] = {}
        """Key -> the process that asked for its deletion first."""
        self._aws, self._bucket, self._apart_from = aws, bucket, frozenset(apart_from)
        self._known: dict[str, tuple[object, frozenset[str]]] = {}
        """Table -> its roots, and the keys of what they need."""
        self._lock = threading.Lock()
        aws.before.append(self._before)

    def _before(self, request: Request) -> Response | None:
        if request.bucket != self._bucket or request.operation not in _DELETIONS:
            return None
        keys = [request.key]
        if request.operation == "DeleteObjects":
            keys = [str(each["Key"]) for each in request.asked["Delete"]["Objects"]]
        with self._lock:
            for table in sorted({self._table_of(key) for key in keys} - self._apart_from):
                live = self._live(table)
                lost = [key for key in keys if key in live and not _may_be_root(key)]
                self.problems += (f"{request.caller} deletes {key}, and a root needs it" for key in lost)
            for key in keys:
                self.deleted.setdefault(key, request.caller)
        return None

    def _table_of(self, key: str) -> str:
        for prefix, table in self.outside.items():
            if key.startswith(f"{prefix}/"):
                return table
        return "/".join(key.split("/")[:_TABLE_PARTS])

    def _live(self, table: str) -> frozenset[str]:
        with self._aws.alone() as s3:
            keys = s3.get_bucket(self._bucket).keys
            seen = [(key, keys[key].etag) for key in keys if key.startswith(f"{table}/") and _may_be_root(key)]
        known = self._known.get(table)
        if known is None or known[0] != seen:
            known = self._known[table] = seen, frozenset(self._needed(table))
        return known[1]

    def _needed(self, table: str) -> Iterator[str]:
        reader = TableReader(self._store(table), self._externals(table))
        for root in reader.roots():
            with suppress(UnreadableRootError):
                for path in reader.read(root).paths:
                    outside = path.startswith("s3://")
                    yield path.removeprefix(f"s3://{self._bucket}/") if outside else f"{table}/{path}"

    def _externals(self, table: str) -> dict[str, Any]:
        mine = [prefix for prefix, its in self.outside.items() if its == table]
        return {f"s3://{self._bucket}/{prefix}": self._store(prefix) for prefix in mine}

    def _store(self, prefix: str) -> Any:
        return Backdoor(self._aws, self._bucket, f"{prefix}/")


def _may_be_root(key: str) -> bool:
    return key.rsplit("/", 2)[-2] in ("snapshot", "tag", "changelog")


def referenced_keys(store: Backdoor) -> set[str]:
    """Return the keys of a table's files that some root refers to, and of the roots."""
    names = referenced_names(store)  # type: ignore[arg-type]
    roots = all_roots(store)  # type: ignore[arg-type]
    return {each.key for each in store.list("") if each.key.rpartition("/")[2] in names} | set(roots)
