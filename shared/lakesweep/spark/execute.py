"""Executors carry out stored plans of orphan files.

The driver coordinates (`lakesweep.execute.waves.driver`): it holds the lease and rechecks the roots. A wave is one
Spark job. An assignment (a `Lane`) is one task (`lakesweep.execute.waves.slices`). A task answers with a small row for
each slice.

A repeated task is harmless. But each copy of a task has its own request rate, so speculative execution would send keys
twice, at twice the rate. It would also gain nothing, since tasks wait for their rate and not for a slow machine. So
speculation has to be off.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.execute.attempt import Environment
from lakesweep.execute.waves.driver import KEYS_PER_S, Workers
from lakesweep.execute.waves.slices import Assignment, Site, SliceResult, work
from lakesweep.format.codec import from_json, to_json
from lakesweep.runs.execution import PlanExecutor, executor_of
from lakesweep.spark.tasks import Access, Row, Task, check_workers, count_requests, run_tasks
from lakesweep.storage.guard import Guard
from lakesweep.storage.open import StoreSettings
from lakesweep.storage.requests import RequestCounter
from lakesweep.table.fence import FenceRules
from lakesweep.table.stores import TableStores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_ASSIGNMENTS = 16
"""Tasks at a time. Two requests a second already delete 2 000 keys a second; more tasks would only wait."""
_SPECULATION = "spark.speculation"


@dataclass(frozen=True, slots=True)
class DeleteLane:
    """A task's work: delete the slices of one assignment."""

    rules: FenceRules
    """Rules for deletions outside the table, from the driver's arguments. A plan must not widen them."""

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Answer with a row for each slice."""
        stores = TableStores(task.store(task.access.table), self.rules, task.store)
        site = Site(stores, task.area, throttled=lambda: task.counter.throttled)
        yield from map(to_json, work(site, from_json(Assignment, piece, "the work of a task")))


def spark_executor(
    open_session: Callable[[], "SparkSession"],
    settings: StoreSettings,
    counter: RequestCounter,
    keys_per_s: float = KEYS_PER_S,
) -> PlanExecutor:
    """Return the plan executor that runs on Spark.

    Args:
        open_session: Opens the session. Called only once there is a plan to execute.
        settings: The settings with which executors open stores.
        counter: Counts the requests of the driver and the executors.
        keys_per_s: How many keys may be deleted in a second.
    """

    def workers(env: Environment) -> Workers:
        session = open_session()
        refuse_speculation(session)
        access = Access(env.stores.table.location, env.area.store.location, settings)
        check_workers(session, access)
        assignment = DeleteLane(env.stores.rules)

        def run_wave(assignments: Sequence[Assignment], _: Guard) -> list[SliceResult]:
            try:
                rows = list(count_requests(counter, run_tasks(session, access, assignment, to_json(assignments))))
            except MaintenanceError as error:
                if error.code != "spark_failed":
                    raise
                sentence = str(error).partition(";")[0]  # the rest of the message is about scans
                raise MaintenanceError(sentence, code=error.code) from error
            return [from_json(SliceResult, row, "the answer of a task") for row in rows]

        assignments = max(1, min(MAX_ASSIGNMENTS, session.sparkContext.defaultParallelism))
        return Workers(run_wave, assignments, keys_per_s)

    return executor_of(workers)


def refuse_speculation(session: "SparkSession") -> None:
    """Refuse a Spark that starts second copies of slow tasks.

    Raises:
        UsageError: Speculation is on.
    """
    if str(session.sparkContext.getConf().get(_SPECULATION, "false")).lower() == "true":
        raise UsageError(
            f"{_SPECULATION} is on, and a second copy of a task would send its deletions twice; expected "
            f"spark-submit --conf {_SPECULATION}=false",
            code="speculation",
        )
