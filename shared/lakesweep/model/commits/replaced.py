"""Whether another snapshot at the place of one that was seen means that a commit is lost.

A writer without a lock tests whether a snapshot exists, and then writes it without a condition. If another writer
committed in between, the commit of the other one is lost: its rows are not in the table. But an id may also be used
again for good reason: after a rollback, or a fast-forward, that nobody told Lakesweep of.

The difference is when the new snapshot was made. The writer that replaces one made its own *before* the other existed.
After a rollback, the new one is made after the old one had been written. Every writer writes a manifest list for each
attempt, before it tests whether the snapshot exists. So the time of this list decides, against the time of the old
snapshot: both are the store's. Within the same second, the commit time decides. The signs, and what was measured (Java
1.4.2, pypaimon 2.1.0, versitygw and moto):

- Four writers without a lock, 228 commits: 14 snapshots were replaced. Each was made less than a second after the time
  that the store gives the old one, which is in whole seconds, and 32 ms at most from the commit time of the old one.
- A rollback and a commit right after it, in one JVM, takes 0.3 s at least. So within a second it looks like a
  replacement, unless a listing has shown the old one in between (`seen_ms`).
- A rollback of Java or pypaimon deletes documents alone. So what is left of the old commit tells nothing.
- A fast-forward of Java writes every schema again, also those that do not change, and pypaimon's none. Both copy the
  branch's documents byte by byte.
- A versioned bucket has a delete marker between the two after a rollback, and none after a replacement.
- A rollback takes all later snapshots, too. So if a later one is still the same, nobody has rolled back.

Clocks of writers may be wrong. It shows where a commit time does not lie between the store's times of the list and of
the snapshot. Then the list's time counts instead. What stays open is told in the report and sets off no alarm.
"""

from dataclasses import dataclass
from typing import Literal

from lakesweep.format.snapshot import Snapshot
from lakesweep.model.commits.seen import SeenSnapshot
from lakesweep.model.safety import GRAIN_MS, ROLLED_BACK_MS, SLACK_MS, WRITTEN_WITHIN_MS

Verdict = Literal["same", "expired", "rolled_back", "fast_forwarded", "replaced", "unclear"]


@dataclass(frozen=True, slots=True)
class FoundSnapshot:
    """What is now at the place of a snapshot that was seen."""

    number: int
    """A number derived from its ETag."""
    modified_ms: int
    """When the store wrote it; 0: not known."""
    size_bytes: int
    snapshot: Snapshot | None
    """`None`: its document is no snapshot."""
    is_digest: bool
    """The store's ETags are digests, so another ETag means other bytes. Otherwise, if the store encrypts for example, a
    writer that sent its request twice may have left two objects with the same bytes."""
    prepared_ms: int = 0
    """When the store wrote the manifest list of what the commit added and deleted; 0: not known."""
    same: frozenset[int] = frozenset()
    """Numbers derived from the other ETags that the same bytes can have."""

    @property
    def age_ms(self) -> int:
        """Return how long after it was prepared the snapshot was written."""
        made_ms = self.prepared_ms or (0 if self.snapshot is None else self.snapshot.time_ms)
        return self.modified_ms - made_ms


@dataclass(frozen=True, slots=True)
class Around:
    """What else is known of the branch."""

    first_id: int = 0
    """The oldest snapshot now."""
    first_schema_ms: int = 0
    """When the store wrote the first schema. A branch that was made anew, or fast-forwarded by Java, has a new one."""
    rewritten_ms: int = 0
    """When Lakesweep last rolled this branch back, or fast-forwarded it, or made it."""
    is_later_same: bool = False
    """A later snapshot that was seen is still there."""
    is_later_gone: bool = False
    """A later snapshot that was seen is gone, or another one has its id."""
    is_copy: bool = False
    """A tag, or another branch, has or had the snapshot that is there now."""
    below: Literal["object", "marker", ""] = ""
    """What a versioned bucket has below the snapshot that is there now. Empty: not known."""


def judge(seen: SeenSnapshot, found: FoundSnapshot | None, around: Around) -> Verdict:
    """Tell what happened to a snapshot that was seen.

    Args:
        seen: As it was. Without a number, nothing is known but that a later snapshot was written before what is found.
        found: What a later look found at its place, `None` for nothing.
        around: What that look found besides.
    """
    if found is None:
        return "expired" if seen.id < around.first_id else "rolled_back"
    if seen.number == found.number or seen.number in found.same:
        return "same"
    if seen.uuid and found.snapshot is not None and found.snapshot.uuid == seen.uuid:
        return "same"
    if 0 < seen.modified_ms < around.first_schema_ms or around.is_copy:
        return "fast_forwarded"
    if 0 < seen.modified_ms <= around.rewritten_ms and seen.seen_ms <= around.rewritten_ms:
        return "rolled_back"
    if around.below == "marker":
        return "rolled_back"
    if seen.modified_ms > found.modified_ms + ROLLED_BACK_MS > ROLLED_BACK_MS:
        return "unclear"  # somebody restored an older object
    if found.snapshot is None or (seen.number and _may_be_equal(seen, found, found.snapshot)):
        return "unclear"
    if not seen.number or around.is_later_same or around.below == "object":
        # An old document was copied: somebody repaired the table, or copied all of it.
        age_ms = found.age_ms if seen.number else max(found.age_ms, found.modified_ms - found.snapshot.time_ms)
        return "unclear" if age_ms > WRITTEN_WITHIN_MS else "replaced"
    if not seen.modified_ms:
        return "unclear"
    return _by_time(seen, found, found.snapshot.time_ms, around.is_later_gone)


def _may_be_equal(seen: SeenSnapshot, found: FoundSnapshot, snapshot: Snapshot) -> bool:
    """Tell whether both may have the same bytes, under ETags that are no digests."""
    is_named = seen.uuid or seen.delta_list not in ("", snapshot.delta_manifest_list)
    return not found.is_digest and not is_named and seen.size_bytes in (0, found.size_bytes)


def _by_time(seen: SeenSnapshot, found: FoundSnapshot, made_ms: int, is_later_gone: bool) -> Verdict:
    """Tell by the times of the new snapshot whether it was made before the old one existed."""
    latest_ms = found.modified_ms + GRAIN_MS if found.modified_ms else made_ms
    if not found.prepared_ms:
        made_ms = made_ms if made_ms <= latest_ms else found.modified_ms  # the writer's clock is ahead
    else:
        if found.prepared_ms > seen.modified_ms + GRAIN_MS + SLACK_MS:
            return "rolled_back"
        is_wrong = not found.prepared_ms - SLACK_MS <= made_ms <= latest_ms
        if is_wrong and found.prepared_ms > seen.modified_ms:
            return "unclear"
        if is_wrong or found.prepared_ms < seen.modified_ms:
            made_ms = found.prepared_ms
    known_by_ms = seen.modified_ms + (GRAIN_MS if seen.modified_ms % GRAIN_MS == 0 else 0) + SLACK_MS
    if made_ms > known_by_ms:
        return "rolled_back" if is_later_gone or made_ms > known_by_ms + ROLLED_BACK_MS else "unclear"
    if found.age_ms > WRITTEN_WITHIN_MS:
        return "rolled_back" if is_later_gone else "unclear"
    # Within the second of the old one, the new one may have been made after it.
    is_open = seen.modified_ms < made_ms and 0 < seen.seen_ms <= made_ms
    return "unclear" if is_open else "replaced"


def judge_gone(seen: SeenSnapshot, now: SeenSnapshot, around: Around) -> Verdict:
    """Tell what happened to the older one of two snapshots with one id that has expired by now."""
    apart_ms = now.modified_ms - seen.modified_ms
    if not seen.modified_ms > 0 or apart_ms > WRITTEN_WITHIN_MS:
        return "rolled_back"
    if seen.modified_ms < around.first_schema_ms or seen.modified_ms <= around.rewritten_ms:
        return "rolled_back"
    return "replaced" if apart_ms <= GRAIN_MS and seen.size_bytes != now.size_bytes else "unclear"
