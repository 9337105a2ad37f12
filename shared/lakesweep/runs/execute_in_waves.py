"""The executor that runs a large plan of files with many processes. The caller provides the workers."""

from collections.abc import Callable

from lakesweep.execute.deletions.executor import Attempt, Environment, Executed
from lakesweep.execute.waves.driver import Crew, execute_in_waves
from lakesweep.model.plan import Plan
from lakesweep.runs.execution import Engine
from lakesweep.runs.local_engine import load_files_plan


def engine_of(crew: Callable[[Environment], Crew]) -> Engine:
    """Return the executor.

    Args:
        crew: Provides the workers, given the environment that they work with.
    """

    def execute(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
        return execute_in_waves(env, plan.header, attempt, crew(env))

    return Engine(load_files_plan, execute)
