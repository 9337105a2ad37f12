"""Compensate a stale plan while only documents are deleted.

The documents return, except where a rollback has left them behind or somebody else may have touched their files. A
changelog that was written in place of a snapshot is deleted where its snapshot exists. When a tag was being renamed,
one of its two names is kept.
"""

from dataclasses import dataclass, field

from lakesweep.errors import PreconditionFailedError
from lakesweep.execute.batches import DOCUMENT_PHASE, TAG_PHASE, id_of, removed_roots, root_id_of
from lakesweep.format.tag import parse_tag
from lakesweep.model.plan import Delete, Plan, Put, to_bytes
from lakesweep.model.roots import BranchListing, base_name, branch_dir
from lakesweep.storage.store import DeleteRequest, Store
from lakesweep.table.discover import ROOT_FOLDERS, discover
from lakesweep.table.documents import read_hint


@dataclass(slots=True)
class Progress:
    """How far this run and earlier ones have carried out a plan."""

    others_were_here: bool
    """Others may have deleted files that the documents need: they had time, or documents were gone already."""
    documents_gone: bool = False
    data_begun: bool = False
    removed: set[str] = field(default_factory=set)
    """Documents that runs of this plan deleted, and nobody else."""
    written: dict[str, str] = field(default_factory=dict)
    """Path -> ETag of each document that this run wrote."""


class Compensation:
    """Reverts the first part of an execution."""

    def __init__(self, table: Store, plan: Plan, saw_latest: bool, progress: Progress) -> None:
        """Begin with the progress so far.

        Args:
            table: The table's store.
            plan: The plan to compensate.
            saw_latest: LATEST existed at some time since the plan was made.
            progress: The part of the plan that is done.
        """
        self._table = table
        self._plan = plan
        self._saw_latest = saw_latest
        self._progress = progress

    def may_restore(self) -> bool:
        """Tell whether the deleted documents still have all their files.

        That is certain if no file was deleted and no other maintainer was here. Otherwise another run or Paimon may
        have expired further, and deleted files that only its own snapshots and these shared. Then documents return only
        for a rollback that has left no other snapshot, or is about to.

        Documents do not return either if LATEST was removed. A fast-forward or the deletion of a branch begins in this
        way, and both discard the former documents.
        """
        if self._progress.data_begun or (self._saw_latest and self._newest() is None):
            return False
        own = discover(self._table, ROOT_FOLDERS).branches.get(self._plan.header.branch)
        if own is None or not own.snapshots:
            return True
        if not self._progress.others_were_here and not self._was_expired_further(own):
            return True
        newest = self._newest()
        return newest is not None and newest < own.snapshots[0].id

    def documents(self) -> tuple[Delete, ...]:
        """Put documents back unless the table has left them behind, and return the restored ones.

        A rollback may have begun between the recheck and the deletion of its target. It has written LATEST first, so
        documents up to that id are put back and later ones are not. A tag that has its new name by now is not missing.
        """
        newest = self._newest()
        documents = [d for d in removed_roots(self._plan.actions) if d.path in self._progress.removed]
        restored = []
        for delete in documents if not self._moved() else ():
            root_id = root_id_of(delete)
            if delete.body and root_id is not None and (newest is None or root_id <= newest):
                try:
                    self._table.put(delete.path, to_bytes(delete.body), if_absent=True)
                except PreconditionFailedError:
                    continue  # it was never deleted, or another document took its id
                restored.append(delete)
        if restored and restored[0].phase == DOCUMENT_PHASE:
            first = restored[0].path
            self._table.put(f"{first.removesuffix(base_name(first))}EARLIEST", str(id_of(first)).encode())
        return tuple(restored)

    def moved_tags(self) -> None:
        """Delete renamed tags that this run wrote, where the old name is kept or a rollback has left the tag behind.

        Tags that somebody else has written since are kept.
        """
        mine = [put for put in self._moved() if put.path in self._progress.written]
        if not mine:
            return
        newest = self._newest()
        going = [
            put for put in mine if not self._progress.documents_gone or (newest is not None and _tag_id(put) > newest)
        ]
        self._table.delete([DeleteRequest(put.path, self._progress.written[put.path]) for put in going])

    def _moved(self) -> tuple[Put, ...]:
        return tuple(action for action in self._plan.actions if isinstance(action, Put) and action.phase == TAG_PHASE)

    def changelogs(self) -> None:
        """Delete changelogs that this run wrote, where the snapshot still exists or a rollback has left it behind.

        Changelogs from before this run are kept, and so are changelogs that somebody else has written since.
        """
        changelogs = {action.path for action in self._plan.actions if action.kind == "changelog_document"}
        mine = [
            path for path in self._progress.written if path in changelogs and path not in self._plan.header.roots_seen
        ]
        if not mine:
            return
        table, newest = self._table, self._newest()
        own = discover(table, ROOT_FOLDERS).branches[self._plan.header.branch]
        there = {ref.id for ref in own.snapshots}
        going = [path for path in mine if id_of(path) in there or (newest is not None and id_of(path) > newest)]
        results = table.delete([DeleteRequest(path, self._progress.written[path]) for path in going])
        gone = {result.key for result in results if result.ok}
        hint = f"{branch_dir(own.name)}changelog/LATEST"
        staying = [ref.id for ref in own.changelogs if ref.path not in gone]
        if staying:
            table.put(hint, str(staying[-1]).encode())
        else:
            table.delete([DeleteRequest(hint)])

    def _was_expired_further(self, own: BranchListing) -> bool:
        """Tell whether others have deleted the first document that the plan keeps, while later ones exist.

        A rollback would have deleted the later ones first.
        """
        if any(delete.phase == TAG_PHASE for delete in self._plan.deletes):
            return self._lost_roots()
        end_id = self._plan.header.end_id
        documents = {delete.kind for delete in self._plan.deletes if delete.phase == DOCUMENT_PHASE}
        ids = {ref.id for ref in (own.snapshots if "snapshot" in documents else own.changelogs)}
        return end_id is not None and end_id not in ids and any(there > end_id for there in ids)

    def _lost_roots(self) -> bool:
        """Tell whether roots are gone that neither this plan nor a rollback deleted: files may be gone, too."""
        newest = self._newest()
        present = {ref.path for ref in discover(self._table, ROOT_FOLDERS).roots()}
        own = tuple(f"{branch_dir(self._plan.header.branch)}{kind}/{kind}-" for kind in ("snapshot", "changelog"))
        latest = f"{branch_dir(self._plan.header.branch)}snapshot/LATEST"
        lost = self._plan.header.roots_seen.keys() - present - self._progress.removed - {latest}
        return any(not (newest is not None and path.startswith(own) and id_of(path) > newest) for path in lost)

    def _newest(self) -> int | None:
        return read_hint(self._table, f"{branch_dir(self._plan.header.branch)}snapshot/LATEST")


def _tag_id(put: Put) -> int:
    return parse_tag(to_bytes(put.body), put.path).snapshot.id
