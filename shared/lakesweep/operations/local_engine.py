"""How one process carries plans out: small ones whole, large ones of files alone a part at a time.

A small plan is loaded and carried out action by action, in its order (`execute/spine.py`). A large plan of orphan files
is never held whole: threads delete it in waves (`execute/waves.py`). Such a plan leaves nothing half done wherever it
stops, so no other operation has to finish it first.
"""

from collections import Counter
from dataclasses import replace

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_header, load_plan
from lakesweep.execute.part_actions import actions_of_part, check_unchanged, deletions_of
from lakesweep.execute.root_moves import move_roots
from lakesweep.execute.spine import Attempt, Environment, Executed, execute
from lakesweep.execute.threads import thread_crew
from lakesweep.execute.waves import check_whole, execute_in_waves
from lakesweep.model.plan import Plan, PlanHeader, moves_roots

LARGE_PLAN = 50_000
"""A plan of orphan files with more actions is large: this many are some 30 MB, and half a minute's work."""


def is_large(header: PlanHeader) -> bool:
    """Tell whether a plan is a large one of files alone."""
    return header.operation == "remove_orphan_files" and header.end_id is None and header.action_count > LARGE_PLAN


def load(area: ControlArea, plan_id: str) -> Plan:
    """Return a stored plan; of a large one its header.

    Raises:
        RefusedError: No such plan, another table's, or an action that no plan may hold.
        FormatError: Any part that was read is damaged or missing.
    """
    return load_files_plan(area, plan_id) if is_large(load_header(area, plan_id)) else load_plan(area, plan_id)


def carry_out(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
    """Execute a stored plan; see `spine.execute`, `root_moves.move_roots` and `waves.execute_in_waves`."""
    plan_id = plan.header.plan_id
    if is_large(plan.header):
        # One that was just made here does not know its parts.
        header = load_header(env.area, plan_id)
        check_unchanged(header, plan.header.content_hash)
        return execute_in_waves(env, header, attempt, thread_crew(env, header))
    if moves_roots(plan.actions):
        return move_roots(env, plan, attempt)
    return execute(env, plan, attempt)


def load_files_plan(area: ControlArea, plan_id: str) -> Plan:
    """Return a stored plan of files alone; of one in parts the header, which says what all parts hold.

    Raises:
        RefusedError: No such plan, another table's, or one that holds more than files.
        FormatError: The header, or a part that had to be read, is damaged.
    """
    header = load_header(area, plan_id)
    check_whole(header)
    if not header.parts:
        return load_plan(area, plan_id)
    if not header.by_kind:  # made in one process, which had all actions at hand to count
        kinds: Counter[str] = Counter()
        for part in range(len(header.parts)):
            kinds.update(each.kind for each in deletions_of(actions_of_part(area, header, part), header))
        header = replace(header, by_kind=dict(sorted(kinds.items())))
    return Plan(header)
