"""What a recheck finds in a table during a branch rewrite, and whether the plan may continue.

A new tag or branch is no reason to stop, since the plan deletes no file. A new commit is a reason to stop until the
plan has finished all snapshots: the plan is removing the history that the commit builds on. Once all snapshots are in
place, a commit on top of the newest one is expected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.errors import StalePlanError
from lakesweep.execute.batches import id_of
from lakesweep.execute.branch_rewrites.progress import (
    LOOSE_KINDS,
    Documents,
    PlanProgress,
    end_id_of,
    moved_branch,
    snapshots_seen,
    sources,
)
from lakesweep.execute.recheck import hint_lags, stale
from lakesweep.model.plan import Action, Delete, Plan, Put, branch_of
from lakesweep.model.roots import BranchListing, RootRef, TableListing
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover


@dataclass(frozen=True, slots=True)
class BranchObservation:
    """What one recheck found."""

    plan: Plan
    listing: TableListing
    progress: PlanProgress

    @property
    def own(self) -> BranchListing:
        """Return the branch that the plan rewrites."""
        name = moved_branch(self.plan.actions)
        return self.listing.branches.get(name) or BranchListing(name)

    @property
    def pending(self) -> tuple[int, ...]:
        """Return the numbers of the actions that are not done."""
        return tuple(n for n in range(len(self.plan.actions)) if n not in self.progress.done)

    def new_roots(self) -> tuple[RootRef, ...]:
        """Return the roots of the branch that somebody else has written since the plan was made."""
        planned = {action.path for action in self.plan.actions}
        seen = self.plan.header.roots_seen
        return tuple(
            ref
            for ref in self.own.roots()
            if ref.path in self.progress.foreign or (ref.path not in planned and seen.get(ref.path) != ref.etag)
        )

    def new_branches(self) -> tuple[str, ...]:
        """Return the branches that were made after the plan, from snapshots that the plan deletes."""
        if self.own.name != self.plan.header.branch:
            return ()  # the plan looked at no other branch
        known = {branch_of(path) for path in self.plan.header.roots_seen} | {self.own.name}
        takes = {id_of(action.path) for action in self.plan.deletes if action.kind == "snapshot"}
        return tuple(
            name
            for name, branch in self.listing.branches.items()
            if name not in known and any(ref.id in takes for ref in branch.snapshots)
        )

    def foreign_ids(self) -> tuple[int, ...]:
        """Return the ids of snapshots that somebody else has written, ascending."""
        return tuple(sorted(ref.id for ref in self.new_roots() if ref.kind == "snapshot"))

    @property
    def end_id(self) -> int | None:
        """Return the id of the newest snapshot in the target, `None` when the target has no snapshot."""
        return end_id_of(self.plan)

    def is_expired(self) -> bool:
        """Tell whether the branch lost snapshots that the plan did not delete: somebody may be deleting files as well.

        The plan deletes the newest snapshot first. So it did not delete a snapshot below one that it has yet to delete.
        """
        takes = [n for n, each in enumerate(self.plan.actions) if each.kind == "snapshot" and isinstance(each, Delete)]
        gone = [self.plan.actions[number].path not in self.progress.etags for number in takes]
        if gone != sorted(gone, reverse=True):
            return True
        there = {ref.path for ref in self.own.snapshots}
        last = {action.path: action for action in self.plan.actions}
        written = {
            action.path
            for number, action in enumerate(self.plan.actions)
            if number in self.progress.done and last[action.path] is action and isinstance(action, Put)
        }
        expected = {path for path in written | self.progress.missing if last[path].kind == "snapshot"}
        return not there.issuperset(expected | (snapshots_seen(self.plan) - last.keys()))

    def has_moved_on(self) -> bool:
        """Tell whether the branch reached the target, and others have since removed or replaced the target.

        This happens when an earlier run finished all snapshots and died before it could record that. A deleted branch
        may have been created again since.
        """
        end_id, there = self.end_id, {ref.id: ref for ref in self.own.snapshots}
        present = {ref.path for ref in self.own.snapshots}
        snapshots = (n for n in self.pending if self.plan.actions[n].kind == "snapshot")
        left = [number for number in snapshots if self.plan.actions[number].path in present]
        if end_id is None:  # others may have written one tag again while the plan had more to delete
            return bool(self.progress.returned) and max(left, default=-1) < max(self.progress.done, default=-1)
        if not there or left:
            return False
        if end_id not in there:
            return max(there) > end_id or not self._has_snapshots_to_write()
        # Where the plan itself writes that snapshot, others may just as well have written theirs before it.
        return there[end_id] in self.new_roots() and not self._writes(there[end_id].path)

    def _writes(self, path: str) -> bool:
        return any(isinstance(action, Put) and action.path == path for action in self.plan.actions)

    def _has_snapshots_to_write(self) -> bool:
        actions = (self.plan.actions[number] for number in self.pending)
        return any(isinstance(action, Put) and action.kind == "snapshot" for action in actions)

    def is_arrived(self) -> bool:
        """Tell whether the newest snapshots are the target's, with nothing but commits of others on top of them.

        A snapshot to delete may still lie above a hole in the ids. Readers that follow LATEST do not see it until
        commits reach its id. If the plan stopped there, that snapshot would then hide the commits.
        """
        end_id, foreign = self.end_id, self.foreign_ids()
        if end_id is None:
            return not foreign
        for action in (self.plan.actions[number] for number in self.pending):
            if action.kind == "snapshot" and isinstance(action, Delete):
                if not foreign or id_of(action.path) <= foreign[-1]:
                    return False
            elif action.kind == "snapshot" and id_of(action.path) == end_id:
                return False
        there = {ref.id for ref in self.own.snapshots}
        return end_id in there and foreign == tuple(range(end_id + 1, end_id + 1 + len(foreign)))

    def check(self) -> None:
        """Make sure that the plan may continue.

        Raises:
            StalePlanError: It may not.
        """
        new_roots = self.new_roots()
        if not self.is_arrived():
            for ref in new_roots:
                if ref.kind == "snapshot":
                    raise self._stale(f"{ref.path} was written by somebody else")
        for path in self.progress.foreign:
            action = next(a for a in self.plan.actions if a.path == path)
            if action.kind not in (*LOOSE_KINDS, "snapshot") and not self.may_stay(action):
                raise self._stale(f"{path} is another document than when the plan was made")
        for path in self.progress.missing:
            if not path.endswith(("/LATEST", "/EARLIEST")):
                raise self._stale(f"{path} is gone")
        self._check_kept()
        end_id = self.end_id
        late = [ref for ref in new_roots if ref.kind == "changelog" and (end_id is None or ref.id > end_id)]
        if late:
            raise self._stale(f"{late[0].path} was written by somebody else")
        written = (*(ref.path for ref in new_roots), *sorted(self.progress.returned))
        if end_id is None and written:
            raise self._stale(f"{written[0]} was written by somebody else")

    def may_stay(self, action: Action) -> bool:
        """Tell whether a document of somebody else may be kept where the plan deletes one.

        That holds for tags alone, and not where the target has no snapshot.
        """
        return action.kind == "tag" and isinstance(action, Delete) and self.end_id is not None

    def _check_kept(self) -> None:
        """Make sure that the roots that the plan copies exist, and the snapshot that is to be the newest."""
        present = self.listing.etags()
        for path, etag in sources(self.plan).items():
            if present.get(path) != etag:
                raise self._stale(f"{path}, which the plan copies, {_what_became(path in present)}")
        planned = {action.path for action in self.plan.actions}
        end_id, seen = self.end_id, self.plan.header.roots_seen
        for path in snapshots_seen(self.plan) - planned:
            if id_of(path) == end_id and present.get(path) != seen[path]:
                raise self._stale(f"{path}, which is to be the newest snapshot, {_what_became(path in present)}")

    def check_untouched(self, store: Store) -> None:
        """Make sure that the branch is unchanged since the plan was made, and that no rollback seems to have begun.

        Raises:
            StalePlanError: It has changed, or a rollback may have begun.
        """
        header = self.plan.header
        self.check()
        names = {self.own.name, str(header.arguments.get("branch", self.own.name))}
        present = {ref.path: ref.etag for name in names & self.listing.branches.keys() for ref in self._roots(name)}
        seen = {path: etag for path, etag in header.roots_seen.items() if branch_of(path) in names}
        hint = seen.pop(next((path for path in seen if path.endswith("snapshot/LATEST")), ""), None)
        for path in sorted(present.keys() | seen.keys()):
            if present.get(path) != seen.get(path):
                raise self._stale(f"{path} {_what_became(path in present, path in seen)}")
        latest = self.own.hints.get("snapshot/LATEST")
        if hint is not None and (latest is None or latest.etag != hint):
            raise self._stale("LATEST was written by somebody else")
        if self.own.snapshots and hint_lags(store, self.own):
            raise self._stale("LATEST names an older snapshot than the newest, so a rollback may have begun")
        done = [self.plan.actions[n] for n in sorted(self.progress.done)]
        there = [action for action in done if action.kind not in LOOSE_KINDS]
        if there:
            raise self._stale(f"{there[-1].path} already is as the plan would make it")

    def _roots(self, branch: str) -> Sequence[RootRef]:
        return tuple(self.listing.branches[branch].roots())

    def _stale(self, what: str) -> StalePlanError:
        return stale(self.plan.header, what)


def observe(documents: Documents) -> BranchObservation:
    """List the table's documents and determine which actions of the plan are done.

    Raises:
        StorageError: A request failed.
    """
    listing = discover(documents.store)
    present = listing.etags()
    for branch in listing.branches.values():
        for ref in (*branch.consumers, *branch.schemas, *branch.hints.values()):
            present[ref.path] = ref.etag
    return BranchObservation(documents.plan, listing, documents.progress(present))


def _what_became(is_there: bool, was_there: bool = True) -> str:
    if not is_there:
        return "is gone"
    return "is another document by now" if was_there else "was written by somebody else"
