"""A partitioned table in memory, and an independent look at what its newest snapshot has."""

from typing import Any

from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.arguments import (
    Catalog,
    DropArguments,
    ExpirePartitionsArguments,
    TruncateArguments,
)
from lakesweep.operations.partitions.drop_partition import drop_partition
from lakesweep.operations.partitions.expire_partitions import expire_partitions
from lakesweep.operations.partitions.truncate import truncate
from tests.support.reader import RootNeeds, read_all
from tests.support.world import World

FILES = Catalog("filesystem", has_lock=True)


class PartitionWorld(World):
    """A table with the partition key `dt`, which holds one file each for three days."""

    def __init__(self, **table: Any) -> None:
        super().__init__(**{"partition_keys": ["dt"], **table})

    def fill(self, *days: str) -> None:
        """Commit one file for each day, named like it."""
        for day in days:
            self.table.commit(f"+F{day}", partition=(day,))
        self.now_ms += 3_600_000

    def drop(self, *specs: Any, execute: bool = True, catalog: Catalog = FILES, **arguments: Any) -> RunReport:
        return drop_partition(self.maintainer().table, DropArguments(specs, catalog, **arguments), execute=execute)

    def truncate(self, *, execute: bool = True, catalog: Catalog = FILES) -> RunReport:
        return truncate(self.maintainer().table, TruncateArguments(catalog), execute=execute)

    def expire_partitions(self, *, execute: bool = True, zone: str | None = None, **options: str) -> RunReport:
        named = {f"partition.{name.replace('_', '-')}": value for name, value in options.items()}
        arguments = ExpirePartitionsArguments(FILES, named, zone)
        return expire_partitions(self.maintainer().table, arguments, execute=execute)

    def newest(self) -> RootNeeds:
        """Read every root, and return the newest snapshot."""
        return read_all(self.store)[f"snapshot/snapshot-{self.ids()[-1]}"]

    def live(self) -> set[str]:
        """Return the folders with the live files of the newest snapshot."""
        return {path.split("/", 1)[0] for path in self.newest().live}
