"""What automatic tags a table is to have, worked out a second time and from nothing but commits and passes.

The rule of process-time mode, as its documentation says it: a commit makes the tag of the period before its own once
the period of the next tag is over, the delay included; and where no commit comes, a pass makes it on the newest
snapshot some minutes later. A snapshot gets one automatic tag at most.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

GRACE = timedelta(minutes=5)
"""So long a pass waits for a commit after a tag has become due."""
UNKNOWN_ZONE = timedelta(hours=26)
"""So far two clocks on earth may be apart, where nobody says in which zone a time was written."""
Tags = Mapping[str, int]
"""Name -> snapshot."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What the options of a table say."""

    zone: str
    period: timedelta
    form: str
    """Of the names, for `strftime`."""
    delay: timedelta = timedelta()
    completes: bool = False
    most: int | None = None
    """Automatic tags that stay when one more was made."""
    lives: timedelta | None = None
    declared: str | None = None
    """The zone in which times of creation are written; without it UTC, and nobody knows."""

    def local(self, at_s: float) -> datetime:
        """Return what clocks in the zone show."""
        return datetime.fromtimestamp(at_s, ZoneInfo(self.zone)).replace(tzinfo=None)

    def created(self, at_s: float) -> datetime:
        """Return the time of creation that a tag says."""
        zone = UTC if self.declared is None else ZoneInfo(self.declared)
        return datetime.fromtimestamp(at_s, zone).replace(tzinfo=None)

    def begin_of(self, local: datetime) -> datetime:
        """Return the begin of the period that a time lies in, counted from the local beginning of 1970."""
        epoch = datetime(1970, 1, 1)
        return local - (local - epoch) % self.period

    def is_over(self, made_s: float, now_s: float) -> bool:
        """Tell whether the time of a tag is over."""
        if self.lives is None:
            return False
        slack = UNKNOWN_ZONE if self.declared is None else timedelta()
        return self.created(now_s) > self.created(made_s) + self.lives + slack


@dataclass(frozen=True, slots=True)
class History:
    """A table's tags as they came about."""

    rule: Rule
    tags: Tags = field(default_factory=dict)
    next_begin: datetime | None = None
    """Of the period that the next tag is for."""
    walked: int = 0
    """The last snapshot that was looked at."""
    newest: int = 0
    made: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Tag -> between when and when it was made."""

    def walk(self, commits: Iterable[tuple[int, float]]) -> "History":
        """Return what comes of commits, as (snapshot, time in seconds)."""
        after = self
        for snapshot, at_s in commits:
            local = self.rule.local(at_s)
            if snapshot <= after.walked:
                continue
            after = replace(after, walked=snapshot, newest=snapshot)
            if after._triggers(local - self.rule.delay):
                after = after._with_tag(local)
        return after

    def by_clock(self, now_s: float) -> "History":
        """Return what comes of a pass at a time."""
        local = self.rule.local(now_s)
        if not self.newest or self.newest in self.tags.values() or self.next_begin is None:
            return self
        return self._with_tag(local) if self._triggers(local - self.rule.delay - GRACE) else self

    def outcomes(self, commits: list[tuple[int, float]], began_s: float, ended_s: float) -> Iterator["History"]:
        """Yield what may come of commits and passes in a span of time, whatever comes first and whenever in it."""
        for first_s, last_s in product((began_s, ended_s), repeat=2):
            if first_s <= last_s:
                for found in (self, self.by_clock(first_s)):
                    walked = found.walk(commits)
                    for after in (walked.by_clock(last_s), *(() if walked._asked(last_s) else (walked,))):
                        yield after.counted(self)
                        # The pass that made a tag may not come as far as to count them. That of the next tag does.
                        if self.rule.most is None or len(after.tags) <= self.rule.most + 1:
                            yield after

    def over(self, began_s: float, ended_s: float) -> tuple[set[str], set[str]]:
        """Return the tags whose time is over for sure when passes come in a span of time, and those where it may be."""
        grace_s = GRACE.total_seconds()
        sure = {name for name, (_, last_s) in self.made.items() if self.rule.is_over(last_s, began_s - grace_s)}
        may = {name for name, (first_s, _) in self.made.items() if self.rule.is_over(first_s, ended_s)}
        return sure & self.tags.keys(), may & self.tags.keys()

    def _asked(self, now_s: float) -> bool:
        """Tell whether the schedule asks for a pass, which is some minutes after one may have something to do."""
        return self._triggers(self.rule.local(now_s - GRACE.total_seconds()) - self.rule.delay)

    def _triggers(self, local: datetime) -> bool:
        return self.next_begin is None or local >= self.next_begin + self.rule.period

    def _with_tag(self, local: datetime) -> "History":
        begin = self.rule.begin_of(local) - self.rule.period
        if self.rule.completes and self.next_begin is not None:
            begin = self.next_begin
        name = begin.strftime(self.rule.form)
        return replace(self, tags={name: self.newest, **self.tags}, next_begin=begin + self.rule.period)

    def counted(self, before: "History") -> "History":
        if self.rule.most is None or self.tags == before.tags:
            return self
        stay = sorted(self.tags, key=lambda name: self.tags[name])[-self.rule.most :]
        return replace(self, tags={name: self.tags[name] for name in stay})
