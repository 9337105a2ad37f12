"""The settings of a bucket that decide about deleted objects: versions, and what its lifecycle deletes or moves."""

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


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """What a bucket does with objects by itself."""

    bucket: str
    prefix: str
    """Of the store in it, with a closing slash; empty: the whole bucket."""
    versioning: Versioning
    rules: tuple[LifecycleRule, ...]
