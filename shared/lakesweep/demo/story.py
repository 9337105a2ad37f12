"""The story: forty times a commit, its event, and the maintenance that the event causes. Then Lakesweep commits itself.

The deployed functions do the same for all tables. An event becomes a hint, the hints of one table become one run, and
`maintain` applies the table's own options. At the end `drop-partition` commits a snapshot without one partition, which
causes an event like any other.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from lakesweep.aws.events import CommitHint
from lakesweep.control.area import ControlArea
from lakesweep.demo.local_aws import LocalAws
from lakesweep.demo.orders import REGIONS, Orders
from lakesweep.model.commits.partitions import PartitionsReport
from lakesweep.model.plan import Delete, Put
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter

TAG = "first-quarter"
"""Name of the manual tag."""
TAG_FOLDER = "tag/tag-"
DROPPED = REGIONS[0]
"""The region whose partition is dropped."""

TableAt = Callable[[str, str], Table]
"""Location and branch -> the table."""


@dataclass(frozen=True, slots=True)
class Story:
    """What happened in the demo."""

    commits: int
    """Commits of the writer; Lakesweep makes one more."""
    tagged_id: int
    """The tagged snapshot, which expires later."""
    hints: tuple[CommitHint, ...]
    """The hints as they arrived; each caused one run."""
    drop: RunReport
    """Of the run that dropped a partition."""
    reports: tuple[RunReport, ...]
    """Of the maintenance, a run for each hint."""
    written: Mapping[str, int]
    """Key -> size in bytes of every object that was ever in the table. Without maintenance all would still be there."""
    requests: Mapping[str, int]
    """Kind -> number of Lakesweep's requests."""

    @property
    def newest_id(self) -> int:
        """The id of the newest snapshot, which is Lakesweep's."""
        return self.commits + 1

    @property
    def dropped(self) -> PartitionsReport | None:
        """What the run dropped; `None`: nothing."""
        return self.drop.commits if isinstance(self.drop.commits, PartitionsReport) else None

    def deletes(self) -> tuple[Delete, ...]:
        """Return every deletion that a run planned and executed."""
        steps = [step for report in self.reports for step in report.steps or () if step.executed]
        return tuple(delete for step in steps if step.plan for delete in step.plan.deletes)

    def scheduled(self) -> Mapping[str, int]:
        """Return tag -> snapshot of the tags that maintenance created, since the table's options ask for one tag a day.

        The first pass creates the tag of the day before, from the state at the end of that day. If a day ends during
        the demo, there is one more tag.
        """
        return {
            put.path.removeprefix(TAG_FOLDER): json.loads(put.body)["id"] for put in self._puts() if put.kind == "tag"
        }

    def _puts(self) -> Iterator[Put]:
        steps = [step for report in self.reports for step in report.steps or () if step.executed]
        for action in (action for step in steps if step.plan for action in step.plan.actions):
            if isinstance(action, Put):
                yield action


def tell(aws: LocalAws, orders: Orders, commits: int, progress: Callable[[int], None]) -> Story:
    """Let the writer commit, and maintain the table after each commit."""
    counter = RequestCounter()
    table_at = opener(aws, counter)
    tagged_id = commits // 4
    hints: list[CommitHint] = []
    reports: list[RunReport] = []
    written: dict[str, int] = {}

    def maintain_hinted() -> None:
        written.update(aws.sizes(orders.folder))
        for hint in aws.commit_hints():
            hints.append(hint)
            table = table_at(hint.location, hint.branch)
            reports.append(maintain(table, MaintainArguments(committed_id=hint.snapshot_id), execute=True))

    for _ in range(commits):
        snapshot_id = orders.commit()
        if snapshot_id == tagged_id:
            orders.tag(TAG, snapshot_id)
        maintain_hinted()
        progress(snapshot_id)
    # No file of the table says which catalog it has, so the caller does. This one has no lock: Lakesweep looks once
    # more, some seconds after its commit, whether another writer has replaced the snapshot.
    asked = {"partition": [f"region={DROPPED}"], "catalog_type": "filesystem"}
    drop = run_operation(table_at(orders.location, "main"), "drop-partition", asked, execute=True)
    if drop.status == "done":
        orders.dropped(DROPPED)
        maintain_hinted()
    return Story(commits, tagged_id, tuple(hints), drop, tuple(reports), written, counter.snapshot())


def opener(aws: LocalAws, counter: RequestCounter) -> TableAt:
    """Return a function that opens tables. It opens each store once, like a warm function."""
    open_counted = partial(open_store, counter=counter, settings=aws.settings)
    store_at = cache(open_counted)

    def table_at(location: str, branch: str) -> Table:
        return Table(
            ref=TableRef(location, branch),
            store=store_at(location),
            area=ControlArea(store_at(f"s3://{aws.control_bucket}"), location),
            open_store=open_counted,
            counter=counter,
        )

    return table_at
