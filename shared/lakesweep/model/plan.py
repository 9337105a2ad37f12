"""A plan: everything a run will do, decided before anything is done.

A plan is stored before it is executed, so that a run that dies can be finished by the next one, and so that every
deletion can be explained afterwards.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lakesweep.model.branch_paths import split_branch
from lakesweep.model.table_ref import MAIN

PLAN_FORMAT_VERSION = 1
PHASES = (
    "latest",
    "changelog_documents",
    "documents",
    "hints",
    "tags",
    "data",
    "changelog",
    "index",
    "manifest",
    "manifest_list",
    "statistics",
    "temp",
)
"""Order of execution; a phase starts when the one before it is complete. Documents go before the first file: what makes
a plan safe to stop anywhere is this order."""
MOVE_PHASES = (
    "withdraw_tags",
    "target",
    "point",
    "withdraw",
    "withdraw_changelogs",
    "schemas",
    "publish",
    "replace",
    "publish_tags",
    "publish_hints",
    "clean",
)
"""Order of a plan that moves a branch to other documents and takes no file: a rollback, a fast-forward, a new branch, a
branch that goes. Within a phase the plan's own order counts (`execute/root_moves.py`).

Tags go before snapshots, and return after them: whoever deletes a tag whose snapshot is not there takes files, and an
engine that does looks at the tag before and at the oldest snapshot, not at those that are about to return."""
MOVE_FORMAT_VERSION = 2
"""Of plans with such phases. An edition that does not know them refuses the plan, and does not forget it."""
_BRANCH = re.compile(r"branch/branch-([^/]+)/", re.DOTALL)
_ORDER = ("consumers", *MOVE_PHASES, *PHASES)


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove one object."""

    phase: str
    """Phases run in the order of the plan; one starts when the one before is complete."""
    kind: str
    """What it is: `snapshot`, `data`, `manifest`, ..."""
    path: str
    """Relative to the table root, an absolute URI when external."""
    size_bytes: int | None
    """As metadata or a listing states it; `None` where nothing does."""
    reason: str
    """One sentence without a full stop."""
    etag: str | None = None
    """Delete only while the object still is this one."""
    owner: str | None = None
    """Name of the data file that an extra file goes or stays with."""
    body: str | None = None
    """A document's content, so that it can be put back when a rollback to it turns out to have begun."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write one small document."""

    phase: str
    kind: str
    path: str
    body: str
    reason: str
    if_absent: bool = False
    """Only where nothing is there; an object with the same bytes is this write's own."""
    etag: str | None = None
    """Only over the object that has it."""
    former: str | None = None
    """What is there before, so that it can be put back; of plans that move a branch."""


Action = Delete | Put


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring back one object that a plan deleted. No plan holds it: an undo follows from the plan that it takes back."""

    phase: str
    """That of the deletion; phases run in the opposite order."""
    kind: str
    path: str
    size_bytes: int | None
    version_id: str | None
    """The delete marker that goes; `None`: the document is written again."""
    reason: str
    etag: str | None = None
    """Of the document that was deleted; another one may not come back."""
    body: str | None = None
    """What is written, where no marker goes."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """Actions of a stored plan in a document of their own. All of one part are of one phase, or of several in order."""

    name: str
    """Of the document, in the plan's folder."""
    count: int
    bytes: int
    """Of the objects that it deletes, as far as known."""
    hash: str
    """`content_hash` of its actions."""
    digest: str = ""
    """SHA-256 of the document, byte for byte. Empty in plans of editions that did not write it."""


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """What a plan was made from, and for how long it holds."""

    plan_id: str
    operation: str
    table: str
    branch: str
    created_ms: int
    expires_ms: int
    code_version: str
    arguments: Mapping[str, object]
    """What the caller asked for, as JSON values."""
    policy: Mapping[str, object]
    """The rules in force after table options and arguments met."""
    roots_seen: Mapping[str, str]
    """Path -> ETag of every root of every branch at planning time, and of the branch's LATEST."""
    end_id: int | None
    """First snapshot id of the branch that survives; no id from here on may vanish while the plan runs."""
    snapshots: Mapping[str, object]
    """`earliest`, `latest`, `expired` for reports."""
    kept: Mapping[str, int]
    """What was considered and stays, by reason."""
    kept_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the files among that, by reason."""
    warnings: tuple[str, ...] = ()
    needs_confirmation: bool = False
    """So large and so unlike the table's own rules that a person must name the plan to have it executed."""
    waits_for_consumers: bool = True
    """A consumer that needs an id below `end_id` ends the plan."""
    settled: bool = False
    """The roots were listed for this plan, right before it was made, and LATEST named the newest snapshot then, so
    nobody was rolling back."""
    next_pass: Mapping[str, int] = field(default_factory=dict)
    """What the next pass may go by once this plan is done (`control/state.py`); empty where it must look anew."""
    findings: Mapping[str, object] = field(default_factory=dict)
    """What else a scan saw, as JSON; of the removal of orphan files only."""
    content_hash: str = ""
    action_count: int = 0
    parts: tuple[PlanPart, ...] = ()
    """Where the actions lie, in order, when they are too many for the header."""
    by_kind: Mapping[str, int] = field(default_factory=dict)
    """What goes, counted, of a plan whose actions were never in one place; else its actions tell."""
    format_version: int = PLAN_FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Plan:
    """A header and ordered actions."""

    header: PlanHeader
    actions: tuple[Action, ...] = field(default=())
    """All of them, or none of a plan that has them in its parts alone."""

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to do."""
        return not self.actions and not self.header.action_count

    @property
    def is_apart(self) -> bool:
        """Tell whether its actions are in its parts alone."""
        return not self.actions and bool(self.header.parts)

    @property
    def delete_bytes(self) -> int:
        """Return how large the objects are that go, as far as known."""
        if self.is_apart:
            return sum(part.bytes for part in self.header.parts)
        return sum(delete.size_bytes or 0 for delete in self.deletes)

    @property
    def delete_kinds(self) -> Mapping[str, int]:
        """Return how many objects of each kind go."""
        return self.header.by_kind if self.is_apart else count_by_kind(self.deletes)

    @property
    def deletes(self) -> tuple[Delete, ...]:
        """Return the actions that delete."""
        return tuple(action for action in self.actions if isinstance(action, Delete))


def to_text(document: bytes) -> str:
    """Return a document as an action holds it; bytes that are no UTF-8 survive the way there and back."""
    return document.decode("utf-8", "surrogateescape")


def to_bytes(body: str) -> bytes:
    """Return the document that an action holds."""
    return body.encode("utf-8", "surrogateescape")


def content_hash(actions: Iterable[Action]) -> str:
    """Return a hash of what `actions` would do, independent of their order."""
    return _as_hash(sum(map(_hash, actions)))


def joined_hash(hashes: Iterable[str]) -> str:
    """Return the `content_hash` of all the actions of which there are hashes in parts."""
    return _as_hash(sum(int(each, 16) for each in hashes))


def _hash(action: Action) -> int:
    text = "\0".join(
        (
            type(action).__name__,
            action.phase,
            action.kind,
            action.path,
            action.body or "",
            *((action.etag or "", action.owner or "") if isinstance(action, Delete) else _conditions(action)),
        )
    )
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")


def _conditions(put: Put) -> tuple[str, ...]:
    conditions = (("if absent",) if put.if_absent else ()) + ((put.etag,) if put.etag is not None else ())
    return conditions if put.former is None else (*conditions, "former", put.former)


def _as_hash(total: int) -> str:
    return f"{total % (1 << 256):064x}"


def moves_roots(actions: Iterable[Action]) -> bool:
    """Tell whether actions move a branch to other documents, instead of removing files."""
    return any(action.phase in MOVE_PHASES for action in actions)


def order_problem(actions: Sequence[Action]) -> str | None:
    """Say what is wrong with the order of `actions`, `None` when nothing is.

    Phases come as in `PHASES`, and snapshot and changelog documents go in ascending order of their ids. A plan that
    moves a branch has the phases of `MOVE_PHASES` alone, and takes snapshots in descending order: what is left is a
    history without a hole.
    """
    unknown = next((action.phase for action in actions if action.phase not in _ORDER), None)
    if unknown is not None:
        return f"a known phase, found {unknown!r}"
    for before, after in pairwise(actions):
        if _ORDER.index(before.phase) > _ORDER.index(after.phase):
            return f"actions in the order of their phases, found {after.phase} after {before.phase}"
    ids = [int(action.path.rpartition("-")[2]) for action in actions if action.phase == "documents"]
    if ids != sorted(ids):
        return "documents in ascending order of their ids, found another order"
    moves = [action for action in actions if action.phase in MOVE_PHASES]
    if moves and len(moves) < len(actions):
        return "either phases that move a branch or phases that remove files, found both"
    return _move_problem(moves)


def _move_problem(moves: Sequence[Action]) -> str | None:
    ids = [
        int(action.path.rpartition("-")[2])
        for action in moves
        if action.kind == "snapshot" and isinstance(action, Delete)
    ]
    if ids != sorted(ids, reverse=True):
        return "snapshots that are withdrawn in descending order of their ids, found another order"
    if len({branch_of(action.path) for action in moves}) > 1:
        return "documents of one branch, found those of several"
    for action in moves:
        if isinstance(action, Delete) and action.body is None:
            return f"the content of what goes, found none of {action.path}"
        if isinstance(action, Put) and action.kind != "hint" and action.if_absent == (action.former is not None):
            return f"what {action.path} replaces, or that nothing is there, found neither or both"
    return None


def branch_of(path: str) -> str:
    """Return the branch in whose folder a document lies."""
    if found := split_branch(path):
        return found[0]
    match = _BRANCH.match(path)
    return MAIN if match is None else match[1]


def count_by_kind(deletes: Sequence[Delete]) -> dict[str, int]:
    """Return how many objects of each kind would go."""
    return dict(sorted(Counter(delete.kind for delete in deletes).items()))
