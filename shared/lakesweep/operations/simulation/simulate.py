"""`simulate`: what a table would keep under several policies. This changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from lakesweep.model.prices import storage_usd
from lakesweep.model.simulation import (
    MAX_POINTS,
    Amount,
    Case,
    CurvePoint,
    History,
    HistoryPoint,
    TableSimulation,
)
from lakesweep.operations.simulation.applied import MAX_READERS, Applied, apply, expired_by, readers
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.rules.expired import by_age, by_commit
from lakesweep.operations.simulation.rules.lives import Files
from lakesweep.operations.simulation.rules.thinning import thinned_peaks, thinned_steps
from lakesweep.operations.simulation.scene import Scene, read_scene
from lakesweep.runs.session import Table

_DAY_MS = 86_400_000


def simulate_table(
    table: Table, policies: Sequence[Policy], days: int | None = None, name: str | None = None
) -> TableSimulation:
    """Simulate policies on one branch of a table.

    Args:
        table: The branch.
        policies: The present policy first.
        days: Also replay the commits of so many days; `None`: replay nothing.
        name: What the document calls the table; by default the last part of its location.

    Raises:
        RefusedError: This is no table, a root cannot be read completely, or a policy contradicts itself.
        StalePlanError: A root vanished while the table was read.
        UsageError: The location of the fleet policy holds no valid policy.
        StorageError: A request failed.
    """
    return simulated(read_scene(table), policies, days, name)


def simulated(scene: Scene, policies: Sequence[Policy], days: int | None, name: str | None = None) -> TableSimulation:
    """Answer all policies from what was read; see `simulate_table`."""
    view = scene.view
    applied = [(policy, apply(scene, policy)) for policy in policies]
    present = applied[0][1]
    cases = tuple(_case(scene, policy, each, days) for policy, each in applied)
    more = max((len(readers(scene, each)) for _, each in applied), default=0) - MAX_READERS
    return TableSimulation(
        table=view.table.ref.location,
        name=name or view.table.ref.location.rstrip("/").rpartition("/")[2],
        branch=view.own.name,
        measured_ms=view.now_ms,
        history_begins_ms=scene.snapshots[0].time_ms if scene.snapshots else None,
        now=_amount(scene.present[-1], len(scene.snapshots), len(scene.tags.roots)),
        always_bytes=scene.lives.always.bytes,
        cases=cases,
        curve=thinned_steps(tuple(curve(scene, present)), lambda point: point.bytes, MAX_POINTS),
        warnings=(
            *scene.warnings,
            *dict.fromkeys(warning for _, each in applied for warning in each.warnings),
            *([f"{more} more consumers and commit users are not shown"] if more > 0 else []),
        ),
    )


def _amount(files: Files, snapshots: int, tags: int) -> Amount:
    return Amount(
        snapshots=snapshots,
        tags=tags,
        data_files=files.data,
        metadata_files=files.metadata,
        data_bytes=files.data_bytes,
        metadata_bytes=files.metadata_bytes,
        bytes=files.bytes,
        usd_month=storage_usd(files.bytes),
    )


def _case(scene: Scene, policy: Policy, applied: Applied, days: int | None) -> Case:
    expired, tags = applied.expired, applied.tags
    deleted = scene.deleted(tags).after(expired).plus(Files(metadata=tags.count, metadata_bytes=tags.document_bytes))
    oldest = scene.snapshots[expired] if expired < len(scene.snapshots) else None
    return Case(
        name=policy.name,
        rules=applied.rules,
        kept=_amount(
            scene.present[-1].minus(deleted), len(scene.snapshots) - expired, len(scene.tags.roots) - tags.count
        ),
        deleted=_amount(deleted, expired, tags.count),
        oldest_snapshot_id=None if oldest is None else oldest.id,
        reaches_ms=None if oldest is None else oldest.time_ms,
        readers=readers(scene, applied)[:MAX_READERS],
        history=None if days is None else history(scene, applied, days),
    )


def curve(scene: Scene, present: Applied) -> Iterator[CurvePoint]:
    """Yield what is kept from each age on: a step at the age of each snapshot. There is no maximum count.

    Args:
        scene: The branch.
        present: The present policy, which says everything but the age.
    """
    if not scene.snapshots:
        return
    now_ms = scene.view.now_ms
    consumer_next = min(scene.consumers.values(), default=None) if scene.binds_snapshots else None
    at_once = replace(present.retention, retain_min=1, retain_max=1)
    most = expired_by(scene, at_once, present.limits, None)
    deleted = scene.deleted(present.tags)
    total = scene.present[-1].bytes - present.tags.document_bytes
    for age_ms, expired in by_age(scene.snapshots, present.retention.retain_min, most, consumer_next, now_ms):
        kept = total - deleted.after(expired).bytes
        yield CurvePoint(age_ms, len(scene.snapshots) - expired, kept, storage_usd(kept))


def history(scene: Scene, applied: Applied, days: int) -> History | None:
    """Replay the commits of the last days: a pass without a limit follows each. Consumers are left out.

    Tags are decided as of now. A file that no snapshot of the branch needs counts from the beginning.

    Returns:
        `None`: no commit is known from before the end of that time.
    """
    now_ms, snapshots = scene.view.now_ms, scene.snapshots
    since_ms = now_ms - days * _DAY_MS
    deleted, limits = scene.deleted(applied.tags), applied.limits
    expired = by_commit(snapshots, applied.retention, limits.floor, limits.protect_commit_users)
    points: list[HistoryPoint] = []
    for position, snapshot in enumerate(snapshots):
        if (
            snapshot.time_ms < since_ms
            and position + 1 < len(snapshots)
            and snapshots[position + 1].time_ms <= since_ms
        ):
            continue  # another commit replaced this state before the time begins
        files = scene.present[position].minus(deleted.after(expired[position]))
        points.append(
            HistoryPoint(
                max(snapshot.time_ms, since_ms),
                position + 1 - expired[position],
                files.bytes - applied.tags.document_bytes,
            )
        )
    if not points:
        return None
    peak = max(points, key=lambda point: point.bytes)
    spans = [max(0, later.time_ms - point.time_ms) for point, later in pairwise(points)]
    spans.append(max(0, now_ms - points[-1].time_ms))
    whole = sum(spans)
    average = (
        sum(point.bytes * span for point, span in zip(points, spans, strict=True)) // whole if whole else peak.bytes
    )
    return History(peak.bytes, peak.time_ms, average, thinned_peaks(points, lambda point: point.bytes, MAX_POINTS))
