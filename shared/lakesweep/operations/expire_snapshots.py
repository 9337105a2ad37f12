"""`expire_snapshots`: drop snapshots that the retention no longer wants, and every file that only they held.

Choose a range, load facts, plan. Nothing is changed here. Documents are read no further than needed: a table that has
nothing to expire costs its listings, the schema and the documents of the oldest snapshots.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from lakesweep.errors import RefusedError
from lakesweep.model.plan import Action, Plan
from lakesweep.model.policy import SnapshotRetention
from lakesweep.model.roots import Root, RootRef
from lakesweep.operations.context import Table
from lakesweep.operations.draft import Draft, Frame, begin
from lakesweep.operations.expire_consumers import forgotten_consumers
from lakesweep.operations.retention_options import (
    ExpireArguments,
    changelog_producer,
    check_stated,
    consumers_bind_changelogs_only,
    has_decoupled_changelog,
    snapshot_retention,
)
from lakesweep.plan.expire_snapshots import changelog_documents, earliest_hint, latest_hint, plan_expiry
from lakesweep.plan.snapshot_range import RangeBounds, SnapshotRange, bounds, select_range
from lakesweep.table.documents import read_consumers, read_hint
from lakesweep.table.freed import Lifecycle, find_freed
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.paths import TablePaths
from lakesweep.table.references import find_references
from lakesweep.table.root_files import RootFiles, read_root_files
from lakesweep.table.stores import TableStores

OPERATION = "expire_snapshots"
CONFIRM_ABOVE_FILES = 1000
"""A call that overrides the table's options and takes more files than this, and more than it leaves, is confirmed."""
_CHUNKS = (2, 16, 10_000)
"""How many snapshot documents are read at a time while the first young one is sought."""


def plan_expire_snapshots(table: Table, arguments: ExpireArguments, draft: Draft | None = None) -> Plan:
    """Plan the expiry of one branch's snapshots. A plan without actions means that there is nothing to do.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        draft: The table as it was just listed, when it was.

    Raises:
        RefusedError: Not such a table, rules that could empty it, or a root that cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    draft = begin(table, OPERATION) if draft is None else replace(draft, operation=OPERATION)
    policy = _policy(draft, arguments)
    snapshots = draft.own.snapshots
    if not snapshots:
        return draft.plan((), _frame(arguments, policy, None))
    options = {**draft.schema.options, **arguments.options}
    consumer_next = _consumer_next(draft, options, arguments.unattended)
    ids = [ref.id for ref in snapshots]
    limits = bounds(ids, policy, consumer_next)
    oldest = _oldest_documents(draft, limits, draft.now_ms - policy.time_retained_ms)
    times = {root.ref.id: root.snapshot.time_ms for root in oldest}
    chosen = select_range(ids, times, policy, consumer_next, draft.now_ms)
    if not chosen.expired:
        hints = () if "snapshot/EARLIEST" in draft.own.hints else (earliest_hint(draft.own.name, ids[0]),)
        return draft.plan(
            hints,
            _frame(arguments, policy, chosen),
            kept=chosen.kept,
            next_pass=_next_pass(draft, policy, [ref.id for ref in snapshots[:2]], times),
        )
    return _plan_range(draft, arguments, policy, chosen, limits, oldest, lifecycle_of(options))


def _policy(draft: Draft, arguments: ExpireArguments) -> SnapshotRetention:
    options = {**draft.schema.options, **arguments.options}
    try:
        if arguments.unattended:
            check_stated(options)
        return snapshot_retention(options, arguments, draft.now_ms, draft.table.clock_ms())
    except RefusedError as error:
        raise RefusedError(f"table {draft.table.ref}: {error}", code=error.code) from error


def lifecycle_of(options: Mapping[str, str]) -> Lifecycle:
    """Return how long the changes of a snapshot stay readable by a table's options.

    A call's own numbers do not change that: readers look for changelogs by the table's options.

    Raises:
        RefusedError: A value that does not parse.
    """
    if not has_decoupled_changelog(options):
        return Lifecycle.COUPLED
    return Lifecycle.BY_DELTA if changelog_producer(options) == "none" else Lifecycle.BY_CHANGELOG


def _consumer_next(draft: Draft, options: Mapping[str, str], unattended: bool) -> int | None:
    if consumers_bind_changelogs_only(options):
        return None
    # The pass after a commit removes forgotten consumers first, so its plan does not wait for them.
    forgotten = forgotten_consumers(draft, options) if unattended else ()
    consumers = [ref for ref in draft.own.consumers if ref not in forgotten]
    return min(read_consumers(draft.table.store, consumers).values(), default=None)


def _frame(arguments: ExpireArguments, policy: SnapshotRetention, chosen: SnapshotRange | None) -> Frame:
    return Frame(
        arguments=arguments.to_json(),
        policy=policy.to_json(),
        snapshots={
            "earliest": chosen.first_id if chosen else None,
            "latest": chosen.latest_id if chosen else None,
            "expired": list(chosen.expired) if chosen else [],
        },
    )


def _oldest_documents(draft: Draft, limits: RangeBounds, cutoff_ms: int) -> tuple[Root, ...]:
    """Read documents from the oldest that age decides on, up to the first young one."""
    pairs = [pair for pair in pairwise(draft.own.snapshots) if limits.age_from_id <= pair[0].id < limits.hard_end_id]
    asked = [ref for ref, _ in pairs[:1]] + [successor for _, successor in pairs]
    roots: list[Root] = []
    for chunk in _chunks(asked):
        found = draft.own_documents(chunk)
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


def _plan_range(
    draft: Draft,
    arguments: ExpireArguments,
    policy: SnapshotRetention,
    chosen: SnapshotRange,
    limits: RangeBounds,
    oldest: tuple[Root, ...],
    lifecycle: Lifecycle,
) -> Plan:
    """Load what the chosen range frees and what all other roots need, and plan."""
    store, own = draft.table.store, draft.own
    known = {root.ref.path: root for root in oldest}
    known |= {root.ref.path: root for root in draft.own_documents([r for r in own.snapshots if r.path not in known])}
    others = draft.other_documents(known)
    going = frozenset(chosen.expired)
    expiring = [known[ref.path] for ref in own.snapshots if ref.id in going]
    staying = [known[ref.path] for ref in own.snapshots if ref.id not in going] + list(others.roots)
    coupled = lifecycle is Lifecycle.COUPLED
    expired_changelog = coupled and any(root.snapshot.changelog_manifest_list for root in expiring)

    reader = MetadataReader(store)
    files = read_root_files(
        reader,
        [*expiring, *staying],
        with_changelog=lambda root: (expired_changelog or root.ref.kind == "changelog") and root.ref.kind != "tag",
        going=frozenset(root.ref.path for root in expiring),
    )
    end = files[next(ref.path for ref in own.snapshots if ref.id not in going)]
    end_id = end.root.snapshot.id
    freed = find_freed(reader, TablePaths(draft.schema), [files[root.ref.path] for root in expiring], end, lifecycle)
    references = find_references(reader, [files[root.ref.path] for root in staying], freed.files, own.name)
    latest = files[own.snapshots[-1].path]
    _refuse_damaged_head(draft, latest, references.unreadable_roots, list(references.problems()))

    stores = TableStores(store, draft.external_roots(freed.files))
    planned = plan_expiry(
        own.name,
        expiring,
        end_id,
        {snapshot_id: _why_expired(snapshot_id, limits, policy, draft.now_ms) for snapshot_id in chosen.expired},
        freed.files,
        references,
        lambda path: stores.root_of(path) is not None,
        (
            *latest_hint(own.name, _latest(draft), end_id, chosen.latest_id),
            *(() if coupled else changelog_documents(own.name, expiring)),
        ),
    )
    vanished = tuple(f"{ref} vanished while the plan was made" for ref in others.vanished)
    return draft.plan(
        planned.actions,
        _frame(arguments, policy, chosen),
        end_id=chosen.end_id,
        kept={**chosen.kept, **planned.kept},
        warnings=(*freed.warnings, *references.problems(), *vanished),
        needs_confirmation=arguments.overrides_table and _is_large(planned.actions, latest),
        next_pass=_next_pass(
            draft,
            policy,
            [ref.id for ref in own.snapshots if ref.id not in going][:2],
            {root.ref.id: root.snapshot.time_ms for root in known.values() if root.ref.kind == "snapshot"},
        ),
    )


def _next_pass(
    draft: Draft, policy: SnapshotRetention, oldest: Sequence[int], time_ms: Mapping[int, int]
) -> dict[str, int]:
    """Return what the next pass may go by (`control/state.py`).

    Args:
        draft: The table.
        policy: The rules in force.
        oldest: The oldest snapshots that stay, two at most.
        time_ms: The commit times that are known.
    """
    known = all(snapshot_id in time_ms for snapshot_id in oldest)
    return {
        "latest_id": draft.own.snapshots[-1].id,
        "schema_id": draft.schema.id,
        "first_id": oldest[0],
        "first_old_from_ms": max(time_ms[i] for i in oldest) + policy.time_retained_ms if known else 0,
        "retain_min": policy.retain_min,
        "retain_max": policy.retain_max,
        "limit": policy.limit,
        "checked_ms": draft.now_ms,
    }


def _latest(draft: Draft) -> int | None:
    """Return what LATEST says."""
    document = draft.own.hints.get("snapshot/LATEST")
    return read_hint(draft.table.store, document.path) if document is not None else None


def _refuse_damaged_head(draft: Draft, latest: RootFiles, unreadable: frozenset[str], problems: list[str]) -> None:
    """Refuse when the newest snapshot itself cannot be read: the older ones may be all that is left to go back to."""
    problem = next((content.problem for content in latest.unreadable_lists), None)
    if problem is None and latest.root.ref.path in unreadable:
        problem = next(sentence for sentence in problems if sentence.startswith(f"{latest.root.ref} "))
    if problem is not None:
        raise RefusedError(
            f"table {draft.table.ref}: the newest snapshot {latest.root.snapshot.id} cannot be read ({problem}); "
            "expected a readable one before older ones go",
            code="unreadable_root",
        )


def _why_expired(snapshot_id: int, limits: RangeBounds, policy: SnapshotRetention, now_ms: int) -> str:
    if snapshot_id < limits.age_from_id:
        return f"snapshot {snapshot_id} is beyond the newest {policy.retain_max}"
    cutoff = datetime.fromtimestamp((now_ms - policy.time_retained_ms) / 1000, UTC)
    return f"the successor of snapshot {snapshot_id} was committed before {cutoff.isoformat(timespec='milliseconds')}"


def _is_large(actions: Sequence[Action], latest: RootFiles) -> bool:
    data = sum(1 for action in actions if action.phase == "data")
    live = sum(meta.added_count - meta.deleted_count for meta in latest.manifests())
    return data > CONFIRM_ABOVE_FILES and data > live
