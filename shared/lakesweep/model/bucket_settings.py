"""The settings of a bucket that decide about deleted objects: versions, and what its lifecycle deletes or moves."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Versioning = Literal["on", "suspended", "off"]


@dataclass(frozen=True, slots=True)
class LifecycleRule:
    """One enabled rule. `None`: the rule does not do this."""

    id: str
    prefix: str
    """Keys that begin with this; empty: all."""
    is_narrowed: bool = False
    """It has a condition beside the prefix (tags, sizes), so it may concern fewer objects."""
    expires: str | None = None
    """When it deletes current objects, in words: `30 days after they were written`, or on a date."""
    noncurrent_days: int | None = None
    """After how many days it removes versions that are not current."""
    archives: str | None = None
    """The storage class to which it moves current objects, if they must be restored before they can be read."""

    def concerns(self, prefix: str) -> bool:
        """Tell whether it may be about objects below a prefix: of all of them, or of some."""
        return prefix.startswith(self.prefix) or self.prefix.startswith(prefix)


def noncurrent_days_of(rules: Iterable[LifecycleRule], prefix: str) -> int | None:
    """Return the fewest days after which a rule removes replaced or deleted objects below `prefix`; `None`: no rule.

    A rule may be limited to some objects (by tags, by size, to a subfolder). It counts as a rule for all of them, so
    the answer may be too early and is never too late.
    """
    days = [each.noncurrent_days for each in rules if each.noncurrent_days is not None and each.concerns(prefix)]
    return min(days, default=None)


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """What a bucket does with objects by itself."""

    bucket: str
    prefix: str
    """Of the store in it, with a closing slash; empty: the whole bucket."""
    versioning: Versioning
    rules: tuple[LifecycleRule, ...]
