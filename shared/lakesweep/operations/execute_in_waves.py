"""The engine that carries a large plan of files out with many processes. Who they are, the caller says."""

from collections.abc import Callable

from lakesweep.execute.spine import Attempt, Environment, Executed
from lakesweep.execute.waves import Crew, execute_in_waves
from lakesweep.model.plan import Plan
from lakesweep.operations.local_engine import load_files_plan
from lakesweep.operations.run import Engine


def engine_of(crew: Callable[[Environment], Crew]) -> Engine:
    """Return an engine.

    Args:
        crew: Gathers who deletes, when it is known what they work with.
    """

    def execute(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
        return execute_in_waves(env, plan.header, attempt, crew(env))

    return Engine(load_files_plan, execute)
