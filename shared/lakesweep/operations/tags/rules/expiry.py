"""Decide which tags of a branch to delete, and why every other tag is kept.

Three rules delete a tag: its own time to live, a count of automatic tags, and calendar rules that match it but do not
keep it. A calendar rule that keeps a tag overrides all three. A time to live that is not over overrides calendar rules
that match the tag without keeping it. A tag without any rule is kept.

Source of the time to live: Paimon `TagTimeExpire`. Calendar rules work as in backup tools.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase

from lakesweep.format.values.zone import earliest_ms, latest_ms, local_time
from lakesweep.model.policy import KeepRules, TagFacts
from lakesweep.operations.tags.rules.automatic import BATCH_PREFIX
from lakesweep.operations.tags.rules.periods import SHAPES, parsed_name

ROLLBACK_PREFIX = "rollback-to-as-latest-"
"""Paimon makes such tags when it rolls a table back. They name a part of the table's present state."""

WITHOUT_ZONE = timedelta(hours=26)
"""Time between the first and the last clock on earth. Without a declared time zone, a tag lives this much longer."""

NEVER_MS = 253_402_300_800_000
"""The year 10000. A damaged document may hold such a time; it counts as never due."""

NO_END = datetime(9999, 12, 31)
"""Stands for a time beyond the last year of Python's calendar."""

_FIRST = datetime(1, 1, 1)
_PeriodOf = Callable[[str], datetime | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about the tags of a branch."""

    going: Mapping[str, str]
    """The reason of each tag to delete: `time_to_live`, `older_than`, `count` or `keep_rules`."""
    kept: Mapping[str, tuple[str, ...]]
    """The reasons of each tag to keep: the rules that keep it, `time_to_live`, `rollback` or `no_rule`."""
    next_due_ms: int | None
    """Until this time, only a change of tags or rules changes the verdict; `None`: time alone never does."""
    notes: tuple[str, ...]
    """Sentences for the report."""


def judge_tags(
    tags: Sequence[TagFacts],
    *,
    now_ms: int,
    zone: tzinfo | None,
    calendar_zone: tzinfo,
    keep: Sequence[KeepRules],
    by_time: bool,
    older_than_ms: int | None,
    beyond: Sequence[str],
    period_of: _PeriodOf | None,
) -> Verdict:
    """Judge the tags of a branch.

    Args:
        tags: All tags whose documents are readable.
        now_ms: The time of the store's clock.
        zone: The zone in which creation times were written; `None`: unknown, so tags live 26 h longer.
        calendar_zone: The zone that determines the day of a commit.
        keep: Calendar rules. A tag that matches a rule, and that no rule keeps, is deleted.
        by_time: Delete tags when their time to live is over.
        older_than_ms: Delete tags that were made before this time, with or without a time to live.
        beyond: Tags beyond the number that the table keeps.
        period_of: Returns the period in a name by the table's own rules.
    """
    lives = {tag.name: _Life(tag, zone, now_ms) for tag in tags}
    surplus = frozenset(beyond)
    calendar = _Calendar(tags, keep, now_ms, calendar_zone, period_of)
    going: dict[str, str] = {}
    kept: dict[str, tuple[str, ...]] = {}
    for tag in tags:
        life = lives[tag.name]
        reasons = calendar.kept.get(tag.name, ())
        is_spared = tag.name.startswith(ROLLBACK_PREFIX)
        is_alive = life.end is not None and not life.is_over
        if reasons:
            kept[tag.name] = (*reasons, *(("time_to_live",) if is_alive else ()))
        elif is_spared:
            kept[tag.name] = ("rollback",)
        elif older_than_ms is not None and life.created_ms < older_than_ms:
            going[tag.name] = "older_than"
        elif by_time and life.is_over:
            going[tag.name] = "time_to_live"
        elif tag.name in surplus:
            going[tag.name] = "count"
        elif is_alive:
            kept[tag.name] = ("time_to_live",)
        elif tag.name in calendar.ruled:
            going[tag.name] = "keep_rules"
        else:
            kept[tag.name] = ("no_rule",)
    dates = [lives[name].due_ms for name in kept if not name.startswith(ROLLBACK_PREFIX)]
    return Verdict(
        going=going,
        kept=kept,
        next_due_ms=min((due for due in (*dates, *calendar.due_ms) if due is not None), default=None),
        notes=_notes(zone, [tag for tag in tags if lives[tag.name].end is not None]),
    )


class _Life:
    """The time to live of one tag."""

    __slots__ = ("created_ms", "due_ms", "end", "is_over")

    def __init__(self, tag: TagFacts, zone: tzinfo | None, now_ms: int) -> None:
        clock = UTC if zone is None else zone
        self.end: datetime | None = None
        """The end of its life, by clocks of `zone`; `None`: it lives forever."""
        self.is_over = False
        self.due_ms: int | None = None
        """The future time at which its life ends."""
        self.created_ms = tag.modified_ms
        if tag.create_time is None or tag.time_retained_ns is None:
            return
        self.created_ms = latest_ms(end_of_life(tag.create_time, 0, zone), clock)  # A life without length ends at once.
        self.end = end_of_life(tag.create_time, tag.time_retained_ns, zone)
        self.is_over = local_time(now_ms, clock) > self.end
        if not self.is_over:
            # A tag dies strictly after its end. A clock may show an hour twice, so there may be two such moments.
            after = _plus(self.end, timedelta(microseconds=1))
            moments = (earliest_ms(after, clock), latest_ms(after, clock))
            self.due_ms = min((moment for moment in moments if moment > now_ms), default=now_ms + 1)


def end_of_life(created: datetime, time_retained_ns: int, zone: tzinfo | None) -> datetime:
    """Return the end of a time to live, by clocks of `zone`. Without a zone it is 26 h longer, by clocks of UTC.

    Fractions of a microsecond are rounded up.
    """
    return _plus(created, timedelta(0) if zone is not None else WITHOUT_ZONE, -(-time_retained_ns // 1000))


def _plus(time: datetime, span: timedelta, micros: int = 0) -> datetime:
    try:
        return time + span + timedelta(microseconds=micros)
    except OverflowError:  # Java's calendar has no such end; a tag of the year 10000 is kept either way.
        return _FIRST if micros < 0 else NO_END


@dataclass(slots=True)
class _Calendar:
    """The calendar rules, applied to all tags."""

    tags: Sequence[TagFacts]
    rules: Sequence[KeepRules]
    now_ms: int
    zone: tzinfo
    period_of: _PeriodOf | None
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The rules that keep a tag, by its name."""
    ruled: set[str] = field(default_factory=set)
    """Tags that match a rule."""
    due_ms: list[int] = field(default_factory=list)
    """When a tag that only `keep_within` keeps becomes too old for it."""

    def __post_init__(self) -> None:
        for rule in self.rules:
            self._apply(rule)

    def _apply(self, rule: KeepRules) -> None:
        matching = [
            tag for tag in self.tags if fnmatchcase(tag.name, rule.pattern) and not tag.name.startswith(ROLLBACK_PREFIX)
        ]
        self.ruled.update(tag.name for tag in matching)
        times = {tag.name: self._time(tag, rule.pattern) for tag in matching}
        newest = sorted(matching, key=lambda tag: (times[tag.name], tag.snapshot_id, tag.name), reverse=True)
        for tag in newest[: rule.last or 0]:
            self._keep(tag, "keep_last")
        if rule.within_ms is not None:
            for tag in newest:
                self._keep_within(tag, times[tag.name], rule.within_ms)
        for reason, count, bucket in (
            ("keep_daily", rule.daily, lambda time: time.date()),
            ("keep_weekly", rule.weekly, lambda time: time.isocalendar()[:2]),
            ("keep_monthly", rule.monthly, lambda time: (time.year, time.month)),
            ("keep_yearly", rule.yearly, lambda time: time.year),
        ):
            last: dict[object, TagFacts] = {}
            for tag in newest if count else ():
                last.setdefault(bucket(times[tag.name]), tag)
            for tag in list(last.values())[:count]:
                self._keep(tag, reason)
        for tag in newest:
            if any(fnmatchcase(tag.name, pattern) for pattern in rule.tags):
                self._keep(tag, "keep_tags")

    def _keep_within(self, tag: TagFacts, time: datetime, within_ms: int) -> None:
        # The later of both times, since the period in a name begins before its data ends.
        end_ms = max(tag.commit_ms, earliest_ms(time, self.zone)) + within_ms
        if self.now_ms <= end_ms:
            self._keep(tag, "keep_within")
            if end_ms < NEVER_MS:
                self.due_ms.append(end_ms + 1)

    def _keep(self, tag: TagFacts, reason: str) -> None:
        self.kept[tag.name] = tuple(dict.fromkeys((*self.kept.get(tag.name, ()), reason)))

    def _time(self, tag: TagFacts, pattern: str) -> datetime:
        """Return the local time of a tag: the period in its name, otherwise the time of its commit."""
        fixed = pattern[: min((pattern.index(sign) for sign in "*?[" if sign in pattern), default=0)]
        for name in dict.fromkeys((tag.name, tag.name.removeprefix(BATCH_PREFIX), tag.name.removeprefix(fixed))):
            period = named_period(name, self.period_of)
            if period is not None:
                return period
        return local_time(tag.commit_ms, self.zone)


def named_period(name: str, period_of: _PeriodOf | None = None) -> datetime | None:
    """Return the begin of the day, hour or minute in a name, which may have any shape of automatic tags."""
    own = None if period_of is None else period_of(name)
    if own is not None:
        return own
    return next((period for shape in SHAPES if (period := parsed_name(name, shape)) is not None), None)


def _notes(zone: tzinfo | None, living: Sequence[TagFacts]) -> tuple[str, ...]:
    if zone is not None or not living:
        return ()
    which = "1 of them has" if len(living) == 1 else f"{len(living)} of them have"
    return (
        f"no time zone is declared, so Lakesweep keeps tags 26 h longer than their time to live ({which} one): the "
        "clock of their maker may be in any zone",
    )
