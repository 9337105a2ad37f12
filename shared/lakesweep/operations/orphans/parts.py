"""Parts of a plan, written by the tasks that find orphans.

Each part holds actions of one phase. A task gives its parts unique names, and returns the facts that the header needs
about them. The driver writes the header last. A part that no task reported to the driver belongs to no plan.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import PART_ROWS, store_part
from lakesweep.errors import RefusedError
from lakesweep.format.codec import Check
from lakesweep.model.paths.allowed import check_action
from lakesweep.model.paths.permitted import FORBIDDEN, fits
from lakesweep.model.plan import PHASES, PlanPart, count_by_kind
from lakesweep.operations.orphans.rules.orphans import Orphan, deletions, phase_of
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.view import ChunkedPlan

OPERATION = "remove-orphan-files"


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part that a task has stored."""

    plan: PlanPart
    phase: Annotated[str, Check(PHASES.__contains__, "a phase of a plan")]
    by_kind: Mapping[str, int]


class PlanParts:
    """Collects orphans phase by phase, until they fill a part."""

    def __init__(self, area: ControlArea, plan_id: str) -> None:
        self._area = area
        self._plan_id = plan_id
        self._waiting: dict[str, list[Orphan]] = {}

    def add(self, orphan: Orphan) -> None:
        """Add an orphan to delete."""
        self._waiting.setdefault(phase_of(orphan.kind), []).append(orphan)

    def full(self) -> Iterator[StoredPart]:
        """Write parts for the phases with enough orphans.

        Raises:
            RefusedError: No plan may hold one of the actions.
        """
        for phase, orphans in self._waiting.items():
            while len(orphans) >= PART_ROWS:
                yield self._write(phase, orphans[:PART_ROWS])
                del orphans[:PART_ROWS]

    def rest(self) -> Iterator[StoredPart]:
        """Write all remaining orphans; see `full`."""
        yield from self.full()
        for phase, orphans in self._waiting.items():
            if orphans:
                yield self._write(phase, orphans)
        self._waiting.clear()

    def _write(self, phase: str, orphans: Iterable[Orphan]) -> StoredPart:
        actions = deletions(orphans, say_time)
        for action in actions:
            check_action(action)
            if not fits(OPERATION, action):
                raise RefusedError(f"{action.kind} {action.path!r} is no orphan file", code=FORBIDDEN)
        part = store_part(self._area, self._plan_id, f"{PHASES.index(phase):02d}-{uuid.uuid4().hex}", actions)
        return StoredPart(part, phase, count_by_kind(actions))


def chunked_of(plan_id: str, parts: Iterable[StoredPart]) -> ChunkedPlan:
    """Return the header's facts about the parts that tasks returned."""
    found = sorted(parts, key=lambda part: (PHASES.index(part.phase), part.plan.name))
    by_kind: Counter[str] = Counter()
    for part in found:
        by_kind.update(part.by_kind)
    return ChunkedPlan(plan_id, tuple(part.plan for part in found), dict(by_kind))
