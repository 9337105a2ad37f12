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
from lakesweep.model.commits.seen import SeenSnapshot


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The last commit of Lakesweep to one branch."""

    id: int
    """Of the snapshot."""
    uuid: str
    run_id: str
    state: Literal["publishing", "published"]
    """`publishing`: the run died, or could not find out whether the snapshot exists."""
    number: int = 0
    """A number derived from the ETag of the snapshot; 0: the store did not answer it."""
    modified_ms: int = 0
    """When the snapshot was written, by the store's clock; 0: not known."""
    replaced: tuple[int, ...] = ()
    """The same numbers of snapshots of this run that were replaced, and committed again: they have been told."""
    marks: tuple[tuple[int, str], ...] = ()
    """Ids and uuids of the last snapshots at which a compaction had compared all deletion vectors with earlier ones,
    the newest first. Commits that do not compare them carry this on."""

    def to_json(self) -> dict[str, object]:
        """Return its form in the lease, without what is not known."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def seen(self) -> SeenSnapshot:
        """Return the snapshot as it was published."""
        return SeenSnapshot(self.id, self.number, self.modified_ms, uuid=self.uuid, is_ours=True)


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
    number, modified_ms = (value if is_count(value := document.get(key)) else 0 for key in ("number", "modified_ms"))
    replaced = document.get("replaced")
    numbers = tuple(filter(is_count, replaced)) if isinstance(replaced, list) else ()
    return CommitRecord(snapshot_id, uuid, run_id, state, number, modified_ms, numbers, _marks_of(document, path))


def _marks_of(document: Mapping[str, object], path: str) -> tuple[tuple[int, str], ...]:
    found = document.get("marks", [])  # older leases have none
    if not isinstance(found, list) or not all(map(_is_mark, found)):
        raise FormatError(
            f"{path}: expected a commit whose marks are pairs of a snapshot id and a uuid, found {str(found)[:100]!r}"
        )
    return tuple((number, uuid) for number, uuid in found)


def _is_mark(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and is_count(value[0]) and isinstance(value[1], str)
