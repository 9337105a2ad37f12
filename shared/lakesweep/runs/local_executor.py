"""How one process executes plans: small plans as a whole, large plans of orphan files one part at a time.

A small plan is loaded, and its actions are executed in order (`execute/deletions/executor.py`). A large plan of orphan
files is never loaded as a whole: threads delete its files in waves (`execute/waves/driver.py`). Such a plan leaves
nothing half done wherever it stops, so no other operation has to finish it first.
"""

from collections import Counter
from dataclasses import replace

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_header, load_plan
from lakesweep.execute.attempt import Attempt, Environment, Executed
from lakesweep.execute.branch_rewrites.rewrite import move_roots
from lakesweep.execute.deletions.executor import execute
from lakesweep.execute.part_actions import actions_of_part, check_unchanged, deletions_of
from lakesweep.execute.waves.driver import check_whole, execute_in_waves
from lakesweep.execute.waves.threads import thread_workers
from lakesweep.model.plan import Plan, PlanHeader, moves_roots

LARGE_PLAN = 50_000
"""A plan of orphan files with more actions is large. This many take about 30 MB and half a minute."""


def is_large(header: PlanHeader) -> bool:
    """Tell whether a plan is a large plan of orphan files."""
    return header.operation == "remove-orphan-files" and header.end_id is None and header.action_count > LARGE_PLAN


def load(area: ControlArea, plan_id: str) -> Plan:
    """Return a stored plan, or only the header of a large one.

    Raises:
        RefusedError: The plan does not exist, is another table's, or has an action that no plan may hold.
        FormatError: A part that was read is damaged or missing.
    """
    return load_files_plan(area, plan_id) if is_large(load_header(area, plan_id)) else load_plan(area, plan_id)


def carry_out(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
    """Execute a stored plan; with `deletions/executor.py`, `branch_rewrites/rewrite.py` or `waves/driver.py`."""
    plan_id = plan.header.plan_id
    if is_large(plan.header):
        # A plan that this process has just made does not know its parts.
        header = load_header(env.area, plan_id)
        check_unchanged(header, plan.header.content_hash)
        return execute_in_waves(env, header, attempt, thread_workers(env, header))
    if moves_roots(plan.actions):
        return move_roots(env, plan, attempt)
    return execute(env, plan, attempt)


def load_files_plan(area: ControlArea, plan_id: str) -> Plan:
    """Return a stored plan of files alone. For a chunked plan, return the header, which summarises all parts.

    Raises:
        RefusedError: The plan does not exist, is another table's, or holds more than files.
        FormatError: The header, or a part that had to be read, is damaged.
    """
    header = load_header(area, plan_id)
    check_whole(header)
    if not header.parts:
        return load_plan(area, plan_id)
    if not header.by_kind:  # one process made the plan, without counting the kinds
        kinds: Counter[str] = Counter()
        for part in range(len(header.parts)):
            kinds.update(each.kind for each in deletions_of(actions_of_part(area, header, part), header))
        header = replace(header, by_kind=dict(sorted(kinds.items())))
    return Plan(header)
