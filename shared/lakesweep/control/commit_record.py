"""What a table's lease remembers of the last commit that Lakesweep made to a branch.

It rides in the lease document, so it costs no request of its own. A commit writes it as `publishing` when it takes the
lease, before the snapshot, and as `published` when it releases the lease. Other runs carry it on unchanged. The next
commit compares it with the table, and so notices that another writer replaced the snapshot.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from lakesweep.errors import FormatError
from lakesweep.format.codec import is_count, is_id


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The last commit of Lakesweep to one branch."""

    id: int
    """Of the snapshot."""
    uuid: str
    run_id: str
    state: Literal["publishing", "published"]
    """`publishing`: the run died, or could not find out whether the snapshot exists."""

    def to_json(self) -> dict[str, object]:
        """Return its form in the lease."""
        return asdict(self)


def commits_of(value: object, path: str) -> dict[str, CommitRecord]:
    """Return branch -> last commit, empty when there is none.

    Args:
        value: As the lease document has it.
        path: Of that document, for messages.

    Raises:
        FormatError: It is no such table.
    """
    if value is None:  # older leases have none
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"{path}: expected commits by branch, found {type(value).__name__}")
    return {str(branch): _record_of(record, path) for branch, record in value.items()}


def _record_of(value: object, path: str) -> CommitRecord:
    document: Mapping[str, object] = value if isinstance(value, dict) else {}
    snapshot_id, uuid, run_id, state = (document.get(key) for key in ("id", "uuid", "run_id", "state"))
    if not (is_count(snapshot_id) and isinstance(uuid, str) and is_id(run_id)):
        raise FormatError(f"{path}: expected a commit with id, uuid, run_id and state")
    if state != "publishing" and state != "published":
        raise FormatError(f"{path}: expected a commit that is publishing or published, found {str(state)[:100]!r}")
    return CommitRecord(snapshot_id, uuid, run_id, state)
