"""The table of the demo, written and read by pypaimon, and its expected content.

pypaimon shares no code with Lakesweep. It has no expiry of its own, so it keeps everything. This module also keeps the
written rows of each snapshot in plain Python, to compare them with what a reader finds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow
from pypaimon import CatalogFactory, Schema

from lakesweep.demo.local_aws import ACCESS_KEY, REGION, SECRET_KEY, LocalAws

RETAIN_MIN, RETAIN_MAX = 3, 5
OPTIONS = {
    "bucket": "-1",
    "snapshot.num-retained.min": str(RETAIN_MIN),
    "snapshot.num-retained.max": str(RETAIN_MAX),
    "snapshot.time-retained": "1 ms",
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "daily",
    "sink.process-time-zone": "UTC",
}
"""The table states its retention, and that each day gets a tag. A maintainer needs no other instruction."""
REGIONS = ("north", "south")
OVERWRITE_EVERY = 3
"""One of this many commits replaces a partition, so that data files expire and not only metadata."""
ROWS_PER_PARTITION = 1000

Row = tuple[int, str, int]

_FOLDER = "warehouse/sales.db/orders"
_SCHEMA = pyarrow.schema([("id", pyarrow.int64()), ("region", pyarrow.string()), ("cents", pyarrow.int64())])


@dataclass(frozen=True, slots=True)
class Version:
    """One readable state of the table, as the independent reader finds it."""

    rows: tuple[Row, ...]
    files: frozenset[str]
    """Every file that it needs, relative to the table: data files, manifests, manifest lists."""


class Orders:
    """An append table of two partitions, on S3."""

    def __init__(self, aws: LocalAws) -> None:
        self.folder = _FOLDER
        self.location = f"s3://{aws.bucket}/{_FOLDER}"
        catalog = CatalogFactory.create(
            {
                "warehouse": f"s3://{aws.bucket}/warehouse",
                "s3.endpoint": aws.endpoint,
                "s3.region": REGION,
                "s3.access-key": ACCESS_KEY,
                "s3.secret-key": SECRET_KEY,
                "s3.path-style-access": "true",
            }
        )
        catalog.create_database("sales", False)
        schema = Schema.from_pyarrow_schema(_SCHEMA, partition_keys=["region"], options=OPTIONS)
        catalog.create_table("sales.orders", schema, False)
        self._table: Any = catalog.get_table("sales.orders")
        self._partitions: dict[str, tuple[Row, ...]] = {}
        self._next_id = 1
        self.expected: list[tuple[Row, ...]] = []
        """The rows of snapshots 1, 2, ... in the order of their ids."""

    def commit(self) -> int:
        """Append to every partition, or at times replace one partition. Return the new snapshot's id."""
        snapshot_id = len(self.expected) + 1
        if snapshot_id % OVERWRITE_EVERY == 0:
            region = REGIONS[snapshot_id // OVERWRITE_EVERY % len(REGIONS)]
            rows = self._new_rows(region)
            self._write(rows, overwrite={"region": region})
            self._partitions[region] = rows
        else:
            added = {region: self._new_rows(region) for region in REGIONS}
            self._write(tuple(row for rows in added.values() for row in rows))
            self._partitions = {region: self._partitions.get(region, ()) + rows for region, rows in added.items()}
        self._expect()
        return snapshot_id

    def dropped(self, region: str) -> None:
        """Expect that the next snapshot is somebody else's, and lacks a partition."""
        del self._partitions[region]
        self._expect()

    def tag(self, name: str, snapshot_id: int) -> None:
        """Give a snapshot a name that keeps it readable after it expires."""
        self._table.create_tag(name, snapshot_id)

    def read_snapshot(self, snapshot_id: int) -> Version:
        """Read one snapshot, as a query with time travel does."""
        snapshot = self._table.snapshot_manager().get_snapshot_by_id(snapshot_id)
        return self._read({"scan.snapshot-id": str(snapshot_id)}, snapshot)

    def read_tag(self, name: str) -> Version:
        """Read the version of a tag."""
        return self._read({"scan.tag-name": name}, self._table.tag_manager().get_or_throw(name))

    def read_latest(self) -> tuple[Row, ...]:
        """Read the table as a query without time travel does."""
        return _rows(self._table)[0]

    def _expect(self) -> None:
        self.expected.append(tuple(sorted(row for rows in self._partitions.values() for row in rows)))

    def _new_rows(self, region: str) -> tuple[Row, ...]:
        ids = range(self._next_id, self._next_id + ROWS_PER_PARTITION)
        self._next_id = ids.stop
        return tuple((order_id, region, order_id * 7919 % 100_000) for order_id in ids)

    def _write(self, rows: tuple[Row, ...], overwrite: dict[str, str] | None = None) -> None:
        builder = self._table.new_batch_write_builder()
        if overwrite is not None:
            builder.overwrite(overwrite)
        write, commit = builder.new_write(), builder.new_commit()
        try:
            columns = [pyarrow.array(column) for column in zip(*rows, strict=True)]
            write.write_arrow(pyarrow.table(columns, schema=_SCHEMA))
            commit.commit(write.prepare_commit())
        finally:
            write.close()
            commit.close()

    def _read(self, options: dict[str, str], snapshot: Any) -> Version:
        from pypaimon.manifest.manifest_list_manager import ManifestListManager

        rows, data = _rows(self._table.copy(options))
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        manifests = [meta.file_name for meta in ManifestListManager(self._table).read_all(snapshot)]
        metadata = {f"manifest/{name}" for name in lists + manifests}
        return Version(rows, frozenset(metadata | {path.removeprefix(f"{self.location}/") for path in data}))


def _rows(table: Any) -> tuple[tuple[Row, ...], list[str]]:
    """Return the sorted rows of a table, and the paths of the data files that hold them."""
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    columns = builder.new_read().to_arrow(splits).select(_SCHEMA.names).to_pydict()
    rows: Iterator[Row] = zip(*columns.values(), strict=True)
    return tuple(sorted(rows)), [path for split in splits for path in split.file_paths]
