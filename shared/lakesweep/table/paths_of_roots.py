"""Where readers of a root look for files: the latest schema of its branch determines their paths."""

from collections.abc import Iterable

from lakesweep.errors import MaintenanceError
from lakesweep.model.roots import MAIN, Root, TableListing
from lakesweep.storage.store import Store
from lakesweep.table.documents import read_schema
from lakesweep.table.paths import TablePaths


class PathsOfRoots:
    """The path rules of a table's branches. Each schema is read once."""

    def __init__(self, store: Store, listing: TableListing) -> None:
        self._store = store
        self._branches = listing.branches
        self._known: dict[str, TablePaths | MaintenanceError] = {}

    def of(self, roots: Iterable[Root]) -> tuple[TablePaths, ...]:
        """Return the rules of each branch that has some of the roots.

        Raises:
            MaintenanceError: A schema cannot be read.
        """
        return tuple(self.of_branch(branch) for branch in dict.fromkeys(root.ref.branch for root in roots))

    def of_branch(self, branch: str) -> TablePaths:
        """Return the rules of one branch. A branch without a schema has those of main.

        Raises:
            MaintenanceError: The schema cannot be read.
        """
        if branch not in self._known:
            own = self._branches[branch] if self._branches[branch].schemas else self._branches[MAIN]
            try:
                self._known[branch] = TablePaths(read_schema(self._store, own))
            except MaintenanceError as error:
                self._known[branch] = error
        found = self._known[branch]
        if isinstance(found, MaintenanceError):
            raise found
        return found
