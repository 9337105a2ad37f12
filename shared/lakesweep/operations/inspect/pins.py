"""What keeps old files in a table besides its retention: a consumer, a branch, tags that never expire.

A *pin* is one of these. It pins the data files that would be deleted without it. These files are needed by the pin's
roots alone, not by the newest snapshot, nor by any other remaining root. Snapshots that the retention expires anyway do
not count as remaining. So their files are blamed on no pin, and they do not make a pin look smaller.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.policy import INT_MAX, SnapshotRetention
from lakesweep.model.roots import BranchListing, Root, RootRef, TableListing
from lakesweep.operations.inspect.files import read_all
from lakesweep.operations.inspect.table_summary import ShownPin, ShownTag
from lakesweep.operations.retention.rules.snapshot_cap import cap_range
from lakesweep.operations.retention.rules.snapshot_range import select_range
from lakesweep.runs.parameters.retention_options import ExpireArguments
from lakesweep.storage.store import Store
from lakesweep.table.documents import TagDocument, read_tags
from lakesweep.table.reach.live_files import Amount, FilesBeyond, files_beyond


def find_pins(
    store: Store, listing: TableListing, own: BranchListing, consumers: Mapping[str, int], tags: Sequence[ShownTag]
) -> tuple[ShownPin, ...]:
    """Return the oldest consumer, the oldest other branch, and the tags without a time to live, oldest first.

    Their bytes are not known yet.
    """
    forever = sorted((tag for tag in tags if tag.time_retained_ms is None), key=lambda tag: (tag.snapshot_id, tag.name))
    return (
        *_oldest_consumer(consumers),
        *_oldest_branch(store, listing, own),
        *(ShownPin("tag", tag.name, tag.snapshot_id) for tag in forever),
    )


def shown_tags(store: Store, refs: Sequence[RootRef]) -> Iterator[ShownTag]:
    """Read tags.

    Raises:
        RefusedError: A document is no tag.
        StorageError: A read failed.
    """
    for ref, found in read_tags(store, refs):
        if isinstance(found, FormatError):
            raise RefusedError(f"table {store.location}: {found}", code="unreadable_root") from found
        if not isinstance(found, TagDocument):
            raise found
        created, retained_ns = found.tag.create_time, found.tag.time_retained_ns
        yield ShownTag(
            name=ref.name,
            snapshot_id=found.tag.snapshot.id,
            time_ms=found.tag.snapshot.time_ms,
            created=None if created is None else created.isoformat(),
            time_retained_ms=None if retained_ns is None else retained_ns // 1_000_000,
        )


def _oldest_consumer(consumers: Mapping[str, int]) -> Iterator[ShownPin]:
    for name in sorted(consumers, key=lambda name: (consumers[name], name))[:1]:
        yield ShownPin("consumer", name, consumers[name])


def _oldest_branch(store: Store, listing: TableListing, own: BranchListing) -> Iterator[ShownPin]:
    firsts = [
        next(branch.roots()) for branch in listing.branches.values() if branch.name != own.name and any(branch.roots())
    ]
    roots = sorted(read_all(store, firsts), key=lambda root: (root.snapshot.time_ms, root.ref.branch))
    for root in roots[:1]:
        yield ShownPin("branch", root.ref.branch, root.snapshot.id)


@dataclass(frozen=True, slots=True)
class Measured:
    """The facts from the manifests of a branch."""

    pins: tuple[ShownPin, ...]
    live: Amount
    """The data files of its newest snapshot."""


def measure_pins(
    store: Store,
    listing: TableListing,
    own: BranchListing,
    pins: Sequence[ShownPin],
    retention: SnapshotRetention | None,
    consumer_next: int | None,
    now_ms: int,
    limits: ExpireArguments,
) -> Measured:
    """Return `pins` with the files and bytes that each pins. Reads the metadata of every root, if there is any pin.

    Args:
        store: The table's store.
        listing: All roots.
        own: The branch in question.
        pins: The pins of that branch.
        retention: Its rules. `None`: they are invalid, so no snapshot would expire.
        consumer_next: The smallest id that a consumer keeps.
        now_ms: The time of the run.
        limits: What the fleet policy adds to the rules.

    Raises:
        RefusedError: Metadata of a root cannot be read.
        StorageError: A read failed.
    """
    if not own.snapshots:
        return Measured(tuple(pins), Amount())
    roots = read_all(store, tuple(listing.roots()) if pins else own.snapshots[-1:])
    newest = next(root for root in roots if root.ref.path == own.snapshots[-1].path)
    older = [root for root in roots if root is not newest]
    found = files_beyond(store, newest, older)
    return Measured(weighed(found, own, pins, roots, retention, consumer_next, now_ms, limits), found.version)


def weighed(
    found: FilesBeyond,
    own: BranchListing,
    pins: Sequence[ShownPin],
    roots: Sequence[Root],
    retention: SnapshotRetention | None,
    consumer_next: int | None,
    now_ms: int,
    limits: ExpireArguments,
) -> tuple[ShownPin, ...]:
    """Return `pins` with the files and bytes that each pins.

    Args:
        found: The files that each of `roots` needs beyond the newest snapshot of the branch.
        own: The branch in question; it has snapshots.
        pins: The pins of that branch.
        roots: All roots of the table.
        retention: As of `measure_pins`; so are the rest.
        consumer_next: The smallest id that a consumer keeps.
        now_ms: The time of the run.
        limits: What the fleet policy adds to the rules.
    """
    older = [root for root in roots if root.ref.path != own.snapshots[-1].path]
    snapshots = [root for root in roots if root.ref.kind == "snapshot" and root.ref.branch == own.name]
    going = _going(snapshots, retention, consumer_next, now_ms, limits)
    going_without = _going(snapshots, retention and replace(retention, limit=INT_MAX), None, now_ms, limits)
    paths = frozenset(root.ref.path for root in older)

    def measured(pin: ShownPin) -> ShownPin:
        if pin.kind == "consumer":
            held = [root for root in snapshots if root.ref.path in going_without and root.ref.id >= pin.snapshot_id]
        elif pin.kind == "branch":
            held = [root for root in older if root.ref.branch == pin.name]
        else:
            asked = (own.name, "tag", pin.name)
            held = [root for root in older if (root.ref.branch, root.ref.kind, root.ref.name) == asked]
        staying = paths - (going_without if pin.kind == "consumer" else going)
        amount = found.needed_only_by((root.ref.path for root in held), staying)
        return replace(pin, files=amount.files, bytes=amount.bytes)

    return tuple(measured(pin) for pin in pins)


def _going(
    snapshots: Sequence[Root],
    retention: SnapshotRetention | None,
    consumer_next: int | None,
    now_ms: int,
    limits: ExpireArguments,
) -> frozenset[str]:
    """Return the paths of snapshots that the next run expires."""
    if retention is None:
        return frozenset()
    times = {root.ref.id: root.snapshot.time_ms for root in snapshots}
    chosen = select_range(tuple(times), times, retention, consumer_next, now_ms)
    documents = [root.snapshot for root in snapshots]
    chosen, _ = cap_range(chosen, documents, limits.floor, limits.protect_commit_users, now_ms)
    expired = frozenset(chosen.expired)
    return frozenset(root.ref.path for root in snapshots if root.ref.id in expired)
