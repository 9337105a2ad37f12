"""The part of a report about commits: the snapshots that a run committed.

Each operation that commits adds what it alone says.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MadeCommit:
    """One snapshot that this run committed."""

    snapshot_id: int
    uuid: str
    """The snapshot's own id. Another snapshot may get the same number after a rollback, but never the same uuid."""
    partitions: int = 0
    """How many partitions the commit takes out of the table."""
    rows: int = 0
    files: int = 0
    """Data files that the commit takes out of the table."""
    bytes: int = 0
    attempts: int = 1
    """How many times the commit was prepared: more than once if other writers committed first."""
    replaced: int = 0
    """How many snapshots of this run another writer overwrote. Each was committed again."""

    def to_json(self) -> dict[str, object]:
        """Return the commit as it appears under `commits`."""
        return {
            "snapshot_id": self.snapshot_id,
            "uuid": self.uuid,
            "partitions": self.partitions,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "attempts": self.attempts,
            "replaced": self.replaced,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsReport:
    """What a run commits, or would commit."""

    made: tuple[MadeCommit, ...] = ()
    """The commits of this run, in order; none for a dry run."""
    catalog: str | None = None
    """The declared type of the catalog; `None`: not declared."""
    replaced: int = 0
    """How many snapshots of Lakesweep other writers overwrote, beside those that the commits of this run say."""

    @property
    def is_damaged(self) -> bool:
        """What was committed cannot be read as a whole."""
        return False

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        return {"made": [commit.to_json() for commit in self.made], "catalog": self.catalog}
