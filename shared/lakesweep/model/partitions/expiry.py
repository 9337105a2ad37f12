"""Which partitions expire.

Paimon compares clocks without a zone: the partition's values, or the creation times that writers noted, with the clock
of its own machine. So a zone has to be declared.

- `values-time`: the time that the values state. Without a declared zone, the clock is that of the zone whose clocks are
  the last ones (UTC-12), so a partition expires up to a day later than by another zone, never earlier.
- `update-time`: the newest creation time of all entries of the partition in all manifests, also of deleted files.
  Without a declared zone this is refused. Where clocks jump, so much time has to have passed by the clocks, as in
  Paimon, and in truth. A creation time that clocks show twice means the later one.

Both compare strictly: a partition whose time is exactly as long ago as the rules say stays. In doubt it stays, too, and
the reason is counted. Source: Paimon `PartitionExpire`, `PartitionValuesTimeExpireStrategy`,
`PartitionUpdateTimeExpireStrategy`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Literal

from lakesweep.errors import RefusedError
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.json_document import shorten
from lakesweep.format.values.partition_path import local_date_time_text
from lakesweep.format.values.zone import earliest_ms, latest_ms, local_time
from lakesweep.model.partitions.rules import PartitionRules
from lakesweep.model.partitions.times import ValueTimes, java_text

Reason = Literal["unparsable", "null", "not_due", "time_unknown"]

LAST_ZONE = timezone(timedelta(hours=-12))
"""Clocks show no earlier time anywhere."""

_EPOCH = datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)
_MS_NS = 1_000_000
_FIRST_MS = (datetime(1, 1, 3) - _EPOCH) // _MS
_LAST_MS = (datetime(9999, 12, 29) - _EPOCH) // _MS
_MOST_SHIFT_MS = 27 * 3_600_000
"""Clocks of one zone never jump further: a change of the side of the date line is a day."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What the manifests of a snapshot say about one partition."""

    row: bytes
    """The partition as the manifests spell it."""
    values: tuple[object, ...]
    """The same row, decoded."""
    rows: int
    files: int
    """Live files."""
    size_bytes: int
    newest_ms: int | None
    """The newest creation time of all its entries, ADD and DELETE: a wall clock without a zone, in milliseconds from
    1970-01-01T00:00; `None`: an entry states none."""


@dataclass(frozen=True, slots=True)
class Due:
    """A partition to drop."""

    facts: PartitionFacts
    time_ms: int | None
    """Its time, epoch milliseconds, by the declared zone, else by UTC; `None`: beyond the calendar."""
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The partitions that expire now, and why others stay."""

    due: tuple[Due, ...]
    """In the order in which they are dropped."""
    kept: Mapping[Reason, int] = field(hash=False)
    """Reason -> count. `unparsable`: the values state no time. `null`: a value that states the time is null.
    `time_unknown`: an entry without a creation time."""
    due_later: int = 0
    """Partitions that are due, too, but exceed the count of one call."""
    next_due_ms: int | None = None
    """No partition that is not due yet is due before this time, epoch milliseconds; `None`: there is none."""
    differs_from_1_4_2: int = 0
    """Partitions that Paimon 1.4.2 would treat otherwise."""
    warnings: tuple[str, ...] = ()


def choose(
    partitions: Iterable[PartitionFacts],
    rules: PartitionRules,
    keys: Sequence[str],
    types: Sequence[DataType],
    now_ms: int,
    zone: tzinfo | None,
) -> Choice:
    """Choose the partitions that expire. Partitions without live files are passed over.

    Args:
        partitions: All partitions of a snapshot; read once.
        rules: The rules of the table.
        keys: Its partition keys.
        types: Their types.
        now_ms: The time of the run, epoch milliseconds.
        zone: The declared zone, `None` if none is declared.

    Raises:
        RefusedError: With code `zone_not_declared`, for `update-time` without a zone.
    """
    return Expiry(rules, keys, types, now_ms, zone).choose(partitions)


class Expiry:
    """The rules of one table at one time, ready to look at many partitions."""

    def __init__(
        self,
        rules: PartitionRules,
        keys: Sequence[str],
        types: Sequence[DataType],
        now_ms: int,
        zone: tzinfo | None,
    ) -> None:
        if rules.strategy == "update-time" and zone is None:
            raise RefusedError(
                "partitions expire by update-time, and files state their creation time without a zone; expected "
                "time_zone in the call or in the fleet policy, with the zone of the table's writers",
                code="zone_not_declared",
            )
        self._rules = rules
        self._types = tuple(types)
        self._now_ms = now_ms
        self._declared = zone
        self._zone = zone or LAST_ZONE
        self._times = ValueTimes(rules, tuple(keys), self._types)
        local_ms = (local_time(now_ms, self._zone) - _EPOCH) // _MS
        self._cutoff_ns = local_ms * _MS_NS - rules.expiration_ns
        """A wall clock. Partitions with an earlier one are due."""

    def may_be_due(self, values: Sequence[object]) -> bool:
        """Tell whether a partition with these values may be due, so that its entries have to be read."""
        return self._rules.strategy == "update-time" or isinstance(self._by_values(values), int)

    def choose(self, partitions: Iterable[PartitionFacts]) -> Choice:
        """Choose the partitions that expire, see the function of this name."""
        kept: Counter[Reason] = Counter()
        due: list[PartitionFacts] = []
        differs, undecided, earliest_ns, example = 0, 0, None, ""
        first_ns = self._cutoff_ns + _MOST_SHIFT_MS * _MS_NS
        by_values = self._rules.strategy == "values-time"
        for facts in partitions:
            if not facts.files:
                continue
            found = self._by_values(facts.values) if by_values else self._by_update(facts)
            if isinstance(found, int):
                due.append(facts)
            else:
                reason, time_ns = found
                kept[reason] += 1
                if time_ns is not None:
                    undecided += time_ns < first_ns
                    earliest_ns = time_ns if earliest_ns is None else min(earliest_ns, time_ns)
                if reason == "unparsable" and not example:
                    example = self._times.text(facts.values) or ""
            differs += self._differs(facts, isinstance(found, int))
        due.sort(key=self._order)
        now = tuple(self._due(facts) for facts in due[: self._rules.max_num])
        no_time = kept["unparsable"] if len(due) + kept["not_due"] == 0 else 0
        return Choice(
            due=now,
            kept=dict(kept),
            due_later=len(due) - len(now),
            next_due_ms=None if earliest_ns is None else self._next_due_ms(earliest_ns),
            differs_from_1_4_2=differs,
            warnings=self._warnings(differs, undecided, no_time, example),
        )

    def _by_values(self, values: Sequence[object]) -> int | tuple[Reason, int | None]:
        """Return the time of a partition that is due, in nanoseconds, else the reason to keep it, and its time."""
        text = self._times.text(values)
        if text is None:
            return "null", None
        time_ns = self._times.time_ns(text)
        if time_ns is None:
            return "unparsable", None
        return time_ns if time_ns < self._cutoff_ns else ("not_due", time_ns)

    def _by_update(self, facts: PartitionFacts) -> int | tuple[Reason, int | None]:
        newest_ms = facts.newest_ms
        if newest_ms is None or not _FIRST_MS < newest_ms < _LAST_MS:
            return "time_unknown", None
        newest_ns = newest_ms * _MS_NS
        is_due = newest_ns < self._cutoff_ns
        if is_due and self._cutoff_ns - newest_ns <= _MOST_SHIFT_MS * _MS_NS:
            # Clocks may have jumped since then, so that less time has passed than they show.
            newest = instant_ms(newest_ms, self._zone, is_late=True)
            is_due = newest is not None and newest * _MS_NS < self._now_ms * _MS_NS - self._rules.expiration_ns
        return newest_ns if is_due else ("not_due", newest_ns)

    def _differs(self, facts: PartitionFacts, is_due: bool) -> bool:
        """Tell whether Paimon 1.4.2 treats a partition otherwise.

        It splits values at commas, and cannot read back the texts that it makes of time stamps and bytes.
        """
        if is_due and any(
            isinstance(value, (Timestamp, bytes)) or (isinstance(value, str) and "," in value) for value in facts.values
        ):
            return True
        if self._rules.strategy == "update-time" or not self._times.may_differ_in_1_4_2(facts.values):
            return False
        time_ns = self._times.time_in_1_4_2(facts.values)
        return is_due != (time_ns is not None and time_ns < self._cutoff_ns)

    def _order(self, facts: PartitionFacts) -> tuple[bytes, bytes]:
        """Return Paimon's order: values joined by commas, as Java compares texts. Equal ones follow their bytes."""
        texts = (java_text(value, type_) for value, type_ in zip(facts.values, self._types, strict=True))
        joined = ",".join(self._rules.default_name if text is None else text for text in texts)
        return joined.encode("utf-16-be"), facts.row

    def _due(self, facts: PartitionFacts) -> Due:
        zone = self._declared or UTC
        if self._rules.strategy == "update-time":
            assert facts.newest_ms is not None
            text = local_date_time_text(facts.newest_ms, 0)
            time_ms = instant_ms(facts.newest_ms, zone, is_late=True)
            return Due(facts, time_ms, f"its newest entry was created at {text}, before {self._cutoff_text()}")
        time_ns = self._by_values(facts.values)
        assert isinstance(time_ns, int)
        text = local_date_time_text(*divmod(time_ns, _MS_NS))
        time_ms = instant_ms(time_ns // _MS_NS, zone, is_late=False)
        return Due(facts, time_ms, f"its values state the time {text}, before {self._cutoff_text()}")

    def _cutoff_text(self) -> str:
        return local_date_time_text(*divmod(self._cutoff_ns, _MS_NS))

    def _next_due_ms(self, time_ns: int) -> int | None:
        """Return the first time at which a partition of this wall clock may be due."""
        by_clock = instant_ms((time_ns + self._rules.expiration_ns) // _MS_NS + 1, self._zone, is_late=False)
        if self._rules.strategy == "values-time" or by_clock is None:
            return by_clock
        newest = instant_ms(time_ns // _MS_NS, self._zone, is_late=True)
        return None if newest is None else max(by_clock, newest + self._rules.expiration_ns // _MS_NS + 1)

    def _warnings(self, differs: int, undecided: int, no_time: int, example: str) -> tuple[str, ...]:
        warnings = []
        if differs:
            warnings.append(
                f"{differs} partitions would be treated otherwise by Paimon 1.4.2, which splits values at commas, "
                "cannot read back time stamps, and reads $, backslashes and nulls in patterns in another way"
            )
        if no_time:
            warnings.append(
                f"none of {no_time} partitions states a time that the table's formatter reads, such as "
                f"{shorten(ascii(example))}, so none expires; expected partition.timestamp-formatter and "
                "partition.timestamp-pattern that suit the values, or the strategy update-time"
            )
        if undecided and self._declared is None:
            warnings.append(
                f"no time zone is declared, so {undecided} partitions that may be due stay up to 26 hours longer, "
                "until they are due by the clocks of UTC-12; declare time_zone in the call or in the fleet policy"
            )
        return tuple(warnings)


def instant_ms(local_ms: int, zone: tzinfo, *, is_late: bool) -> int | None:
    """Return the instant of a wall clock, `None` beyond Python's calendar.

    Args:
        local_ms: Milliseconds from 1970-01-01T00:00.
        zone: The zone of the clock.
        is_late: Of two instants, return the later one, else the earlier one.
    """
    if not _FIRST_MS < local_ms < _LAST_MS:
        return None
    local = _EPOCH + timedelta(milliseconds=local_ms)
    return latest_ms(local, zone) if is_late else earliest_ms(local, zone)
