"""How long a root is kept: one clause, and a time if one is known."""

from dataclasses import dataclass
from datetime import UTC, tzinfo

from lakesweep.format.tag import Tag
from lakesweep.format.values.zone import latest_ms
from lakesweep.operations.tags.rules.expiry import NO_END, end_of_life
from lakesweep.runs.parameters.times import say_time


@dataclass(frozen=True, slots=True)
class Until:
    """How long a root is kept."""

    says: str
    """Follows "it stays": one clause, without a full stop."""
    at_ms: int | None = None
    """The time in the clause: after it, age alone would let the root expire."""
    is_due: bool = False
    """No rule keeps it: the next expiry deletes it, unless the fleet policy stops that expiry."""
    is_later: bool = False
    """It is due, but beyond the number that one expiry deletes."""
    is_held: bool = False
    """Only a consumer keeps it."""


NO_EXPIRY = Until("until the tag is deleted manually, since tag.time-expire-enabled is false")


def of_time_to_live(tag: Tag, zone: tzinfo | None, now_ms: int) -> Until:
    """Return how long a tag is kept by its time to live, read in a time zone."""
    if tag.time_retained_ns is None or tag.create_time is None:
        return Until("until the tag is deleted: it has no time to live")
    end = end_of_life(tag.create_time, tag.time_retained_ns, zone)
    if end >= NO_END:
        return Until("until the tag is deleted: its time to live ends beyond every calendar")
    end_ms = latest_ms(end, zone or UTC)
    if now_ms > end_ms:
        return Until("until the next expiry of tags, since its time to live is over", end_ms, is_due=True)
    of_zone = "26 h later than in UTC, since no time zone is declared" if zone is None else f"in {zone}"
    return Until(f"until {say_time(end_ms)}, when its time to live is over ({of_zone})", end_ms)
