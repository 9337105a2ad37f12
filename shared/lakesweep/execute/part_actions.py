"""The actions of a stored plan that deletes files alone, read one part at a time."""

import threading
from collections.abc import Iterator, Sequence
from typing import get_args

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import PART_ROWS, load_header, load_part, load_plan
from lakesweep.errors import FormatError, RefusedError
from lakesweep.execute.batches import FILES_STEP, step_of
from lakesweep.model.plan import Action, Delete, PlanHeader, joined_hash
from lakesweep.model.roots import FileKind

NOT_FILES_ALONE = "not_files_alone"
FILES = frozenset({*get_args(FileKind), "temp"})
"""Kinds of files that may be deleted in any order."""
_HELD = 2 * PART_ROWS
"""Number of actions kept in memory: successive slices may lie in two parts."""


class PartActions:
    """Reads parts of a plan, and keeps the latest ones in memory. Threads may share it."""

    def __init__(self, area: ControlArea, plan_id: str, held: int = 0, content_hash: str = "") -> None:
        """Read nothing yet.

        Args:
            area: Of the table.
            plan_id: Which plan.
            held: How many actions to keep in memory; one part is always kept.
            content_hash: Of the plan that the run has checked. A header that was overwritten since is refused.
        """
        self._area = area
        self._plan_id = plan_id
        self._held = held
        self._content_hash = content_hash
        self._header: PlanHeader | None = None
        self._parts: dict[int, Sequence[Action]] = {}
        """By number; the part read last comes last."""
        self._lock = threading.Lock()

    @classmethod
    def shared(cls, area: ControlArea, header: PlanHeader) -> "PartActions":
        """Return one reader for threads that work through the plan together."""
        return cls(area, header.plan_id, _HELD, header.content_hash)

    def of(self, part: int, start: int, stop: int) -> Sequence[Delete]:
        """Return the deletions from `start` to before `stop` of a part.

        Raises:
            FormatError: The plan is damaged.
            RefusedError: An action does not delete a file.
        """
        with self._lock:  # a thread that needs the same part waits here for it
            header = self._header = self._header or self._checked_header()
            if part not in self._parts:
                self._drop_before(header.parts[part].count if header.parts else header.action_count)
                self._parts[part] = actions_of_part(self._area, header, part)
            actions = self._parts[part]
        return deletions_of(actions[start:stop], header)

    def _checked_header(self) -> PlanHeader:
        header = load_header(self._area, self._plan_id)
        check_unchanged(header, self._content_hash or header.content_hash)
        return header

    def _drop_before(self, count: int) -> None:
        """Drop the oldest parts until this many more actions fit."""
        held = sum(map(len, self._parts.values()))
        while self._parts and held + count > self._held:
            held -= len(self._parts.pop(next(iter(self._parts))))


def check_unchanged(header: PlanHeader, content_hash: str) -> None:
    """Refuse a stored plan that differs from the plan that was checked, or made, before.

    Raises:
        FormatError: It differs, or the hashes of its parts do not add up to its hash.
    """
    found = joined_hash((part.hash for part in header.parts), header.steering) if header.parts else header.content_hash
    if header.content_hash != content_hash or found != content_hash:
        raise FormatError(
            f"plan {header.plan_id} of table {header.table}: expected the actions of hash {content_hash}, as they were "
            f"when the run began, found {found}; the stored plan was changed meanwhile"
        )


def actions_of_part(area: ControlArea, header: PlanHeader, part: int) -> Sequence[Action]:
    """Return the checked actions of one part of a plan. A plan without parts returns all its actions."""
    if not header.parts:
        return load_plan(area, header.plan_id).actions
    return load_part(area, header, header.parts[part])


def deletions_by_part(area: ControlArea, header: PlanHeader) -> Iterator[list[Delete]]:
    """Yield what each part of a plan of files alone deletes."""
    for part in range(max(1, len(header.parts))):
        yield deletions_of(actions_of_part(area, header, part), header)


def deletions_of(actions: Sequence[Action], header: PlanHeader) -> list[Delete]:
    """Return `actions`, all of which delete files.

    Raises:
        RefusedError: One of them does something else. Other actions need an order, and parallel work has none.
    """
    found = (action for action in actions if isinstance(action, Delete) and action.kind in FILES)
    deletes = [delete for delete in found if step_of(delete) == FILES_STEP]
    if len(deletes) < len(actions):
        raise not_files_alone(header)
    return deletes


def not_files_alone(header: PlanHeader) -> RefusedError:
    """Return the refusal of a plan that parallel processes cannot carry out."""
    return RefusedError(
        f"plan {header.plan_id} of table {header.table} does more than delete orphan files, and its actions need an "
        "order; expected a plan of orphan files alone. To carry out this plan, run: lakesweep execute TABLE "
        f"{header.plan_id} --engine local",
        code=NOT_FILES_ALONE,
    )
