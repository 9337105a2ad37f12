"""The story: forty times a commit, its event, and the maintenance that the event causes.

The deployed functions do the same for all tables. An event becomes a hint, the hints of one table become one run, and
`maintain` applies the table's own options.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from lakesweep.aws.events import CommitHint
from lakesweep.control.area import ControlArea
from lakesweep.demo.local_aws import LocalAws
from lakesweep.demo.orders import Orders
from lakesweep.model.plan import Delete, Put
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter

TAG = "first-quarter"
"""Name of the manual tag."""
TAG_FOLDER = "tag/tag-"

Maintain = Callable[[CommitHint], RunReport]


@dataclass(frozen=True, slots=True)
class Story:
    """What happened in the demo."""

    commits: int
    tagged_id: int
    """The tagged snapshot, which expires later."""
    hints: tuple[CommitHint, ...]
    """The hints as they arrived; each caused one run."""
    reports: tuple[RunReport, ...]
    written: Mapping[str, int]
    """Key -> size in bytes of every object that was ever in the table. Without maintenance all would still be there."""
    requests: Mapping[str, int]
    """Kind -> number of Lakesweep's requests."""

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
    run = maintainer(aws, counter)
    tagged_id = commits // 4
    hints: list[CommitHint] = []
    reports: list[RunReport] = []
    written: dict[str, int] = {}
    for _ in range(commits):
        snapshot_id = orders.commit()
        if snapshot_id == tagged_id:
            orders.tag(TAG, snapshot_id)
        written |= aws.sizes(orders.folder)
        for hint in aws.commit_hints():
            hints.append(hint)
            reports.append(run(hint))
        progress(snapshot_id)
    return Story(commits, tagged_id, tuple(hints), tuple(reports), written, counter.snapshot())


def maintainer(aws: LocalAws, counter: RequestCounter) -> Maintain:
    """Return a function that runs `maintain` on the table of a hint. It opens each store once, like a warm function."""
    open_counted = partial(open_store, counter=counter, settings=aws.settings)
    store_at = cache(open_counted)

    def run(hint: CommitHint) -> RunReport:
        table = Table(
            ref=TableRef(hint.location, hint.branch),
            store=store_at(hint.location),
            area=ControlArea(store_at(f"s3://{aws.control_bucket}"), hint.location),
            open_store=open_counted,
            counter=counter,
        )
        return maintain(table, MaintainArguments(committed_id=hint.snapshot_id), execute=True)

    return run
