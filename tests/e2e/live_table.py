"""A table on S3 whose writer goes on committing."""

import time
from collections.abc import Mapping

from lakesweep.control.area import ControlArea
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.memory_store import MemoryStore
from tests.support.reader import TableReader, assert_readable
from tests.support.s3_server import fresh_bucket, moto_settings, seed_moto
from tests.support.table_builder import TableBuilder

KEEP_50 = {
    "snapshot.num-retained.min": "50",
    "snapshot.num-retained.max": "50",
    "snapshot.time-retained": "1 ms",
}


PARTITIONS = [f"2024-01-{day:02}" for day in range(1, 21)]


class LiveTable:
    """A table on S3 whose writer goes on committing: each commit replaces the 20 files of the one before."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.bucket, self.control = fresh_bucket(), fresh_bucket()
        self.memory = MemoryStore("memory://bucket/live")
        self.table = TableBuilder(self.memory, partition_keys=("dt",), options=options)
        self.commits = 0
        self._uploaded: dict[str, str] = {}

    def commit(self, time_ms: int | None = None) -> None:
        self.commits += 1
        number = self.commits
        gone = [f"-F{number - 1}x{index}" for index in range(20)] if number > 1 else []
        new = [f"F{number}x{index}" for index in range(20)]
        self.table.commit(
            *gone,
            *[f"+{name}" for name in new],
            partition={name: (PARTITIONS[index],) for index, name in enumerate(new)},
            kind="OVERWRITE",
            merge_base=number % 30 == 0,
            time_ms=time_ms,
        )

    def upload(self) -> None:
        """Bring what the writer has written since the last time into the bucket."""
        for entry in self.memory.list(""):
            if self._uploaded.get(entry.key) != entry.etag:
                self._uploaded[entry.key] = entry.etag
                seed_moto(self.bucket, [f"db.db/t/{entry.key}"], self.memory.read(entry.key).data)

    def maintain(
        self, *, is_due: bool = False, at_ms: int | None = None, catalog: Catalog | None = None
    ) -> tuple[RunReport, dict[str, int], list[str]]:
        """Run the pass after the newest commit, as an event starts it, and return what it asked for."""
        counter, switch = RequestCounter(), Switch()
        now_ms = int(time.time() * 1000) if at_ms is None else at_ms
        settings = moto_settings()

        class Frozen(FaultyStore):
            """Counts must not depend on how long a slow machine takes."""

            def now_ms(self) -> int:
                return now_ms

        store = open_store(f"s3://{self.bucket}/db.db/t", counter=counter, settings=settings)
        control = open_store(f"s3://{self.control}/lakesweep", counter=counter, settings=settings)
        table = Table(
            ref=TableRef(store.location),
            store=Frozen(store, switch, "table"),
            area=ControlArea(Frozen(control, switch, "control"), store.location),
            open_store=lambda location: open_store(location, counter=counter, settings=settings),
            counter=counter,
            clock_ms=lambda: now_ms,
        )
        arguments = MaintainArguments(committed_id=self.commits, is_due=is_due, catalog=catalog or Catalog())
        report = maintain(table, arguments, execute=True)
        return report, counter.snapshot(), switch.calls

    def check(self, tags: int) -> None:
        """Read the newest and oldest roots of each kind whole, and count them all."""
        store = open_store(f"s3://{self.bucket}/db.db/t", settings=moto_settings())
        reader = TableReader(store)
        kinds = {kind: [key for key in reader.roots() if key.startswith(kind)] for kind in ("snapshot/", "tag/")}
        assert len(kinds["tag/"]) == tags  # a pass may have made some of them
        for found in kinds.values():
            assert_readable(reader, self.table, [*found[:5], *found[-5:]])
