"""`expire_snapshots`: drop snapshots that the retention no longer wants, and every file that only they held.

Choose a range, load facts, plan. Nothing is changed here. Documents are read no further than needed: a table that has
nothing to expire costs its listings, the schema and the documents of the oldest snapshots.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from lakesweep import __version__
from lakesweep.control.plans import PLAN_LIFETIME_MS
from lakesweep.errors import RefusedError, StalePlanError
from lakesweep.format.schema import TableSchema
from lakesweep.model.allowed import is_external
from lakesweep.model.facts import Freed
from lakesweep.model.plan import Action, Plan, PlanHeader, content_hash
from lakesweep.model.policy import SnapshotRetention
from lakesweep.model.roots import BranchListing, Root, RootRef, TableListing
from lakesweep.operations.context import Table
from lakesweep.operations.identifiers import new_id
from lakesweep.operations.retention_options import ExpireArguments, check_stated, check_supported, snapshot_retention
from lakesweep.plan.expire_snapshots import earliest_hint, latest_hint, plan_expiry
from lakesweep.plan.snapshot_range import RangeBounds, SnapshotRange, bounds, select_range
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_all_schemas, read_consumers, read_hint, read_roots, read_schema
from lakesweep.table.freed import find_freed
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.paths import TablePaths
from lakesweep.table.references import find_references
from lakesweep.table.root_files import RootFiles, read_root_files
from lakesweep.table.stores import TableStores, declared_roots

OPERATION = "expire_snapshots"
CONFIRM_ABOVE_FILES = 1000
"""A call that overrides the table's options and takes more files than this, and more than it leaves, is confirmed."""
_CHUNKS = (2, 16, 10_000)
"""How many snapshot documents are read at a time while the first young one is sought."""


def plan_expire_snapshots(table: Table, arguments: ExpireArguments) -> Plan:
    """Plan the expiry of one branch's snapshots. A plan without actions means that there is nothing to do.

    Raises:
        RefusedError: Not such a table, rules that could empty it, or a root that cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    store = table.store
    listing = discover(store)
    own = listing.branches.get(table.ref.branch) or BranchListing(table.ref.branch)
    schema = read_schema(store, own)
    now_ms = store.now_ms()
    options = {**schema.options, **arguments.options}
    try:
        if arguments.unattended:
            check_stated(options)
        check_supported(options)
        policy = snapshot_retention(options, arguments, now_ms, table.clock_ms())
    except RefusedError as error:
        raise RefusedError(f"table {table.ref}: {error}", code=error.code) from error
    draft = _Draft(table, arguments, listing, own, policy, now_ms)
    if not own.snapshots:
        return draft.plan((), None, {})
    ids = [ref.id for ref in own.snapshots]
    consumers = read_consumers(store, own.consumers)
    consumer_next = min(consumers.values(), default=None)
    limits = bounds(ids, policy, consumer_next)
    oldest = _oldest_documents(store, own.snapshots, limits, now_ms - policy.time_retained_ms)
    chosen = select_range(ids, {root.ref.id: root.snapshot.time_ms for root in oldest}, policy, consumer_next, now_ms)
    if not chosen.expired:
        hints = () if "snapshot/EARLIEST" in own.hints else (earliest_hint(own.name, ids[0]),)
        return draft.plan(hints, chosen, chosen.kept)
    return _plan_range(draft, chosen, limits, schema, oldest)


class _Draft:
    """What is known before the range is chosen, and how it becomes a plan."""

    def __init__(
        self,
        table: Table,
        arguments: ExpireArguments,
        listing: TableListing,
        own: BranchListing,
        policy: SnapshotRetention,
        now_ms: int,
    ) -> None:
        self.table = table
        self.arguments = arguments
        self.listing = listing
        self.own = own
        self.policy = policy
        self.now_ms = now_ms

    def plan(
        self,
        actions: Sequence[Action],
        chosen: SnapshotRange | None,
        kept: Mapping[str, int],
        warnings: Sequence[str] = (),
        needs_confirmation: bool = False,
    ) -> Plan:
        header = PlanHeader(
            plan_id=new_id(self.now_ms),
            operation=OPERATION,
            table=self.table.ref.location,
            branch=self.table.ref.branch,
            created_ms=self.now_ms,
            expires_ms=self.now_ms + PLAN_LIFETIME_MS,
            code_version=__version__,
            arguments=self.arguments.to_json(),
            policy={
                "retain_min": self.policy.retain_min,
                "retain_max": self.policy.retain_max,
                "time_retained_ms": self.policy.time_retained_ms,
                "max_deletes": self.policy.limit,
            },
            roots_seen=self.listing.etags(),
            end_id=chosen.end_id if chosen else None,
            snapshots={
                "earliest": chosen.first_id if chosen else None,
                "latest": chosen.latest_id if chosen else None,
                "expired": list(chosen.expired) if chosen else [],
            },
            kept=dict(kept),
            warnings=tuple(warnings),
            needs_confirmation=needs_confirmation,
            content_hash=content_hash(actions),
            action_count=len(actions),
        )
        return Plan(header, tuple(actions))


def _oldest_documents(
    store: Store, snapshots: Sequence[RootRef], limits: RangeBounds, cutoff_ms: int
) -> tuple[Root, ...]:
    """Read documents from the oldest that age decides on, up to the first young one."""
    asked = [successor for ref, successor in pairwise(snapshots) if limits.age_from_id <= ref.id < limits.hard_end_id]
    roots: list[Root] = []
    for chunk in _chunks(asked):
        found = _read_all(store, chunk)
        roots.extend(found)
        if any(root.snapshot.time_ms >= cutoff_ms for root in found):
            break
    return tuple(roots)


def _chunks(refs: Sequence[RootRef]) -> Iterator[Sequence[RootRef]]:
    start = 0
    for size in _CHUNKS:
        if start < len(refs):
            yield refs[start : start + size]
        start += size
    for rest in range(start, len(refs), _CHUNKS[-1]):
        yield refs[rest : rest + _CHUNKS[-1]]


def _read_all(store: Store, refs: Sequence[RootRef]) -> tuple[Root, ...]:
    """Read snapshot documents of the maintained branch, all of which must still be there."""
    documents = read_roots(store, refs)
    if documents.vanished:
        raise StalePlanError(f"table {store.location}: {documents.vanished[0].path} vanished while the plan was made")
    return documents.roots


def _plan_range(
    draft: _Draft, chosen: SnapshotRange, limits: RangeBounds, schema: TableSchema, oldest: tuple[Root, ...]
) -> Plan:
    """Load what the chosen range frees and what all other roots need, and plan."""
    table, store, own = draft.table, draft.table.store, draft.own
    known = {root.ref.path: root for root in oldest}
    known |= {r.ref.path: r for r in _read_all(store, [ref for ref in own.snapshots if ref.path not in known])}
    others = [ref for ref in draft.listing.roots() if ref.path not in known]
    documents = read_roots(store, others)
    going = frozenset(chosen.expired)
    expiring = [known[ref.path] for ref in own.snapshots if ref.id in going]
    staying = [known[ref.path] for ref in own.snapshots if ref.id not in going] + list(documents.roots)
    expired_changelog = any(root.snapshot.changelog_manifest_list for root in expiring)

    reader = MetadataReader(store)
    files = read_root_files(
        reader,
        [*expiring, *staying],
        with_changelog=lambda root: expired_changelog and root.ref.kind != "tag",
        going=frozenset(root.ref.path for root in expiring),
    )
    paths = TablePaths(schema)
    end = files[next(ref.path for ref in own.snapshots if ref.id not in going)]
    freed = find_freed(reader, paths, [files[root.ref.path] for root in expiring], end)
    references = find_references(reader, [files[root.ref.path] for root in staying], freed.files, own.name)
    latest = files[own.snapshots[-1].path]
    _refuse_damaged_head(table, latest, references.unreadable_roots, list(references.problems()))

    stores = TableStores(store, _declared_roots(store, draft.listing, freed.files))
    planned = plan_expiry(
        own.name,
        expiring,
        end.root.snapshot.id,
        {snapshot_id: _why_expired(snapshot_id, limits, draft) for snapshot_id in chosen.expired},
        freed.files,
        references,
        lambda path: stores.root_of(path) is not None,
        latest_hint(own.name, _hint(store, own), end.root.snapshot.id, chosen.latest_id),
    )
    vanished = tuple(f"{ref} vanished while the plan was made" for ref in documents.vanished)
    return draft.plan(
        planned.actions,
        chosen,
        {**chosen.kept, **planned.kept},
        (*freed.warnings, *references.problems(), *vanished),
        needs_confirmation=draft.arguments.overrides_table and _is_large(planned.actions, latest),
    )


def _hint(store: Store, own: BranchListing) -> int | None:
    document = own.hints.get("snapshot/LATEST")
    return read_hint(store, document.path) if document is not None else None


def _refuse_damaged_head(table: Table, latest: RootFiles, unreadable: frozenset[str], problems: list[str]) -> None:
    """Refuse when the newest snapshot itself cannot be read: the older ones may be all that is left to go back to."""
    problem = next((content.problem for content in latest.unreadable_lists), None)
    if problem is None and latest.root.ref.path in unreadable:
        problem = next(sentence for sentence in problems if sentence.startswith(f"{latest.root.ref} "))
    if problem is not None:
        raise RefusedError(
            f"table {table.ref}: the newest snapshot {latest.root.snapshot.id} cannot be read ({problem}); "
            "expected a readable one before older ones go",
            code="unreadable_root",
        )


def _declared_roots(store: Store, listing: TableListing, freed: Sequence[Freed]) -> tuple[str, ...]:
    """Return the external roots of every schema of every branch, when any file is external at all."""
    if not any(is_external(file.path) for file in freed):
        return ()
    return declared_roots(read_all_schemas(store, listing))


def _why_expired(snapshot_id: int, limits: RangeBounds, draft: _Draft) -> str:
    if snapshot_id < limits.age_from_id:
        return f"snapshot {snapshot_id} is beyond the newest {draft.policy.retain_max}"
    cutoff = datetime.fromtimestamp((draft.now_ms - draft.policy.time_retained_ms) / 1000, UTC)
    return f"the successor of snapshot {snapshot_id} was committed before {cutoff.isoformat(timespec='milliseconds')}"


def _is_large(actions: Sequence[Action], latest: RootFiles) -> bool:
    data = sum(1 for action in actions if action.phase == "data")
    live = sum(meta.added_count - meta.deleted_count for meta in latest.manifests())
    return data > CONFIRM_ABOVE_FILES and data > live
