"""`expire-snapshots`: delete snapshots past their retention, and every file that only they need.

The operation chooses a range, loads facts and plans. It changes nothing. It reads no more documents than it needs. If
nothing expires, it costs only the listings, the schema and the documents of the oldest snapshots.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from lakesweep.model.plan import Plan
from lakesweep.model.policy import INT_MAX, SnapshotRetention
from lakesweep.model.roots import Root, RootRef
from lakesweep.operations.retention.release import plan_release
from lakesweep.operations.retention.rules.expire_snapshots import (
    changelog_documents,
    earliest_hint,
    latest_hint,
    snapshot_documents,
)
from lakesweep.operations.retention.rules.snapshot_cap import cap_range
from lakesweep.operations.retention.rules.snapshot_range import RangeBounds, SnapshotRange, bounds, select_range
from lakesweep.runs.damage import lost_findings, warnings_of
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
from lakesweep.runs.view import TableView, begin, inputs_of
from lakesweep.table.documents import latest_hint_of, read_consumers
from lakesweep.table.reach.freed import Lifecycle, find_freed

OPERATION = "expire-snapshots"
_CHUNKS = (2, 16, 10_000)
"""This many snapshot documents are read at a time, in the search for the first snapshot that is too young."""


def plan_expire_snapshots(table: Table, arguments: ExpireArguments, view: TableView | None = None) -> Plan:
    """Plan the expiry of one branch's snapshots. A plan without actions means that there is nothing to do.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        view: The table as it was just listed, if it was.

    Raises:
        RefusedError: This is no table, the rules could empty it, or a root cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    view = begin(table, OPERATION) if view is None else replace(view, operation=OPERATION)
    options = {**view.schema.options, **arguments.options}
    if arguments.unattended:
        check_stated(options, arguments)
    policy = snapshot_retention(options, arguments, view.now_ms, view.table.clock_ms())
    name, snapshots = view.own.name, view.own.snapshots
    if not snapshots:
        lost = lost_findings(view)
        inputs = inputs_of(view.own, arguments.to_json(), policy.to_json())
        return view.plan((), inputs, warnings=warnings_of(lost), findings=lost)

    slowest = _slowest_consumer(view, options)
    chosen, roots = choose_range(view, policy, slowest[1] if slowest else None)
    times = {root.ref.id: root.snapshot.time_ms for root in roots}
    warnings: tuple[str, ...] = ()
    due_later = 0
    if chosen.expired:
        is_limited = chosen.kept.get("limit")
        chosen, roots, warnings = capped_range(view, chosen, roots, arguments)
        if is_limited:
            unlimited = _without_limit(roots, policy, slowest[1] if slowest else None, view.now_ms)
            due_later = len(capped_range(view, unlimited, roots, arguments)[0].expired) - len(chosen.expired)
    if slowest and chosen.kept.get("consumer"):
        warnings = (
            *warnings,
            f"consumer {slowest[0]} continues at snapshot {slowest[1]}, so it and later snapshots are kept",
        )
    inputs = inputs_of(view.own, arguments.to_json(), policy.to_json(), chosen.expired, due_later)
    if not chosen.expired:
        hints = () if "snapshot/EARLIEST" in view.own.hints else (earliest_hint(name, snapshots[0].id),)
        next_pass = _next_pass(view, arguments, policy, [ref.id for ref in snapshots[:2]], times)
        return view.plan(hints, inputs, kept=chosen.kept, warnings=warnings, next_pass=next_pass)
    if falls_back(options, arguments):
        rules = ", ".join(f"{rule} {value}" for rule, value in policy.to_json().items())
        warnings = (
            *warnings,
            f"the schema states no retention, so the fleet policy's for {arguments.otherwise_of} holds: {rules}",
        )

    others = view.other_documents(root.ref.path for root in roots)
    expiring = [root for root in roots if root.ref.id in frozenset(chosen.expired)]
    staying = [root for root in roots if root.ref.id not in frozenset(chosen.expired)]
    lifecycle = lifecycle_of(options)
    coupled = lifecycle is Lifecycle.COUPLED
    release = plan_release(
        view,
        expiring,
        replace(others, roots=(*staying, *others.roots)),
        lambda reader, removed, remaining: find_freed(
            reader, view.paths(), removed, remaining[staying[0].ref.path], lifecycle
        ),
        options,
        frees_changelogs=coupled and any(root.snapshot.changelog_manifest_list for root in expiring),
        before="older ones expire",
    )
    hint, end_id = latest_hint_of(view.table.store, view.own), staying[0].ref.id
    times = {root.ref.id: root.snapshot.time_ms for root in roots}
    age_from_id = bounds([ref.id for ref in snapshots], policy, None).age_from_id
    return view.plan(
        (
            *latest_hint(name, hint, end_id, chosen.latest_id),
            *(() if coupled else changelog_documents(name, expiring)),
            *snapshot_documents(expiring, lambda root_id: _why_expired(root_id, age_from_id, policy, view.now_ms)),
            earliest_hint(name, end_id),
            *release.actions,
        ),
        inputs,
        end_id=chosen.end_id,
        kept={**chosen.kept, **release.kept.count},
        kept_bytes=release.kept.size_bytes,
        warnings=(*warnings, *release.warnings),
        needs_confirmation=arguments.overrides_table and release.is_large,
        waits_for_consumers=not consumers_bind_changelogs_only(options),
        settled=hint == chosen.latest_id,
        findings=release.damage,
        next_pass=_next_pass(view, arguments, policy, [root.ref.id for root in staying[:2]], times),
    )


def choose_range(
    view: TableView, policy: SnapshotRetention, consumer_next: int | None
) -> tuple[SnapshotRange, tuple[Root, ...]]:
    """Choose the snapshots that the rules expire, and return with them the documents that were read for that.

    Args:
        view: A branch with at least one snapshot.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer needs.
    """
    ids = [ref.id for ref in view.own.snapshots]
    oldest = _oldest_documents(view, bounds(ids, policy, consumer_next), view.now_ms - policy.time_retained_ms)
    times = {root.ref.id: root.snapshot.time_ms for root in oldest}
    return select_range(ids, times, policy, consumer_next, view.now_ms), oldest


def capped_range(
    view: TableView, chosen: SnapshotRange, roots: Iterable[Root], arguments: ExpireArguments
) -> tuple[SnapshotRange, tuple[Root, ...], tuple[str, ...]]:
    """Shorten a range by floor and protected users. Also return all snapshots of the branch, and warnings.

    Args:
        view: The branch.
        chosen: The range by the retention.
        roots: The documents that are already read.
        arguments: What the caller asked for, and what the fleet policy adds.
    """
    roots = _own_snapshots(view, roots)
    floor, users = arguments.floor, arguments.protect_commit_users
    chosen, warnings = cap_range(chosen, [root.snapshot for root in roots], floor, users, view.now_ms)
    return chosen, roots, warnings


def _without_limit(
    roots: Sequence[Root], policy: SnapshotRetention, consumer_next: int | None, now_ms: int
) -> SnapshotRange:
    """Return what would expire if one run had no limit."""
    times = {root.ref.id: root.snapshot.time_ms for root in roots}
    return select_range(tuple(times), times, replace(policy, limit=INT_MAX), consumer_next, now_ms)


def _own_snapshots(view: TableView, known: Iterable[Root]) -> tuple[Root, ...]:
    """Return all snapshots of the branch, ascending; read only snapshots that are not known yet.

    Raises:
        StalePlanError: A snapshot vanished since it was listed.
    """
    found = {root.ref.path: root for root in known}
    missing = [ref for ref in view.own.snapshots if ref.path not in found]
    found |= {root.ref.path: root for root in view.own_documents(missing)}
    return tuple(found[ref.path] for ref in view.own.snapshots)


def lifecycle_of(options: Mapping[str, str]) -> Lifecycle:
    """Return how long the changes of a snapshot stay readable, by a table's options.

    The arguments of a call do not change that, since readers use the table's options to find changelogs.

    Raises:
        RefusedError: A value does not parse.
    """
    if not has_decoupled_changelog(options):
        return Lifecycle.COUPLED
    return Lifecycle.BY_DELTA if changelog_producer(options) == "none" else Lifecycle.BY_CHANGELOG


def _slowest_consumer(view: TableView, options: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the consumer that needs the oldest snapshot, and the id of that snapshot."""
    if consumers_bind_changelogs_only(options):
        return None
    consumers = read_consumers(view.table.store, view.own.consumers)
    return min(consumers.items(), key=lambda item: (item[1], item[0]), default=None)


def _oldest_documents(view: TableView, limits: RangeBounds, cutoff_ms: int) -> tuple[Root, ...]:
    """Read documents from the oldest snapshot that age can expire up to the first young one."""
    pairs = [pair for pair in pairwise(view.own.snapshots) if limits.age_from_id <= pair[0].id < limits.hard_end_id]
    asked = [ref for ref, _ in pairs[:1]] + [successor for _, successor in pairs]
    roots: list[Root] = []
    for chunk in _chunks(asked):
        found = view.own_documents(chunk)
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


def _next_pass(
    view: TableView,
    arguments: ExpireArguments,
    policy: SnapshotRetention,
    oldest: Sequence[int],
    time_ms: Mapping[int, int],
) -> dict[str, int]:
    """Return facts that let the next pass skip its work (`control/state.py`); none if a fleet policy states the rules.

    Args:
        view: The table.
        arguments: The call.
        policy: The rules in force.
        oldest: The oldest snapshots that the plan keeps, two at most.
        time_ms: The known commit times.
    """
    if falls_back({**view.schema.options, **arguments.options}, arguments):
        return {}
    known = all(snapshot_id in time_ms for snapshot_id in oldest)
    return {
        "latest_id": view.own.snapshots[-1].id,
        "schema_id": view.schema.id,
        "first_id": oldest[0],
        "first_old_from_ms": max(time_ms[i] for i in oldest) + policy.time_retained_ms if known else 0,
        "retain_min": policy.retain_min,
        "retain_max": policy.retain_max,
        "limit": policy.limit,
        "checked_ms": view.now_ms,
    }


def _why_expired(snapshot_id: int, age_from_id: int, policy: SnapshotRetention, now_ms: int) -> str:
    if snapshot_id < age_from_id:
        return f"snapshot {snapshot_id} is beyond the newest {policy.retain_max}"
    cutoff = say_time(now_ms - policy.time_retained_ms)
    return f"the successor of snapshot {snapshot_id} was committed before {cutoff}"
