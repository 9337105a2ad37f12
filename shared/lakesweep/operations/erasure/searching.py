"""Search for the data files with the rows, and again after other writers have committed."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakesweep.model.erasure.places import ErasedFiles
from lakesweep.model.roots import Root
from lakesweep.model.where.where import Where
from lakesweep.operations.erasure.places.tainted import tainted_files
from lakesweep.operations.rows.engine import RowsEngine
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_each_root


@dataclass(slots=True)
class Searching:
    """All searches of one run."""

    engine: RowsEngine
    where: Where
    found: ErasedFiles | None
    """What was found so far, also by earlier runs."""
    _known: frozenset[tuple[str, str | None]] = field(default_factory=frozenset)
    """Path and ETag of each root that was searched."""

    def search(self, view: TableView, ours: Iterable[str] = ()) -> bool:
        """Search all roots, if there are some that nobody has searched, and tell whether new files were found.

        Args:
            view: The table, with all of its roots.
            ours: The uuids of snapshots that this run has committed. They add no row.

        Raises:
            MaintenanceError: As `tainted_files`.
        """
        refs = {(ref.path, ref.etag): ref for ref in view.listing.roots()}
        fresh = [refs[key] for key in refs.keys() - self._known]
        documents = read_each_root(view.table.store, fresh) if self._known else {}
        uuids = frozenset(ours)
        known = self._known
        self._known = frozenset(refs)
        if known and all(_is_one_of(documents.get(ref.path), uuids) for ref in fresh):
            return False
        more = tainted_files(view, self.where, self.engine, None if known or self.found is None else self.found.marks)
        before, self.found = self.found, more if self.found is None else self.found | more
        return before is None or self.found.names != before.names

    @property
    def erased(self) -> ErasedFiles:
        """What was found, after at least one search."""
        assert self.found is not None
        return self.found


def _is_one_of(root: object, uuids: frozenset[str]) -> bool:
    return isinstance(root, Root) and root.snapshot.uuid in uuids
