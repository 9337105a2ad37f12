"""What `check` finds about a branch's retention: contradicting rules, overdue snapshots, and what holds them."""

from collections.abc import Iterator
from dataclasses import replace

from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.policy import SnapshotRetention
from lakesweep.model.roots import TableListing
from lakesweep.model.safety import OVERDUE_AFTER_MS
from lakesweep.operations.inspect.files import read_all
from lakesweep.operations.inspect.health import Finding, command, listed
from lakesweep.operations.retention.expire_snapshots import choose_range
from lakesweep.runs.fleet import ruling_of
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


def branch_findings(table: Table, listing: TableListing) -> Iterator[Finding]:
    """Find what is wrong with a branch's retention.

    Raises:
        RefusedError: No such branch exists, or one of its documents cannot be read.
        StorageError: A request failed.
    """
    view = begin(table, "check", listing)
    location, branch = table.ref.location, view.own.name
    try:
        ruling_of(table)
    except UsageError as error:
        yield Finding("policy", str(error), "mend the fleet policy document (docs/operations.md)")
    try:
        retention = snapshot_retention(view.schema.options, ExpireArguments(), view.now_ms, table.clock_ms())
    except RefusedError as error:
        yield Finding(
            "policy", f"branch {branch}: {error}", f"ALTER TABLE ... SET the options of branch {branch} in an engine"
        )
        return
    consumers = read_consumers(table.store, view.own.consumers)
    ahead = [name for name, at in consumers.items() if view.own.snapshots and at > view.own.snapshots[-1].id + 1]
    if ahead:
        yield Finding(
            "consumers",
            f"branch {branch}: consumer {listed(ahead)} waits for a snapshot beyond the newest; a rollback may have "
            "deleted it",
            command("reset-consumer", location, ahead[0], branch=branch),
        )
    if not view.own.snapshots or not is_stated(view.schema.options):
        return
    binds = not consumers_bind_changelogs_only(view.schema.options)
    oldest = min(consumers.values(), default=None) if binds else None
    held, _ = choose_range(view, replace(retention, limit=2**31 - 1), oldest)
    free, _ = choose_range(view, replace(retention, limit=2**31 - 1), None)
    pinned = [snapshot_id for snapshot_id in free.expired if snapshot_id not in held.expired]
    if pinned and oldest is not None:
        names = [name for name, at in consumers.items() if at <= pinned[-1]]
        yield Finding(
            "consumers",
            f"branch {branch}: consumer {listed(names)} holds {len(pinned)} snapshots that are due, the first is "
            f"{pinned[0]}",
            command("clear-consumers", location, "--including", names[0], branch=branch),
        )
    since_ms = _due_since(view, retention, held.expired)
    if since_ms is not None and since_ms < view.now_ms - OVERDUE_AFTER_MS:
        yield Finding(
            "retention",
            f"branch {branch}: {len(held.expired)} snapshots are due, the oldest since {say_time(since_ms)}",
            command("maintain", location, branch=branch),
        )


def _due_since(view: TableView, retention: SnapshotRetention, expired: tuple[int, ...]) -> int | None:
    """Return since when the oldest snapshot has been due: by its successor's age, or by the number of later ones."""
    if not expired:
        return None
    refs = view.own.snapshots
    at = next(place for place, ref in enumerate(refs) if ref.id == expired[0])
    times: list[int] = []
    for place, wait_ms in ((at + 1, retention.time_retained_ms), (at + retention.retain_max, 0)):
        if place < len(refs):
            (root,) = read_all(view.table.store, refs[place : place + 1])
            times.append(root.snapshot.time_ms + wait_ms)
    return min(times, default=None)
