"""How to revert a branch rewrite: the same requests, inverted and in the opposite order.

The branch passes through the states of the branch rewrite again, and each of these is a readable table. Three things
differ:

- Schemas are deleted at the very end, when no root uses them any more. Tags return then, too.
- `LATEST` of a deleted branch returns after the branch's snapshots.
- Suppose the plan left no earlier snapshot in place, and the snapshot that it wrote first is newer than others that it
  wrote. Then the newest earlier snapshot returns first and takes over. The plan's snapshots are deleted from the newest
  down.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.model.plan import MOVE_PHASES, Action, Delete, Put, to_bytes
from lakesweep.model.roots import base_name

_PHASES: Mapping[str, str] = {
    "clean": "target",
    "publish_hints": "point",
    "publish_tags": "withdraw_tags",
    "replace": "withdraw",
    "publish": "withdraw",
    "schemas": "schemas",
    "withdraw_tags": "clean",
    "withdraw_changelogs": "publish",
    "withdraw": "publish",
    "point": "publish_hints",
    "target": "publish_hints",
}
"""Phase of an action -> phase of the action that reverts it. The latter phases run in the opposite order."""
_LATEST = "snapshot/LATEST"


@dataclass(frozen=True, slots=True)
class Current:
    """A document as it is now."""

    body: str
    etag: str | None
    """`None`: the document will be another one by then."""


def inverse(actions: Sequence[Action], current: Mapping[str, Current], reason: str) -> tuple[Action, ...]:
    """Return the actions that revert `actions`, in order.

    Args:
        actions: The actions of a branch rewrite, all of them done.
        current: Path -> its present document, for all paths of the plan that have one.
        reason: The reason of each returned action.
    """
    found = tuple(_inverted(actions, current, reason))
    goes = [action for action in found if isinstance(action, Delete) and action.kind == "snapshot"]
    last = next((action for action in goes if action.phase == "clean"), None)
    if last is not None and any(_id(action) < _id(last) for action in goes):
        found = tuple(_taken_over(found))
    return tuple(sorted(found, key=lambda action: MOVE_PHASES.index(action.phase)))


def _taken_over(actions: Sequence[Action]) -> Iterator[Action]:
    """Yield the newest earlier snapshot first, and the deletions of the plan's snapshots right after it."""
    comes = [action for action in actions if isinstance(action, Put) and action.kind == "snapshot"]
    goes = [action for action in actions if isinstance(action, Delete) and action.kind == "snapshot"]
    first = max(comes, key=_id)
    yield from (action for action in actions if action.phase == "target")  # Schemas that the snapshot may need.
    yield replace(first, phase="target")
    for delete in sorted(goes, key=_id, reverse=True):
        yield replace(delete, phase="withdraw")
    for action in actions:
        if action not in goes and action is not first and action.phase != "target":
            yield replace(action, phase="point") if action.path.endswith(_LATEST) else action


def _inverted(actions: Sequence[Action], current: Mapping[str, Current], reason: str) -> Iterator[Action]:
    restores = any(isinstance(action, Delete) and action.kind == "snapshot" for action in actions)
    there = dict(current)
    for action in reversed(actions):
        now = there.pop(action.path, None)
        before = action.body if isinstance(action, Delete) else action.former
        phase = _phase(action, goes=before is None, restores=restores)
        if before is not None:
            yield Put(
                phase,
                action.kind,
                action.path,
                before,
                reason,
                if_absent=now is None,
                etag=None if now is None else now.etag,
                former=None if now is None else now.body,
            )
            there[action.path] = Current(before, None)
        elif now is not None:
            size_bytes = len(to_bytes(now.body))
            yield Delete(phase, action.kind, action.path, size_bytes, reason, now.etag, body=now.body)


def _phase(action: Action, *, goes: bool, restores: bool) -> str:
    if goes and action.kind == "schema":
        return "clean"
    if goes and action.phase == "target" and action.kind != "hint":
        return "clean" if restores else "withdraw"
    if isinstance(action, Delete) and action.phase == "publish_hints":
        return "publish_hints"
    return _PHASES[action.phase]


def _id(action: Action) -> int:
    return int(base_name(action.path).rpartition("-")[2])
