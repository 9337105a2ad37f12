"""What people who work with main should know before a fast-forward."""

from collections.abc import Iterator
from itertools import pairwise

from lakesweep.errors import RefusedError
from lakesweep.model.table_ref import MAIN
from lakesweep.model.wording import some_of
from lakesweep.operations.branches.rules.fast_forward import Course, History
from lakesweep.operations.tags.options import is_write_only
from lakesweep.runs.view import Draft
from lakesweep.table.documents import read_consumers


def forward_warnings(draft: Draft, name: str, course: Course, main: History, branch: History) -> Iterator[str]:
    """Yield what people who work with main should know.

    Args:
        draft: Of main.
        name: The name of the branch.
        course: The changes in main.
        main: The documents of main.
        branch: The documents of the branch.
    """
    lost = [root.ref.id for root in course.going if root.ref.kind == "snapshot"]
    if lost:
        yield (
            f"writers and streaming readers of {MAIN} must be stopped before and started again after: ids from "
            f"{min(lost)} on will belong to other snapshots"
        )
    if course.displaced:
        replaced = some_of([old.ref.id for old in reversed(course.displaced)])
        yield (
            f"{MAIN} and branch {name} have different snapshots of the ids {replaced}, and those of {MAIN} are "
            "overwritten; readers that have loaded the old ones continue with them"
        )
    yield from _consumers(draft, branch.snapshots[-1].ref.id + 1)
    if not is_write_only(draft.schema.options):
        yield (
            f"writers of this table may expire its snapshots themselves, and then consider one branch alone: {MAIN} "
            f"and {name} will share files, so delete branch {name} soon, or make the table write-only"
        )
    changelogs = [root.ref.id for root in main.changelogs if root.ref.id >= branch.first.ref.id]
    if changelogs:
        yield f"changelogs {some_of(changelogs)} of {MAIN} are kept, although they belong to its former history"
    there = sorted({root.ref.id for root in (*course.staying, *course.coming) if root.ref.kind == "snapshot"})
    earliest = branch.earliest_id or main.earliest_id or 0
    hidden = [i for i in there if earliest in there and i < earliest]
    if hidden:
        yield (
            f"EARLIEST will be {earliest}, which hides snapshots {some_of(hidden)} from readers and from Paimon's "
            "expiry"
        )
    missing = [i + 1 for i, after in pairwise(there) if after != i + 1]
    if missing:
        yield f"{MAIN} will have no snapshot {some_of(missing)}; a search by time or watermark may fail there"


def _consumers(draft: Draft, end: int) -> Iterator[str]:
    """Warn of readers that wait for an id beyond the next commit: they fail."""
    try:
        consumers = read_consumers(draft.table.store, draft.own.consumers)
    except RefusedError as error:
        yield f"a consumer cannot be read, so it is not known whether it is beyond the new end of {MAIN}: {error}"
        return
    for consumer, next_id in sorted(consumers.items()):
        if next_id > end:
            yield (
                f"consumer {consumer} waits for snapshot {next_id}, but the next commit of {MAIN} is {end}; its reader "
                "fails until the consumer is reset"
            )
