"""Rules about tags as values: when they are made, and which of them are kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Literal

AutoTagMode = Literal["process-time", "watermark", "batch"]
Formatter = Literal["with_dashes", "without_dashes", "without_dashes_and_spaces"]


@dataclass(frozen=True, slots=True)
class AutoTagRules:
    """When a table's tags are made. Source: Paimon `CoreOptions` (`tag.*`), `TagAutoCreation`, `TagBatchCreation`."""

    mode: AutoTagMode
    zone: tzinfo
    """The zone of a snapshot's commit time (or its watermark, for `watermark`)."""
    period: timedelta = timedelta(days=1)
    is_custom_period: bool = False
    """`tag.creation-period-duration` states it, so names contain minutes."""
    formatter: Formatter = "with_dashes"
    delay: timedelta = timedelta(0)
    completion: bool = False
    """A missed period gets its tag from a later snapshot."""
    max_count: int | None = None
    time_retained_ms: int | None = None
    batch_name: str | None = None


@dataclass(frozen=True, slots=True)
class KeepRules:
    """Calendar rules that decide which tags are kept. They do not affect tags whose names do not match the pattern."""

    pattern: str
    """Pattern of names, with `*` and `?` as in a shell."""
    last: int | None = None
    within_ms: int | None = None
    daily: int | None = None
    weekly: int | None = None
    monthly: int | None = None
    yearly: int | None = None
    tags: tuple[str, ...] = ()
    """Patterns of names that are always kept."""

    def to_json(self) -> Mapping[str, object]:
        """Return the rules as plans and policies print them."""
        given = {
            "pattern": self.pattern,
            "keep_last": self.last,
            "keep_within_ms": self.within_ms,
            "keep_daily": self.daily,
            "keep_weekly": self.weekly,
            "keep_monthly": self.monthly,
            "keep_yearly": self.yearly,
            "keep_tags": list(self.tags) or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TagFacts:
    """The facts about one tag of a branch."""

    name: str
    snapshot_id: int
    commit_ms: int
    """When its snapshot was committed, epoch milliseconds."""
    modified_ms: int
    """When the tag's document was written, by the store's clock."""
    create_time: datetime | None = None
    """By its creator's clock, without a zone; `None`: the document does not state it."""
    time_retained_ns: int | None = None
