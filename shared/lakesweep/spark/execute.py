"""Stored plans of orphan files, carried out by executors.

The driver coordinates (`lakesweep.execute.waves`): it holds the lease and looks at the roots. A wave is one job, a lane
one task (`lakesweep.execute.slices`), and the answer of a task is a small row for each slice.

A task that is repeated is harmless, and its rate is its own: speculation would send keys twice, at twice the rate, for
nothing, since tasks wait for the rate and not for a slow machine. So it has to be off.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.execute.slices import Lane, Site, Slice, SliceResult, work
from lakesweep.execute.spine import Environment
from lakesweep.execute.waves import KEYS_PER_S, Crew
from lakesweep.model.outcome import FailedDelete
from lakesweep.model.stays import Stay, Stays
from lakesweep.operations.execute_in_waves import engine_of
from lakesweep.operations.run import Engine
from lakesweep.spark.tasks import Access, Row, Task, check_workers, count_requests, run_tasks
from lakesweep.storage.guard import Guard
from lakesweep.storage.open import StoreSettings
from lakesweep.storage.requests import RequestCounter
from lakesweep.table.fence import FenceRules
from lakesweep.table.stores import TableStores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_LANES = 16
"""Tasks at a time. Two requests a second are 2 000 keys a second already; more tasks only wait for each other."""
_SPECULATION = "spark.speculation"


@dataclass(frozen=True, slots=True)
class DeleteLane:
    """Work: delete the slices of one lane."""

    rules: FenceRules
    """What may be deleted outside the table, as the driver was told. A plan cannot say it."""

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Answer with a row for each slice."""
        stores = TableStores(task.store(task.access.table), self.rules, task.store)
        site = Site(stores, task.area, throttled=lambda: task.counter.throttled)
        yield from map(asdict, work(site, lane_of(piece)))


def lane_of(row: Row) -> Lane:
    """Return the lane that `asdict` took apart."""
    slices = tuple(Slice(**{**each, "earlier": tuple(each["earlier"])}) for each in row["slices"])
    return Lane(**{**row, "slices": slices})


def result_of(row: Row) -> SliceResult:
    """Return the result that `asdict` took apart."""
    failed = tuple(FailedDelete(**each) for each in row["failed"])
    stays = tuple(Stays(Stay(**each["stay"]), each["count"]) for each in row["stays"])
    return SliceResult(**{**row, "failed": failed, "stays": stays})


def spark_engine(
    open_session: Callable[[], "SparkSession"],
    settings: StoreSettings,
    counter: RequestCounter,
    keys_per_s: float = KEYS_PER_S,
) -> Engine:
    """Return the engine that carries plans out on Spark.

    Args:
        open_session: Called once a plan is there that can be carried out.
        settings: How executors open stores.
        counter: Takes the requests of executors, too.
        keys_per_s: How many keys may be deleted in a second.
    """

    def crew(env: Environment) -> Crew:
        session = open_session()
        refuse_speculation(session)
        access = Access(env.stores.table.location, env.area.store.location, settings)
        check_workers(session, access)
        lane = DeleteLane(env.stores.rules)

        def run_wave(lanes: Sequence[Lane], _: Guard) -> list[SliceResult]:
            try:
                rows = list(count_requests(counter, run_tasks(session, access, lane, list(map(asdict, lanes)))))
            except MaintenanceError as error:
                if error.code != "spark_failed":
                    raise
                sentence = str(error).partition(";")[0]  # what follows speaks of scans
                raise MaintenanceError(sentence, code=error.code) from error
            return [result_of(row) for row in rows]

        lanes = max(1, min(MAX_LANES, session.sparkContext.defaultParallelism))
        return Crew(run_wave, lanes, keys_per_s)

    return engine_of(crew)


def refuse_speculation(session: "SparkSession") -> None:
    """Refuse a Spark that starts second copies of slow tasks.

    Raises:
        UsageError: It does.
    """
    if str(session.sparkContext.getConf().get(_SPECULATION, "false")).lower() == "true":
        raise UsageError(
            f"{_SPECULATION} is on, and a second copy of a task would send its deletions twice; expected "
            f"spark-submit --conf {_SPECULATION}=false",
            code="speculation",
        )
