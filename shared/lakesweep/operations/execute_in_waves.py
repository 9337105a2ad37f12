"""The engine that carries a large plan of files out with many processes. Who they are, the caller says."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_header, load_plan
from lakesweep.execute.slices import actions_of_part, deletions_of
from lakesweep.execute.spine import Attempt, Environment, Executed
from lakesweep.execute.waves import Crew, check_whole, execute_in_waves
from lakesweep.model.plan import Plan
from lakesweep.operations.run import Engine


def engine_of(crew: Callable[[Environment], Crew]) -> Engine:
    """Return an engine.

    Args:
        crew: Gathers who deletes, when it is known what they work with.
    """

    def execute(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
        return execute_in_waves(env, plan.header, attempt, crew(env))

    return Engine(load_files_plan, execute)


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
