"""What the plan of each operation may contain.

`allowed.py` says what any plan may touch. This module says which of these actions each operation can plan. A plan of
orphan files deletes files and no document; a plan that expires snapshots deletes no tag. If a stored plan contains
anything else, the operation did not make it, whatever its hash says. Such a plan is refused as a whole.
"""

from collections.abc import Iterable, Mapping
from typing import get_args

from lakesweep.errors import RefusedError
from lakesweep.model.paths.allowed import check_action, is_external
from lakesweep.model.plan import MOVE_FORMAT_VERSION, MOVE_PHASES, Action, Delete, PlanHeader, branch_of
from lakesweep.model.roots import FileKind
from lakesweep.model.steering import UNSUPPORTED_PLAN

FORBIDDEN = "forbidden_action"
_ROOTS = frozenset({"snapshot", "changelog_document", "tag"})
_FILE_PHASES: Mapping[str, str] = {"extra": "data", "index_manifest": "index"}
"""Kind of file -> the phase in which an expiry deletes it, if the phase has another name."""


def _of(verb: str, **phases: str) -> frozenset[tuple[str, str, str]]:
    return frozenset((verb, phase, kind) for phase, kinds in phases.items() for kind in kinds.split())


_FREED = frozenset(("delete", _FILE_PHASES.get(kind, kind), kind) for kind in get_args(FileKind))
_TAG_PUTS = _of("put", tags="tag tag_success")
_TAGS_GO = _of("delete", tags="tag tag_success") | _FREED
_CONSUMERS_GO = _of("delete", consumers="consumer")
PERMITTED: Mapping[str, frozenset[tuple[str, str, str]]] = {
    "expire-snapshots": _of("put", latest="hint", changelog_documents="changelog_document hint", hints="hint")
    | _of("delete", documents="snapshot")
    | _FREED,
    "expire-changelogs": _of("put", hints="hint")
    | _of("delete", documents="changelog_document", hints="hint")
    | _FREED,
    "expire-consumers": _CONSUMERS_GO,
    "clear-consumers": _CONSUMERS_GO,
    "reset-consumer": _CONSUMERS_GO | _of("put", consumers="consumer"),
    "remove-orphan-files": _of(
        "delete",
        data="data extra",
        changelog="changelog",
        index="index",
        manifest="manifest index_manifest",
        manifest_list="manifest_list",
        statistics="statistics",
        temp="temp",
    ),
    "create-tag": _TAG_PUTS,
    "replace-tag": _TAG_PUTS,
    "auto-tags": _TAG_PUTS,
    "rename-tag": _of("put", tags="tag") | _of("delete", tags="tag"),
    "delete-tag": _TAGS_GO,
    "expire-tags": _TAGS_GO,
    "rollback": _of("put", target="snapshot hint", point="hint", withdraw_changelogs="hint")
    | _of("delete", withdraw_tags="tag tag_success", withdraw="snapshot", withdraw_changelogs="changelog_document"),
    "repair-hints": _of("put", hints="hint"),
    "create-branch": _of("put", target="snapshot tag", schemas="schema"),
    "delete-branch": _of(
        "delete",
        withdraw_tags="tag tag_success",
        withdraw="snapshot consumer branch_document",
        withdraw_changelogs="hint changelog_document",
        publish_hints="hint",
        clean="schema",
    ),
    "fast-forward": _of(
        "put",
        target="schema snapshot",
        point="hint",
        schemas="schema",
        publish="snapshot",
        replace="snapshot tag",
        publish_tags="tag",
        publish_hints="hint",
    )
    | _of("delete", withdraw_tags="tag", withdraw="snapshot", clean="schema"),
    # Undo reverts the last four operations; see `operations/undo/rules.py`.
    "undo": _of(
        "put",
        target="schema snapshot",
        point="hint",
        withdraw="snapshot tag",
        schemas="schema",
        publish="snapshot changelog_document hint consumer branch_document",
        publish_hints="hint schema snapshot",
        clean="tag tag_success",
    )
    | _of(
        "delete",
        withdraw_tags="tag",
        point="hint",
        withdraw="snapshot tag",
        publish="hint",
        publish_hints="hint",
        clean="schema snapshot tag",
    ),
}
"""Operation -> whether an action writes or deletes, its phase and its kind."""
_HINT_FOLDERS = ("snapshot", "changelog")
_HINTS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("expire-snapshots", "latest"): ("snapshot/LATEST",),
    ("expire-snapshots", "changelog_documents"): ("changelog/LATEST",),
    ("expire-snapshots", "hints"): ("snapshot/EARLIEST",),
    ("expire-changelogs", "hints"): ("changelog/EARLIEST", "changelog/LATEST"),
    ("repair-hints", "hints"): tuple(f"{folder}/{name}" for folder in _HINT_FOLDERS for name in ("EARLIEST", "LATEST")),
}
"""Operation and phase -> the hints of the branch that it writes or deletes in this phase."""
_STEERING: Mapping[str, frozenset[str]] = {
    "rollback": frozenset({"complete_roots", "target"}),
    "fast-forward": frozenset({"complete_roots", "target"}),
    "create-branch": frozenset({"complete_roots"}),
    "delete-branch": frozenset({"complete_roots"}),
    "undo": frozenset({"complete_roots", "undone"}),
}
"""Operation -> the facts that its plans must state in their steering."""
_MAY_STATE: Mapping[str, frozenset[str]] = {"remove-orphan-files": frozenset({"incomplete_roots"})}
"""Operation -> further facts that its plans may state. Each operation may state that the table is damaged."""
_RANGES = frozenset({"expire-snapshots", "expire-changelogs"})
_OF_OTHER_BRANCHES = frozenset({"create-branch", "delete-branch"})
"""They are planned on main, but change other branches only. An undo of them may do the same."""


def check_plan(header: PlanHeader) -> None:
    """Refuse a header that its operation cannot have written.

    Raises:
        RefusedError: With code `forbidden_action`. With code `unsupported_plan` if the plan lacks a fact that an
            execution must know; earlier versions stated these facts elsewhere.
    """
    permitted = PERMITTED.get(header.operation)
    if permitted is None:
        raise _refusal(header, "no operation of that name makes plans")
    if not header.action_count:
        return
    moves = any(phase in MOVE_PHASES for _, phase, _ in permitted)
    if moves != (header.format_version == MOVE_FORMAT_VERSION):
        raise _refusal(header, f"plan format {header.format_version} is not the one of its operation")
    _check_steering(header)
    if header.operation == "expire-snapshots" and header.end_id is not None:
        latest = header.snapshots.get("latest")
        if not isinstance(latest, int) or latest < header.end_id:
            raise _refusal(header, "it does not say which snapshots it keeps, the newest among them")
    elif header.operation not in _RANGES and header.end_id is not None:
        raise _refusal(header, f"its operation expires no snapshots, but its range ends at {header.end_id}")


def _check_steering(header: PlanHeader) -> None:
    stated, needed = header.steering.to_json().keys(), _STEERING.get(header.operation, frozenset())
    for name in sorted(needed - stated):
        raise RefusedError(
            f"plan {header.plan_id} of table {header.table}: expected {name} in its steering, found none; an earlier "
            "version of Lakesweep made the plan, so make a new one",
            code=UNSUPPORTED_PLAN,
        )
    for name in sorted(stated - needed - _MAY_STATE.get(header.operation, frozenset()) - {"is_damaged"}):
        raise _refusal(header, f"its operation states no {name}, but its steering does")


def check_actions(header: PlanHeader, actions: Iterable[Action]) -> None:
    """Refuse actions that no plan may contain, or that this plan's operation cannot have planned.

    Raises:
        RefusedError: With code `forbidden_action`.
    """
    for action in actions:
        check_action(action)
        if not fits(header.operation, action) or not _is_at_home(header, action):
            verb = _verb(action)
            raise _refusal(header, f"it must not {verb} {action.kind} {action.path!r} in phase {action.phase!r}")
        if isinstance(action, Delete) and header.operation == "expire-snapshots" and header.end_id is None:
            raise _refusal(header, f"it deletes {action.path!r}, but does not say which snapshots it keeps")
        if isinstance(action, Delete) and action.kind in _ROOTS and action.phase not in MOVE_PHASES:
            _check_root(header, action)


def fits(operation: str, action: Action) -> bool:
    """Tell whether plans of an operation have actions of this kind in this phase."""
    return (_verb(action), action.phase, action.kind) in PERMITTED.get(operation, frozenset())


def _verb(action: Action) -> str:
    return "delete" if isinstance(action, Delete) else "put"


def _check_root(header: PlanHeader, delete: Delete) -> None:
    if delete.etag is None:
        raise _refusal(header, f"it deletes {delete.path!r} without the ETag of the document")
    is_in_range = delete.phase == "documents" and header.end_id is not None
    if is_in_range and int(delete.path.rpartition("-")[2]) >= header.end_id:  # type: ignore[operator]
        raise _refusal(header, f"it deletes {delete.path!r}, although its range ends at {header.end_id}")


def _is_at_home(header: PlanHeader, action: Action) -> bool:
    """Tell whether an action concerns the branch of the plan, and a hint is one that the operation changes there."""
    if is_external(action.path) or action.kind in _FILES:
        return True
    hints = _HINTS.get((header.operation, action.phase))
    if action.kind == "hint" and hints is not None and not action.path.endswith(hints):
        return False
    branch = branch_of(action.path)
    if header.operation in _OF_OTHER_BRANCHES:
        return branch not in (header.branch, "main")
    return branch == header.branch or header.operation == "undo"


_FILES = frozenset({*get_args(FileKind), "temp"})
"""Kinds that all branches share."""


def _refusal(header: PlanHeader, what: str) -> RefusedError:
    return RefusedError(
        f"plan {header.plan_id} of table {header.table}: {what}; expected only actions that {header.operation} plans; "
        "make a new plan",
        code=FORBIDDEN,
    )
