"""Automatic tags: which periods are over, and which snapshot gets the tag of each.

A *period* is a day, an hour or another span of local time. Its tag is named after its begin and holds the data up to
its end: the first snapshot at or after the end (plus a delay) gets the tag. The *pointer* says at which snapshot, and
after which period, the search for the next tag begins. The rules are Paimon's; docstrings name each difference.

Source: Paimon `TagAutoCreation`, `TagPeriodHandler`, `TagTimeExtractor`, `TagBatchCreation`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from lakesweep.format.values.zone import earliest_ms, local_time
from lakesweep.model.policy import AutoTagRules
from lakesweep.model.safety import CLOCK_MARGIN_MS
from lakesweep.operations.tags.rules.periods import DASHED_DAY, parsed_name, period_name, period_of, tag_name

BATCH_PREFIX = "batch-write-"
BATCH_IDENTIFIER = (1 << 63) - 1
"""The commit identifier of batch jobs."""


MAX_BACKFILLED = 100_000
"""One backfill looks at this many periods, the latest ones. Years of minute periods would take hours."""

_EPOCH = datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)
_LATEST = datetime(9990, 1, 1)
_EARLIEST = datetime(10, 1, 1)
# Between these dates there is room for every period, delay and offset. Real clocks reach neither.


@dataclass(frozen=True, slots=True)
class Commit:
    """The facts about a snapshot that automatic tags need."""

    id: int
    time_ms: int
    watermark: int | None
    identifier: int
    kind: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the search for the next automatic tag begins."""

    next_snapshot: int
    next_tag: datetime | None
    """Local begin of the first period without a tag; `None`: the next snapshot gets the first tag."""


@dataclass(frozen=True, slots=True)
class DueTag:
    """A tag to make."""

    name: str
    snapshot_id: int
    reason: str


def pointer_of(rules: AutoTagRules, tags: Iterable[tuple[str, int]], earliest_id: int | None) -> Pointer:
    """Return where the rules continue after the tags that exist.

    Args:
        rules: Only names that these rules make count.
        tags: Names and snapshot ids.
        earliest_id: The earliest snapshot, where the search for the first tag begins.
    """
    last: tuple[datetime, int] | None = None
    for name, snapshot_id in tags:
        begin = None if rules.mode == "batch" else period_of(rules, name)
        if begin is not None and _is_sane(begin) and (last is None or (begin, snapshot_id) > last):
            last = begin, snapshot_id
    if last is None:
        return Pointer(1 if earliest_id is None else earliest_id, None)
    return Pointer(last[1] + 1, last[0] + rules.period)


def due_tags(
    rules: AutoTagRules, pointer: Pointer, commits: Iterable[Commit], tags: Mapping[str, int]
) -> tuple[tuple[DueTag, ...], Pointer]:
    """Walk over snapshots, and return the tags that are due and where to continue.

    A snapshot gets at most one automatic tag. If it already has one for another period, Paimon fails. Lakesweep takes
    that tag as made, and continues after its period.

    Args:
        rules: With mode `process-time` or `watermark`; `batch_tag` is for batch jobs.
        pointer: Where to begin; earlier snapshots are skipped.
        commits: Snapshots by ascending id.
        tags: Snapshot ids of all existing tags, by name. If the name of a period exists, its tag counts as made.
    """
    due: list[DueTag] = []
    made: set[str] = set()
    next_snapshot, next_tag = pointer.next_snapshot, pointer.next_tag
    tagged = _tagged(rules, tags)
    for commit in commits:
        if commit.id < next_snapshot:
            continue
        next_snapshot = commit.id + 1
        time = _time_of(rules, commit)
        if time is None or not _is_triggered(rules, next_tag, time):
            continue
        begin = _period_before(rules, next_tag, time)
        name = tag_name(rules, begin)
        if name not in tags and commit.id in tagged:
            next_tag = max(tagged[commit.id] + rules.period, next_tag or _EARLIEST)
            continue
        if name not in tags and name not in made:
            due.append(DueTag(name, commit.id, rules.mode))
            made.add(name)
        next_tag = begin + rules.period
    return tuple(due), Pointer(next_snapshot, next_tag)


def due_by_clock(
    rules: AutoTagRules, pointer: Pointer, newest: Commit, tags: Mapping[str, int], now_ms: int
) -> DueTag | None:
    """Return the tag that the newest snapshot gets because a period is over and no commit followed.

    For this, Paimon's writers commit an empty snapshot. Lakesweep chooses the period as if such a commit had been made
    five minutes ago, since a snapshot from before the end may still be on its way.

    Args:
        rules: Only mode `process-time` follows the clock.
        pointer: The pointer after the walk over all snapshots.
        newest: The newest snapshot.
        tags: As in `due_tags`, together with the tags that the walk made due.
        now_ms: The time of the store's clock.
    """
    if rules.mode != "process-time" or pointer.next_tag is None or newest.id >= pointer.next_snapshot:
        return None
    time = local_time(now_ms - CLOCK_MARGIN_MS, rules.zone)
    if not _is_sane(time) or not _is_triggered(rules, pointer.next_tag, time):
        return None
    name = tag_name(rules, _period_before(rules, pointer.next_tag, time))
    if name in tags or newest.id in _tagged(rules, tags):
        return None
    return DueTag(name, newest.id, "clock")


def next_due_ms(rules: AutoTagRules, pointer: Pointer) -> int | None:
    """Return the first time at which a commit or the clock can make the next tag due; `None`: time alone never does."""
    return _trigger_ms(rules, pointer, 0) if rules.mode == "process-time" else None


def next_watermark(rules: AutoTagRules, pointer: Pointer) -> int | None:
    """Return the first watermark that makes the next tag due, `None` if the rules do not use watermarks."""
    return _trigger_ms(rules, pointer, -(1 << 63) + 1) if rules.mode == "watermark" else None


def beyond_count(rules: AutoTagRules, tags: Mapping[str, int]) -> tuple[str, ...]:
    """Return the automatic tags beyond the number that the table keeps, the oldest snapshots first.

    Manual tags are neither counted nor deleted. In batch mode, Paimon counts and deletes them, too. Outside batch mode,
    several automatic tags of one snapshot make Paimon fail. Lakesweep counts them as one and keeps them.
    """
    if rules.max_count is None:
        return ()
    by_snapshot: dict[int, list[str]] = {}
    for name, snapshot_id in tags.items():
        if _is_automatic(rules, name):
            by_snapshot.setdefault(snapshot_id, []).append(name)
    if rules.mode == "batch":
        names = [name for snapshot_id in sorted(by_snapshot) for name in sorted(by_snapshot[snapshot_id])]
        return tuple(names[: max(0, len(names) - rules.max_count)])
    oldest = sorted(by_snapshot)[: max(0, len(by_snapshot) - rules.max_count)]
    return tuple(by_snapshot[snapshot_id][0] for snapshot_id in oldest if len(by_snapshot[snapshot_id]) == 1)


def batch_tag(rules: AutoTagRules, newest: Commit, tags: Mapping[str, int]) -> DueTag | None:
    """Return the tag of the newest snapshot if a batch job committed it. It replaces an existing tag of this name."""
    if rules.mode != "batch" or newest.identifier != BATCH_IDENTIFIER or newest.kind not in ("APPEND", "OVERWRITE"):
        return None
    name = rules.batch_name
    if name is None:
        name = BATCH_PREFIX + period_name(local_time(newest.time_ms, rules.zone), DASHED_DAY)
    return None if tags.get(name) == newest.id else DueTag(name, newest.id, "batch")


def backfilled(
    rules: AutoTagRules, tags: Mapping[str, int], commits: Sequence[Commit]
) -> tuple[tuple[DueTag, ...], tuple[str, ...]]:
    """Return the tags of missed periods that can still be made, and sentences about the other missed periods.

    Paimon has no backfill. Lakesweep looks at each period without a tag between the oldest and the newest automatic
    tag. The newest snapshot from before its end gets the tag, unless this snapshot has an automatic tag.

    Args:
        rules: With mode `process-time` or `watermark`.
        tags: Snapshot ids of all existing tags, by name.
        commits: All existing snapshots, by ascending id.
    """
    periods = sorted(
        begin
        for name in tags
        if rules.mode != "batch" and (begin := period_of(rules, name)) is not None and _is_sane(begin)
    )
    if not periods:
        return (), ()
    known = [(time, commit.id) for commit in commits if (time := _time_of(rules, commit)) is not None]
    # The first snapshot at or after the end of a period closes it, even if a later snapshot shows an earlier time.
    times = list(accumulate((time for time, _ in known), max))
    tagged, names = set(_tagged(rules, tags)), set(tags)
    due: list[DueTag] = []
    without: dict[str, list[str]] = {}
    first = max(periods[0], periods[-1] - rules.period * MAX_BACKFILLED)
    for step in range(1, -(-(periods[-1] - first) // rules.period)):
        begin = first + step * rules.period
        name = tag_name(rules, begin)
        if name in names:
            continue
        index = bisect_left(times, begin + rules.period) - 1
        if index < 0:
            without.setdefault("no snapshot from before its end exists any more", []).append(name)
        elif known[index][1] in tagged:
            why = f"snapshot {known[index][1]}, the newest before its end, has an automatic tag already"
            without.setdefault(why, []).append(name)
        else:
            due.append(DueTag(name, known[index][1], "backfill"))
            tagged.add(known[index][1])
            names.add(name)
    return tuple(due), tuple(_sentence(why, missed) for why, missed in without.items())


def _is_automatic(rules: AutoTagRules, name: str) -> bool:
    if rules.mode != "batch":
        return period_of(rules, name) is not None
    return name == rules.batch_name or (
        name.startswith(BATCH_PREFIX) and parsed_name(name.removeprefix(BATCH_PREFIX), DASHED_DAY) is not None
    )


def _tagged(rules: AutoTagRules, tags: Mapping[str, int]) -> dict[int, datetime]:
    """Return the snapshots that have an automatic tag, each with the begin of its (latest) period."""
    tagged: dict[int, datetime] = {}
    for name, snapshot_id in tags.items():
        if (begin := period_of(rules, name)) is not None and _is_sane(begin):
            tagged[snapshot_id] = max(begin, tagged.get(snapshot_id, begin))
    return tagged


def _time_of(rules: AutoTagRules, commit: Commit) -> datetime | None:
    """Return the local time of a snapshot, `None` if it has none or an impossible one."""
    epoch_ms = commit.watermark if rules.mode == "watermark" else commit.time_ms
    if epoch_ms is None or epoch_ms == -(1 << 63):
        return None
    time = local_time(epoch_ms, rules.zone)
    return time if _is_sane(time) else None


def _is_sane(time: datetime) -> bool:
    return _EARLIEST < time < _LATEST


def _is_triggered(rules: AutoTagRules, next_tag: datetime | None, time: datetime) -> bool:
    return next_tag is None or time - rules.delay >= next_tag + rules.period


def _period_before(rules: AutoTagRules, next_tag: datetime | None, time: datetime) -> datetime:
    """Return the begin of the period whose tag is due at `time`. The delay is not subtracted again."""
    if rules.completion and next_tag is not None:
        return next_tag
    local_ms, period_ms = (time - _EPOCH) // _MS, rules.period // _MS
    # Java's division rounds towards zero. This matters for times before 1970 (watermarks begin at 0).
    count = local_ms // period_ms if local_ms >= 0 else -(-local_ms // period_ms)
    return _EPOCH + count * period_ms * _MS - rules.period


def _trigger_ms(rules: AutoTagRules, pointer: Pointer, at_once: int) -> int:
    if pointer.next_tag is None:
        return at_once
    return earliest_ms(pointer.next_tag + rules.period + rules.delay, rules.zone)


def _sentence(why: str, missed: list[str]) -> str:
    if len(missed) == 1:
        return f"no tag {missed[0]!r}: {why}"
    return f"no tags {missed[0]!r} to {missed[-1]!r} ({len(missed)} periods): {why}"
