"""Snapshots as they were once seen: by a listing, in an event, or by the commit that made them.

An id does not identify a snapshot: after a rollback another snapshot may have it, and a writer without a lock may
replace one. The ETag does. What was seen is compared with what is there now (`model/commits/replaced.py`).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from lakesweep.format.codec import Count, Text
from lakesweep.format.snapshot import Snapshot
from lakesweep.model.identity import number_of

MOST_SEEN = 5
"""So many of the newest snapshots of a branch are remembered. A writer that stood still may replace an older one."""
COMMIT_USER = "lakesweep-"
"""The commit users of Lakesweep begin so."""
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """A snapshot as it was once seen."""

    id: Count
    number: Count
    """A number derived from its ETag; 0: not known."""
    modified_ms: Count
    """When the store wrote it; of an event, its time. S3 tells whole seconds. 0: not known."""
    size_bytes: Count = 0
    """0: not known."""
    seen_ms: Count = 0
    """When a listing showed it, by the caller's own clock. 0: an event told it, so it may have been gone by then."""
    uuid: str = ""
    """Empty: the document was not read, or its writer gave it none. The next four come from the document, too."""
    commit_user: str = ""
    commit_kind: str = ""
    time_ms: int = 0
    """The commit time, by the writer's clock."""
    delta_list: str = ""
    """The manifest list of what the commit added and deleted."""
    is_ours: bool = False
    """Lakesweep committed it."""

    may_lack_members: ClassVar[bool] = True

    @property
    def key(self) -> tuple[int, int]:
        """Return what identifies the snapshot within its branch."""
        return self.id, self.number

    def reading(self, snapshot: Snapshot | None) -> "SeenSnapshot":
        """Return it with what its document says."""
        if snapshot is None:
            return self
        return replace(
            self,
            uuid=(snapshot.uuid or "")[:_LONGEST],
            commit_user=snapshot.commit_user[:_LONGEST],
            commit_kind=snapshot.commit_kind[:_LONGEST],
            time_ms=snapshot.time_ms,
            delta_list=snapshot.delta_manifest_list,
            is_ours=self.is_ours or snapshot.commit_user.startswith(COMMIT_USER),
        )


class Announced(NamedTuple):
    """A snapshot that an event announced."""

    id: Count
    etag: Text
    time_ms: Count
    """The time of the event; 0: it has none."""
    size_bytes: Count

    @property
    def seen(self) -> SeenSnapshot:
        """Return it as it was seen."""
        return SeenSnapshot(self.id, number_of(self.etag), self.time_ms, self.size_bytes)
