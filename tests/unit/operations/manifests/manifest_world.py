"""A partitioned table in memory whose manifests are compacted."""

from collections.abc import Mapping
from typing import Any

from lakesweep.model.commits.manifests import ManifestsReport
from lakesweep.model.report import RunReport
from lakesweep.operations.manifests.arguments import CompactManifestArguments
from lakesweep.operations.manifests.compact_manifest import compact_manifest
from lakesweep.runs.committing.catalog import Catalog
from tests.support.faulty_store import Switch
from tests.support.live_records import document_of, listed, live_records
from tests.support.world import World

FILES = Catalog("filesystem", has_lock=True)


class ManifestWorld(World):
    """A table with the partition key `dt`."""

    def __init__(self, **table: Any) -> None:
        super().__init__(**{"partition_keys": ["dt"], **table})

    def fill(self, *days: str) -> None:
        """Commit one file for each day, named like it."""
        for day in days:
            self.table.commit(f"+F{day}", partition=(day,))
        self.now_ms += 3_600_000

    def compact(
        self,
        switch: Switch | None = None,
        *,
        execute: bool = True,
        catalog: Catalog = FILES,
        unattended: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> RunReport:
        arguments = CompactManifestArguments(catalog, options or {}, unattended)
        return compact_manifest(self.maintainer(switch).table, arguments, execute=execute)

    def figures(self, report: RunReport) -> ManifestsReport:
        assert isinstance(report.commits, ManifestsReport)
        return report.commits

    @property
    def newest(self) -> int:
        return self.ids()[-1]

    def document(self) -> dict[str, Any]:
        return document_of(self.store, self.newest)

    def listed(self) -> list[dict[str, Any]]:
        """Return what the lists of the newest snapshot say of each manifest."""
        return listed(self.store, self.newest)

    def live(self) -> Any:
        return live_records(self.store, self.newest)
