"""One policy applied to a branch: which snapshots and tags it deletes, and what its readers lose."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakesweep.errors import RefusedError
from lakesweep.model.policy import INT_MAX, KeepRules, SnapshotRetention
from lakesweep.model.simulation import Outcome, Reader, Rules
from lakesweep.operations.retention.rules.snapshot_cap import BATCH_IDENTIFIER, cap_range, newest_by_user
from lakesweep.operations.retention.rules.snapshot_range import select_range
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.scene import Scene, TagDecision
from lakesweep.operations.tags.expire import judge_own
from lakesweep.operations.tags.options import check_callbacks, declared_zone, expires_by_time
from lakesweep.runs.fleet import limited, rule_of
from lakesweep.runs.parameters.retention_options import ExpireArguments, snapshot_retention

MAX_READERS = 100
"""A case names at most this many consumers and commit users."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A policy for one branch."""

    retention: SnapshotRetention
    """Without the limit of one run."""
    limits: ExpireArguments
    keep: tuple[KeepRules, ...]
    expired: int
    """How many snapshots it deletes: the oldest ones."""
    tags: TagDecision
    warnings: tuple[str, ...] = ()

    @property
    def rules(self) -> Rules:
        """Return the rules as the document shows them."""
        floor, most = self.limits.floor, self.retention.retain_max
        return Rules(
            retain_min=self.retention.retain_min,
            retain_max=None if most >= INT_MAX else most,
            time_retained_ms=self.retention.time_retained_ms,
            min_snapshots=None if floor is None else floor.retain_min,
            min_time_retained_ms=None if floor is None else floor.time_retained_ms,
            tag_rules=tuple(text for rules in self.keep for text in _said(rules)),
        )


def _said(rules: KeepRules) -> Iterator[str]:
    for name, value in rules.to_json().items():
        if name != "pattern":
            yield f"{name} {', '.join(value) if isinstance(value, list) else value} of {rules.pattern}"


def apply(scene: Scene, policy: Policy) -> Applied:
    """Apply a policy with the rules of the planners, and what the fleet policy adds to them in a pass.

    Raises:
        RefusedError: The rules contradict each other, or an option of the table is invalid.
    """
    view = scene.view
    limits = limited(policy.limits(view.now_ms), scene.ruling)
    retention = snapshot_retention(scene.options, limits, view.now_ms, view.table.clock_ms())
    retention = replace(retention, limit=INT_MAX)
    keep = tuple(dict.fromkeys((*policy.keep, *rule_of(scene.ruling).tags)))
    tags, warnings = _tags(scene, keep, by_time=bool(policy.keep) or expires_by_time(scene.options))
    consumer_next = min(scene.consumers.values(), default=None) if scene.binds_snapshots else None
    return Applied(retention, limits, keep, expired_by(scene, retention, limits, consumer_next), tags, warnings)


def expired_by(scene: Scene, retention: SnapshotRetention, limits: ExpireArguments, consumer_next: int | None) -> int:
    """Return how many snapshots the planner expires.

    Args:
        scene: The branch.
        retention: The rules.
        limits: Minimums of the fleet policy, and protected commit users.
        consumer_next: The smallest id that a consumer needs.
    """
    if not scene.snapshots:
        return 0
    now_ms = scene.view.now_ms
    times = {snapshot.id: snapshot.time_ms for snapshot in scene.snapshots}
    chosen = select_range(tuple(times), times, retention, consumer_next, now_ms)
    if chosen.expired:
        chosen, _ = cap_range(chosen, scene.snapshots, limits.floor, limits.protect_commit_users, now_ms)
    return len(chosen.expired)


def _tags(scene: Scene, keep: tuple[KeepRules, ...], *, by_time: bool) -> tuple[TagDecision, tuple[str, ...]]:
    view = scene.view
    if not scene.tags.roots or not (by_time or keep):
        return scene.decided(frozenset()), ()
    zone = declared_zone(view.table, None, scene.ruling)
    verdict, notes = judge_own(view, scene.tags, scene.options, keep, zone, by_time)
    going = frozenset(verdict.going)
    if going and not scene.snapshots:
        return scene.decided(frozenset()), (f"no snapshot is left in branch {view.own.name}, so its tags are kept",)
    try:
        check_callbacks(view.table, scene.options)
    except RefusedError as error:
        return scene.decided(frozenset()), (str(error),) if going else ()
    return scene.decided(going), notes


def readers(scene: Scene, applied: Applied) -> tuple[Reader, ...]:
    """Return every consumer, and the streaming commit users that lose their last snapshot or hold snapshots back."""
    found = [*_consumers(scene, applied), *_users(scene, applied)]
    order = {"lost": 0, "holds_back": 1, "protected": 2, "kept": 3}
    found.sort(key=lambda each: (order[each.outcome], -each.bytes, each.kind, each.name))
    return tuple(found)


def _held(scene: Scene, applied: Applied, position: int, without: int) -> tuple[int, int]:
    """Return how many snapshots somebody holds back who keeps all from a position on, and what they keep in bytes.

    Args:
        scene: The branch.
        applied: The policy.
        position: The first snapshot that is kept.
        without: How many snapshots would expire otherwise.
    """
    deleted = scene.deleted(applied.tags)
    held = max(0, without - position)
    return held, deleted.after(without).bytes - deleted.after(min(position, without)).bytes if held else 0


def _consumers(scene: Scene, applied: Applied) -> Iterator[Reader]:
    ids = scene.ids
    without = expired_by(scene, applied.retention, applied.limits, None)
    for name, next_id in scene.consumers.items():
        position = bisect_left(ids, next_id)
        held, held_bytes = _held(scene, applied, position, without) if scene.binds_snapshots else (0, 0)
        is_missing = not ids or (position < len(ids) and ids[position] != next_id)
        is_gone = is_missing or position < applied.expired
        outcome: Outcome = "lost" if is_gone else "holds_back" if held else "kept"
        yield Reader("consumer", name, next_id, outcome, held, held_bytes)


def _users(scene: Scene, applied: Applied) -> Iterator[Reader]:
    ids = scene.ids
    protected = frozenset(applied.limits.protect_commit_users)
    consumer_next = min(scene.consumers.values(), default=None) if scene.binds_snapshots else None
    without = applied.expired
    if protected:
        limits = replace(applied.limits, protect_commit_users=())
        without = expired_by(scene, applied.retention, limits, consumer_next)
    for user, newest in newest_by_user(scene.snapshots).items():
        position = bisect_left(ids, newest.id)
        if user in protected:
            held, held_bytes = _held(scene, applied, position, without)
            if held:
                yield Reader("commit_user", user, newest.id, "protected", held, held_bytes)
        elif position < applied.expired and newest.commit_identifier != BATCH_IDENTIFIER:
            yield Reader("commit_user", user, newest.id, "lost")
