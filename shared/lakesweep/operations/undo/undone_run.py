"""The run to undo: what its plan did at each path, and which of its results remain.

Some documents decide nothing, and may have changed since: hints, consumers, and documents that no listing of roots
shows. Every other document must be as the run left it or as it was before. Otherwise the run cannot be undone.

Changes by time are allowed: old snapshots may have expired, and tags may have been made. A commit is not allowed, since
the undo would delete the snapshot below it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from lakesweep.errors import ObjectNotFoundError, RefusedError, StorageError
from lakesweep.execute.batches import id_of
from lakesweep.execute.branch_rewrites.progress import LOOSE_KINDS, moved_branch, snapshots_seen
from lakesweep.model.plan import Action, Delete, Plan, to_text
from lakesweep.model.roots import RootRef, branch_dir
from lakesweep.operations.branches.names import EXISTS, check_unused, list_branch
from lakesweep.operations.undo.rules import Current
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

_COMMITTED = "committed_since"


@dataclass(frozen=True, slots=True)
class Place:
    """What the plan did at one path."""

    kind: str
    before: str | None
    """The document before the plan, `None` for none."""
    after: str | None
    """The document after the plan, `None` for none."""


@dataclass(frozen=True, slots=True)
class UndoneRun:
    """A branch rewrite that was executed completely."""

    plan: Plan
    run_id: str
    places: Mapping[str, Place]
    """By path."""

    @property
    def branch(self) -> str:
        """Return the branch that it rewrote."""
        return moved_branch(self.plan.actions)

    @property
    def is_of_another_branch(self) -> bool:
        """Tell whether it created or deleted a branch, so that the branch of its plan did not change."""
        return self.branch != self.plan.header.branch

    @property
    def has_made_branch(self) -> bool:
        """Tell whether it created its branch."""
        return self.is_of_another_branch and all(place.before is None for place in self.places.values())

    def refusal(self, code: str, what: str) -> RefusedError:
        """Return the error for a run that cannot be undone."""
        return RefusedError(
            f"table {self.plan.header.table}, branch {self.branch}: run {self.run_id} cannot be undone: {what}",
            code=code,
        )


def places_of(actions: Iterable[Action]) -> dict[str, Place]:
    """Return path -> the combined effect of a plan's actions."""
    found: dict[str, Place] = {}
    for action in actions:
        after = None if isinstance(action, Delete) else action.body
        if action.path in found:
            found[action.path] = replace(found[action.path], after=after)
        else:
            found[action.path] = Place(action.kind, action.body if isinstance(action, Delete) else action.former, after)
    return found


def read_current(store: Store, paths: Iterable[str]) -> dict[str, Current]:
    """Return path -> the present document, for all paths that have one.

    Raises:
        StorageError: A request failed.
    """
    found: dict[str, Current] = {}
    with closing(read_many(store, tuple(paths), max_bytes=MAX_DOCUMENT_BYTES)) as bodies:
        for path, body in bodies:
            if isinstance(body, ObjectNotFoundError):
                continue
            if isinstance(body, StorageError):
                raise body
            found[path] = Current(to_text(body.data), body.etag)
    return found


def actions_in_force(run: UndoneRun, current: Mapping[str, Current]) -> tuple[Action, ...]:
    """Return the actions to take back; none if every document that decides something is as it was before.

    Args:
        run: The run to undo.
        current: The present documents at its paths.

    Raises:
        RefusedError: A document is neither as the run left it nor as it was before.
    """
    back = frozenset(_back(run, current))
    actions = tuple(action for action in run.plan.actions if action.path not in back)
    kinds = {place.kind for place in run.places.values()}
    deciding = kinds - LOOSE_KINDS or kinds - {"hint"}
    return actions if any(action.kind in deciding for action in actions) else ()


def _back(run: UndoneRun, current: Mapping[str, Current]) -> Iterator[str]:
    """Yield the paths at which nothing must be taken back."""
    for path, place in run.places.items():
        now = current[path].body if path in current else None
        if place.kind in LOOSE_KINDS:
            if place.kind != "hint" and now is not None and place.after is None:
                yield path  # another program has written a new document
        elif now == place.before:
            yield path
        elif now != place.after:
            raise _changed(run, path, place, is_there=now is not None)


def _changed(run: UndoneRun, path: str, place: Place, *, is_there: bool) -> RefusedError:
    if not is_there:
        return run.refusal("later_run", f"{path}, which it wrote, no longer exists. Undo the run that deleted it first")
    was = "none there" if place.after is None else "the one that it wrote"
    if place.kind == "tag":
        return run.refusal("tag_exists", f"{path} is another tag now; expected {was}")
    became = "was written since" if place.after is None else "is another document now"
    return run.refusal("id_reused", f"{path} {became}; expected {was}")


def check_observation(run: UndoneRun, table: Table, view: TableView) -> None:
    """Make sure that nothing builds on a run's result, and that this result still exists.

    Args:
        run: The run to undo.
        table: The branch of its plan, with a store without a cache.
        view: The same branch as it is now.

    Raises:
        RefusedError: `committed_since`, `rolled_back`, `later_run`, `id_reused`, `branch_exists` or `branch_in_use`.
        StalePlanError: A document vanished since it was listed.
        StorageError: A request failed.
    """
    if run.is_of_another_branch:
        _check_folder(run, table, view)
    else:
        _check_history(run, view)


def _check_history(run: UndoneRun, view: TableView) -> None:
    """Make sure that the newest snapshot is the one that the run left, with the same id and content."""
    last = max(snapshots_seen(run.plan) - run.places.keys(), key=id_of, default=None)
    snapshots = view.own.snapshots
    for ref in snapshots:
        if ref.path not in run.places and (last is None or ref.id > id_of(last)):
            raise run.refusal(_COMMITTED, f"{ref.path} was committed since; expected no commit")
    if last is None:
        return
    found = next((ref for ref in snapshots if ref.path == last), None)
    if found is None:
        code = "rolled_back" if all(ref.id < id_of(last) for ref in snapshots) else "later_run"
        raise run.refusal(
            code, f"{last}, the newest snapshot after that run, no longer exists. Undo the run that deleted it first"
        )
    written = [id_of(path) for path, place in run.places.items() if place.kind == "snapshot" and place.after]
    if max(written, default=-1) < found.id and not _is_same(run, view, found):
        raise run.refusal("id_reused", f"{last}, the newest snapshot after that run, has other content now")


def _is_same(run: UndoneRun, view: TableView, ref: RootRef) -> bool:
    """Tell whether a snapshot is the one that the plan saw. Its ETag changes if it was deleted and written again."""
    header = run.plan.header
    if header.roots_seen[ref.path] == ref.etag:
        return True
    target = header.steering.target
    (root,) = view.own_documents([ref])
    return target is not None and (target.snapshot, target.time_ms) == (ref.id, root.snapshot.time_ms)


def _check_folder(run: UndoneRun, table: Table, view: TableView) -> None:
    """Make sure that a branch's folder has only objects that the run wrote."""
    found = list_branch(table, run.branch)
    strange = [entry.key for entry in found.objects if entry.key not in run.places and entry.key[-1] != "/"]
    if strange or found.others:
        strange.sort(key=lambda path: "/snapshot-" not in path)  # a commit says more than its hint, so it comes first
        what = (strange or [branch_dir(name) for name in found.others])[0]
        raise run.refusal(
            _COMMITTED if run.has_made_branch else EXISTS,
            f"{what} was written since; expected nothing in the branch that the run did not write",
        )
    if run.has_made_branch:
        check_unused(table, view.listing, run.branch)
