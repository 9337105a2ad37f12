"""From table options and arguments to retention rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.options import parse_duration_ms, parse_int
from lakesweep.model.policy import INT_MAX, SnapshotRetention

STATED_RETENTION = ("snapshot.num-retained.min", "snapshot.num-retained.max", "snapshot.time-retained")
"""Options of which a table must state one before anything is deleted unattended."""

_DEFAULTS = SnapshotRetention()


@dataclass(frozen=True, slots=True)
class ExpireArguments:
    """What a caller of `expire_snapshots` may ask for; `None` leaves it to the table's options.

    Source: Paimon `ExpireSnapshotsProcedure`.
    """

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    """Snapshots whose successor is older may go; epoch milliseconds."""
    max_deletes: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""
    unattended: bool = False
    """Nobody watches: only retention that the schema (or `options`) states may delete."""

    @property
    def overrides_table(self) -> bool:
        """The caller asked for something else than the table's own options."""
        return bool(self.options) or any(
            value is not None for value in (self.retain_max, self.retain_min, self.older_than_ms, self.max_deletes)
        )

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        given = {
            "retain_max": self.retain_max,
            "retain_min": self.retain_min,
            "older_than_ms": self.older_than_ms,
            "max_deletes": self.max_deletes,
            "options": dict(self.options) or None,
        }
        return {key: value for key, value in given.items() if value is not None}


def snapshot_retention(
    options: Mapping[str, str], arguments: ExpireArguments, now_ms: int, clock_ms: int
) -> SnapshotRetention:
    """Return the checked retention of one run.

    Args:
        options: The table's options with the call's own on top.
        arguments: The caller's numbers.
        now_ms: The time of the run by the storage clock.
        clock_ms: The caller's clock; an `older_than` is in the future when it lies beyond both clocks.

    Raises:
        RefusedError: A value that does not parse, or rules that could empty the table.
    """
    try:
        time_retained_ms = _duration(options, "snapshot.time-retained", _DEFAULTS.time_retained_ms)
        retain_min = _int(options, "snapshot.num-retained.min", _DEFAULTS.retain_min)
        retain_max = _int(options, "snapshot.num-retained.max", _DEFAULTS.retain_max)
        limit = _int(options, "snapshot.expire.limit", _DEFAULTS.limit)
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error
    if arguments.older_than_ms is not None:
        if arguments.older_than_ms > max(now_ms, clock_ms):
            ahead_ms = arguments.older_than_ms - max(now_ms, clock_ms)
            raise RefusedError(
                f"older_than lies {ahead_ms} ms in the future; expected a time that has passed", code="cutoff_in_future"
            )
        time_retained_ms = max(0, now_ms - arguments.older_than_ms)
    retention = SnapshotRetention(
        retain_min=retain_min if arguments.retain_min is None else arguments.retain_min,
        retain_max=retain_max if arguments.retain_max is None else arguments.retain_max,
        time_retained_ms=time_retained_ms,
        limit=limit if arguments.max_deletes is None else arguments.max_deletes,
    )
    retention.check()
    return retention


def check_stated(options: Mapping[str, str]) -> None:
    """Refuse a table whose schema states no retention.

    Options that a job sets at run time are not in the schema, and the engine's defaults may be shorter than what such
    a job relies on.

    Raises:
        RefusedError: None of `STATED_RETENTION` is there.
    """
    if not any(key in options for key in STATED_RETENTION):
        raise RefusedError(
            f"its schema states no retention; expected one of {', '.join(STATED_RETENTION)} there (or as --option), "
            "since unattended deletion follows stated rules only",
            code="retention_not_stated",
        )


def check_supported(options: Mapping[str, str]) -> None:
    """Refuse tables whose changelogs outlive their snapshots.

    Raises:
        RefusedError: Such a table, or a value that does not parse.

    Source: Paimon `ExpireConfig` (decoupled changelog lifecycle).
    """
    try:
        snapshot_ms = _duration(options, "snapshot.time-retained", _DEFAULTS.time_retained_ms)
        snapshot_min = _int(options, "snapshot.num-retained.min", _DEFAULTS.retain_min)
        snapshot_max = _int(options, "snapshot.num-retained.max", INT_MAX)
        decoupled = (
            _duration(options, "changelog.time-retained", snapshot_ms) > snapshot_ms
            or _int(options, "changelog.num-retained.min", snapshot_min) > snapshot_min
            or _int(options, "changelog.num-retained.max", snapshot_max) > snapshot_max
        )
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error
    if decoupled:
        raise RefusedError(
            "its changelog options retain more than its snapshot options, so changelogs outlive snapshots; "
            "expected a table without that, which is all this version expires",
            code="decoupled_changelog",
        )


def _int(options: Mapping[str, str], key: str, default: int) -> int:
    return parse_int(options[key], key) if key in options else default


def _duration(options: Mapping[str, str], key: str, default_ms: int) -> int:
    return parse_duration_ms(options[key], key) if key in options else default_ms
