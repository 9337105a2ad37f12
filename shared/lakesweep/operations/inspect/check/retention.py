"""What `check` finds about the retention of a branch: invalid rules, consumers that hold snapshots, overdue snapshots.

The rules are those of a pass: the schema's retention, else the fleet policy's, with its floor and protected users.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from lakesweep.errors import RefusedError
from lakesweep.model.policy import SnapshotRetention
from lakesweep.model.roots import Root, TableListing
from lakesweep.model.safety import OVERDUE_AFTER_MS
from lakesweep.operations.inspect.files import read_all
from lakesweep.operations.inspect.health import Finding, command, listed
from lakesweep.operations.retention.expire_snapshots import capped_range, choose_range
from lakesweep.runs.fleet import Ruling, limited
from lakesweep.runs.parameters.retention_options import (
    ExpireArguments,
    consumers_bind_changelogs_only,
    is_stated,
    snapshot_retention,
)
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin
from lakesweep.table.documents import read_consumers


def retention_findings(
    table: Table,
    listing: TableListing,
    ruling: Ruling | None,
    *,
    is_maintained: bool,
    turns: Callable[[int], None] = lambda at_ms: None,
) -> Iterator[Finding]:
    """Find what is wrong with a branch's retention.

    Args:
        table: The branch.
        listing: All roots of the table.
        ruling: What the fleet policy says about the table.
        is_maintained: Passes delete from the table, so snapshots that remain are overdue.
        turns: Called with the time after which the snapshots that are due now are overdue.

    Raises:
        RefusedError: No such branch exists, or one of its documents cannot be read.
        StorageError: A request failed.
    """
    view = begin(table, "check", listing)
    location, branch = table.ref.location, view.own.name
    limits = limited(ExpireArguments(), ruling)
    try:
        retention = snapshot_retention(view.schema.options, limits, view.now_ms, table.clock_ms())
    except RefusedError as error:
        yield Finding(
            "policy", f"branch {branch}: {error}", f"ALTER TABLE ... SET the options of branch {branch} in an engine"
        )
        return
    consumers = read_consumers(view.table.store, view.own.consumers)
    ahead = [name for name, at in consumers.items() if view.own.snapshots and at > view.own.snapshots[-1].id + 1]
    if ahead:
        yield Finding(
            "consumers",
            f"branch {branch}: consumer {listed(ahead)} waits for a snapshot beyond the newest; a rollback may have "
            "deleted it",
            command("reset-consumer", location, ahead[0], branch=branch),
        )
    if not view.own.snapshots or (limits.otherwise is None and not is_stated(view.schema.options)):
        return
    binds = not consumers_bind_changelogs_only(view.schema.options)
    oldest = min(consumers.values(), default=None) if binds else None
    held, roots = _due(view, retention, oldest, limits)
    free, _ = _due(view, retention, None, limits)
    pinned = [snapshot_id for snapshot_id in free if snapshot_id not in held]
    if pinned and oldest is not None:
        names = [name for name, at in consumers.items() if at <= pinned[-1]]
        yield Finding(
            "consumers",
            f"branch {branch}: consumer {listed(names)} holds {len(pinned)} snapshots that are due, the first is "
            f"{pinned[0]}",
            command("clear-consumers", location, "--including-consumers", names[0], branch=branch),
        )
    since_ms = _due_since(view, retention, held, limits, roots) if is_maintained else None
    if since_ms is not None:
        turns(since_ms + OVERDUE_AFTER_MS)
    if since_ms is not None and since_ms < view.now_ms - OVERDUE_AFTER_MS:
        yield Finding(
            "retention",
            f"branch {branch}: {len(held)} snapshots are due, the oldest since {say_time(since_ms)}",
            command("maintain", location, branch=branch),
        )


def _due(
    view: TableView, retention: SnapshotRetention, consumer_next: int | None, limits: ExpireArguments
) -> tuple[tuple[int, ...], Sequence[Root]]:
    """Return the snapshots that passes would expire, and the documents that were read for that."""
    chosen, roots = choose_range(view, replace(retention, limit=2**31 - 1), consumer_next)
    if chosen.expired and (limits.floor is not None or limits.protect_commit_users):
        chosen, roots, _ = capped_range(view, chosen, roots, limits)
    return chosen.expired, roots


def _due_since(
    view: TableView,
    retention: SnapshotRetention,
    expired: tuple[int, ...],
    limits: ExpireArguments,
    roots: Iterable[Root],
) -> int | None:
    """Return since when the oldest snapshot has been due: by its successor's age, or by the number of later ones.

    A floor holds it longer. A protected commit user holds it until the user's next commit.
    """
    if not expired:
        return None
    refs = view.own.snapshots
    at = next(place for place, ref in enumerate(refs) if ref.id == expired[0])

    def after(*waits: tuple[int, int]) -> list[int]:
        """Return the commit times of the snapshots that come so many places later, each with a wait added."""
        pairs = [(refs[at + count], wait_ms) for count, wait_ms in waits if at + count < len(refs)]
        documents = read_all(view.table.store, [ref for ref, _ in pairs])
        return [root.snapshot.time_ms + wait_ms for root, (_, wait_ms) in zip(documents, pairs, strict=True)]

    times = after((1, retention.time_retained_ms), (retention.retain_max, 0))
    floor = limits.floor
    held = [] if floor is None else after((1, floor.time_retained_ms), (floor.retain_min, 0))
    for user in limits.protect_commit_users:
        commits = [
            root.snapshot.time_ms for root in roots if root.snapshot.commit_user == user and root.ref.id > expired[0]
        ]
        held += [min(commits)] if commits else []
    return max([min(times), *held]) if times else None
