"""A plan: everything that a run will do, decided before anything is done.

A plan is stored before it is executed. So the next run can finish a run that died, and every deletion can be explained
afterwards.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, ClassVar

from lakesweep.format.codec import Check, LargeCount, Number
from lakesweep.model.roots import MAIN, split_branch
from lakesweep.model.steering import Steering

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
"""Order of execution; a phase starts when the previous one is complete. Documents are deleted before the first file.
Because of this order, a run may safely stop anywhere."""
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
"""Order of a branch rewrite, which deletes no file: a rollback, a fast-forward, a new branch or a deleted branch.
Within a phase, the plan's own order counts (`execute/branch_rewrites/rewrite.py`).

Tags are deleted before snapshots and return after them. The reason: whoever deletes a tag without its snapshot deletes
files, too. Paimon then looks at the previous tag and the oldest snapshot, not at snapshots that are about to return."""
MOVE_FORMAT_VERSION = 2
"""Version of plans with such phases. A version of Lakesweep that does not know them refuses the plan and keeps it."""
_BRANCH = re.compile(r"branch/branch-([^/]+)/", re.DOTALL)
_Hash = Annotated[str, Check(re.compile("[0-9a-f]{64}").fullmatch, "a SHA-256")]
_Digest = Annotated[str, Check(re.compile("(?:[0-9a-f]{64})?").fullmatch, "a SHA-256 or an empty text")]
_PartName = Annotated[
    str, Check(re.compile(r"actions-[A-Za-z0-9-]{1,100}\.ndjson\.gz").fullmatch, "the name of a part of a plan")
]
_NONE = Steering()
_ORDER = ("consumers", *MOVE_PHASES, *PHASES)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one object."""

    phase: str
    """Phases run in the order of the plan; a phase starts when the previous one is complete."""
    kind: str
    """The kind of the object: `snapshot`, `data`, `manifest`, ..."""
    path: str
    """Relative to the table root, or an absolute URI for an external object."""
    size_bytes: int | None
    """Size from metadata or a listing; `None` if neither states it."""
    reason: str
    """One sentence without a full stop."""
    etag: str | None = None
    """Delete only while the object has this ETag."""
    owner: str | None = None
    """Name of the data file that an extra file belongs to."""
    body: str | None = None
    """A document's content. With it, the run can restore the document if a rollback to it has begun meanwhile."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write one small document."""

    phase: str
    kind: str
    path: str
    body: str
    reason: str
    if_absent: bool = False
    """Write only if there is no object; an object with the same bytes counts as this write's own."""
    etag: str | None = None
    """Replace only the object with this ETag."""
    former: str | None = None
    """The content of the replaced document, so that it can be restored; only in a branch rewrite."""


Action = Delete | Put


@dataclass(frozen=True, slots=True)
class Restore:
    """Restore one object that a plan deleted. It occurs in no plan: an undo follows from the plan that it reverts."""

    phase: str
    """The phase of the deletion; phases run in the opposite order."""
    kind: str
    path: str
    size_bytes: int | None
    version_id: str | None
    """The delete marker to remove; `None`: the document is written again."""
    reason: str
    etag: str | None = None
    """ETag of the deleted document; no other document may return."""
    body: str | None = None
    """The content to write if no marker is removed."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """Actions of a stored plan in a separate document. All of them have one phase, or several phases in order."""

    may_lack_members: ClassVar[bool] = True
    name: _PartName
    """Name of the document in the plan's folder."""
    count: LargeCount
    bytes: LargeCount
    """Bytes of the objects that it deletes, as far as known."""
    hash: _Hash
    """`content_hash` of its actions."""
    digest: _Digest = ""
    """SHA-256 of the document, byte for byte. Empty in plans of versions that did not write it."""


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """The facts from which a plan was made, and its validity."""

    may_lack_members: ClassVar[bool] = True
    plan_id: str
    operation: str
    table: str
    branch: str
    created_ms: LargeCount
    expires_ms: LargeCount
    code_version: str
    arguments: Mapping[str, object]
    """The arguments of the caller, as JSON values."""
    policy: Mapping[str, object]
    """The effective rules after table options and arguments were combined."""
    roots_seen: Mapping[str, str]
    """Path -> ETag of every root of every branch at planning time, and of the branch's LATEST."""
    end_id: LargeCount | None
    """First snapshot id of the branch to keep; no id from here on may vanish while the plan runs."""
    snapshots: Mapping[str, object]
    """`earliest`, `latest`, `expired` for reports."""
    kept: Mapping[str, LargeCount]
    """Number of files and documents that were considered and are kept, by reason."""
    kept_bytes: Mapping[str, LargeCount] = field(default_factory=dict)
    """Bytes of these files, by reason."""
    warnings: tuple[str, ...] = ()
    needs_confirmation: bool = False
    """The plan is so large, or so unlike the table's own rules, that a person must name the plan to execute it."""
    waits_for_consumers: bool = True
    """A consumer that needs an id below `end_id` ends the plan."""
    settled: bool = False
    """The roots were listed for this plan, right before it was made, and LATEST named the newest snapshot. So no
    rollback was under way."""
    next_pass: Mapping[str, Number] = field(default_factory=dict)
    """What the next pass may rely on after this plan (`control/state.py`); empty if it must read everything again."""
    findings: Mapping[str, object] = field(default_factory=dict)
    """Further facts about the plan as JSON, for people. They decide nothing."""
    identity: str = ""
    """Of the table (`model/identity.py`). Empty: unknown, or the plan depends on one document alone."""
    by: Mapping[str, object] = field(default_factory=dict)
    """Who made the plan (`model/who.py`)."""
    steering: Steering = field(default_factory=Steering)
    """Further facts that decide how a run executes, undoes or reports the plan."""
    content_hash: str = ""
    """Of the actions and the steering."""
    action_count: LargeCount = 0
    parts: tuple[PlanPart, ...] = ()
    """The documents with the actions, in order, if there are too many for the header."""
    by_kind: Mapping[str, LargeCount] = field(default_factory=dict)
    """Number of deletions by kind, for a plan whose actions were never in one place; otherwise its actions tell."""
    format_version: int = PLAN_FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Plan:
    """A header and ordered actions."""

    header: PlanHeader
    actions: tuple[Action, ...] = field(default=())
    """All actions, or none for a chunked plan, which has them only in its parts."""

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to do."""
        return not self.actions and not self.header.action_count

    @property
    def is_chunked(self) -> bool:
        """Tell whether this is a chunked plan: its actions are only in its parts."""
        return not self.actions and bool(self.header.parts)

    @property
    def delete_bytes(self) -> int:
        """Return the total size of the objects to delete, as far as known."""
        if self.is_chunked:
            return sum(part.bytes for part in self.header.parts)
        return sum(delete.size_bytes or 0 for delete in self.deletes)

    @property
    def delete_kinds(self) -> Mapping[str, int]:
        """Return how many objects of each kind are deleted."""
        return self.header.by_kind if self.is_chunked else count_by_kind(self.deletes)

    @property
    def deletes(self) -> tuple[Delete, ...]:
        """Return the actions that delete."""
        return tuple(action for action in self.actions if isinstance(action, Delete))


def to_text(document: bytes) -> str:
    """Return a document in the form of an action; `to_bytes` restores even bytes that are not UTF-8."""
    return document.decode("utf-8", "surrogateescape")


def to_bytes(body: str) -> bytes:
    """Return the document of an action."""
    return body.encode("utf-8", "surrogateescape")


def content_hash(actions: Iterable[Action], steering: Steering = _NONE) -> str:
    """Return a hash of the effect of `actions`, independent of their order, and of the steering of their plan."""
    return _as_hash(sum(map(_hash, actions)) + steering.digest)


def joined_hash(hashes: Iterable[str], steering: Steering = _NONE) -> str:
    """Return the `content_hash` of a whole plan from the hashes of its parts."""
    return _as_hash(sum(int(each, 16) for each in hashes) + steering.digest)


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
    """Tell whether actions belong to a branch rewrite, instead of deleting files."""
    return any(action.phase in MOVE_PHASES for action in actions)


def order_problem(actions: Sequence[Action]) -> str | None:
    """Return what is wrong with the order of `actions`, `None` if it is correct.

    Phases come as in `PHASES`, and snapshot and changelog documents are deleted in ascending order of their ids. A
    branch rewrite has only the phases of `MOVE_PHASES`, and deletes snapshots in descending order, so that the
    remaining history has no gap.
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
        return "either phases of a branch rewrite or phases that delete files, found both"
    return _move_problem(moves)


def _move_problem(moves: Sequence[Action]) -> str | None:
    ids = [
        int(action.path.rpartition("-")[2])
        for action in moves
        if action.kind == "snapshot" and isinstance(action, Delete)
    ]
    if ids != sorted(ids, reverse=True):
        return "deleted snapshots in descending order of their ids, found another order"
    if len({branch_of(action.path) for action in moves}) > 1:
        return "documents of one branch, found documents of several"
    for action in moves:
        if isinstance(action, Delete) and action.body is None:
            return f"the content of each deleted document, found none of {action.path}"
        if isinstance(action, Put) and action.kind != "hint" and action.if_absent == (action.former is not None):
            return f"for {action.path} either the replaced content or the condition of absence, found neither or both"
    return None


def branch_of(path: str) -> str:
    """Return the branch of a document."""
    if found := split_branch(path):
        return found[0]
    match = _BRANCH.match(path)
    return MAIN if match is None else match[1]


def count_by_kind(deletes: Sequence[Delete]) -> dict[str, int]:
    """Return how many objects of each kind are deleted."""
    return dict(sorted(Counter(delete.kind for delete in deletes).items()))
