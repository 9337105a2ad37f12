"""The executor that runs a large plan of files with many processes. The caller provides the workers."""

from collections.abc import Callable

from lakesweep.execute.attempt import Attempt, Environment, Executed
from lakesweep.execute.waves.driver import Workers, execute_in_waves
from lakesweep.model.plan import Plan
from lakesweep.runs.execution import PlanExecutor
from lakesweep.runs.local_executor import load_files_plan


def executor_of(workers: Callable[[Environment], Workers]) -> PlanExecutor:
    """Return the executor.

    Args:
        workers: Provides the workers, given the environment that they work with.
    """

    def execute(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
        return execute_in_waves(env, plan.header, attempt, workers(env))

    return PlanExecutor(load_files_plan, execute)
