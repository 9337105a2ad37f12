"""Make retention rules from table options and arguments."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.values.options import parse_bool, parse_duration_ms, parse_int
from lakesweep.model.policy import ChangelogRetention, SnapshotRetention
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.parameters.times import say_time

STATED_RETENTION = ("snapshot.num-retained.min", "snapshot.num-retained.max", "snapshot.time-retained")
"""Before an unattended deletion, a table must state one of these options."""

CHANGELOG_PRODUCERS = ("none", "input", "lookup", "full-compaction")

_DEFAULTS = SnapshotRetention()


@dataclass(frozen=True, slots=True)
class ExpireArguments:
    """The arguments of `expire-snapshots`; `None` means: as the table's options say.

    Source: Paimon `ExpireSnapshotsProcedure`.
    """

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    """Snapshots whose successor is older may expire; epoch milliseconds."""
    max_deletes: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""
    unattended: bool = False
    """No person watches the call. Only retention that the schema, `options` or a fleet policy (`otherwise`) states may
    delete."""
    protect_commit_users: tuple[str, ...] = ()
    """The last snapshot of each of these commit users is kept, and every later snapshot."""
    floor: SnapshotRetention | None = None
    """Rules of a fleet policy. A snapshot expires only if these rules allow it, too."""
    otherwise: SnapshotRetention | None = None
    """Rules of a fleet policy for a table whose schema states none."""
    otherwise_of: str | None = None
    """The folder for which the fleet policy states these rules."""

    @property
    def overrides_table(self) -> bool:
        """The caller asked for something other than the table's own options."""
        return bool(self.options) or any(
            value is not None for value in (self.retain_max, self.retain_min, self.older_than_ms, self.max_deletes)
        )

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        rules = {"floor": self.floor, "retention": self.otherwise}
        return stated(
            retain_max=self.retain_max,
            retain_min=self.retain_min,
            older_than_ms=self.older_than_ms,
            max_deletes=self.max_deletes,
            protect_commit_user=self.protect_commit_users,
            fleet_policy={name: rule.to_json() for name, rule in rules.items() if rule is not None},
            options=self.options,
        )


def snapshot_retention(
    options: Mapping[str, str], arguments: ExpireArguments, now_ms: int, clock_ms: int
) -> SnapshotRetention:
    """Return the checked retention of one run.

    Args:
        options: The table's options, overridden by the call's.
        arguments: The caller's numbers.
        now_ms: The time of the run by the storage clock.
        clock_ms: The caller's clock. An `older_than` later than both clocks is in the future.

    Raises:
        RefusedError: A value does not parse, or the rules could empty the table.
    """
    with _options():
        stated = _snapshot_options(options)
    if arguments.otherwise is not None and not is_stated(options):
        stated = arguments.otherwise
    time_retained_ms = stated.time_retained_ms
    if arguments.older_than_ms is not None:
        time_retained_ms = time_retained(arguments.older_than_ms, now_ms, clock_ms)
    retention = SnapshotRetention(
        retain_min=stated.retain_min if arguments.retain_min is None else arguments.retain_min,
        retain_max=stated.retain_max if arguments.retain_max is None else arguments.retain_max,
        time_retained_ms=time_retained_ms,
        limit=stated.limit if arguments.max_deletes is None else arguments.max_deletes,
    )
    retention.check()
    return retention


def time_retained(older_than_ms: int, now_ms: int, clock_ms: int) -> int:
    """Return `older_than` as a duration before now.

    Raises:
        RefusedError: It is later than both clocks.
    """
    ahead_ms = older_than_ms - max(now_ms, clock_ms)
    if ahead_ms > 0:
        raise RefusedError(
            f"older_than is {say_time(older_than_ms)}, {ahead_ms} ms in the future; expected a time that has passed",
            code="cutoff_in_future",
        )
    return max(0, now_ms - older_than_ms)


def falls_back(options: Mapping[str, str], arguments: ExpireArguments) -> bool:
    """Tell whether a fleet policy's retention applies, since the schema states none."""
    return arguments.otherwise is not None and not is_stated(options)


def is_stated(options: Mapping[str, str]) -> bool:
    """Tell whether table options state a retention."""
    return any(key in options for key in STATED_RETENTION)


def check_stated(options: Mapping[str, str], arguments: ExpireArguments) -> None:
    """Refuse a table for which neither its schema nor a fleet policy states a retention.

    A job may set options at run time that are not in the schema. Paimon's defaults may keep less than such a job needs.

    Raises:
        RefusedError: None of `STATED_RETENTION` is stated.
    """
    if arguments.otherwise is None and not is_stated(options):
        raise RefusedError(
            f"its schema states no retention; expected one of {', '.join(STATED_RETENTION)} there (or as --option, or "
            "in a fleet policy), since unattended deletion follows stated rules only",
            code="retention_not_stated",
        )


def has_decoupled_changelog(options: Mapping[str, str]) -> bool:
    """Tell whether changelogs outlive snapshots by the table's options, which readers follow.

    Raises:
        RefusedError: A value does not parse.

    Source: Paimon `CoreOptions#changelogLifecycleDecoupled`, `ExpireConfig`.
    """
    with _options():
        snapshots = _snapshot_options(options)
        changelogs = _changelog_options(options)
    return (
        (changelogs.time_retained_ms or 0) > snapshots.time_retained_ms
        or changelogs.retain_min > snapshots.retain_min
        or changelogs.retain_max > snapshots.retain_max
    )


def changelog_retention(options: Mapping[str, str]) -> ChangelogRetention:
    """Return the checked retention of changelogs that a table states.

    Raises:
        RefusedError: A value does not parse, or the rules contradict each other.
    """
    with _options():
        retention = _changelog_options(options)
    retention.check()
    return retention


def consumers_bind_changelogs_only(options: Mapping[str, str]) -> bool:
    """Tell whether consumers delay only the expiry of changelogs, not that of snapshots.

    Raises:
        RefusedError: A value does not parse.
    """
    with _options():
        key = "consumer.changelog-only"
        return key in options and parse_bool(options[key], key) and has_decoupled_changelog(options)


def changelog_producer(options: Mapping[str, str]) -> str:
    """Return the changelog producer: `none`, `input`, `lookup` or `full-compaction`.

    Raises:
        RefusedError: The option has another value.
    """
    producer = options.get("changelog-producer", "none").lower()
    if producer not in CHANGELOG_PRODUCERS:
        raise RefusedError(
            f"option changelog-producer: expected one of {', '.join(CHANGELOG_PRODUCERS)}, found {producer!r}",
            code="bad_option",
        )
    return producer


def _snapshot_options(options: Mapping[str, str]) -> SnapshotRetention:
    return SnapshotRetention(
        retain_min=_int(options, "snapshot.num-retained.min", _DEFAULTS.retain_min),
        retain_max=_int(options, "snapshot.num-retained.max", _DEFAULTS.retain_max),
        time_retained_ms=_duration(options, "snapshot.time-retained", _DEFAULTS.time_retained_ms),
        limit=_int(options, "snapshot.expire.limit", _DEFAULTS.limit),
    )


def _changelog_options(options: Mapping[str, str]) -> ChangelogRetention:
    snapshots = _snapshot_options(options)
    return ChangelogRetention(
        retain_min=_int(options, "changelog.num-retained.min", snapshots.retain_min),
        retain_max=_int(options, "changelog.num-retained.max", snapshots.retain_max),
        time_retained_ms=_duration(options, "changelog.time-retained", snapshots.time_retained_ms),
        limit=snapshots.limit,
    )


@contextmanager
def _options() -> Iterator[None]:
    """Turn a format error into a refusal."""
    try:
        yield
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def _int(options: Mapping[str, str], key: str, default: int) -> int:
    return parse_int(options[key], key) if key in options else default


def _duration(options: Mapping[str, str], key: str, default_ms: int) -> int:
    return parse_duration_ms(options[key], key) if key in options else default_ms
