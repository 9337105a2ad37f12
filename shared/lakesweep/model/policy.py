"""Retention rules as numbers: how many snapshots are kept, and for how long."""

from dataclasses import dataclass

from lakesweep.errors import RefusedError

INT_MAX = 2_147_483_647
"""Paimon writes this number for "no maximum"."""


@dataclass(frozen=True, slots=True)
class _Retention:
    """The numbers of any retention."""

    retain_min: int
    retain_max: int
    time_retained_ms: int | None
    limit: int

    def to_json(self) -> dict[str, object]:
        """Return the rules as plans and `show` print them."""
        return {
            "retain_min": self.retain_min,
            "retain_max": self.retain_max,
            "time_retained_ms": self.time_retained_ms,
            "max_deletes": self.limit,
        }

    def check(self) -> None:
        """Refuse invalid numbers, and numbers that could empty a table.

        Raises:
            RefusedError: With a `code` that names the rule.
        """
        if self.retain_min < 1:
            raise RefusedError(
                f"retain_min is {self.retain_min}; expected at least 1, or the table loses its state",
                code="retain_min_below_one",
            )
        if self.retain_max < self.retain_min:
            raise RefusedError(
                f"retain_max is {self.retain_max}, retain_min is {self.retain_min}; expected retain_max >= retain_min",
                code="retain_max_below_min",
            )
        if self.limit < 1:
            raise RefusedError(f"max_deletes is {self.limit}; expected at least 1", code="limit_below_one")
        if self.time_retained_ms is not None and self.time_retained_ms < 0:
            raise RefusedError(
                f"the cutoff lies {-self.time_retained_ms} ms in the future; expected a time that has passed",
                code="cutoff_in_future",
            )


@dataclass(frozen=True, slots=True)
class SnapshotRetention(_Retention):
    """The retention of one branch's snapshots.

    Source: Paimon `CoreOptions` (`snapshot.num-retained.min`, `.max`, `snapshot.time-retained`,
    `snapshot.expire.limit`) and `ExpireConfig`.
    """

    retain_min: int = 10
    """At least this many ids are kept at any age."""
    retain_max: int = INT_MAX
    """Ids beyond this count expire at any age."""
    time_retained_ms: int = 3_600_000
    """A snapshot is old if its successor was committed longer ago than this."""
    limit: int = 50
    """One run advances by at most this many ids."""


@dataclass(frozen=True, slots=True)
class ChangelogRetention(_Retention):
    """The retention of one branch's long-lived changelogs. Counts include the snapshots.

    Source: Paimon `CoreOptions` (`changelog.num-retained.min`, `.max`, `changelog.time-retained`) and `ExpireConfig`,
    whose own defaults apply to a call that does not start from table options.
    """

    retain_min: int = 1
    retain_max: int = INT_MAX
    time_retained_ms: int | None = None
    """A changelog is old if it was committed longer ago than this; `None`: no changelog expires by age alone."""
    limit: int = INT_MAX
