"""A partitioned table of the running system. pypaimon writes and reads it, and Java reads it where that is there.

    table = Visits(system, "events")
    table.write(table.day(30), table.day(1))
    table.drop(table.day(1))
    ...
    assert table.differences() == []

Partitions of three kinds are written: days that stay, days that are over, and days that somebody drops. Every row is
known, so what is read says which commits it holds. Rows of a day are written in whole groups, one for each commit.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
from pypaimon import CatalogFactory, Schema

from tests.differential.engine import Engine
from tests.support.reader import TableReader, UnreadableRootError
from tests.support.stack import REGION
from tests.support.system.deployed import PREFIX, System
from tests.support.system.embedded_aws import OUTSIDE
from tests.support.system.writers import engine_classpath, java_is_missing

DAY_S = 86_400.0
DATABASE = "shop"
OPTIONS = {
    "bucket": "-1",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "1 ms",
    "partition.expiration-time": "7 d",
    "partition.timestamp-formatter": "yyyyMMdd",
}
ROWS = 2
"""Of each day in each commit."""
_COLUMNS = pyarrow.schema([("id", pyarrow.int64()), ("dt", pyarrow.string())])
Rows = Mapping[str, Counter[int]]
"""Day -> its rows."""


def put_policy(system: System, place: str, **rule: object) -> None:
    """Let a fleet policy say of all tables that Lakesweep deletes and commits, and more.

    Args:
        system: Its parameter `PolicyLocation` names the same place.
        place: Bucket and key. The bucket is made.
        rule: What the rule says beside that.
    """
    bucket, _, key = place.partition("/")
    system.s3.create_bucket(Bucket=bucket)
    rules = [{"tables": f"s3://{system.bucket}/", "mode": "delete", "time_zone": "UTC", "catalog_type": "filesystem"}]
    body = json.dumps({"version": 1, "rules": [{**each, **rule} for each in rules]}).encode()
    system.s3.put_object(Bucket=bucket, Key=key, Body=body)


class Visits:
    """One table. Several threads may write, one after the other."""

    has_orphans = False
    """Nothing is planted here."""

    def __init__(self, system: System, name: str, **options: str) -> None:
        """Make the table, without a snapshot."""
        self.system, self.engine_name = system, f"{DATABASE}.{name}"
        self.name = self.path = f"{DATABASE}.db/{name}"
        self.location, self.store = system.location(self.path), system.store(self.path)
        self.dropped: set[str] = set()
        """Days that somebody was asked to drop. Nothing more is written to them."""
        self._warehouse = f"s3://{system.bucket}/{PREFIX}"
        settings = {
            "warehouse": self._warehouse,
            "s3.endpoint": system.aws.endpoint,
            "s3.region": REGION,
            "s3.access-key": OUTSIDE,
            "s3.secret-key": OUTSIDE,
            "s3.path-style-access": "true",
        }
        self._catalog = CatalogFactory.create(settings)
        self._catalog.create_database(DATABASE, True)
        schema = Schema.from_pyarrow_schema(_COLUMNS, partition_keys=["dt"], options={**OPTIONS, **options})
        self._catalog.create_table(self.engine_name, schema, False)
        self._written: list[Rows] = []
        """Of each commit."""
        self._tags: dict[str, Rows] = {}
        self._lock = threading.Lock()

    # --- writing ---

    @property
    def commits(self) -> int:
        """Return how many commits were made."""
        return len(self._written)

    def day(self, ago: int) -> str:
        """Return a day, by the clock of the system."""
        return time.strftime("%Y%m%d", time.gmtime(self.system.clock.now() - ago * DAY_S))

    def write(self, *days: str) -> None:
        """Commit some rows for each day; the object store announces the snapshot."""
        with self._lock:
            first = ROWS * len(days) * 1000 * (self.commits + 1)
            ids = {day: range(first + ROWS * place, first + ROWS * (place + 1)) for place, day in enumerate(days)}
            builder = self._catalog.get_table(self.engine_name).new_batch_write_builder()
            write, commit = builder.new_write(), builder.new_commit()
            rows = [(each, day) for day, some in ids.items() for each in some]
            columns = [pyarrow.array(column) for column in zip(*rows, strict=True)]
            write.write_arrow(pyarrow.table(columns, schema=_COLUMNS))
            commit.commit(write.prepare_commit())
            write.close()
            commit.close()
            self._written.append({day: Counter(some) for day, some in ids.items()})

    def tag(self, name: str) -> None:
        """Tag the newest snapshot."""
        with self._lock:
            table = self._catalog.get_table(self.engine_name)
            table.create_tag(name, table.snapshot_manager().get_latest_snapshot().id)
            self._tags[name] = self.rows(tag=name)

    def drop(self, day: str) -> None:
        """Ask the system to drop a day, as a person does."""
        self.dropped.add(day)
        event = {
            "operation": "drop-partition",
            "table": self.location,
            "arguments": {"partition": f"dt={day}"},
            "execute": True,
        }
        done = self.system.invoke("OnDemand", event)
        assert not done.error, done.value
        assert done.value.get("queued") or done.value["status"] == "nothing_to_do", done.value

    # --- reading ---

    def rows(self, *, snapshot: int | None = None, tag: str | None = None) -> Rows:
        """Read the table as it is, or as of a snapshot or tag."""
        options = {"scan.snapshot-id": snapshot, "scan.tag-name": tag}
        table = self._catalog.get_table(self.engine_name)
        table = table.copy({name: str(value) for name, value in options.items() if value is not None})
        builder = table.new_read_builder()
        splits = builder.new_scan().plan().splits()
        found: dict[str, Counter[int]] = {}
        for row in builder.new_read().to_arrow(splits).to_pylist() if splits else ():
            found.setdefault(row["dt"], Counter())[row["id"]] += 1
        return found

    def days(self) -> dict[str, int]:
        """Read the table, and count the rows of each day."""
        return {day: some.total() for day, some in self.rows().items()}

    def files(self, day: str) -> list[str]:
        """Return the data files of a day, whether or not a snapshot needs them."""
        return [entry.key for entry in self.store.list(f"dt={day}/")]

    def snapshots(self) -> list[int]:
        """Return the ids of the snapshots that are there."""
        names = [entry.key.removeprefix("snapshot/snapshot-") for entry in self.store.list("snapshot/")]
        return sorted(int(name) for name in names if name.isdigit())

    def commit_users(self) -> list[str]:
        """Return who made the snapshots that are there."""
        keys = [f"snapshot/snapshot-{each}" for each in self.snapshots()]
        return [json.loads(self.store.read(key).data)["commitUser"] for key in keys]

    # --- judging ---

    def differences(self) -> list[str]:
        """Say what is not as it should be of a system at rest.

        Rows of days that stay are all there. A day that is over is gone. A day that was dropped is gone as a whole, or
        there as a whole if the request was lost. Each older root holds the first commits, and no file is left that no
        root needs.
        """
        found: list[str] = []
        for of in (self._of_newest, self._of_roots, self._of_files):
            try:
                found += of()
            except Exception as error:  # pypaimon has no error of its own for a file that is not there
                found.append(f"cannot be read: {type(error).__name__}: {error}")
        return [f"{self.name}: {each}" for each in found]

    def is_over(self, day: str) -> bool:
        """Tell whether a day is older than the table keeps any."""
        return day < self.day(8)

    def _of_newest(self) -> Iterator[str]:
        newest = self.rows()
        for day in sorted({day for made in self._written for day in made} | newest.keys()):
            wanted, there = self._of_day(day, self.commits), newest.get(day, Counter())
            if self.is_over(day):
                wanted = Counter()
            elif day in self.dropped and not there:
                continue
            if there != wanted:
                yield f"day {day} has {sorted(there)}; expected {sorted(wanted)}"

    def _of_roots(self) -> Iterator[str]:
        roots: list[tuple[str, dict[str, Any]]] = [
            (f"snapshot {each}", {"snapshot": each}) for each in self.snapshots()
        ]
        for what, where in roots:
            rows = self.rows(**where)
            if not any(self._stays(rows) == self._first(count) for count in range(self.commits + 1)):
                yield f"{what} holds {rows}; expected the first commits to the days that stay"
            for day, there in rows.items():
                if not any(there == self._of_day(day, count) for count in range(self.commits + 1)):
                    yield f"{what} has {sorted(there)} of day {day}; expected all of its first commits"
        for name, wanted in self._tags.items():
            if (there_now := self.rows(tag=name)) != wanted:
                yield f"tag {name} holds {there_now}; expected {wanted}"

    def _of_files(self) -> Iterator[str]:
        reader, needed = TableReader(self.store), set[str]()
        for root in reader.roots():
            try:
                needed |= reader.read(root).paths
            except UnreadableRootError as error:
                yield str(error)
                return
        for entry in self.store.list(""):
            if entry.key.startswith("dt=") and not entry.key.endswith("/") and entry.key not in needed:
                yield f"{entry.key} is still there, and no root needs it"

    def _of_day(self, day: str, count: int) -> Counter[int]:
        """Return what the first commits wrote to a day."""
        return sum((made.get(day, Counter()) for made in self._written[:count]), Counter[int]())

    def _first(self, count: int) -> Rows:
        days = {day for made in self._written[:count] for day in made}
        return self._stays({day: self._of_day(day, count) for day in days})

    def _stays(self, rows: Rows) -> Rows:
        return {day: some for day, some in rows.items() if not self.is_over(day) and day not in self.dropped}

    def differences_to_java(self, folder: Path) -> list[str]:
        """Say where the Java engine reads other rows than pypaimon.

        Args:
            folder: For what the engine keeps.
        """
        options = {
            "s3.endpoint": self.system.aws.endpoint,
            "s3.access-key": OUTSIDE,
            "s3.secret-key": OUTSIDE,
            "s3.path.style.access": "true",
            "s3.endpoint.region": REGION,
            "s3.connection.ssl.enabled": "false",
        }
        classpath = engine_classpath()
        assert classpath is not None, java_is_missing()
        engine = Engine(folder, classpath, heap="512m")
        try:
            engine("open", warehouse=self._warehouse, options=options, tmp=str(folder / "spill"))
            roots = [{}, *({"snapshot": each} for each in self.snapshots()), *({"tag": name} for name in self._tags)]
            return [problem for root in roots for problem in self._by_java(engine, root)]
        finally:
            engine.close()

    def _by_java(self, engine: Any, root: Mapping[str, Any]) -> Iterator[str]:
        ours, theirs = self.rows(**root), dict[str, Counter[int]]()
        for number, day in engine("rows", table=self.engine_name, **root):
            theirs.setdefault(day, Counter())[int(number)] += 1
        if theirs != ours:
            yield f"{self.name}: {dict(root) or 'the newest snapshot'}: Java reads {theirs}, pypaimon {ours}"
