"""`expire_snapshots`: delete snapshots past their retention, and every file that only they need.

The operation chooses a range, loads facts and plans. It changes nothing. It reads no more documents than it needs. If
nothing expires, it costs only the listings, the schema and the documents of the oldest snapshots.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from lakesweep.errors import RefusedError
from lakesweep.model.facts import DATA_KINDS
from lakesweep.model.plan import Plan
from lakesweep.model.policy import SnapshotRetention
from lakesweep.model.roots import Root, RootRef
from lakesweep.operations.retention.newest import is_large, refuse_damaged_head
from lakesweep.operations.retention.rules.expire_snapshots import (
    changelog_documents,
    earliest_hint,
    latest_hint,
    plan_expiry,
)
from lakesweep.operations.retention.rules.snapshot_cap import (
    cap_by_floor,
    cap_by_users,
    forgotten_users,
    last_of_user,
    newest_by_user,
)
from lakesweep.operations.retention.rules.snapshot_range import RangeBounds, SnapshotRange, bounds, select_range
from lakesweep.runs.damage import damage_findings, lost_findings, warnings_of
from lakesweep.runs.memory import doubt, doubt_changelogs
from lakesweep.runs.parameters.retention_options import (
    ExpireArguments,
    changelog_producer,
    check_stated,
    consumers_bind_changelogs_only,
    falls_back,
    has_decoupled_changelog,
    snapshot_retention,
)
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.runs.view import Draft, Frame, begin
from lakesweep.table.documents import latest_hint_of, read_consumers
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.freed import Lifecycle, find_freed
from lakesweep.table.reach.references import find_references
from lakesweep.table.reach.root_files import RootFiles, read_root_files

OPERATION = "expire_snapshots"
_CHUNKS = (2, 16, 10_000)
"""This many snapshot documents are read at a time, in the search for the first snapshot that is too young."""


def plan_expire_snapshots(table: Table, arguments: ExpireArguments, draft: Draft | None = None) -> Plan:
    """Plan the expiry of one branch's snapshots. A plan without actions means that there is nothing to do.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        draft: The table as it was just listed, if it was.

    Raises:
        RefusedError: This is no table, the rules could empty it, or a root cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    draft = begin(table, OPERATION) if draft is None else replace(draft, operation=OPERATION)
    policy = _policy(draft, arguments)
    snapshots = draft.own.snapshots
    if not snapshots:
        lost = lost_findings(draft)
        return draft.plan((), _frame(arguments, policy, None), warnings=warnings_of(lost), findings=lost)
    options = {**draft.schema.options, **arguments.options}
    slowest = _slowest_consumer(draft, options)
    consumer_next = slowest[1] if slowest else None
    chosen, oldest = choose_range(draft, policy, consumer_next)
    times = {root.ref.id: root.snapshot.time_ms for root in oldest}
    warnings: tuple[str, ...] = ()
    if chosen.expired:
        oldest = own_snapshots(draft, oldest)
        chosen, warnings = cap_range(chosen, oldest, arguments, draft.now_ms)
    if slowest and chosen.kept.get("consumer"):
        warnings = (
            *warnings,
            f"consumer {slowest[0]} continues at snapshot {slowest[1]}, so it and later snapshots are kept",
        )
    if not chosen.expired:
        hints = () if "snapshot/EARLIEST" in draft.own.hints else (earliest_hint(draft.own.name, snapshots[0].id),)
        return draft.plan(
            hints,
            _frame(arguments, policy, chosen),
            kept=chosen.kept,
            warnings=warnings,
            next_pass=_next_pass(draft, arguments, policy, [ref.id for ref in snapshots[:2]], times),
        )
    if falls_back(options, arguments):
        warnings = (*warnings, f"the schema states no retention, so the fleet policy's holds: {_words(policy)}")
    limits = bounds([ref.id for ref in snapshots], policy, consumer_next)
    return _plan_range(draft, arguments, policy, chosen, limits, oldest, lifecycle_of(options), warnings)


def choose_range(
    draft: Draft, policy: SnapshotRetention, consumer_next: int | None
) -> tuple[SnapshotRange, tuple[Root, ...]]:
    """Choose the snapshots that the rules expire, and return with them the documents that were read for that.

    Args:
        draft: A branch with at least one snapshot.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer needs.
    """
    ids = [ref.id for ref in draft.own.snapshots]
    oldest = _oldest_documents(draft, bounds(ids, policy, consumer_next), draft.now_ms - policy.time_retained_ms)
    times = {root.ref.id: root.snapshot.time_ms for root in oldest}
    return select_range(ids, times, policy, consumer_next, draft.now_ms), oldest


def own_snapshots(draft: Draft, known: Iterable[Root] = ()) -> tuple[Root, ...]:
    """Return all snapshots of the branch, ascending; read only snapshots that are not known yet.

    Raises:
        StalePlanError: A snapshot vanished since it was listed.
    """
    found = {root.ref.path: root for root in known}
    missing = [ref for ref in draft.own.snapshots if ref.path not in found]
    found |= {root.ref.path: root for root in draft.own_documents(missing)}
    return tuple(found[ref.path] for ref in draft.own.snapshots)


def cap_range(
    chosen: SnapshotRange, snapshots: Sequence[Root], arguments: ExpireArguments, now_ms: int
) -> tuple[SnapshotRange, tuple[str, ...]]:
    """Shorten a range by what a fleet policy and protected commit users keep; warn of users who lose their last.

    Args:
        chosen: The range by the table's rules and the call.
        snapshots: All snapshots of the branch, ascending.
        arguments: The call.
        now_ms: The time of the run.
    """
    newest = newest_by_user(root.snapshot for root in snapshots)
    if arguments.floor is not None:
        times = {root.ref.id: root.snapshot.time_ms for root in snapshots}
        chosen = cap_by_floor(chosen, tuple(times), times, arguments.floor, now_ms)
    chosen, absent = cap_by_users(chosen, newest, arguments.protect_commit_users)
    return chosen, (
        *(f"no snapshot of the protected commit user {user} is left to keep" for user in absent),
        *map(last_of_user, forgotten_users(chosen, newest)),
    )


def _words(policy: SnapshotRetention) -> str:
    return ", ".join(f"{name} {value}" for name, value in policy.to_json().items())


def _policy(draft: Draft, arguments: ExpireArguments) -> SnapshotRetention:
    options = {**draft.schema.options, **arguments.options}
    try:
        if arguments.unattended:
            check_stated(options, arguments)
        return snapshot_retention(options, arguments, draft.now_ms, draft.table.clock_ms())
    except RefusedError as error:
        raise RefusedError(f"table {draft.table.ref}: {error}", code=error.code) from error


def lifecycle_of(options: Mapping[str, str]) -> Lifecycle:
    """Return how long the changes of a snapshot stay readable, by a table's options.

    The arguments of a call do not change that, since readers use the table's options to find changelogs.

    Raises:
        RefusedError: A value does not parse.
    """
    if not has_decoupled_changelog(options):
        return Lifecycle.COUPLED
    return Lifecycle.BY_DELTA if changelog_producer(options) == "none" else Lifecycle.BY_CHANGELOG


def _slowest_consumer(draft: Draft, options: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the consumer that needs the oldest snapshot, and the id of that snapshot."""
    if consumers_bind_changelogs_only(options):
        return None
    consumers = read_consumers(draft.table.store, draft.own.consumers)
    return min(consumers.items(), key=lambda item: (item[1], item[0]), default=None)


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
    """Read documents from the oldest snapshot that age can expire up to the first young one."""
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
    snapshots: tuple[Root, ...],
    lifecycle: Lifecycle,
    warnings: tuple[str, ...],
) -> Plan:
    """Load the files that the chosen range frees and the files that all other roots need, and plan."""
    store, own = draft.table.store, draft.own
    known = {root.ref.path: root for root in snapshots}
    others = draft.other_documents(known)
    going = frozenset(chosen.expired)
    expiring = [known[ref.path] for ref in own.snapshots if ref.id in going]
    staying = [known[ref.path] for ref in own.snapshots if ref.id not in going] + list(others.roots)
    coupled = lifecycle is Lifecycle.COUPLED
    expired_changelog = coupled and any(root.snapshot.changelog_manifest_list for root in expiring)

    newest = known[own.snapshots[-1].path].snapshot
    doubt(draft.table, (newest.base_manifest_list, newest.delta_manifest_list, newest.index_manifest))
    doubt_changelogs(draft.table, others.roots, {**draft.schema.options, **arguments.options})
    reader = MetadataReader(store)
    files = read_root_files(
        reader,
        [*expiring, *staying],
        with_changelog=lambda root: (expired_changelog or root.ref.kind == "changelog") and root.ref.kind != "tag",
        going=frozenset(root.ref.path for root in expiring),
    )
    latest = files[own.snapshots[-1].path]
    doubt(draft.table, (meta.file_name for meta in (() if isinstance(latest.delta, Unreadable) else latest.delta)))
    end = files[next(ref.path for ref in own.snapshots if ref.id not in going)]
    end_id = end.root.snapshot.id
    freed = find_freed(reader, draft.paths(), [files[root.ref.path] for root in expiring], end, lifecycle)
    references = find_references(reader, [files[root.ref.path] for root in staying], freed.files, own.name)
    unreadable, problems = references.unreadable_roots, references.problems()
    refuse_damaged_head(draft, reader, latest, unreadable, problems, "older ones expire")
    if not any(file.kind in DATA_KINDS for file in freed.files):
        _refuse_damaged_manifests(draft, reader, latest, files[expiring[0].ref.path])

    hint = latest_hint_of(store, own)
    planned = plan_expiry(
        own.name,
        expiring,
        end_id,
        {snapshot_id: _why_expired(snapshot_id, limits, policy, draft.now_ms) for snapshot_id in chosen.expired},
        freed.files,
        references,
        draft.stores(freed.files).stays,
        (
            *latest_hint(own.name, hint, end_id, chosen.latest_id),
            *(() if coupled else changelog_documents(own.name, expiring)),
        ),
    )
    vanished = tuple(f"{ref} vanished while the plan was made" for ref in others.vanished)
    return draft.plan(
        planned.actions,
        _frame(arguments, policy, chosen),
        end_id=chosen.end_id,
        kept={**chosen.kept, **planned.kept.count},
        kept_bytes=planned.kept.size_bytes,
        warnings=(*warnings, *freed.warnings, *references.problems(), *planned.kept.warnings, *vanished),
        needs_confirmation=arguments.overrides_table and is_large(planned.actions, latest),
        waits_for_consumers=not consumers_bind_changelogs_only({**draft.schema.options, **arguments.options}),
        settled=hint == chosen.latest_id,
        findings=damage_findings(draft, references),
        next_pass=_next_pass(
            draft,
            arguments,
            policy,
            [ref.id for ref in own.snapshots if ref.id not in going][:2],
            {root.ref.id: root.snapshot.time_ms for root in known.values() if root.ref.kind == "snapshot"},
        ),
    )


def _next_pass(
    draft: Draft,
    arguments: ExpireArguments,
    policy: SnapshotRetention,
    oldest: Sequence[int],
    time_ms: Mapping[int, int],
) -> dict[str, int]:
    """Return facts that let the next pass skip its work (`control/state.py`); none if a fleet policy states the rules.

    Args:
        draft: The table.
        arguments: The call.
        policy: The rules in force.
        oldest: The oldest snapshots that the plan keeps, two at most.
        time_ms: The known commit times.
    """
    if falls_back({**draft.schema.options, **arguments.options}, arguments):
        return {}
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


def _refuse_damaged_manifests(draft: Draft, reader: MetadataReader, latest: RootFiles, oldest: RootFiles) -> None:
    """Refuse if a manifest cannot be read that the newest snapshot has and the oldest expiring one has not.

    This is only needed if the plan deletes no data file. Otherwise the references check has already read the newest
    snapshot.
    """
    known = {meta.file_name for meta in oldest.manifests()}
    new = [meta for meta in latest.manifests() if meta.file_name not in known]
    for _, content in reader.scan_manifests(new, lambda entries: sum(1 for _ in entries)):
        if isinstance(content, Unreadable):
            raise RefusedError(
                f"table {draft.table.ref}: the newest snapshot {latest.root.snapshot.id} cannot be read "
                f"({content.problem}); expected a readable one before older ones expire",
                code="unreadable_root",
            )


def _why_expired(snapshot_id: int, limits: RangeBounds, policy: SnapshotRetention, now_ms: int) -> str:
    if snapshot_id < limits.age_from_id:
        return f"snapshot {snapshot_id} is beyond the newest {policy.retain_max}"
    cutoff = say_time(now_ms - policy.time_retained_ms)
    return f"the successor of snapshot {snapshot_id} was committed before {cutoff}"
