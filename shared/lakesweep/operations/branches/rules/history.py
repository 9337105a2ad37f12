"""The documents of a branch, for whoever compares two branches."""

from dataclasses import dataclass

from lakesweep.model.roots import DocumentRef, Root

LATEST = "snapshot/LATEST"
EARLIEST = "snapshot/EARLIEST"


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """One stored schema."""

    ref: DocumentRef
    body: bytes

    @property
    def id(self) -> int:
        """Return the id from its name."""
        return int(self.ref.name)


@dataclass(frozen=True, slots=True)
class History:
    """The documents of one branch."""

    snapshots: tuple[Root, ...]
    """Ascending by id."""
    tags: tuple[Root, ...]
    changelogs: tuple[Root, ...]
    schemas: tuple[SchemaDocument, ...]
    """Ascending by id."""
    earliest_id: int | None = None
    """The value of its hint EARLIEST."""

    @property
    def first(self) -> Root:
        """Return the first snapshot as Paimon sees it: the hint EARLIEST hides older snapshots."""
        return next((root for root in self.snapshots if root.ref.id == self.earliest_id), self.snapshots[0])
