"""A table that is old in all its parts, orphans that a test plants in it, and what a removal takes.

scene = OrphanScene()
scene.table.commit("+A")
orphan = scene.orphan("b")
scene.age()
assert scene.remove() == {orphan}
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest, Store
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.metadata_files import stable_uuid
from tests.support.outside import opener
from tests.support.s3_server import fresh_bucket, moto_store
from tests.support.table_builder import TableBuilder
from tests.support.walk import WatchedStore

START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
OPERATION = "remove-orphan-files"
FOLDER = "dt=v00000/bucket-0/"
"""Where the builder's data files lie, unless a test says otherwise."""


def unique(label: str) -> str:
    """Return a name's UUID, the same for the same label."""
    return stable_uuid(f"orphan {label}")


class OrphanScene:
    """A table in memory with one partition level `dt`, its clock, and its maintainer."""

    def __init__(self, *, external: str | None = None, store: Store | None = None, **table: Any) -> None:
        """Begin with an empty table.

        Args:
            external: Location of an external root that the table declares.
            store: Where the table lies, if not in memory.
            table: As `TableBuilder` takes it.
        """
        self.now_ms = START_MS
        self.store: Any = store or MemoryStore("memory://bucket/db.db/t", clock=lambda: self.now_ms)
        self.control = MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.external = MemoryStore(external, clock=lambda: self.now_ms) if external is not None else None
        self.sleeps: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None
        self.table = TableBuilder(
            self.store,
            externals={self.external.location: self.external} if self.external is not None else None,
            start_ms=START_MS,
            **{"partition_keys": ("dt",), **table},
        )
        self.report: RunReport | None = None
        self._outside: WatchedStore | None = None

    def age(self, by_ms: int = 10 * DAY_MS) -> None:
        """Let time pass."""
        self.now_ms += by_ms

    def put(self, path: str, data: bytes = b"orphan", *, age_ms: int | None = None) -> str:
        """Write an object, back-dated if its age is given, and return its path."""
        self.store.put(path, data)
        if age_ms is not None:
            self.store.set_modified(path, self.now_ms - age_ms)
        return path

    def orphan(self, label: str, suffix: str = "-0.parquet", *, folder: str = FOLDER, **more: Any) -> str:
        """Write a data file that nobody refers to and return its path."""
        return self.put(f"{folder}data-{unique(label)}{suffix}", **more)

    def drop(self, *paths: str) -> None:
        """Delete objects, past the model of the table."""
        for path in paths:
            (result,) = self.store.delete([DeleteRequest(path)])
            assert result.code == "deleted", (path, result.code)

    def listed(self) -> set[str]:
        """Return every key of the table."""
        return {entry.key for entry in self.store.list("")}

    def maintainer(self, store: Store | None = None, control: Store | None = None) -> Maintainer:
        """Return a maintainer, on a store that wraps this one if given."""
        return Maintainer(
            store or self.store, control=control or self.control, open_store=self._open, sleep=self._sleep
        )

    def remove(
        self, *, reads: bool = True, wrap: Callable[[Store], Store] | None = None, **arguments: object
    ) -> set[str]:
        """Remove orphan files and return the keys that went; none of them is one that a root refers to.

        Args:
            reads: Every root that exists must read afterwards.
            wrap: Makes what the run uses as the table's store.
            arguments: Of the operation.
        """
        watched = WatchedStore(self.store, self.store)
        if self.external is not None:
            self._outside = WatchedStore(self.external, self.store)
        self.report = report = self.maintainer(wrap(watched) if wrap else watched).run(OPERATION, **arguments)
        gone = set(watched.deleted)
        if self._outside is not None:
            gone |= {f"{self._outside.location}/{key}" for key in self._outside.deleted}
        planned = {delete.path for delete in report.plan.deletes} if report.plan is not None else set()
        assert gone <= planned, f"not in the plan: {gone - planned}"
        if report.status == "done":
            assert report.outcome is not None
            kept = report.outcome.kept_by_recheck
            assert len(planned) - len(gone) == kept + report.outcome.already_gone
        else:
            assert not gone or report.status in ("partial", "stale"), report.status
        if reads:
            assert_roots_readable(self.table)
        return gone

    def refusal(self, **arguments: object) -> tuple[str, str]:
        """Run what must be refused before anything changes; return the code and the sentence."""
        before = {entry.key: entry.etag for entry in self.store.list("")}
        report = self.maintainer().run(OPERATION, **arguments)
        assert report.status == "refused", report
        assert report.refusal is not None
        assert {entry.key: entry.etag for entry in self.store.list("")} == before
        return report.refusal.code, report.refusal.message

    @property
    def kept(self) -> dict[str, int]:
        """Return what the last removal kept, by reason."""
        assert self.report is not None
        assert self.report.plan is not None
        return dict(self.report.plan.header.kept)

    @property
    def findings(self) -> dict[str, Any]:
        """Return what the last removal found besides."""
        assert self.report is not None
        assert self.report.plan is not None
        return dict(self.report.plan.header.findings)

    def _open(self, location: str) -> Store:
        assert self.external is not None
        return opener(self._outside or self.external)(location)

    def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now_ms += int(seconds * 1000)
        self.on_sleep()


class S3Scene(OrphanScene):
    """The same in moto, by the real clock; what time passes, objects are back-dated by."""

    def __init__(self, *, prefix: str = "db.db/t", bucket: str | None = None, **table: Any) -> None:
        """Begin with an empty table, in a bucket of its own unless one is given."""
        self.bucket = bucket or fresh_bucket()
        super().__init__(store=moto_store(prefix, bucket=self.bucket), **table)
        self.control = MemoryStore("memory://control")

    def age(self, by_ms: int = 10 * DAY_MS) -> None:
        for key in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.bucket].keys.values():
            key.last_modified -= timedelta(milliseconds=by_ms)
