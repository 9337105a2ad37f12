"""How far a branch rewrite has come, derived from the documents in the table.

Lakesweep carries out a branch rewrite one request after another, and compensates it in the opposite order. So at every
moment the first actions are done and the rest is not, whichever runs worked on the plan and wherever they died. The
content of each document shows where this boundary is, so no run has to record its progress.

A document is *foreign* if it is neither the former document nor the plan's: somebody else wrote it since.

The *target* is the state that the branch is to reach. It follows from the plan alone: from the snapshots that the
branch had when the plan was made, and from those that the plan deletes and writes. Later changes do not matter.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from lakesweep.errors import ObjectNotFoundError
from lakesweep.execute.batches import id_of
from lakesweep.model.paths.allowed import LAST_PHASE
from lakesweep.model.plan import Action, Delete, Plan, Put, branch_of, to_bytes
from lakesweep.model.roots import branch_dir
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

UNLISTED_KINDS = frozenset({"tag_success", "branch_document"})
"""Documents that no listing of roots shows. The plan continues whether they exist or not."""
LOOSE_KINDS = UNLISTED_KINDS | {"hint", "consumer"}
"""Documents that others write at any time, and that decide nothing. They are overwritten and deleted without a
condition."""


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """Which actions are done."""

    done: frozenset[int]
    """Numbers of actions, from 0."""
    uncertain: frozenset[int]
    """Numbers of further actions that may be done: no listing shows it."""
    etags: Mapping[str, str]
    """Path -> present ETag, of each document of the plan that exists and is not foreign."""
    foreign: Mapping[str, str]
    """Path -> ETag of documents that somebody else wrote in place of the plan's."""
    missing: frozenset[str]
    """Paths of documents that the plan replaces and somebody else has deleted."""
    returned: frozenset[str]
    """Paths of snapshots and tags that exist although the plan is past their deletion: others wrote them again."""


@dataclass(frozen=True, slots=True)
class _State:
    """The content of one path at some moment of the plan."""

    body: bytes | None
    """`None`: no document."""
    etag: str | None = None
    """ETag of the document before the plan, where the plan knows it."""


@dataclass(slots=True)
class Documents:
    """The documents of a plan, and their known contents in the table."""

    store: Store
    plan: Plan
    bodies: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """(path, ETag) -> the content that was read or written."""
    numbers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Path -> numbers of the actions on it, ascending."""

    def __post_init__(self) -> None:
        for number, action in enumerate(self.plan.actions):
            self.numbers[action.path].append(number)

    def progress(self, present: Mapping[str, str]) -> PlanProgress:
        """Return which actions are done.

        Args:
            present: Path -> ETag of all documents that exist.

        Raises:
            StorageError: A request failed.
        """
        reached = {
            path: self._reached(path, present.get(path))
            for path, numbers in self.numbers.items()
            if self.plan.actions[numbers[0]].kind not in UNLISTED_KINDS
        }
        # A path may have the same content at two moments of the plan. Other paths show how far the plan has come at
        # least.
        evidence = {self._number(path, min(found)) for path, found in reached.items() if found}
        least = max(evidence, default=-1)
        # Others write hints, too, and may write the same content.
        sure = [n for n in evidence if n >= 0 and self.plan.actions[n].kind not in LOOSE_KINDS]
        written = max((n for n in sure if isinstance(self.plan.actions[n], Put)), default=-1)
        done = {number for number in range(least + 1) if self.plan.actions[number].kind in UNLISTED_KINDS}
        foreign: dict[str, str] = {}
        missing: set[str] = set()
        for path, found in reached.items():
            numbers = self.numbers[path]
            fitting = [steps for steps in found if self._number(path, steps) <= least]
            done.update(numbers[: max(fitting) if fitting else min(found, default=0)])
            if path not in present:
                # The plan wrote the document, since it wrote later ones. Others have deleted it since: an expiry. The
                # tags at the very end prove nothing about each other, since others may have made the same tags while
                # the plan was waiting.
                done.update(number for number in numbers if number <= written and not self._is_last_tag(number))
                if not found and numbers[-1] > written:
                    missing.add(path)
            elif not found:
                foreign[path] = present[path]
                # The plan's actions on a foreign document are impossible by now. A hint is simply written again.
                is_loose = self.plan.actions[numbers[0]].kind in LOOSE_KINDS
                done.update(number for number in numbers if not is_loose or number <= least)
        etags = {path: etag for path, etag in present.items() if path in reached and path not in foreign}
        last = max(sure, default=-1)
        returned = {path for path in etags if self._is_taken(path, last) and not done.issuperset(self.numbers[path])}
        return PlanProgress(
            frozenset(done), self._uncertain(least), etags, foreign, frozenset(missing), frozenset(returned)
        )

    def _is_last_tag(self, number: int) -> bool:
        action = self.plan.actions[number]
        return action.kind == "tag" and action.phase == LAST_PHASE

    def _is_taken(self, path: str, least: int) -> bool:
        last = self.plan.actions[self.numbers[path][-1]]
        return last.kind in ("snapshot", "tag") and isinstance(last, Delete) and self.numbers[path][-1] < least

    def _uncertain(self, least: int) -> frozenset[int]:
        rest = range(least + 1, len(self.plan.actions))
        return frozenset(takewhile(lambda number: self.plan.actions[number].kind in UNLISTED_KINDS, rest))

    def body_of(self, path: str, etag: str) -> bytes | None:
        """Return the content of a document, `None` when it vanished or changed."""
        if (path, etag) not in self.bodies:
            try:
                found = self.store.read(path, max_bytes=MAX_DOCUMENT_BYTES)
            except ObjectNotFoundError:
                return None
            self.bodies[path, found.etag] = found.data
        return self.bodies.get((path, etag))

    def before(self, number: int) -> bytes | None:
        """Return the content of an action's path right before the action, `None` for no document."""
        path = self.plan.actions[number].path
        return self._states(path)[self.numbers[path].index(number)].body

    def _number(self, path: str, steps: int) -> int:
        """Return the number of the last of the first `steps` actions on a path, -1 when there is none."""
        return self.numbers[path][steps - 1] if steps else -1

    def _reached(self, path: str, etag: str | None) -> list[int]:
        """Return after how many of its actions a path may have its present content.

        As a rule that is one number; for a foreign document there is none.
        """
        states = self._states(path)
        if etag is None:
            return [steps for steps, state in enumerate(states) if state.body is None]
        first = states[0]
        body = first.body if etag == first.etag else self.body_of(path, etag)
        return [steps for steps, state in enumerate(states) if body is not None and state.body == body]

    def _states(self, path: str) -> list[_State]:
        actions = [self.plan.actions[number] for number in self.numbers[path]]
        return [self._first(actions), *(_State(None if isinstance(a, Delete) else bytes_of(a)) for a in actions)]

    def _first(self, actions: Sequence[Action]) -> _State:
        action = actions[0]
        etag = self.plan.header.roots_seen.get(action.path) if action.etag is None else action.etag
        if isinstance(action, Delete):
            return _State(bytes_of(action), etag)
        if action.former is None:
            return _State(None)
        return _State(to_bytes(action.former), etag)


def bytes_of(action: Action) -> bytes | None:
    """Return the document that an action writes or deletes."""
    return None if action.body is None else to_bytes(action.body)


def moved_branch(actions: Sequence[Action]) -> str:
    """Return the branch that a plan rewrites."""
    return branch_of(actions[0].path)


def snapshots_seen(plan: Plan) -> frozenset[str]:
    """Return the paths of the snapshots that the branch had when the plan was made."""
    folder = f"{branch_dir(moved_branch(plan.actions))}snapshot/snapshot-"
    return frozenset(path for path in plan.header.roots_seen if path.startswith(folder))


def end_id_of(plan: Plan) -> int | None:
    """Return the id of the newest snapshot in the target, `None` when the target has no snapshot."""
    left = set(snapshots_seen(plan))
    for action in plan.actions:
        if action.kind == "snapshot" and isinstance(action, Delete):
            left.discard(action.path)
        elif action.kind == "snapshot":
            left.add(action.path)
    return max(map(id_of, left), default=None)


def sources(plan: Plan) -> dict[str, str]:
    """Return path -> ETag of roots in another branch that the plan copies; a new branch is made from such roots."""
    name = moved_branch(plan.actions)
    if name == plan.header.branch:
        return {}
    return {path: etag for path, etag in plan.header.roots_seen.items() if branch_of(path) != name}
