"""The part of a report about an erasure: what was done to the table, and where the rows still are."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakesweep.model.commits.report import CommitsReport
from lakesweep.model.erasure.places import ErasedFiles, Place

ROWS_REMAIN = "rows_remain"
"""Code of a run after which some place still has the rows."""
ROWS_UNKNOWN = "rows_unknown"
"""Code of a run after which no place certainly has the rows, and some place may have them."""
NEVER_SEEN = "event_log"
"""A kind of place that no run can look at. It is told of, and keeps no erasure from its end."""
REMAINS = frozenset({ROWS_REMAIN, ROWS_UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport(CommitsReport):
    """What an erasure does, or would do, and every place where the rows can be then, or are now."""

    erasure: str | None = None
    """The id of its record; `None`: nothing was recorded."""
    condition: str = ""
    """What the condition looks at, without its values."""
    zone: str | None = None
    """The zone of times in the condition; `None`: it has none that depend on one."""
    rows: int = 0
    """Rows that leave the newest version."""
    erased: ErasedFiles = field(default_factory=lambda: ErasedFiles(0))
    places: tuple[Place, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        erased = self.erased
        return {
            "erasure": self.erasure,
            "condition": self.condition,
            "time_zone": self.zone,
            "rows": self.rows,
            "erased_files": {
                "files": len(erased.holds),
                "may_be": len(erased.may_hold),
                "searched": erased.searched_files,
                "unread": list(erased.unread),
            },
            **counted(self.places),
            "places": [place.to_json() for place in self.places],
            **CommitsReport.to_json(self),
        }


def counted(places: Iterable[Place]) -> dict[str, object]:
    """Return how many places are in each state, and until when age alone lets the last of them go."""
    found = tuple(places)
    there = [place for place in found if place.state == "there"]
    untils = [place.until_ms for place in there]
    return {
        **{state: sum(place.state == state for place in found) for state in ("gone", "there", "unknown")},
        "until_ms": max(each for each in untils if each is not None) if untils and None not in untils else None,
    }


def remaining(places: Iterable[Place]) -> str | None:
    """Return the code of what remains; `None`: nothing."""
    states = {place.state for place in places if place.kind != NEVER_SEEN}
    return ROWS_REMAIN if "there" in states else ROWS_UNKNOWN if "unknown" in states else None
